//! Reports how a watched turn ended: the reason of a failure, the agent's last words, the way on,
//! and the numbers.

use serde_json::{Map, Value, json};
use wharf_api::{
    EndCause, RowBody, RowTurnEnd, SeenArgs, SessionInfo, TranscriptRow, TurnDetail, TurnInfo,
    TurnState,
};
use wharf_render::style::{Screen, TextStyle};
use wharf_tui::{FailureKind, login_command};

use super::{TurnFormat, WatchEnd, WatchedTurn};
use crate::client::{HostCall, HostClient, url_path};
use crate::exit::Exit;
use crate::output;
use crate::transcript::describe_turn_numbers;

/// The end of a turn, as the host tells it.
#[derive(Debug, Default)]
pub(crate) struct TurnReport {
    /// The turn as JSON; `None` if the prompt never had one.
    turn: Option<Value>,
    /// The row that ends it, with its id.
    end: Option<(String, RowTurnEnd)>,
    session: Option<Value>,
    /// The caller ends the session after the turn.
    ends_session: bool,
}

/// The place where a person reads how to go on after a failure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RetryPlace {
    /// A shell, whose verb ends the session after the turn or leaves it.
    Shell { ends_session: bool },
    /// A conversation with the session.
    Chat,
}

/// The session in which a person tries again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryTarget<'a> {
    pub(crate) agent: &'a str,
    /// The name of the session in hints.
    pub(crate) name: &'a str,
    pub(crate) session: Option<&'a SessionInfo>,
    pub(crate) place: RetryPlace,
}

impl TurnReport {
    /// Reads the turn and its session. A part that cannot be read is left out.
    pub(crate) async fn read(turn: WatchedTurn<'_>) -> Self {
        let WatchedTurn { client, session, prompt, .. } = turn;
        let fetch =
            async |path: String| client.fetch_json::<Value>(&HostCall::get(path)).await.ok();
        let told = fetch(url_path(&["sessions", session, "turns", prompt])).await;
        let detail = told
            .as_ref()
            .and_then(|told| wharf_json::read_own::<TurnDetail>(told.to_string().as_bytes()).ok());
        let last = detail.and_then(|detail| detail.turn.last_row);
        let end = match last {
            Some(last) => read_turn_end(client, session, &last).await,
            None => None,
        };
        Self {
            turn: told,
            end,
            session: fetch(url_path(&["sessions", session])).await,
            ends_session: false,
        }
    }

    /// Returns the report for a caller that ends the session after the turn, or leaves it.
    pub(crate) fn ending_session(self, ends_session: bool) -> Self {
        Self { ends_session, ..self }
    }

    /// Prints the end in this format, and returns its exit code.
    pub(crate) async fn print(
        &self,
        turn: WatchedTurn<'_>,
        watched: &WatchEnd,
        format: TurnFormat,
        screen: Screen,
    ) -> Exit {
        match format {
            TurnFormat::Json => output::print_line(&self.to_json(turn).to_string()),
            TurnFormat::StreamJson => {
                output::print_line(
                    &json!({ "event": "end", "data": self.to_json(turn) }).to_string(),
                );
            }
            TurnFormat::Live => self.print_numbers(screen),
            TurnFormat::Lines | TurnFormat::Text => {}
        }
        if let (TurnFormat::Live, Some((row, _))) = (format, &self.end) {
            mark_seen(turn.client, turn.session, row).await;
        }
        match watched {
            WatchEnd::Turn(reason) => self.print_reason(turn, reason),
            WatchEnd::Session => report_session_end(turn.client, turn.session).await,
            WatchEnd::Unread => Exit::Ok,
            WatchEnd::Left | WatchEnd::Detached(_) => Exit::Interrupted,
            WatchEnd::Unanswered => {
                output::print_note("the ask was not answered, and the turn is cancelled");
                Exit::Unanswered
            }
            WatchEnd::TimedOut => {
                output::print_note("the time of --timeout is up, and the turn is cancelled");
                Exit::TimedOut
            }
        }
    }

    /// Returns the turn with its text, the end of the agent's stderr and the session.
    fn to_json(&self, turn: WatchedTurn<'_>) -> Value {
        let mut object = match &self.turn {
            Some(Value::Object(members)) => members.clone(),
            Some(_) | None => object_without_turn(turn.prompt),
        };
        let stderr = self.end.as_ref().and_then(|(_, end)| end.stderr.clone());
        object.insert("stderr".to_owned(), stderr.into());
        object.insert("session".to_owned(), self.session.clone().unwrap_or(Value::Null));
        Value::Object(object)
    }

    /// Prints duration, usage and changed files, as far as they are known.
    fn print_numbers(&self, screen: Screen) {
        let numbers =
            self.end.as_ref().map(|(_, end)| describe_turn_numbers(end)).unwrap_or_default();
        if !numbers.is_empty() {
            output::print_styled_note(&[screen.paint(TextStyle::Faint, &format!("── {numbers}"))]);
        }
    }

