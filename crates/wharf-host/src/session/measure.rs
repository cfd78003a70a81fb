//! A session's facts for operators: counters, and lines of the host's log. They hold no content of the session.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use wharf_core::{
    AgentEvent, AskEvent, EndReason, Event, Millis, PromptEvent, PromptId, Session, SessionEvent, SessionId,
};

use crate::host::Inner;
use crate::metrics::outcome;

/// The counters of a session, and the times of its prompts that have not ended.
#[derive(Debug)]
pub(super) struct Measure {
    session: SessionId,
    adapter: Arc<str>,
    prompts: HashMap<PromptId, Timing>,
}

#[derive(Clone, Copy, Debug)]
struct Timing {
    accepted_at: Millis,
    started_at: Option<Millis>,
}

impl Measure {
    pub(super) fn new(session: &Session) -> Self {
        let state = session.state();
        let waiting = state.queue.iter().map(|queued| (queued.prompt.clone(), queued.accepted_at, None));
        let running = state.turns.iter().map(|turn| (turn.prompt.clone(), turn.accepted_at, Some(turn.started_at)));
        let prompts = waiting.chain(running);
        let prompts = prompts.map(|(prompt, accepted_at, started_at)| (prompt, Timing { accepted_at, started_at }));
        Self {
            session: state.origin.session.clone(),
            adapter: Arc::clone(&state.origin.adapter),
            prompts: prompts.collect(),
        }
    }

    /// Counts an event and logs it. Updates, by far the most frequent, are counted by the batch instead.
    pub(super) fn note(&mut self, event: &Event, at: Millis, host: &Inner) {
        let (session, metrics) = (&self.session, &host.metrics);
        match event {
            Event::Agent(AgentEvent::Starting { how, .. }) => {
                metrics.agent_starting(*how);
                tracing::debug!(%session, adapter = %self.adapter, how = word(how), "an agent is being started");
            }
            Event::Agent(AgentEvent::Started { start, .. }) => {
                tracing::info!(%session, adapter = %self.adapter, start = start.0, "a session runs");
            }
            Event::Session(SessionEvent::Ended(ending)) => {
                match ending.reason {
                    EndReason::StartFailed => metrics.start_failures.add(1),
                    EndReason::AgentExited => metrics.agent_exits.add(1),
                    EndReason::Unresponsive
                    | EndReason::User
                    | EndReason::Closed
                    | EndReason::Idle
                    | EndReason::Memory
                    | EndReason::LogFull
                    | EndReason::HostShutdown
                    | EndReason::HostRestarted => {}
                }
                // The message is left out, since it ends with output of the agent.
                tracing::info!(%session, adapter = %self.adapter, reason = word(ending.reason), code = ending.exit_code,
                    "a session has ended");
            }
            Event::Agent(AgentEvent::StartFailed { start, exit_code, retry_in, .. }) => {
                tracing::warn!(%session, adapter = %self.adapter, %start, code = exit_code, retry_ms = retry_in.0,
                    "an agent could not be started; it is tried again");
            }
            Event::Prompt(PromptEvent::Accepted { prompt, sender, .. }) => {
                self.prompts.insert(prompt.clone(), Timing { accepted_at: at, started_at: None });
                tracing::debug!(%session, client = %sender.client, token = sender.token.as_deref(), "a prompt was taken");
            }
            Event::Prompt(PromptEvent::TurnStarted { prompt, .. }) => {
                metrics.turns_started.add(1);
                if let Some(timing) = self.prompts.get_mut(prompt) {
                    timing.started_at = Some(at);
                    metrics.queue_time.observe(between(timing.accepted_at, at));
                }
            }
            Event::Prompt(PromptEvent::Requeued { prompt }) => {
                if let Some(timing) = self.prompts.get_mut(prompt) {
                    timing.started_at = None;
                }
            }
            Event::Prompt(PromptEvent::Ended { prompt, end }) => self.ended(prompt, outcome(end), at, host),
            Event::Ask(AskEvent::Opened(_)) => metrics.asks.add(1),
            Event::Agent(AgentEvent::Faulted { fault, .. }) => {
                tracing::debug!(%session, adapter = %self.adapter, fault = word(fault), "an agent broke the protocol");
            }
            // A storage pause is reported where it is decided.
            Event::Session(SessionEvent::Created(_))
            | Event::Agent(AgentEvent::Updated { .. } | AgentEvent::SettingsChanged { .. })
            | Event::Prompt(
                PromptEvent::Updated { .. } | PromptEvent::Moved { .. } | PromptEvent::CancelRequested { .. },
            )
            | Event::Ask(AskEvent::Resolved { .. })
            | Event::Storage(_)
            | Event::Unknown { .. } => {}
        }
    }

    /// Counts the end of a prompt. An unknown prompt is one of an earlier host, whose end also ended the turn.
    fn ended(&mut self, prompt: &PromptId, outcome: &'static str, at: Millis, host: &Inner) {
        let timing = self.prompts.remove(prompt);
        let had_turn = timing.is_none_or(|timing| timing.started_at.is_some());
        host.metrics.prompt_ended(outcome, had_turn);
        let Some(timing) = timing else { return };
        let took = timing.started_at.map(|started| between(started, at));
        if let Some(took) = took {
            host.metrics.turn_time.observe(took);
        }
        let millis = took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        tracing::debug!(session = %self.session, adapter = %self.adapter, outcome, millis, "a prompt has ended");
    }
}

/// Returns the time between two instants; zero if the clock was set back.
fn between(from: Millis, to: Millis) -> Duration {
    Duration::from_millis(to.0.saturating_sub(from.0))
}

/// Returns the word for a value in the log and on the surfaces.
fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
