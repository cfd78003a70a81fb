//! To the agent: prompts, answers, and what clients have passed on.

use bytes::Bytes;
use tokio::sync::oneshot;
use wharf_core::{AskReply, ClientId, PromptId, Raw, Seq, Status};
use wharf_json::rpc::{self, code};

use super::AgentConnection;
use super::link::{AgentDelete, AgentLink};
use super::writer::{AgentCall, AgentWriter, ForwardKind, Forwarded, StdinStalled, error};
use crate::session::agent_calls::AgentAnswer;
use crate::session::clients::Clients;
use crate::session::command::ServedAnswer;
use crate::session::handle::{Direct, Forward, Taken};
use crate::session::journal::{Act, Journal};

impl AgentConnection {
    /// Says something to the agent, if there is one.
    pub(super) fn speak(&mut self, say: impl FnOnce(&mut AgentWriter) -> Result<(), StdinStalled>) {
        if let Some(link) = &mut self.link
            && say(link.writer_mut()).is_err()
        {
            link.end_stalled();
        }
    }

    /// Sends a prompt, whose turn was started by the event `turn_started`.
    pub(in crate::session) fn send_prompt(
        &mut self,
        prompt: PromptId,
        frame: &Raw,
        turn_started: Seq,
    ) {
        if let Some(link) = &mut self.link {
            link.note_prompt();
        }
        self.speak(|writer| writer.prompt(prompt, frame, turn_started));
    }

    pub(in crate::session) fn send_cancel(&mut self, cause: Option<Seq>) {
        self.speak(|writer| writer.cancel(cause));
    }

    pub(in crate::session) fn answer_ask(
        &mut self,
        agent_request: &Raw,
        reply: &AskReply,
        cause: Option<Seq>,
    ) {
        self.speak(|writer| writer.answer_ask(agent_request, reply, cause));
    }

    /// Has the agent delete another session of its adapter.
    pub(in crate::session) fn delete_other(
        &mut self,
        agent_session: &str,
        done: oneshot::Sender<AgentDelete>,
    ) {
        if self.link.as_ref().is_some_and(AgentLink::can_delete) {
            self.speak(|writer| writer.delete(agent_session, done));
        } else if self.link.is_some() {
            let _ = done.send(AgentDelete::NotNeeded);
        }
    }