    /// Returns the exit code for the end of the turn, and prints the reason if the turn did not end
    /// well.
    fn print_reason(&self, turn: WatchedTurn<'_>, reason: &str) -> Exit {
        let exit = Exit::of_stop_reason(reason);
        if exit == Exit::Ok {
            return exit;
        }
        let said = match reason {
            "refusal" => "the agent refused".to_owned(),
            "max_tokens" | "max_turn_requests" => format!("the agent stopped at a limit: {reason}"),
            "cancelled" => "the turn was cancelled".to_owned(),
            "removed" => "the prompt was taken out of the queue".to_owned(),
            "session_ended" => "the session was ended, and the turn with it".to_owned(),
            "host_shutdown" | "host_restarted" => {
                "the host was stopped, and the turn with it".to_owned()
            }
            "agent_exited" => "the agent ended in the middle of the turn".to_owned(),
            "start_failed" => "the agent did not start".to_owned(),
            _ => format!("the turn failed ({reason})"),
        };
        let end = self.end.as_ref().map(|(_, end)| end);
        let message = end
            .and_then(|end| end.message.as_ref())
            .map(|message| format!(": {message}"))
            .unwrap_or_default();
        output::print_note(&format!("{said}{message}"));
        for line in end
            .and_then(|end| end.stderr.as_deref())
            .iter()
            .flat_map(|stderr| stderr.lines())
        {
            output::print_note(&format!("  | {line}"));
        }
        let session = self.session.as_ref().and_then(read_session);
        let target = RetryTarget {
            agent: turn.agent,
            name: turn.name,
            session: session.as_ref(),
            place: RetryPlace::Shell { ends_session: self.ends_session },
        };
        if let Some(advice) = end.and_then(|end| advise_after_failure(end, target)) {
            output::print_note(&advice);
        }
        exit
    }
}

/// Returns the members of a turn for a prompt of which the host tells none: it was taken out of the
/// queue, or the host is gone.
fn object_without_turn(prompt: &str) -> Map<String, Value> {
    let turn = TurnInfo {
        prompt_id: prompt.to_owned(),
        state: TurnState::Ended,
        summary: String::new(),
        started_at: None,
        ended_at: None,
        stop_reason: None,
        outcome: None,
        message: None,
        duration_ms: None,
        usage: None,
        context: None,
        first_row: None,
        last_row: None,
    };
    let detail = TurnDetail { turn, text: String::new(), text_cut: false };
    let object = serde_json::to_value(detail).ok().and_then(|value| value.as_object().cloned());
    object.unwrap_or_default()
}

async fn read_turn_end(
    client: &HostClient,
    session: &str,
    row: &str,
) -> Option<(String, RowTurnEnd)> {
    let call = HostCall::get(url_path(&["sessions", session, "rows", row]));
    let row: TranscriptRow = client.fetch_json(&call).await.ok()?;
    if let RowBody::TurnEnd(end) = row.body { Some((row.id, *end)) } else { None }
}

fn read_session(session: &Value) -> Option<SessionInfo> {
    wharf_json::read_own(session.to_string().as_bytes()).ok()
}

/// Returns the next step after a failure, or `None` if a person need not or cannot take any.
pub(crate) fn advise_after_failure(end: &RowTurnEnd, target: RetryTarget<'_>) -> Option<String> {
    let attention = target.session.and_then(|session| session.attention.as_ref());
    let is_marked = attention.is_some_and(|attention| attention.why.as_deref() == Some("login"));
    let kind = FailureKind::of_turn(end);
    let retry = describe_retry(end, target);
    if is_marked || kind == Some(FailureKind::Login) {
        return Some(format!("{}\ntry again: {retry}", advise_login(target.agent)));
    }
    let is_repeated = end.next.as_ref().is_some_and(|next| next.requeued);
    kind.filter(|_| !is_repeated).map(|_| format!("try again: {retry}"))
}

/// Says how the prompt is sent again: in its session if that can go on or come back, else in a new
/// one.
fn describe_retry(end: &RowTurnEnd, target: RetryTarget<'_>) -> String {
    let RetryTarget { agent, name, session, place } = target;
    // The session may be described as it was before its agent ended.
    let has_agent =
        end.reason == "error" && !matches!(place, RetryPlace::Shell { ends_session: true });
    let comes_back = session.is_none_or(|session| session.resumable);
    // A prompt does not bring back an agent that could not be started.
    let is_resumed_first = end.reason == "start_failed";
    let resume =
        if is_resumed_first { format!("wharf resume {name}, then ") } else { String::new() };
    match place {
        RetryPlace::Shell { .. } if has_agent || comes_back => {
            format!("{resume}wharf prompt {name} TEXT")
        }
        RetryPlace::Shell { .. } => format!("wharf run {agent} TEXT"),
        RetryPlace::Chat if has_agent || comes_back => format!("{resume}type the prompt once more"),
        RetryPlace::Chat => format!("wharf chat {agent}"),
    }
}

fn advise_login(agent: &str) -> String {
    format!("login needed: {}, then try again", login_command(agent))
}

