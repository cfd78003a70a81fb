//! From the agent: each message becomes an event, or goes to the client that it is for.

use std::time::Duration;

use bytes::Bytes;
use wharf_core::{AgentInput, Fault, Input, Raw, UpdateKind};
use wharf_json::rpc::code;

use super::AgentConnection;
use super::frame_parser::{AgentMessage, AgentRequest};
use super::link::{AgentLink, log_fault};
use super::writer::ForwardKind;
use crate::agent_services;
use crate::session::clients::Clients;
use crate::session::journal::{Act, Journal};
use crate::session::terminal_transcript::terminal_of;

impl AgentConnection {
    /// Waits for output of the agent; for ever if there is none.
    pub(in crate::session) async fn read(&mut self) -> std::io::Result<usize> {
        match &mut self.link {
            Some(link) => link.read().await,
            None => std::future::pending().await,
        }
    }

    /// Takes every whole line that was read.
    pub(in crate::session) fn take_lines(&mut self, journal: &mut Journal, clients: &mut Clients) {
        while let Some(link) = &mut self.link
            && let Some(message) = link.next_message(&mut self.parser)
        {
            let line_end = link.line_end();
            self.take_in(message, journal, clients);
            journal.set_output_offset(line_end);
            if let Some(link) = &mut self.link {
                link.writer_mut().end_line();
            }
        }
    }

    pub(super) fn take_in(
        &mut self,
        message: AgentMessage,
        journal: &mut Journal,
        clients: &mut Clients,
    ) {
        match message {
            AgentMessage::Nothing => {}
            AgentMessage::Input(Input::Agent(AgentInput::Updated {
                update: update @ (UpdateKind::ToolCall | UpdateKind::ToolCallUpdate),
                frame,
                title,
                tool,
            })) => {
                journal.input(
                    Input::Agent(AgentInput::Updated { update, frame: frame.clone(), title, tool }),
                    None,
                );
                self.show_tool_call(&frame, journal);
            }
            AgentMessage::Input(Input::Agent(AgentInput::Updated {
                update: update @ (UpdateKind::CurrentModeUpdate | UpdateKind::ConfigOptionUpdate),
                frame,
                ..
            })) => self.settings.take_report(update, frame, self.link.as_mut(), journal),
            AgentMessage::Input(mut input) => {
                if let Input::Agent(AgentInput::Answered { stop_reason, stderr, .. }) = &mut input {
                    if stop_reason.is_none() {
                        *stderr = self.link.as_ref().map(|link| link.turn_stderr().into());
                    }
                    self.record_terminals(None, journal);
                }
                if let (Input::Agent(AgentInput::Asked { agent_request, .. }), Some(link)) = (&input, &self.link)
                    && journal.state().asks.len() >= journal.session().settings().max_asks
                    // Too many asks are open: the core will refuse this ask, and a refused ask does
                    // not make an event. So the ledger notes it as a request. If an earlier host
                    // has noted it, that host may have answered it.
                    && !link.writer().take_request(agent_request, None)
                {
                    return;
                }
                journal.input(input, None);
            }
            AgentMessage::Fault(fault, detail) => self.fault(fault, detail, journal),
            AgentMessage::Malformed { kind, detail, failed } => {
                self.fault(kind, detail, journal);
                failed.into_iter().for_each(|failed| self.take_in(failed, journal, clients));
            }
            AgentMessage::Answer { to, frame, ok } => {
                // A setting that the agent agreed to is an event before its client is answered
                // (rule 12.9).
                if ok && let ForwardKind::Set { request, was_reported } = &to.kind {
                    self.settings.take_agreement(request, *was_reported, &frame, journal);
                }
                self.send_answer(&to, frame, journal, clients);
            }
            AgentMessage::Called { call, answer } => {
                if answer.is_result
                    && let ForwardKind::Set { request, was_reported } = &call.kind
                {
                    self.settings.take_agreement(request, *was_reported, &answer.frame, journal);
                }
                journal.act_later(Act::AnswerCall(call.answer, answer));
            }
            AgentMessage::Agreed { kind, frame } => {
                if let ForwardKind::Set { request, was_reported } = &kind {
                    self.settings.take_agreement(request, *was_reported, &frame, journal);
                }
            }
            AgentMessage::Request(request) => self.take_request(request, journal, clients),
            AgentMessage::Withdrawn { agent_request } => match clients
                .withdraw_request(&agent_request, journal.head())
            {
                Some(_) => self.speak(|writer| {
                    writer.fail(&agent_request, code::REQUEST_CANCELLED, "request cancelled")
                }),
                None => journal.input(Input::Agent(AgentInput::Withdrew { agent_request }), None),
            },
            AgentMessage::Note(frame) => clients.send_note(frame, journal.session()),
        }
    }

    fn show_tool_call(&mut self, frame: &Raw, journal: &mut Journal) {
        let services = self.services.get();
        if let Err(error) = self.transcript.take_tool_call(frame, services.as_ref(), journal) {
            self.fault(Fault::Malformed, format!("a tool call: {error}"), journal);
        }
        self.context.shared.shown_terminals.set(self.transcript.shown_terminals());
    }

    /// Has a request of the agent served: by one client, or by Wharf itself.
    fn take_request(
        &mut self,
        request: AgentRequest,
        journal: &mut Journal,
        clients: &mut Clients,
    ) {
        if self.link.as_ref().is_some_and(AgentLink::has_ended) {
            return;
        }
        if request.method == "terminal/release" {
            // Its output goes with it.
            self.record_terminals(terminal_of(&request.frame).as_deref(), journal);
        }
        if let Some(client) = clients.choose_for(&request, journal.session()) {
            if self.note_taken(&request, None) {
                clients.relay(client, request, journal.session());
            }
            return;
        }
        let agent_request = request.agent_request.clone();
        if self.services.can_serve(&request.method) {
            let repeatable =
                agent_services::is_repeatable(&request.method).then_some(&request.frame);
            if !self.note_taken(&request, repeatable) {
                return;
            }
            if !self.services.serve(request, journal.state().start) {
                let message =
                    "too many or too large requests are under way; wait for some of their answers";
                self.speak(|writer| writer.fail(&agent_request, code::INTERNAL_ERROR, message));
            }
            return;
        }
        if request.method == "elicitation/create" {
            return self.speak(|writer| writer.cancel_elicitation(&agent_request));
        }
        let message =
            format!("{} is not available: no attached client can serve it", request.method);
        self.speak(|writer| writer.fail(&agent_request, code::METHOD_NOT_FOUND, &message));
    }

    /// Notes for a later host that a request is being served. Returns false if an earlier host has
    /// done so.
    fn note_taken(&self, request: &AgentRequest, repeatable: Option<&Bytes>) -> bool {
        let link = self.link.as_ref();
        link.is_none_or(|link| link.writer().take_request(&request.agent_request, repeatable))
    }

    pub(super) fn record_terminals(&mut self, ended: Option<&str>, journal: &mut Journal) {
        let services = self.services.get();
        self.transcript.tell(ended, services.as_ref(), journal);
    }

    pub(super) fn fault(&mut self, fault: Fault, detail: String, journal: &mut Journal) {
        log_fault(self.link.as_mut(), fault, detail, journal);
    }

    /// Returns the time until clients must get settings that the agent has not reported; `None` if
    /// no update is due.
    pub(in crate::session) fn settings_due_in(&self) -> Option<Duration> {
        self.settings.wait()
    }

    pub(in crate::session) fn tell_settings(&mut self, journal: &mut Journal) {
        self.settings.tell(journal);
    }
}
