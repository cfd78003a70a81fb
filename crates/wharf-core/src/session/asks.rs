//! Asks: the agent's requests that need exactly one answer (rule 3.7).

use std::sync::Arc;

use super::{Draft, Session};
use crate::{
    AgentEvent, Ask, AskEvent, AskId, AskKind, AskOutcome, AskReply, Effect, Fault, FormAnswerers,
    Raw, Refusal, Reply, Sender, Status,
};

/// An ask without an id.
pub(super) struct Question {
    pub(super) kind: AskKind,
    pub(super) agent_request: Raw,
    pub(super) frame: Raw,
    pub(super) options: Vec<Arc<str>>,
    pub(super) tool_call: Option<Arc<str>>,
}

impl Session {
    pub(super) fn agent_asked(&mut self, question: Question, draft: &mut Draft) {
        // Only a running agent may ask: an agent that is being stopped gets no answers any more.
        if self.state.status != Status::Running {
            return;
        }
        let Question { kind, agent_request, frame, options, tool_call } = question;
        if self.state.asks.len() >= self.settings.max_asks {
            draft.act(Effect::AnswerAsk { agent_request, reply: AskReply::Refused });
            if !self.state.flooded {
                let detail =
                    format!("over {} open asks; further ones are refused", self.settings.max_asks);
                self.record(
                    AgentEvent::Faulted { fault: Fault::TooManyAsks, detail: detail.into() },
                    draft,
                );
            }
            return;
        }
        let id = AskId::from(self.state.head.next());
        let turn = self.state.turns.last();
        let is_to_stop = turn.is_some_and(|turn| turn.cancel);
        let prompt = turn.map(|turn| turn.prompt.clone());
        self.record(
            AskEvent::Opened(Ask { id, kind, agent_request, frame, options, tool_call, prompt }),
            draft,
        );
        self.leave_archive(draft);
        if is_to_stop {
            self.settle_ask(id, AskOutcome::Cancelled, AskReply::Cancelled, None, draft);
            return;
        }
        if let Some(wait) = self.settings.ask_timeout {
            self.live.ask_deadlines.insert(id, draft.now.after(wait));
        }
        self.review_asks(draft);
    }

    /// Withdraws an ask. Of two open asks with one id it withdraws the newer one.
    pub(super) fn agent_withdrew(&mut self, agent_request: &Raw, draft: &mut Draft) {
        let meant = self
            .state
            .asks
            .values()
            .rev()
            .find(|ask| ask.agent_request == *agent_request)
            .map(|ask| ask.id);
        if let Some(ask) = meant {
            self.settle_ask(ask, AskOutcome::Withdrawn, AskReply::Withdrawn, None, draft);
        }
    }

    /// Accepts the first valid answer.
    pub(super) fn answer(
        &mut self,
        ask: AskId,
        by: Sender,
        option: Option<Arc<str>>,
        frame: Raw,
        draft: &mut Draft,
    ) -> Reply {
        let open = match self.open_ask(ask, &by) {
            Ok(open) => open,
            Err(refusal) => return Reply::Refused(refusal),
        };
        let valid = match open.kind {
            AskKind::Permission => {
                option.as_ref().is_some_and(|option| open.options.contains(option))
            }
            AskKind::Elicitation => true,
        };
        if !valid {
            return Reply::Refused(Refusal::InvalidOption { offered: open.options.clone() });
        }
        let outcome = AskOutcome::Answered { option, answer: frame.clone() };
        self.settle_ask(ask, outcome, AskReply::Frame(frame), Some(by), draft);
        Reply::Done
    }

    /// Records a decline, which counts once every client that could answer has declined. A decline
    /// of a detached client counts only if no attached client could answer.
    pub(super) fn decline(
        &mut self,
        ask: AskId,
        by: Sender,
        frame: Raw,
        draft: &mut Draft,
    ) -> Reply {
        let kind = match self.open_ask(ask, &by) {
            Ok(open) => open.kind,
            Err(refusal) => return Reply::Refused(refusal),
        };
        if self.live.answerers(kind).next().is_none() {
            let outcome = AskOutcome::Declined { answer: frame.clone() };
            self.settle_ask(ask, outcome, AskReply::Frame(frame), Some(by), draft);
        } else if self.live.answerers(kind).any(|sender| sender.is_same_client(&by)) {
            self.live.decline(ask, by, frame);
            self.review_asks(draft);
        }
        Reply::Done
    }

    fn open_ask(&self, ask: AskId, by: &Sender) -> Result<&Ask, Refusal> {
        if self.live.observes(by) {
            return Err(Refusal::Observer);
        }
        let gone = || {
            if self.state.is_settled(ask) {
                Refusal::AlreadyAnswered(ask)
            } else {
                Refusal::UnknownAsk(ask)
            }
        };
        self.state.asks.get(&ask).ok_or_else(gone)
    }

    /// Settles asks after a change of the attached clients: all have declined, or no client is left
    /// that could answer. A permission waits for future clients; an elicitation is only for the
    /// attached ones, unless the settings let anyone answer it (rule 3.11).
    pub(super) fn review_asks(&mut self, draft: &mut Draft) {
        let open: Vec<_> = self.state.asks.values().map(|ask| (ask.id, ask.kind)).collect();
        for (ask, kind) in open {
            let needs_client =
                kind == AskKind::Elicitation && self.settings.forms == FormAnswerers::Clients;
            if needs_client && self.live.answerers(kind).next().is_none() {
                self.settle_ask(ask, AskOutcome::Cancelled, AskReply::Cancelled, None, draft);
            } else if self.live.all_declined(ask, kind)
                && let Some(declines) = self.live.declines.remove(&ask)
            {
                let outcome = AskOutcome::Declined { answer: declines.last.clone() };
                self.settle_ask(
                    ask,
                    outcome,
                    AskReply::Frame(declines.last),
                    Some(declines.last_by),
                    draft,
                );
            }
        }
    }

    /// Settles an ask while its agent lives: records the event and sends one answer.
    pub(super) fn settle_ask(
        &mut self,
        ask: AskId,
        outcome: AskOutcome,
        reply: AskReply,
        by: Option<Sender>,
        draft: &mut Draft,
    ) {
        let Some(open) = self.state.asks.get(&ask) else { return };
        draft.act(Effect::AnswerAsk { agent_request: open.agent_request.clone(), reply });
        self.record(AskEvent::Resolved { ask, outcome, by }, draft);
    }

    /// Settles the asks of an agent that is gone, without an answer.
    pub(super) fn abandon_asks(&mut self, draft: &mut Draft) {
        while let Some((&ask, _)) = self.state.asks.first_key_value() {
            self.record(
                AskEvent::Resolved { ask, outcome: AskOutcome::AgentGone, by: None },
                draft,
            );
        }
    }

    pub(super) fn expire_asks(&mut self, draft: &mut Draft) {
        let due = self.live.ask_deadlines.iter().filter(|(_, deadline)| **deadline <= draft.now);
        let due: Vec<_> = due.map(|(ask, _)| *ask).collect();
        for ask in due {
            self.settle_ask(ask, AskOutcome::Cancelled, AskReply::Cancelled, None, draft);
        }
    }
}
