//! The lines that a session's agents wrote beside the protocol (rule 8.8).

use std::time::Duration;

use wharf_api::{AgentLogLine, AgentLogPage, AgentLogQuery, LogStream};
use wharf_host::core::SessionId;
use wharf_host::{AgentStream, LogPosition, LoggedLine, LoggedLines, format_timestamp};

use super::Caller;
use super::faults::{fault_from_open_error, invalid_query};
use super::turns::parse_wait;
use crate::App;
use crate::fault::Fault;

const DEFAULT_LOG_LINES: usize = 200;
const MAX_LOG_LINES: usize = 5_000;

/// A checked query.
#[derive(Clone, Debug)]
pub(crate) struct AgentLogRequest {
    after: Option<LogPosition>,
    limit: usize,
    wait: Option<Duration>,
}

impl AgentLogRequest {
    pub(crate) fn from_query(query: &AgentLogQuery) -> Result<Self, Fault> {
        let limit = query.limit.unwrap_or(DEFAULT_LOG_LINES);
        if limit == 0 || limit > MAX_LOG_LINES {
            return Err(invalid_query(format!(
                "limit: {limit} is not between 1 and {MAX_LOG_LINES}"
            )));
        }
        let after = query.after.as_deref().filter(|after| !after.is_empty());
        let after = after.map(str::parse).transpose();
        let after = after
            .map_err(|_| invalid_query("after: is no position; take `next` of another answer"))?;
        let wait = parse_wait(query.wait.as_deref())?;
        if wait.is_some() && after.is_none() {
            return Err(invalid_query(
                "wait: needs `after`; take `next` of an answer without `wait`",
            ));
        }
        Ok(Self { after, limit, wait })
    }
}

/// Waits until there is a line after the position, as long as the caller wants to wait. Callers
/// that may read the output of a session may read its agents' log.
pub(crate) async fn wait_for_agent_log(
    app: &App,
    caller: &Caller,
    id: &str,
    request: &AgentLogRequest,
) -> Result<(), Fault> {
    let (Some(after), Some(wait)) = (&request.after, request.wait) else { return Ok(()) };
    check_visible(app, caller, id)?;
    let _permit = app.limits.open_stream(&caller.identity)?;
    let log = app.host.agent_log(&SessionId::new(id));
    let mut stopping = app.stopping.clone();
    tokio::select! {
        () = log.wait_after(after) => {}
        () = tokio::time::sleep(wait) => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
    Ok(())
}

/// Reads lines of a session's agents.
pub(crate) fn read_agent_log(
    app: &App,
    caller: &Caller,
    id: &str,
    request: &AgentLogRequest,
) -> Result<AgentLogPage, Fault> {
    check_visible(app, caller, id)?;
    let log = app.host.agent_log(&SessionId::new(id));
    let LoggedLines { lines, next, has_gap } = match &request.after {
        Some(after) => log.read_after(after, request.limit),
        None => log.read_last(request.limit),
    };
    let lines = lines.into_iter().map(to_log_line).collect();
    Ok(AgentLogPage {
        id: id.to_owned(),
        lines,
        next: next.to_string(),
        gap: has_gap,
    })
}

/// Refuses a session that the caller does not see. Its log is not read for that, and no agent is
/// woken.
fn check_visible(app: &App, caller: &Caller, id: &str) -> Result<(), Fault> {
    let visible = app.visible_to(&caller.identity);
    let session = SessionId::new(id);
    match visible.descriptor(&session) {
        Some(_) => Ok(()),
        None => Err(fault_from_open_error(id, &visible.why_not_open(&session))),
    }
}

fn to_log_line(line: LoggedLine) -> AgentLogLine {
    let stream = match line.stream {
        AgentStream::Stderr => LogStream::Stderr,
        AgentStream::Stdout => LogStream::Stdout,
    };
    AgentLogLine {
        at: format_timestamp(line.at),
        stream,
        text: line.text,
        cut: line.is_cut,
    }
}
