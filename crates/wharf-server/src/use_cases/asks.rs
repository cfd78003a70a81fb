//! The asks of agents, and the answers (rule 3.7).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use wharf_api::{
    AnswerAction, AnswerArgs, Answered, AskList, AskOverview, AskQuery, AskSubject, ErrorCode,
    OpenAsk, RowBody, SessionAsk, TranscriptRow,
};
use wharf_host::core::{AskId, AskKind, Raw, Seq};
use wharf_host::{Descriptor, SessionHandle, format_timestamp};
use wharf_json::{Json, Kind, rpc};

use super::attention::note_act;
use super::contract::to_open_ask;
use super::faults::{fault_from_failed_call, invalid_params, invalid_query};
use super::{Caller, open_session, visible_sessions};
use crate::App;
use crate::fault::Fault;

/// Asks in one answer over all sessions if the caller names no limit.
const DEFAULT_LISTED_ASKS: usize = 100;
const MAX_LISTED_ASKS: usize = 1_000;

/// How long an answer waits for the subjects of asks: they come from the transcript, which may have
/// to be made.
const SUBJECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Lists the open asks.
pub(crate) async fn list_asks(app: &App, caller: &Caller, id: &str) -> Result<AskList, Fault> {
    let handle = open_session(app, caller, id).await?;
    let mut asks = read_open_asks(app, &handle).await?;
    add_subjects(app, &handle, &mut asks, Instant::now() + SUBJECT_TIMEOUT).await;
    Ok(AskList { asks })
}

