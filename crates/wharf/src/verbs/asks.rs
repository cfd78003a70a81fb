//! `wharf asks`: what agents ask and wait for.

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use wharf_api::{SessionInfo, TurnPhase};

use crate::ask::Ask;
use crate::client::{Call, Client, path};
use crate::exit::Exit;
use crate::global::Global;
use crate::look::table::{Table, cell, styled, tabbed};
use crate::look::{Screen, Style, times};
use crate::{output, which};

#[derive(Debug, Args)]
pub(crate) struct Asks {
    /// Which session [default: all].
    id: Option<String>,
    /// The JSON of the host; for all sessions each ask also has a `sessionId`.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(global: &Global, verb: Asks) -> anyhow::Result<Exit> {
    let client = global.client().await?;
    let sessions = match &verb.id {
        Some(id) => vec![which::session(&client, Some(id)).await?],
        None => awaiting(&client).await?,
    };
    if verb.json {
        output::line(&as_json(&client, &sessions, verb.id.is_some()).await?);
        return Ok(Exit::Ok);
    }
    let mut asks = Vec::new();
    for session in &sessions {
        asks.extend(crate::ask::open(&client, &session.id).await?.into_iter().map(|ask| (session, ask)));
    }
    let screen = global.screen();
    lines(screen, &asks).iter().for_each(|line| output::line(line));
    if asks.is_empty() && screen.terminal {
        output::note("nothing is asked");
    }
    Ok(Exit::Ok)
}

/// Sessions whose agents wait for an answer.
pub(crate) async fn awaiting(client: &Client) -> anyhow::Result<Vec<SessionInfo>> {
    let listed = which::list(client, "&alive=true").await?.into_iter().map(|listed| listed.session);
    Ok(listed.filter(|session| session.turn == TurnPhase::AwaitingInput).collect())
}

async fn as_json(client: &Client, sessions: &[SessionInfo], one: bool) -> anyhow::Result<String> {
    #[derive(Deserialize)]
    struct Open {
        asks: Vec<Map<String, Value>>,
    }
    let mut all = Vec::new();
    for session in sessions {
        let answer = client.call(&Call::get(path(&["sessions", &session.id, "asks"]))).await?;
        if one {
            return Ok(answer.json::<Box<RawValue>>()?.get().to_owned());
        }
        for mut ask in answer.json::<Open>()?.asks {
            ask.insert("sessionId".to_owned(), session.id.as_str().into());
            all.push(ask);
        }
    }
    Ok(json!({ "asks": all }).to_string())
}

fn lines(screen: Screen, asks: &[(&SessionInfo, Ask)]) -> Vec<String> {
    let options = |ask: &Ask| ask.choices().into_iter().map(|choice| choice.id).collect::<Vec<_>>();
    if !screen.terminal {
        let plain = |(session, ask): &(&SessionInfo, Ask)| {
            let (id, options, at) = (ask.id(), options(ask).join(","), ask.0.opened_at.as_deref().unwrap_or_default());
            tabbed([session.id.as_str(), &id, ask.0.kind.as_str(), at, &options, ask.subject()])
        };
        return asks.iter().map(plain).collect();
    }
    if asks.is_empty() {
        return Vec::new();
    }
    let now = times::now();
    let sessions: Vec<&SessionInfo> = asks.iter().map(|(session, _)| *session).collect();
    let mut ids: Vec<&SessionInfo> = sessions.clone();
    ids.dedup_by_key(|session| session.id.clone());
    let short: Vec<String> = which::short_ids(&ids);
    let shown =
        |session: &SessionInfo| ids.iter().position(|other| other.id == session.id).and_then(|at| short.get(at));
    let mut table = Table::new(&["SESSION", "ASK", "AGENT", "SINCE", "ANSWERS", "ABOUT"]);
    for (session, ask) in asks {
        table.row([
            styled(Style::Strong, shown(session).cloned().unwrap_or_default()),
            cell(ask.id()),
            cell(&session.adapter_slug),
            styled(Style::Faint, ask.0.opened_at.as_ref().map(|at| times::ago(at, now)).unwrap_or_default()),
            styled(Style::Wants, options(ask).join(" ")),
            cell(ask.subject()),
        ]);
    }
    table.lines(screen)
}
