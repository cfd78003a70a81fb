//! Finds the turn that an argument names: by its number, as the last one, or by the id of its
//! prompt.

use std::str::FromStr;

use wharf_api::{TurnInfo, TurnPage};

use crate::client::{HostCall, HostClient, query_part, url_path};
use crate::exit::{Exit, Failure};

/// The most turns that the host gives at once.
const MAX_PAGE_TURNS: usize = 100;

/// A turn as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TurnRef {
    Last,
    /// Counted from 1, the oldest.
    Number(usize),
    Prompt(String),
}

impl FromStr for TurnRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "last" => Ok(Self::Last),
            id if id.starts_with("prm_") => Ok(Self::Prompt(id.to_owned())),
            number => match number.parse() {
                Ok(number @ 1..) => Ok(Self::Number(number)),
                Ok(0) | Err(_) => {
                    Err("write a number from 1, `last`, or the id of a prompt".to_owned())
                }
            },
        }
    }
}

/// Lists the turns of a session, the oldest first.
pub(crate) async fn list_turns(
    client: &HostClient,
    session: &str,
) -> anyhow::Result<Vec<TurnInfo>> {
    let path = url_path(&["sessions", session, "turns"]);
    let mut turns = Vec::new();
    let mut before = None;
    loop {
        let cursor = query_part("before", before.as_deref());
        let page: TurnPage = client
            .fetch_json(&HostCall::get(format!("{path}?limit={MAX_PAGE_TURNS}{cursor}")))
            .await?;
        turns.extend(page.turns);
        before = page.before;
        if before.is_none() {
            turns.reverse();
            return Ok(turns);
        }
    }
}

/// Returns the id of the prompt whose turn is meant.
pub(crate) async fn find_turn(
    client: &HostClient,
    session: &str,
    meant: &TurnRef,
) -> anyhow::Result<String> {
    match meant {
        TurnRef::Prompt(id) => Ok(id.clone()),
        TurnRef::Last => {
            let path = url_path(&["sessions", session, "turns"]);
            let page: TurnPage =
                client.fetch_json(&HostCall::get(format!("{path}?limit=1"))).await?;
            let newest = page.turns.into_iter().next();
            newest
                .map(|turn| turn.prompt_id)
                .ok_or_else(|| no_turn("the session has no turn yet"))
        }
        TurnRef::Number(number) => {
            let turns = list_turns(client, session).await?;
            let count = turns.len();
            let turn = turns.into_iter().nth(number - 1).map(|turn| turn.prompt_id);
            turn.ok_or_else(|| {
                no_turn(&format!("the session has no turn {number}; it has {count}"))
            })
        }
    }
}

fn no_turn(words: &str) -> anyhow::Error {
    Failure::new(Exit::NotFound, words).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_is_named_by_number_word_or_prompt() {
        assert_eq!("last".parse(), Ok(TurnRef::Last));
        assert_eq!("12".parse(), Ok(TurnRef::Number(12)));
        assert_eq!("prm_1".parse(), Ok(TurnRef::Prompt("prm_1".to_owned())));
        for wrong in ["", "0", "-1", "first", "1.5"] {
            assert!(wrong.parse::<TurnRef>().is_err(), "{wrong}");
        }
    }
}
