//! Waiting for the end of a turn, with news on the way.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use wharf_api::mcp::{WaitInput, WaitOutcome, WaitOutput};
use wharf_api::{ErrorCode, OpenAsk, OutputQuery, SessionInfo, TurnPhase};
use wharf_host::core::Event;
use wharf_host::{Descriptor, SessionHandle, TurnWord};

use super::shapes::fitting;
use crate::App;
use crate::acp::stop_reason;
use crate::ending::ended;
use crate::fault::Fault;
use crate::lines::{Follow, Followed, Line, LineKind};
use crate::use_cases::{self, Caller, session_info};

const WAIT: f64 = 300.0;
const LONGEST_WAIT: f64 = 3600.0;
/// News comes no faster than this, however fast the agent writes.
const NEWS_EVERY: Duration = Duration::from_secs(1);
/// Of a line that is told as progress.
const SHOWN: usize = 200;

/// Waits until no turn runs, until there is something to answer, or until the time is up.
pub(super) async fn wait(
    app: &App,
    who: &Caller,
    input: WaitInput,
    context: &RequestContext<RoleServer>,
) -> Result<WaitOutput, Fault> {
    let seconds = input.timeout_seconds.unwrap_or(WAIT);
    if !(0.0..=LONGEST_WAIT).contains(&seconds) {
        let detail = format!("timeoutSeconds: {seconds} is not between 0 and {LONGEST_WAIT}");
        return Err(Fault::new(ErrorCode::INVALID_PARAMS, detail).formerly("invalid_arguments"));
    }
    let _place = app.stream_place(&who.identity)?;
    let id = input.session_id;
    let handle = use_cases::open(app, who, &id).await?;
    let limit = Instant::now() + Duration::from_secs_f64(seconds);
    let wait = Wait::new(app, &handle, context).await?;
    let waited = tokio::select! {
        waited = wait.run(limit) => waited?,
        ending = ended(app, &who.identity) => {
            return Err(Fault::new(ErrorCode::UNAUTHORIZED, ending.reason()));
        }
    };
    let output = use_cases::output(app, who, &id, &OutputQuery { last_n: input.last_n }).await?;
    let session = session_info(&handle.descriptor());
    let asks = open_asks(app, who, &session).await?;
    let (outcome, stop_reason) = waited;
    let (lines, over) = fitting(output.lines);
    let truncated = over || output.truncated;
    Ok(WaitOutput { session_id: id, outcome, stop_reason, lines, truncated, asks, session })
}

/// What the agent waits for.
pub(super) async fn open_asks(app: &App, who: &Caller, session: &SessionInfo) -> Result<Vec<OpenAsk>, Fault> {
    match session.turn {
        TurnPhase::AwaitingInput => Ok(use_cases::asks(app, who, &session.id).await?.asks),
        TurnPhase::Idle | TurnPhase::Running | TurnPhase::Other(_) => Ok(Vec::new()),
    }
}

struct Wait<'a> {
    handle: &'a SessionHandle,
    context: &'a RequestContext<RoleServer>,
    follow: Follow,
    news: News,
    stop_reason: Option<String>,
}

impl<'a> Wait<'a> {
    async fn new(app: &App, handle: &'a SessionHandle, context: &'a RequestContext<RoleServer>) -> Result<Self, Fault> {
        let follow = Follow::after_event(handle, handle.head(), app.host.config().redact_output).await;
        let follow = follow.map_err(|_| gone())?;
        Ok(Self { handle, context, follow, news: News::new(context.meta.get_progress_token()), stop_reason: None })
    }

    async fn run(mut self, limit: Instant) -> Result<(WaitOutcome, Option<String>), Fault> {
        loop {
            if let Some(outcome) = settled(&self.handle.descriptor()) {
                return Ok((outcome, self.stop_reason));
            }
            tokio::select! {
                followed = self.follow.next() => self.note(&followed.map_err(|_| gone())?),
                () = self.news.due() => self.news.tell(self.context).await,
                () = tokio::time::sleep_until(limit) => return Ok((WaitOutcome::Timeout, None)),
                () = self.context.ct.cancelled() => {
                    let detail = "the call was cancelled; the turn goes on";
                    return Err(Fault::new(ErrorCode::CANCELLED, detail));
                }
            }
        }
    }

    fn note(&mut self, followed: &Followed) {
        for entry in followed.batch.entries() {
            let ended_turn = |line: &Line| line.id.seq == entry.seq && line.kind == LineKind::TurnEnd;
            if let Event::PromptEnded { end, .. } = &entry.event
                && followed.lines.iter().any(ended_turn)
            {
                self.stop_reason = Some(stop_reason(end).to_owned());
            }
        }
        if let Some(line) = followed.lines.iter().rfind(|line| !line.text.trim().is_empty()) {
            self.news.message = Some(line.text.chars().take(SHOWN).collect());
        }
    }
}

/// There is nothing to wait for any more.
fn settled(session: &Descriptor) -> Option<WaitOutcome> {
    match session.turn {
        _ if !session.status.is_alive() => Some(WaitOutcome::SessionEnded),
        TurnWord::AwaitingInput => Some(WaitOutcome::AwaitingInput),
        TurnWord::Idle if session.queued == 0 => Some(WaitOutcome::TurnEnded),
        TurnWord::Idle | TurnWord::Running => None,
    }
}

/// Progress for a client that asked for it.
struct News {
    token: Option<ProgressToken>,
    told: u32,
    /// The newest line.
    message: Option<String>,
    ticks: Interval,
}

impl News {
    fn new(token: Option<ProgressToken>) -> Self {
        let mut ticks = tokio::time::interval(NEWS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { token, told: 0, message: None, ticks }
    }

    async fn due(&mut self) {
        if self.token.is_none() {
            std::future::pending::<()>().await;
        }
        self.ticks.tick().await;
    }

    /// Also without a new line: the client sees that it is not waiting in vain.
    async fn tell(&mut self, context: &RequestContext<RoleServer>) {
        let Some(token) = self.token.clone() else { return };
        self.told += 1;
        let message = self.message.take().unwrap_or_else(|| "the agent is at work".to_owned());
        let news = ProgressNotificationParam::new(token, f64::from(self.told)).with_message(message);
        // Who does not listen any more will see the result, or is gone.
        let _ = context.peer.notify_progress(news).await;
    }
}

fn gone() -> Fault {
    Fault::new(ErrorCode::UNAVAILABLE, "the session's log cannot be read; is the host stopping?")
}
