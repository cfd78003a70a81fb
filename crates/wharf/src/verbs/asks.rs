//! `wharf asks`: the open asks of agents.

use clap::Args;

use serde_json::json;
use serde_json::value::RawValue;
use wharf_api::{RawAskList, SessionInfo, TurnPhase};

use crate::ask::AnswerableAsk;
use crate::client::{HostCall, HostClient, url_path};
use crate::exit::Exit;
use crate::format::table::{TextTable, join_with_tabs, plain_cell, styled_cell};
use crate::format::{Screen, TextStyle, times};
use crate::global::GlobalOptions;
use crate::{output, session_ref};

#[derive(Debug, Args)]
pub(crate) struct AsksVerb {
    /// Which session [default: all].
    id: Option<String>,
    /// The JSON of the host; for all sessions each ask also has a `sessionId`.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(global: &GlobalOptions, verb: AsksVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let sessions = match &verb.id {
        Some(id) => vec![session_ref::find_session(&client, Some(id)).await?],
        None => list_awaiting_sessions(&client).await?,
    };
    if verb.json {
        output::print_line(&asks_as_json(&client, &sessions, verb.id.is_some()).await?);
        return Ok(Exit::Ok);
    }
    let mut asks = Vec::new();
    for session in &sessions {
        asks.extend(crate::ask::list_open_asks(&client, &session.id).await?.into_iter().map(|ask| (session, ask)));
    }
    let screen = global.screen();
    format_asks(screen, &asks).iter().for_each(|line| output::print_line(line));
    if asks.is_empty() && screen.terminal {
        output::print_note("nothing is asked");
    }
    Ok(Exit::Ok)
}

/// Lists the sessions whose agents wait for an answer.
pub(crate) async fn list_awaiting_sessions(client: &HostClient) -> anyhow::Result<Vec<SessionInfo>> {
    let listed = session_ref::list_sessions(client, "&alive=true").await?.into_iter().map(|listed| listed.session);
    Ok(listed.filter(|session| session.turn == TurnPhase::AwaitingInput).collect())
}

async fn asks_as_json(client: &HostClient, sessions: &[SessionInfo], one: bool) -> anyhow::Result<String> {
    let mut all = Vec::new();
    for session in sessions {
        let answer = client.send_call(&HostCall::get(url_path(&["sessions", &session.id, "asks"]))).await?;
        if one {
            return Ok(answer.json::<Box<RawValue>>()?.get().to_owned());
        }
        for mut ask in answer.json::<RawAskList>()?.asks {
            ask.insert("sessionId".to_owned(), session.id.as_str().into());
            all.push(ask);
        }
    }
    Ok(json!({ "asks": all }).to_string())
}

fn format_asks(screen: Screen, asks: &[(&SessionInfo, AnswerableAsk)]) -> Vec<String> {
    let options = |ask: &AnswerableAsk| ask.choices().into_iter().map(|choice| choice.id).collect::<Vec<_>>();
    if !screen.terminal {
        let plain = |(session, ask): &(&SessionInfo, AnswerableAsk)| {
            let (id, options, at) = (ask.id(), options(ask).join(","), ask.0.opened_at.as_deref().unwrap_or_default());
            join_with_tabs([session.id.as_str(), &id, ask.0.kind.as_str(), at, &options, ask.subject()])
        };
        return asks.iter().map(plain).collect();
    }
    if asks.is_empty() {
        return Vec::new();
    }
    let now = times::now_millis();
    let sessions: Vec<&SessionInfo> = asks.iter().map(|(session, _)| *session).collect();
    let mut ids: Vec<&SessionInfo> = sessions.clone();
    ids.dedup_by_key(|session| session.id.clone());
    let short: Vec<String> = session_ref::short_ids(&ids);
    let shown =
        |session: &SessionInfo| ids.iter().position(|other| other.id == session.id).and_then(|at| short.get(at));
    let mut table = TextTable::new(&["SESSION", "ASK", "AGENT", "SINCE", "ANSWERS", "ABOUT"]);
    for (session, ask) in asks {
        table.add_row([
            styled_cell(TextStyle::Strong, shown(session).cloned().unwrap_or_default()),
            plain_cell(ask.id()),
            plain_cell(&session.adapter_slug),
            styled_cell(
                TextStyle::Faint,
                ask.0.opened_at.as_ref().map(|at| times::format_ago(at, now)).unwrap_or_default(),
            ),
            styled_cell(TextStyle::Wants, options(ask).join(" ")),
            plain_cell(ask.subject()),
        ]);
    }
    table.to_lines(screen)
}
