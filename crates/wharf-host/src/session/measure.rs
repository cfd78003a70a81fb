//! A session's facts for operators: counters, and lines of the host's log. They hold no content of
//! the session.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use wharf_core::{
    AgentEvent, AskEvent, EndReason, Event, Millis, PromptEvent, PromptId, PromptStep, Session,
    SessionEvent, SessionId,
};

use crate::host::Inner;
use crate::metrics::{Metrics, outcome};

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
        let waiting = state
            .queue
            .iter()
            .map(|queued| (queued.prompt.clone(), queued.accepted_at, None));
        let running = state
            .turns
            .iter()
            .map(|turn| (turn.prompt.clone(), turn.accepted_at, Some(turn.started_at)));
        let prompts = waiting.chain(running);
        let prompts = prompts
            .map(|(prompt, accepted_at, started_at)| (prompt, Timing { accepted_at, started_at }));
        Self {
            session: state.origin.session.clone(),
            adapter: Arc::clone(&state.origin.adapter),
            prompts: prompts.collect(),
        }
    }

    /// Counts an event and logs it. Updates, by far the most frequent, are counted by the batch
    /// instead.
    pub(super) fn note(&mut self, event: &Event, at: Millis, host: &Inner) {
        let session = &self.session;
        let metrics = &host.metrics;
        if let Event::Agent(event) = event {
            self.note_agent_event(event, metrics);
        } else if let Event::Session(SessionEvent::Ended(ending)) = event {
            match ending.reason {
                EndReason::StartFailed => metrics.start_failures.add(1),
                EndReason::AgentExited => metrics.agent_exits.add(1),
                EndReason::Unresponsive
                | EndReason::User
                | EndReason::Closed
                | EndReason::Finished
                | EndReason::Idle
                | EndReason::Memory
                | EndReason::LogFull
                | EndReason::HostShutdown
                | EndReason::HostRestarted => {}
            }
            // The message is left out, since it ends with output of the agent.
            tracing::info!(%session, adapter = %self.adapter, reason = word(ending.reason), code = ending.exit_code,
                "a session has ended");
        } else if let Some((prompt, step)) = event.prompt_step() {
            if let Event::Prompt(PromptEvent::Accepted { sender, .. }) = event {
                tracing::debug!(%session, client = %sender.client, token = sender.token.as_deref(), "a prompt was taken");
            }
            self.note_prompt_step(prompt, step, at, host);
        } else if let Event::Ask(AskEvent::Opened(_)) = event {
            metrics.asks.add(1);
        }
        // A storage pause is reported where it is decided.
    }

    fn note_agent_event(&self, event: &AgentEvent, metrics: &Metrics) {
        let session = &self.session;
        if let AgentEvent::Starting { how, .. } = event {
            metrics.agent_starting(*how);
            tracing::debug!(%session, adapter = %self.adapter, how = word(how), "an agent is being started");
        } else if let AgentEvent::Started { start, .. } = event {
            tracing::info!(%session, adapter = %self.adapter, start = start.0, "a session runs");
        } else if let AgentEvent::StartFailed { start, exit_code, retry_in, .. } = event {
            tracing::warn!(%session, adapter = %self.adapter, %start, code = exit_code, retry_ms = retry_in.0,
                "an agent could not be started; it is tried again");
        } else if let AgentEvent::Faulted { fault, .. } = event {
            tracing::debug!(%session, adapter = %self.adapter, fault = word(fault), "an agent broke the protocol");
        }
    }

    fn note_prompt_step(
        &mut self,
        prompt: &PromptId,
        step: PromptStep<'_>,
        at: Millis,
        host: &Inner,
    ) {
        match step {
            PromptStep::Accepted => {
                self.prompts
                    .insert(prompt.clone(), Timing { accepted_at: at, started_at: None });
            }
            PromptStep::TurnStarted { .. } => {
                host.metrics.turns_started.add(1);
                if let Some(timing) = self.prompts.get_mut(prompt) {
                    timing.started_at = Some(at);
                    host.metrics.queue_time.observe(between(timing.accepted_at, at));
                }
            }
            PromptStep::Requeued => {
                if let Some(timing) = self.prompts.get_mut(prompt) {
                    timing.started_at = None;
                }
            }
            PromptStep::Ended(end) => self.ended(prompt, outcome(end), at, host),
        }
    }

    /// Counts the end of a prompt. An unknown prompt is one of an earlier host, whose end also
    /// ended the turn.
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
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}