/// Returns the exit code for a session that ended with its turn, and prints the reason.
pub(crate) async fn report_session_end(client: &HostClient, session: &str) -> Exit {
    let known = client
        .fetch_json::<SessionInfo>(&HostCall::get(url_path(&["sessions", session])))
        .await
        .ok();
    let reason = known.as_ref().and_then(|known| known.end_reason.clone());
    let word = reason.as_ref().map_or("unknown", EndCause::as_str);
    let message = known.as_ref().and_then(|known| known.message.as_deref());
    output::print_note(&format!("the session ended: {}", message.unwrap_or(word)));
    let attention = known.as_ref().and_then(|known| known.attention.as_ref());
    if let (Some(known), Some("login")) =
        (&known, attention.and_then(|attention| attention.why.as_deref()))
    {
        output::print_note(&advise_login(&known.adapter_slug));
    }
    if matches!(reason, Some(EndCause::User | EndCause::Closed | EndCause::Finished)) {
        Exit::Cancelled
    } else {
        Exit::Agent
    }
}

/// Tells the host that a person at a terminal has seen the session up to this row (rule 14.3). A
/// mark that fails is not worth an error.
pub(crate) async fn mark_seen(client: &HostClient, session: &str, row: &str) {
    let event = row.split('.').next().unwrap_or(row).to_owned();
    let call = HostCall::put(url_path(&["sessions", session, "seen"]), &SeenArgs { up_to: event });
    let _ = client.send_call(&call).await;
}

#[cfg(test)]
mod tests {
    use wharf_api::TurnOutcome;

    use super::*;
    use crate::connect::HostAddress;

    fn failed_end(reason: &str, message: &str) -> RowTurnEnd {
        let end = json!({
            "reason": reason, "outcome": "failed", "durationMs": null, "usage": null, "context": null, "files": [],
            "tools": { "count": 0, "failed": 0 }, "message": message, "stderr": null, "next": null,
        });
        serde_json::from_value(end).unwrap()
    }

    fn session(resumable: bool) -> SessionInfo {
        let session = json!({
            "id": "sess_1", "adapterSlug": "demo", "workspaceSlug": "default", "cwd": "/w", "status": "running",
            "startedAt": "2026-11-15T20:34:05.123Z", "turn": "idle", "queued": 0, "clients": 0, "lastSeq": 1,
            "resumable": resumable,
        });
        serde_json::from_value(session).unwrap()
    }

    #[test]
    fn every_failure_has_a_way_to_try_again() {
        let kept = RetryPlace::Shell { ends_session: false };
        let ended = RetryPlace::Shell { ends_session: true };
        for (reason, message, resumable, place, advice) in [
            ("agent_exited", "it ended", true, kept, "try again: wharf prompt docs TEXT"),
            ("error", "usage limit reached", true, ended, "try again: wharf prompt docs TEXT"),
            ("error", "usage limit reached", false, kept, "try again: wharf prompt docs TEXT"),
            ("error", "no", false, ended, "try again: wharf run demo TEXT"),
            ("agent_exited", "it ended", false, kept, "try again: wharf run demo TEXT"),
            (
                "start_failed",
                "no",
                true,
                kept,
                "try again: wharf resume docs, then wharf prompt docs TEXT",
            ),
            ("start_failed", "no", false, ended, "try again: wharf run demo TEXT"),
            (
                "error",
                "not logged in",
                true,
                kept,
                "login needed: wharf login demo, then try again\ntry again: wharf prompt docs TEXT",
            ),
            (
                "agent_exited",
                "it ended",
                true,
                RetryPlace::Chat,
                "try again: type the prompt once more",
            ),
            ("agent_exited", "it ended", false, RetryPlace::Chat, "try again: wharf chat demo"),
        ] {
            let session = session(resumable);
            let target =
                RetryTarget { agent: "demo", name: "docs", session: Some(&session), place };
            let told = advise_after_failure(&failed_end(reason, message), target);
            assert_eq!(told.as_deref(), Some(advice), "{reason} {message} {place:?}");
        }
        let target = RetryTarget { agent: "demo", name: "docs", session: None, place: kept };
        let cancelled = RowTurnEnd {
            outcome: TurnOutcome::Cancelled,
            ..failed_end("cancelled", "")
        };
        assert_eq!(advise_after_failure(&cancelled, target), None);
    }

    /// The reference lists the members of a turn; a prompt that never had a turn has them too.
    #[test]
    fn object_of_a_prompt_without_a_turn_has_every_member_of_a_turn() {
        let client = HostClient::unconnected(HostAddress::Socket("/nonexistent/wharf.sock".into()));
        let turn = WatchedTurn {
            client: &client,
            session: "sess_1",
            name: "sess_1",
            prompt: "p",
            agent: "a",
        };
        let object = TurnReport::default().to_json(turn);
        let removed: TurnDetail = serde_json::from_value(object.clone()).unwrap();
        let whole = serde_json::to_value(&removed).unwrap();
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let missing: Vec<String> =
            names(&whole).into_iter().filter(|name| object.get(name).is_none()).collect();
        assert_eq!(missing, Vec::<String>::new());
        assert_eq!(
            (&object["promptId"], &object["stderr"], &object["session"]),
            (&json!("p"), &Value::Null, &Value::Null)
        );
    }
}