    /// Returns true if an answer of the agent is waited for.
    pub(in crate::session) fn is_owed(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.writer().is_owed())
    }

    /// Returns true if the agent owes this client an answer.
    pub(in crate::session) fn owes(&self, client: &ClientId) -> bool {
        self.pending.has_of(client)
            || self.link.as_ref().is_some_and(|link| link.writer().owes(client))
    }

    /// Passes a client's request or notification on, now or when the agent is up.
    pub(in crate::session) fn forward(
        &mut self,
        forward: Forward,
        taken: Option<oneshot::Sender<Taken>>,
        journal: &Journal,
        clients: &mut Clients,
    ) {
        if let Some(taken) = taken {
            if !clients.is_here(&forward.client) {
                return;
            }
            let state = journal.state();
            if state.status == Status::Starting || !self.pending.is_empty() {
                let is_behind_prompt = !state.queue.is_empty() || !state.turns.is_empty();
                return self.pending.push(forward, taken, is_behind_prompt);
            }
            let _ = taken.send(Taken::Now);
        }
        self.pass_on(forward, journal, clients);
    }

    /// Passes on everything that has waited for the start.
    pub(in crate::session) fn pass_on_pending(&mut self, journal: &Journal, clients: &mut Clients) {
        while let Some((forward, passed_on)) = self.pending.next() {
            self.pass_on(forward, journal, clients);
            let _ = passed_on.send(Ok(()));
        }
    }

    pub(super) fn pass_on(&mut self, forward: Forward, journal: &Journal, clients: &mut Clients) {
        let Forward { client, frame, request } = forward;
        let Some(request) = request else { return self.speak(|writer| writer.notify(&frame)) };
        let Some(link) = &self.link else {
            let to = Forwarded { client, request, kind: ForwardKind::Other };
            return self.tell_gone(&to, journal, clients);
        };
        match forward_kind(link, &frame) {
            Ok(kind) => {
                self.speak(|writer| writer.forward(&frame, Forwarded { client, request, kind }))
            }
            Err((code, message)) => {
                let frame = error(&request, code, &message);
                clients.send(&client, Direct::Frame(frame), journal.head());
            }
        }
    }

    /// Asks the agent something for a caller that waits for the answer.
    pub(in crate::session) fn call(
        &mut self,
        frame: &Bytes,
        answer: oneshot::Sender<AgentAnswer>,
        journal: &mut Journal,
    ) {
        let Some(link) = &self.link else { return };
        match forward_kind(link, frame) {
            Ok(kind) => self.speak(|writer| writer.call(frame, AgentCall { kind, answer })),
            Err((code, message)) => {
                let frame = error(rpc::PLACEHOLDER_ID, code, &message);
                journal.act_later(Act::AnswerCall(answer, AgentAnswer { frame, is_result: false }));
            }
        }
    }

    /// Takes back a request that a client takes back.
    pub(in crate::session) fn cancel_forward(
        &mut self,
        client: &ClientId,
        request: &[u8],
        journal: &Journal,
        clients: &mut Clients,
    ) {
        if let Some(passed_on) = self.pending.take_back(client, request) {
            let frame = error(request, code::REQUEST_CANCELLED, "request cancelled");
            clients.send(client, Direct::Frame(frame), journal.head());
            let _ = passed_on.send(Ok(()));
            return;
        }
        self.speak(|writer| writer.cancel_forward(client, request));
    }

    pub(super) fn tell_gone(&mut self, to: &Forwarded, journal: &Journal, clients: &mut Clients) {
        let frame = error(&to.request, code::INTERNAL_ERROR, "the session's agent is not running");
        self.send_answer(to, frame, journal, clients);
    }

    /// Sends a client the answer to its request. Forgets a client that has left once the agent owes
    /// it no more answers.
    pub(super) fn send_answer(
        &mut self,
        to: &Forwarded,
        frame: Bytes,
        journal: &Journal,
        clients: &mut Clients,
    ) {
        clients.send(&to.client, Direct::Frame(frame), journal.head());
        if !self.owes(&to.client) {
            clients.forget_departed(&to.client);
        }
    }

    /// Passes a client's response to a relayed request on.
    pub(in crate::session) fn answer_relay(
        &mut self,
        client: &ClientId,
        relay: u64,
        frame: &[u8],
        clients: &mut Clients,
    ) {
        let Some(open) = clients.take_answered(client, relay) else { return };
        if let Some(terminal) = &open.output_of {
            self.transcript.take_output(terminal, frame);
        }
        self.speak(|writer| writer.answer(&open.agent_request, frame));
    }

    /// Fails a relayed request that its client will not answer.
    pub(in crate::session) fn fail_relay(
        &mut self,
        relay: u64,
        why: &str,
        journal: &Journal,
        clients: &mut Clients,
    ) {
        if let Some(open) = clients.withdraw(relay, journal.head()) {
            self.speak(|writer| writer.fail(&open.agent_request, code::INTERNAL_ERROR, why));
        }
    }

    /// Sends Wharf's own answer to a request of the agent.
    pub(in crate::session) fn answer_served(
        &mut self,
        served: ServedAnswer,
        journal: &mut Journal,
    ) {
        if self.link.as_ref().is_none_or(|link| link.start() != served.start) {
            return;
        }
        if served.ended.is_some() {
            self.record_terminals(served.ended.as_deref(), journal);
        }
        self.speak(|writer| writer.say_served(&served.agent_request, served.frame, served.permit));
    }
}

/// Returns the kind of a request that may be passed on to the agent, else the code and the message
/// of its refusal.
fn forward_kind(link: &AgentLink, frame: &[u8]) -> Result<ForwardKind, (i32, String)> {
    if link.writer().owes_too_much() {
        let message = "the agent has too many requests to answer; wait for some of its answers";
        return Err((code::INTERNAL_ERROR, message.to_owned()));
    }
    // The agent might understand it otherwise than the log would tell.
    ForwardKind::of(frame).map_err(|why| (code::INVALID_PARAMS, why.to_string()))
}
