//! Turns of a session (rule 13.7).

use std::time::Duration;

use tokio::time::Instant;
use wharf_api::{
    ErrorCode, FOLD_NUMBER, RowBody, TranscriptRow, TurnDetail, TurnInfo, TurnPage, TurnQuery,
    TurnState,
};
use wharf_host::core::{Event, PromptEvent};
use wharf_host::{Cursor, Entry, ReadError, TurnRows};
use wharf_transcript::show_in_one_line;

use super::faults::{invalid_query, unknown_session, unreadable_session};
use super::rows::{
    open_transcript, parse_cursor, to_cursor, transcript_fault, unknown_row, unknown_turn,
};
use super::transcript_state::read_queue;
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;
use crate::revocation::wait_for_end;

/// The longest time that a caller may wait for the end of a turn.
const MAX_WAIT: Duration = Duration::from_secs(3600);
const DEFAULT_PAGE_TURNS: usize = 20;
const MAX_PAGE_TURNS: usize = 100;

/// Lists the turns of a session, the newest first.
pub(crate) async fn list_turns(
    app: &App,
    caller: &Caller,
    id: &str,
    query: &TurnQuery,
) -> Result<TurnPage, Fault> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE_TURNS);
    if limit == 0 || limit > MAX_PAGE_TURNS {
        return Err(invalid_query(format!("limit: {limit} is not between 1 and {MAX_PAGE_TURNS}")));
    }
    let before = query.before.as_deref().filter(|before| !before.is_empty());
    let row = before.map(|before| parse_cursor("before", before)).transpose()?;
    let transcript = open_transcript(app, caller, id).await?;
    let slice = transcript
        .turns(row, limit)
        .await
        .map_err(|failure| transcript_fault(app, id, &failure))?;
    let slice = slice.ok_or_else(|| unknown_row(before.unwrap_or_default()))?;
    let turns = slice.turns.iter().map(to_turn_info).collect();
    Ok(TurnPage {
        fold: FOLD_NUMBER,
        turns,
        before: slice.before.map(|id| to_cursor(&id)),
    })
}

/// Reads the turn of a prompt with the agent's answer. A prompt that waits has a turn without rows,
/// also if an earlier turn of it was cut off.
pub(crate) async fn get_turn(
    app: &App,
    caller: &Caller,
    id: &str,
    prompt: &str,
) -> Result<TurnDetail, Fault> {
    let transcript = open_transcript(app, caller, id).await?;
    let handle = transcript.handle();
    // The queue comes first: a prompt that leaves it meanwhile is then found among the turns.
    let queue = read_queue(app, handle).await?;
    let waiting = queue.into_iter().find(|entry| entry.prompt_id == prompt);
    let found = transcript
        .turn(prompt)
        .await
        .map_err(|failure| transcript_fault(app, id, &failure))?;
    match (found.filter(|found| waiting.is_none() || !is_repeated(&found.turn)), waiting) {
        (Some(found), _) => Ok(TurnDetail {
            turn: to_turn_info(&found.turn),
            text: found.text,
            text_cut: found.is_cut,
        }),
        (None, Some(entry)) => {
            let turn = waiting_turn(entry.prompt_id, entry.text.lines().next().unwrap_or_default());
            Ok(TurnDetail { turn, text: String::new(), text_cut: false })
        }
        (None, None) => Err(unknown_turn(prompt)),
    }
}

/// Returns true for a turn that was cut off and whose prompt was put back into the queue.
fn is_repeated(turn: &TurnRows) -> bool {
    let RowBody::TurnEnd(end) = &turn.last.body else { return false };
    turn.has_ended && end.next.as_ref().is_some_and(|next| next.requeued)
}

/// Reads the time that a caller wants to wait.
pub(crate) fn parse_wait(wait: Option<&str>) -> Result<Option<Duration>, Fault> {
    let Some(wait) = wait.filter(|wait| !wait.is_empty()) else { return Ok(None) };
    let parsed = wait
        .parse::<wharf_config::Duration>()
        .ok()
        .and_then(wharf_config::Duration::to_std);
    match parsed.filter(|wait| *wait <= MAX_WAIT) {
        Some(wait) => Ok(Some(wait)),
        None => {
            let shown: String = wait.chars().take(40).collect();
            Err(invalid_query(format!(
                "wait: {shown:?} is no time of at most 1h; write it like \"30s\" or \"5m\""
            )))
        }
    }
}

/// Waits for the end of a prompt's turn, and returns the turn as it is then; `None` if the prompt
/// never gets one.
pub(crate) async fn wait_for_turn_end(
    app: &App,
    caller: &Caller,
    id: &str,
    prompt: &str,
    wait: Duration,
) -> Result<Option<TurnDetail>, Fault> {
    let deadline = Instant::now() + wait;
    let handle = open_session(app, caller, id).await?;
    let mut cursor = handle.cursor(handle.head());
    loop {
        let turn = match get_turn(app, caller, id, prompt).await {
            Ok(turn) => turn,
            Err(fault) if fault.code() == ErrorCode::UNKNOWN_PROMPT => return Ok(None),
            Err(fault) => return Err(fault),
        };
        if turn.turn.state == TurnState::Ended {
            return Ok(Some(turn));
        }
        let end = tokio::select! {
            ended = wait_for_prompt_end(&mut cursor, prompt) => ended.map_err(|error| unreadable_session(id, &error)),
            () = handle.closed() => return Err(unknown_session(id)),
            () = tokio::time::sleep_until(deadline) => return Ok(Some(turn)),
            ending = wait_for_end(app, &caller.identity) => {
                return Err(Fault::new(ErrorCode::UNAUTHORIZED, ending.reason()));
            }
        };
        end?;
    }
}

/// Reads on until the prompt has ended.
async fn wait_for_prompt_end(cursor: &mut Cursor, prompt: &str) -> Result<(), ReadError> {
    loop {
        let batch = cursor.next().await?;
        let is_end = |entry: &Entry| matches!(&entry.event, Event::Prompt(PromptEvent::Ended { prompt: ended, .. }) if ended.as_str() == prompt);
        if batch.entries().iter().any(is_end) {
            return Ok(());
        }
    }
}

fn waiting_turn(prompt_id: String, first_line: &str) -> TurnInfo {
    TurnInfo {
        prompt_id,
        state: TurnState::Queued,
        summary: show_in_one_line(first_line),
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
    }
}

fn to_turn_info(turn: &TurnRows) -> TurnInfo {
    let TurnRows { first, last, has_ended } = turn;
    let mut info = waiting_turn(first.turn.clone().unwrap_or_default(), "");
    info.summary.clone_from(&first.summary);
    info.state = if *has_ended { TurnState::Ended } else { TurnState::Running };
    info.started_at = Some(first.at.clone());
    (info.first_row, info.last_row) = (Some(first.id.clone()), Some(last.id.clone()));
    add_end(&mut info, last);
    info
}

fn add_end(info: &mut TurnInfo, row: &TranscriptRow) {
    let RowBody::TurnEnd(end) = &row.body else { return };
    if info.state != TurnState::Ended {
        return;
    }
    info.ended_at = Some(row.at.clone());
    info.stop_reason = Some(end.reason.clone());
    info.outcome = Some(end.outcome.clone());
    info.message.clone_from(&end.message);
    info.duration_ms = end.duration_ms;
    info.usage.clone_from(&end.usage);
    info.context.clone_from(&end.context);
}