/// Lists the open asks without their subjects.
pub(crate) async fn list_bare_asks(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<Vec<OpenAsk>, Fault> {
    let handle = open_session(app, caller, id).await?;
    read_open_asks(app, &handle).await
}

/// Lists the open asks of all sessions that the caller sees, the longest waiting first.
pub(crate) async fn list_all_asks(
    app: &App,
    caller: &Caller,
    query: &AskQuery,
) -> Result<AskOverview, Fault> {
    let limit = query.limit.unwrap_or(DEFAULT_LISTED_ASKS);
    if limit == 0 || limit > MAX_LISTED_ASKS {
        return Err(invalid_query(format!(
            "limit: {limit} is not between 1 and {MAX_LISTED_ASKS}"
        )));
    }
    let mut asking = visible_sessions(app, caller);
    asking.retain(|known| known.attention.asks > 0);
    // A session's first ask says how long it waits; sessions behind the limit cannot have an older
    // one.
    asking.sort_by(|a, b| first_ask_at(a).cmp(&first_ask_at(b)).then_with(|| a.id.cmp(&b.id)));
    let is_over = asking.len() > limit;
    asking.truncate(limit);
    let deadline = Instant::now() + SUBJECT_TIMEOUT;
    let mut asks = Vec::new();
    let mut truncated = is_over;
    for known in asking {
        // A session that was forgotten or cannot be read meanwhile has no asks.
        let Ok(handle) = open_session(app, caller, &known.id).await else { continue };
        let Ok(mut open) = read_open_asks(app, &handle).await else { continue };
        truncated |= open.len() > limit;
        open.truncate(limit);
        add_subjects(app, &handle, &mut open, deadline).await;
        asks.extend(open.into_iter().map(|ask| to_session_ask(&known, ask)));
        asks.sort_by(|a, b| {
            (&a.ask.opened_at, a.ask.ask_id).cmp(&(&b.ask.opened_at, b.ask.ask_id))
        });
        truncated |= asks.len() > limit;
        asks.truncate(limit);
    }
    Ok(AskOverview { asks, truncated })
}

fn first_ask_at(known: &Descriptor) -> Option<&str> {
    known.attention.ask.as_ref().map(|ask| ask.since.as_str())
}

fn to_session_ask(known: &Descriptor, ask: OpenAsk) -> SessionAsk {
    let title = known.title.as_ref().or(known.label.as_ref()).or(known.name.as_ref());
    SessionAsk {
        session_id: known.id.clone(),
        session_title: title.unwrap_or(&known.adapter_slug).clone(),
        workspace_slug: known.workspace_slug.clone(),
        ask,
    }
}

/// Reads the open asks of a session. This is the one place where an ask of the contract is made.
async fn read_open_asks(app: &App, handle: &SessionHandle) -> Result<Vec<OpenAsk>, Fault> {
    let open = handle
        .asks()
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    let mut asks = Vec::with_capacity(open.len());
    for ask in &open {
        asks.push(OpenAsk {
            opened_at: read_opened_at(handle, ask.id).await,
            ..to_open_ask(ask)
        });
    }
    Ok(asks)
}

/// Adds rows and subjects to the asks of a session. Asks can be answered even if the transcript
/// cannot be read in time.
async fn add_subjects(app: &App, handle: &SessionHandle, asks: &mut [OpenAsk], deadline: Instant) {
    if asks.is_empty() {
        return;
    }
    let transcript = app.host.transcript(handle.clone());
    let Ok(Ok(rows)) = tokio::time::timeout_at(deadline, transcript.open_asks()).await else {
        return;
    };
    for ask in asks {
        let (row, subject) = find_subject(&rows, ask.ask_id).unzip();
        (ask.row, ask.subject) = (row, subject);
    }
}

/// Returns the id and the subject of an ask's row.
fn find_subject(rows: &[TranscriptRow], ask: u64) -> Option<(String, AskSubject)> {
    rows.iter().find_map(|row| {
        let RowBody::Ask(shown) = &row.body else { return None };
        (shown.ask_id == ask).then(|| (row.id.clone(), shown.subject.clone()))
    })
}

/// Returns the time of the event that opened the ask; an ask's id is the number of that event.
async fn read_opened_at(handle: &SessionHandle, ask: AskId) -> Option<String> {
    let mut cursor = handle.cursor(Seq(ask.0.checked_sub(1)?));
    // An ask that is not in the log yet has no time to show.
    let batch = if cursor.is_behind() { cursor.next().await.ok()? } else { return None };
    batch
        .entries()
        .first()
        .filter(|entry| entry.seq.0 == ask.0)
        .map(|entry| format_timestamp(entry.at))
}

/// Answers an open ask. The first valid answer wins.
pub(crate) async fn answer_ask(
    app: &App,
    caller: &Caller,
    id: &str,
    ask: &str,
    args: AnswerArgs,
) -> Result<Answered, Fault> {
    caller.may_answer_in(app, id)?;
    let handle = open_session(app, caller, id).await?;
    let unknown = || {
        let shown: String = ask.chars().take(40).collect();
        let detail = format!(
            "no ask {shown:?}; GET /sessions/{id}/asks and `wharf asks` list the open ones"
        );
        Fault::new(ErrorCode::UNKNOWN_ASK, detail)
    };
    let ask = ask.parse().map(AskId).map_err(|_| unknown())?;
    let open = handle
        .asks()
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    let kind = open.iter().find(|open| open.id == ask).map(|open| open.kind);
    // An ask that is not open is left to the session, which knows whether it was answered or never
    // existed.
    let reply = read_answer(args, kind)?;
    reply_to_ask(app, caller, &handle, ask, reply).await?;
    Ok(Answered { ok: true, ask_id: ask.0 })
}

/// A caller's reply to an ask, with the response that the agent gets.
#[derive(Debug)]
pub(crate) enum AskReply {
    /// One of the options of a permission.
    Option(String, Raw),
    /// A form that was filled in or declined.
    Form(Raw),
    /// Counts once everyone who could answer has said so.
    Decline(Raw),
}

/// Gives a reply to an ask, in the caller's name.
pub(crate) async fn reply_to_ask(
    app: &App,
    caller: &Caller,
    handle: &SessionHandle,
    ask: AskId,
    reply: AskReply,
) -> Result<(), Fault> {
    caller.may_answer_in(app, handle.id().as_str())?;
    let by = caller.sender();
    let before = handle.head();
    let done = match reply {
        AskReply::Option(option, frame) => {
            let frame = spell_option(handle, ask, &option, frame).await;
            handle.answer(ask, by, Some(option.into()), frame).await
        }
        AskReply::Form(frame) => handle.answer(ask, by, None, frame).await,
        AskReply::Decline(frame) => handle.decline(ask, by, frame).await,
    };
    done.map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    note_act(app, caller, handle, before);
    Ok(())
}

/// Returns the answer with the option's id as the agent wrote it. An agent that numbers its options
/// gets the number, and an agent that writes texts gets the text, whichever of the two the client
/// sent (rule 12.3).
async fn spell_option(handle: &SessionHandle, ask: AskId, option: &str, answer: Raw) -> Raw {
    let Ok(open) = handle.asks().await else { return answer };
    let asked = open.iter().find(|open| open.id == ask);
    asked
        .and_then(|asked| respell_option(asked.frame.bytes(), option, answer.bytes()))
        .unwrap_or(answer)
}

/// Returns the answer with the id of the chosen option as JSON of the same type as in the request.
/// `None` if it is so already.
fn respell_option(request: &[u8], option: &str, answer: &[u8]) -> Option<Raw> {
    let offered = Json::parse(request).ok()?.at(&["params", "options"]).ok()??;
    let ids = offered.items().filter_map(|offer| offer.seek(&["optionId"]).ok()?);
    let written = { ids }.find(|id| id.text_or_number().as_deref() == Some(option))?;
    let path = ["result", "outcome", "optionId"];
    let answer = Json::parse(answer).ok()?;
    let given = answer.at(&path).ok()??;
    if given.raw() == written.raw() || given.kind() == Kind::Text && written.kind() == Kind::Text {
        return None;
    }
    Raw::new(wharf_json::set(answer, &path, written.raw()).ok()?)
}

/// Reads the one choice in an answer and builds the response that the agent's request expects.
fn read_answer(args: AnswerArgs, kind: Option<AskKind>) -> Result<AskReply, Fault> {
    let one = "send exactly one of optionId, cancel: true and action";
    match (args.option_id, args.cancel.unwrap_or(false), args.action) {
        (Some(_), false, None) if kind == Some(AskKind::Elicitation) => {
            Err(invalid_params("optionId: this is a form; send action: accept, decline or cancel"))
        }
        (Some(option), false, None) => {
            let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
            Ok(AskReply::Option(option, build_response(&outcome)?))
        }
        (None, true, None) | (None, false, Some(AnswerAction::Cancel)) => {
            Ok(AskReply::Decline(build_response(&match kind {
                Some(AskKind::Elicitation) => json!({ "action": "cancel" }),
                Some(AskKind::Permission) | None => {
                    json!({ "outcome": { "outcome": "cancelled" } })
                }
            })?))
        }
        (None, false, Some(AnswerAction::Accept | AnswerAction::Decline))
            if kind == Some(AskKind::Permission) =>
        {
            Err(invalid_params("action: this is a permission; send optionId or cancel: true"))
        }
        (None, false, Some(AnswerAction::Accept)) => {
            let content = args.content.unwrap_or_else(|| json!({}));
            Ok(AskReply::Form(build_response(&json!({ "action": "accept", "content": content }))?))
        }
        (None, false, Some(AnswerAction::Decline)) => {
            Ok(AskReply::Form(build_response(&json!({ "action": "decline" }))?))
        }
        (None, false, None) | (_, true, _) | (Some(_), _, Some(_)) => Err(invalid_params(one)),
    }
}

/// Builds the response frame. Its id is replaced on the way to the agent.
fn build_response(result: &Value) -> Result<Raw, Fault> {
    let frame = Raw::new(rpc::response(rpc::PLACEHOLDER_ID, result));
    frame.ok_or_else(|| invalid_params("the answer is not one line of UTF-8"))
}
