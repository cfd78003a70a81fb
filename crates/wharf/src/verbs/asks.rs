//! `wharf asks`: lists the open asks of agents, with the action that each asks to allow.

use clap::Args;
use wharf_api::{AskOverview, SessionAsk, SessionInfo};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{format_ago, to_printable};

use crate::ask::{AnswerableAsk, list_open_asks};
use crate::client::{HostCall, HostClient, url_path};
use crate::exit::Exit;
use crate::format::table::join_with_tabs;
use crate::format::times;
use crate::global::GlobalOptions;
use crate::session_ref::{find_hint_name, find_session, hint_name, list_sessions, short_id};
use crate::{output, session_state};

/// The most asks that the host lists.
const MAX_LISTED_ASKS: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct AsksVerb {
    /// Which session [default: all].
    id: Option<String>,
    /// The JSON of the host; for all sessions each ask also has a `sessionId`.
    #[arg(long)]
    json: bool,
}

/// An open ask and its session.
#[derive(Clone, Debug)]
pub(crate) struct AskOfSession {
    pub(crate) session: String,
    /// The name of the session in hints: its label, or the end of its id.
    name: String,
    /// The session's title, label, name or agent.
    title: String,
    pub(crate) ask: AnswerableAsk,
}

pub(crate) async fn run(global: &GlobalOptions, verb: AsksVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let session = match &verb.id {
        Some(id) => Some(find_session(&client, Some(id)).await?),
        None => None,
    };
    if verb.json {
        let call = match &session {
            Some(session) => HostCall::get(url_path(&["sessions", &session.id, "asks"])),
            None => all_asks_call(),
        };
        output::print_line(client.send_call(&call).await?.text().trim_end());
        return Ok(Exit::Ok);
    }
    let asks = match session {
        Some(session) => list_asks_of(&client, &session).await?,
        None => list_all_asks(&client).await?,
    };
    let screen = global.screen();
    asks.iter()
        .flat_map(|asked| asked.to_lines(screen))
        .for_each(|line| output::print_line(&line));
    if asks.is_empty() && screen.terminal {
        output::print_note("nothing is asked");
    }
    Ok(Exit::Ok)
}

fn all_asks_call() -> HostCall {
    HostCall::get(format!("/asks?limit={MAX_LISTED_ASKS}"))
}

/// Lists the open asks of all sessions, the longest waiting first.
pub(crate) async fn list_all_asks(client: &HostClient) -> anyhow::Result<Vec<AskOfSession>> {
    let AskOverview { asks, truncated } = client.fetch_json(&all_asks_call()).await?;
    if truncated {
        output::print_note(&format!(
            "there are more than {MAX_LISTED_ASKS} asks; these wait longest"
        ));
    }
    let sessions = if asks.is_empty() { Vec::new() } else { list_sessions(client, "").await? };
    let sessions: Vec<SessionInfo> = sessions.into_iter().map(|listed| listed.session).collect();
    let name_of = |id: &str| {
        let session = sessions.iter().find(|session| session.id == id);
        session.map_or_else(|| short_id(id).to_owned(), |session| hint_name(&sessions, session))
    };
    let listed =
        asks.into_iter()
            .map(|SessionAsk { session_id, session_title, ask, .. }| AskOfSession {
                name: name_of(&session_id),
                session: session_id,
                title: session_title,
                ask: AnswerableAsk(ask),
            });
    Ok(listed.collect())
}

/// Lists the open asks of one session.
pub(crate) async fn list_asks_of(
    client: &HostClient,
    session: &SessionInfo,
) -> anyhow::Result<Vec<AskOfSession>> {
    let title = session_state::display_name(session).unwrap_or(&session.adapter_slug);
    let name = find_hint_name(client, session).await;
    let asks = list_open_asks(client, &session.id).await?.into_iter();
    let with_session = |ask| AskOfSession {
        session: session.id.clone(),
        name: name.clone(),
        title: title.to_owned(),
        ask,
    };
    Ok(asks.map(with_session).collect())
}

impl AskOfSession {
    /// Returns the name of the ask, as `wharf answer` takes it.
    pub(crate) fn reference(&self) -> String {
        format!("{}/{}", self.name, self.ask.id())
    }

    /// Returns the ask with its subject and answers for a person, or as one line of columns for a
    /// program.
    pub(crate) fn to_lines(&self, screen: Screen) -> Vec<String> {
        let since = self.ask.0.opened_at.as_deref().unwrap_or_default();
        if !screen.terminal {
            let subject = self.ask.whole_subject();
            let options: Vec<String> =
                self.ask.choices().into_iter().map(|choice| choice.id).collect();
            return vec![join_with_tabs([
                self.session.as_str(),
                &self.ask.id(),
                self.ask.0.kind.as_str(),
                since,
                &options.join(","),
                self.ask.subject(),
                subject.command.as_deref().unwrap_or_default(),
                subject.cwd.as_deref().unwrap_or_default(),
                &subject.paths.join(","),
                &subject.outside.join(","),
            ])];
        }
        let ago = format_ago(since, times::now_millis());
        let head = format!("{} · {} · {ago}", self.reference(), to_printable(&self.title));
        let mut lines = vec![screen.paint(TextStyle::Strong, &head)];
        lines.extend(self.ask.to_lines(screen));
        lines.push(screen.paint(
            TextStyle::Faint,
            &format!("  answer with: wharf answer {} ANSWER", self.reference()),
        ));
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ask_is_named_by_the_label_of_its_session() {
        let ask = json!({ "askId": 57, "kind": "permission", "options": [], "params": {} });
        let ask = AnswerableAsk(serde_json::from_value(ask).unwrap());
        let session = "sess_01k5zzzzzzaaaabbbbccccdddd".to_owned();
        let asked = AskOfSession {
            session,
            name: "docs".to_owned(),
            title: "Docs".to_owned(),
            ask,
        };
        let lines = asked.to_lines(Screen { terminal: true, ..Screen::PIPE });
        assert!(lines[0].starts_with("docs/57 · Docs"), "{lines:?}");
        assert!(
            lines.last().is_some_and(|line| line.contains("wharf answer docs/57 ANSWER")),
            "{lines:?}"
        );
    }
}
