//! Waiting for the end of a turn, with progress notifications.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use wharf_api::mcp::{WaitInput, WaitOutcome, WaitOutput};
use wharf_api::{ErrorCode, OpenAsk, OutputQuery, SessionInfo, TurnPhase};
use wharf_host::core::{Event, PromptEvent};
use wharf_host::{Descriptor, SessionHandle, TurnWord};
use wharf_transcript::lines::{LineKind, TranscriptLine};

use super::schemas::keep_newest_lines;
use crate::App;
use crate::fault::Fault;
use crate::output_lines::{TranscriptBatch, TranscriptReader};
use crate::revocation::wait_for_end;
use crate::use_cases::{self, Caller};

const DEFAULT_WAIT_SECONDS: f64 = 300.0;
const MAX_WAIT_SECONDS: f64 = 3600.0;
/// Progress is sent no faster than this, however fast the agent writes.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// The most characters of a line that is sent as progress.
const MAX_PROGRESS_CHARS: usize = 200;

/// Waits until no turn runs, until the agent asks something, or until the timeout.
pub(super) async fn wait_for_turn(
    app: &App,
    caller: &Caller,
    input: WaitInput,
    context: &RequestContext<RoleServer>,
) -> Result<WaitOutput, Fault> {
    let seconds = input.timeout_seconds.unwrap_or(DEFAULT_WAIT_SECONDS);
    if !(0.0..=MAX_WAIT_SECONDS).contains(&seconds) {
        let detail = format!("timeoutSeconds: {seconds} is not between 0 and {MAX_WAIT_SECONDS}");
        return Err(
            Fault::new(ErrorCode::INVALID_PARAMS, detail).with_legacy_code("invalid_arguments")
        );
    }
    let _permit = app.limits.open_stream(&caller.identity)?;
    let id = input.session_id;
    let handle = use_cases::open_session(app, caller, &id).await?;
    let limit = Instant::now() + Duration::from_secs_f64(seconds);
    let wait = TurnWait::new(app, &handle, context).await?;
    let waited = tokio::select! {
        waited = wait.run(limit) => waited?,
        ending = wait_for_end(app, &caller.identity) => {
            return Err(Fault::new(ErrorCode::UNAUTHORIZED, ending.reason()));
        }
    };
    let output = use_cases::read_output(
        app,
        caller,
        &id,
        &OutputQuery { last_n: input.last_n, include: None },
    )
    .await?;
    let session = use_cases::describe_session(app, caller, &handle.descriptor());
    let asks = list_open_asks(app, caller, &session).await?;
    let (outcome, stop_reason) = waited;
    let (lines, over) = keep_newest_lines(output.lines);
    let truncated = over || output.truncated;
    Ok(WaitOutput {
        session_id: id,
        outcome,
        stop_reason,
        lines,
        truncated,
        asks,
        session,
    })
}

/// Returns the open asks if the agent waits for an answer.
pub(super) async fn list_open_asks(
    app: &App,
    caller: &Caller,
    session: &SessionInfo,
) -> Result<Vec<OpenAsk>, Fault> {
    match session.turn {
        // The schemas of tools have no nulls, which a subject may hold.
        TurnPhase::AwaitingInput => use_cases::list_bare_asks(app, caller, &session.id).await,
        TurnPhase::Idle | TurnPhase::Running | TurnPhase::Other(_) => Ok(Vec::new()),
    }
}

struct TurnWait<'a> {
    handle: &'a SessionHandle,
    context: &'a RequestContext<RoleServer>,
    follow: TranscriptReader,
    reports: ProgressReports,
    stop_reason: Option<String>,
}

impl<'a> TurnWait<'a> {
    async fn new(
        app: &App,
        handle: &'a SessionHandle,
        context: &'a RequestContext<RoleServer>,
    ) -> Result<Self, Fault> {
        let follow =
            TranscriptReader::after_event(handle, handle.head(), use_cases::standard_lines(app))
                .await;
        let follow = follow.map_err(|_| unreadable_log())?;
        Ok(Self {
            handle,
            context,
            follow,
            reports: ProgressReports::new(context.meta.get_progress_token()),
            stop_reason: None,
        })
    }

    async fn run(mut self, limit: Instant) -> Result<(WaitOutcome, Option<String>), Fault> {
        loop {
            if let Some(outcome) = find_outcome(&self.handle.descriptor()) {
                return Ok((outcome, self.stop_reason));
            }
            tokio::select! {
                followed = self.follow.next() => self.note_batch(&followed.map_err(|_| unreadable_log())?),
                () = self.reports.wait_until_due() => self.reports.send_next(self.context).await,
                () = tokio::time::sleep_until(limit) => return Ok((WaitOutcome::Timeout, None)),
                () = self.context.ct.cancelled() => {
                    let detail = "the call was cancelled; the turn goes on";
                    return Err(Fault::new(ErrorCode::CANCELLED, detail));
                }
            }
        }
    }

    fn note_batch(&mut self, followed: &TranscriptBatch) {
        for entry in followed.batch.entries() {
            let ended_turn =
                |line: &TranscriptLine| line.id.seq == entry.seq && line.kind == LineKind::TurnEnd;
            if let Event::Prompt(PromptEvent::Ended { end, .. }) = &entry.event
                && followed.lines.iter().any(ended_turn)
            {
                self.stop_reason = Some(end.stop_reason().to_owned());
            }
        }
        if let Some(line) = followed.lines.iter().rfind(|line| !line.text.trim().is_empty()) {
            self.reports.message = Some(line.text.chars().take(MAX_PROGRESS_CHARS).collect());
        }
    }
}

/// Returns the outcome of the wait if there is nothing more to wait for.
fn find_outcome(session: &Descriptor) -> Option<WaitOutcome> {
    match session.turn {
        _ if !session.status.is_alive() => Some(WaitOutcome::SessionEnded),
        TurnWord::AwaitingInput => Some(WaitOutcome::AwaitingInput),
        TurnWord::Idle if session.queued == 0 => Some(WaitOutcome::TurnEnded),
        TurnWord::Idle | TurnWord::Running => None,
    }
}

/// Progress notifications for a client that asked for them.
struct ProgressReports {
    token: Option<ProgressToken>,
    sent: u32,
    /// The newest line.
    message: Option<String>,
    ticks: Interval,
}

impl ProgressReports {
    fn new(token: Option<ProgressToken>) -> Self {
        let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { token, sent: 0, message: None, ticks }
    }

    async fn wait_until_due(&mut self) {
        if self.token.is_none() {
            std::future::pending::<()>().await;
        }
        self.ticks.tick().await;
    }

    /// Sends a notification, even without a new line, to show the client that the turn goes on.
    async fn send_next(&mut self, context: &RequestContext<RoleServer>) {
        let Some(token) = self.token.clone() else { return };
        self.sent += 1;
        let message = self.message.take().unwrap_or_else(|| "the agent is at work".to_owned());
        let news =
            ProgressNotificationParam::new(token, f64::from(self.sent)).with_message(message);
        // A client that cannot be notified gets the result, or is gone.
        let _ = context.peer.notify_progress(news).await;
    }
}

fn unreadable_log() -> Fault {
    Fault::new(ErrorCode::UNAVAILABLE, "the session's log cannot be read; is the host stopping?")
}
