//! An agent between two hosts: kept for the next one, left to it, and taken over from the one
//! before (rule 2.14).

use wharf_core::{AskKind, Millis, Raw};
use wharf_json::rpc::code;

use super::AgentConnection;
use super::frame_parser::{AgentRequest, Whom};
use super::link::AgentLink;
use crate::agent::adoption::{AdoptedAgent, keep_agent};
use crate::agent::ledger::{OpenRequest, log_ledger_fault};
use crate::agent::turn_status::TurnStatus;
use crate::agent_services;
use crate::ids::Now;
use crate::session::journal::{Journal, OwedLine, read_owed_lines};

/// The answer to a request that an earlier host began to serve, if its outcome is unknown.
const OUTCOME_UNKNOWN: &str =
    "the host was restarted while it served this request; whether it was carried out is unknown";

impl AgentConnection {
    /// Lets the agent outlive the host from now on. Its start is in the log.
    pub(in crate::session) fn keep(&mut self, journal: &Journal) {
        let Some(link) = &mut self.link else { return };
        let Some(files) = link.take_files() else { return };
        let host = &self.context.host;
        let start = journal.state().start.0;
        let session = &self.context.shared.id;
        let records = host.agents.records();
        if let Err(error) =
            keep_agent(link.process(), files, (session, start), &host.config.keeper, records)
        {
            tracing::warn!(%error, "the agent will not outlive this host");
        }
    }

    /// Returns true if the agent has ended without a host, and output of it on the disk is not in
    /// the log yet.
    pub(in crate::session) fn has_left_output(&self) -> bool {
        let is_link_to_output = self.link.as_ref().is_some_and(|link| link.has_no_keeper());
        is_link_to_output || self.awaits_left_output()
    }

    /// Leaves the agent to its keeper. Returns false if it is not kept: then it has to be ended.
    pub(in crate::session) fn leave(&mut self) -> bool {
        if self.leave_awaited() {
            return true;
        }
        let records = self.context.host.agents.records();
        let is_left = |link: &mut AgentLink| {
            link.has_no_keeper() || records.is_kept(link.process().keeper_pid())
        };
        match self.link.take_if(is_left) {
            Some(link) => {
                link.leave();
                true
            }
            None => false,
        }
    }

    /// Tells the keeper what the agent is at, for the time without a host.
    pub(in crate::session) fn note_turns(&self, journal: &Journal) {
        let Some(link) = &self.link else { return };
        let is_running = !journal.state().turns.is_empty();
        let deadline_ms = journal.session().turn_deadline().map_or(0, |Millis(at)| at);
        // Without a turn the session's time follows the wall clock.
        let clock_lead_ms = if is_running { journal.clock_lead_ms() } else { 0 };
        let status = TurnStatus { is_running, deadline_ms, clock_lead_ms };
        let mut ledger = link.ledger().lock();
        log_ledger_fault(ledger.set_turn_status(status));
        if let Some(event) = journal.settled_head() {
            log_ledger_fault(ledger.note_sent_through(event));
        }
        drop(ledger);
        if is_running && self.context.shared.take_first_turn_news() {
            let records = self.context.host.agents.records();
            records.note_first_turn(link.keeper_pid(), Now::millis());
        }
    }

    /// Goes on with an agent that this host has taken over: sends the messages that, by the log,
    /// the agent has yet to get, and serves or answers the agent's open requests.
    pub(in crate::session) fn adopt(&mut self, adopted: AdoptedAgent, journal: &mut Journal) {
        if let Some(time) = adopted.turn_status.session_time() {
            journal.set_time(time);
        }
        let in_flight = adopted.in_flight.clone();
        let first_turn_at = adopted.first_turn_at;
        let link = AgentLink::resume(adopted, journal.state());
        journal.follow_output(Some(link.ledger().clone()), in_flight.read_offset);
        self.link_up(link, journal);
        self.context.shared.restore_first_turn(first_turn_at);
        let owed =
            read_owed_lines(&self.context.shared.log, in_flight.sent_through, journal.state());
        let owed = owed.unwrap_or_else(|error| {
            tracing::error!(%error, "messages that an earlier host owed to the agent cannot be read");
            Vec::new()
        });
        for (cause, line) in owed {
            match line {
                OwedLine::Prompt(prompt, frame) => self.send_prompt(prompt, &frame, cause),
                OwedLine::Cancel => self.send_cancel(Some(cause)),
                OwedLine::Answer(ask, reply) => {
                    if let (AskKind::Elicitation, Some(link)) = (ask.kind, &mut self.link) {
                        link.writer_mut().note_elicitation(ask.agent_request.bytes().clone());
                    }
                    self.answer_ask(&ask.agent_request, &reply, Some(cause));
                }
            }
        }
        for request in in_flight.open_requests.into_values() {
            self.settle_request(request, journal);
        }
    }

    /// Serves a request again that an earlier host had begun to serve, or answers that its outcome
    /// is unknown.
    fn settle_request(&mut self, request: OpenRequest, journal: &Journal) {
        let Some(agent_request) = Raw::new(request.id) else { return };
        let method = request
            .repeatable
            .as_ref()
            .and_then(|frame| Some(wharf_acp::scan(frame).ok()?.method.to_string()));
        if let (Some(frame), Some(method)) = (request.repeatable, method)
            && agent_services::is_repeatable(&method)
            && self.services.can_serve(&method)
        {
            let agent_request = agent_request.clone();
            let whom = Whom::Server;
            if self
                .services
                .serve(AgentRequest { method, agent_request, frame, whom }, journal.state().start)
            {
                return;
            }
        }
        self.speak(|writer| writer.fail(&agent_request, code::INTERNAL_ERROR, OUTCOME_UNKNOWN));
    }
}
