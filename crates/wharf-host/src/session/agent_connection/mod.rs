//! The session's agent as its task sees it: started and ended here, spoken to in `to_agent`, heard
//! in `from_agent`.
//!
//! `link` is the running process with its pipes, `writer` makes the lines that it is sent,
//! `frame_parser` sorts the lines that it sends.

mod active_settings;
mod adopt;
mod frame_parser;
mod from_agent;
mod link;
mod silent_keeper;
mod to_agent;
mod writer;

use std::io;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tracing::Instrument;
use wharf_core::{
    AgentInput, ClientInput, Fault, Input, LifecycleInput, StartKind, StartNo, Status,
};

use super::agent_services::AgentServices;
use super::clients::Clients;
use super::command::{Command, Started, UpTo};
use super::context::{FirstStart, TaskContext};
use super::handle::Abilities;
use super::journal::{Act, Journal};
use super::pending::PendingForwards;
use super::startup::Startup;
use super::terminal_transcript::TerminalTranscript;
use crate::agent::OpenedAgent;
use crate::agent::initialize::StartFailure;
use crate::agent::ledger::{LineNote, log_ledger_fault};
use crate::host::StartPriority;
use crate::settings::{ReportedSettings, ReturnTerms};
use active_settings::SettingAnnouncements;
use frame_parser::AgentFrameParser;
pub(super) use frame_parser::{AgentRequest, Whom};
pub use link::AgentDelete;
use link::AgentLink;
use silent_keeper::AwaitedKeeper;
use writer::Forwarded;

#[derive(Debug)]
pub(super) struct AgentConnection {
    context: Arc<TaskContext>,
    startup: Startup,
    link: Option<AgentLink>,
    /// The keeper of an earlier host's agent that has not answered yet.
    awaited_keeper: Option<AwaitedKeeper>,
    parser: AgentFrameParser,
    /// Messages for the agent that wait for its start.
    pending: PendingForwards,
    services: AgentServices,
    transcript: TerminalTranscript,
    settings: SettingAnnouncements,
    /// The session is being deleted: the agent is to delete its own copy before it ends.
    deletes: bool,
    deletion: Option<JoinHandle<AgentDelete>>,
}

impl AgentConnection {
    pub(super) fn new(
        context: Arc<TaskContext>,
        first: &mut FirstStart,
        journal: &Journal,
    ) -> Self {
        Self {
            startup: Startup::new(first),
            link: None,
            awaited_keeper: None,
            parser: AgentFrameParser::new(context.shared.id.as_str()),
            pending: PendingForwards::default(),
            services: AgentServices::new(Arc::clone(&context)),
            transcript: TerminalTranscript::default(),
            settings: SettingAnnouncements::new(ReportedSettings::from_sources(journal.state())),
            deletes: false,
            deletion: None,
            context,
        }
    }

    /// Returns the span of the agent's process; [`tracing::Span::none`] while there is none.
    pub(super) fn span(&self) -> tracing::Span {
        self.link.as_ref().map_or_else(tracing::Span::none, |link| link.span().clone())
    }

    /// Returns true if the session has no agent, does not wait for a keeper, and no agent is
    /// starting or on its way out.
    pub(super) fn is_absent(&self) -> bool {
        self.link.is_none() && self.awaited_keeper.is_none() && self.startup.is_quiet()
    }

    /// Notes how much the next start is needed.
    pub(super) fn set_need(&mut self, need: StartPriority) {
        self.startup.set_need(need);
    }

    /// Notes the settings of the next start.
    pub(super) fn set_terms(&mut self, terms: ReturnTerms) {
        self.startup.set_terms(terms);
    }

    /// Notes that a caller waits for this start. `abilities` are those of the caller if it is an
    /// ACP client.
    pub(super) fn set_wanted(&mut self, start: StartNo, abilities: Option<Abilities>) {
        self.startup.set_wanted(start, abilities);
    }

    pub(super) fn wait_up(&mut self, reply: UpTo, journal: &Journal) {
        self.startup.wait(reply, journal.session());
    }

    pub(super) fn start(&mut self, start: StartNo, how: StartKind, journal: &Journal) {
        self.startup.begin(start, how, journal.session(), &self.context);
    }

    /// Takes the outcome of a start.
    pub(super) fn take_start(
        &mut self,
        start: StartNo,
        outcome: Result<OpenedAgent, StartFailure>,
        journal: &mut Journal,
        clients: &mut Clients,
    ) {
        self.startup.finish(start);
        let state = journal.state();
        match outcome {
            // A kill came first, or a later start: this one has no session any more.
            Ok(opened) if state.start != start || state.status != Status::Starting => {
                self.startup.set_ending(AgentLink::new(start, opened).end().0);
            }
            Ok(opened) => self.connect(start, opened, journal, clients),
            Err(failure) => {
                let cause = failure.cause;
                let exit_code = failure.exit_code;
                let message = failure.to_string().into();
                let is_awaited = self.startup.is_awaited();
                journal.input(
                    Input::Agent(AgentInput::StartFailed {
                        start,
                        cause,
                        is_awaited,
                        exit_code,
                        message,
                    }),
                    None,
                );
                // Callers that wait for the agent wait on while it is tried again.
                if journal.state().status != Status::Starting {
                    self.pending.refuse_all(&failure);
                    self.startup.answer(Err(failure), journal);
                }
            }
        }
    }

    fn connect(
        &mut self,
        start: StartNo,
        mut opened: OpenedAgent,
        journal: &mut Journal,
        clients: &mut Clients,
    ) {
        let early = std::mem::take(&mut opened.early);
        let settings = std::mem::take(&mut opened.settings);
        let traits = opened.traits;
        let answer = opened.answer.clone();
        let agent_session = opened.agent_session.as_str().into();
        let link = AgentLink::new(start, opened);
        // Events so far are no business of this agent.
        log_ledger_fault(link.ledger().lock().note_line(LineNote::Effect(journal.head()), 0));
        journal.follow_output(Some(link.ledger().clone()), link.line_end());
        self.link_up(link, journal);
        self.transcript = TerminalTranscript::default();
        while let Some((forward, passed_on)) = self.pending.next_before_prompt() {
            self.pass_on(forward, journal, clients);
            let _ = passed_on.send(Ok(()));
        }
        journal.input(
            Input::Agent(AgentInput::Started {
                start,
                agent_session,
                traits,
                answer: answer.clone(),
            }),
            None,
        );
        journal.act_later(Act::KeepAgent);
        journal.act_later(Act::PassOnPending);
        let seq = journal.head();
        self.startup.answer(Ok(Started { seq, answer }), journal);
        for (fault, detail) in early.faults {
            self.fault(fault, detail, journal);
        }
        for frame in early.frames {
            if let Some(link) = &mut self.link {
                let message = link.parse_line(&frame, &mut self.parser);
                self.take_in(message, journal, clients);
            }
        }
        self.settings.take_opened(&settings, journal);
        // Frames that came right behind the answer are in the reader already: no further wake
        // announces them.
        self.take_lines(journal, clients);
    }

    fn link_up(&mut self, mut link: AgentLink, journal: &Journal) {
        if !link.has_ended() {
            self.services.equip(&journal.state().origin, link.process().pid());
        }
        self.context.shared.set_keeper(link.process().keeper_pid());
        self.link = Some(link);
    }

    /// Ends the agent of a start, whether it is up or not.
    pub(super) fn stop(&mut self, start: StartNo, journal: &mut Journal, clients: &mut Clients) {
        self.startup.abort(start);
        self.stop_awaited(start);
        if self.link.as_ref().is_some_and(|link| link.start() == start) {
            self.end(journal, clients);
        }
        self.fail_start(StartFailure::new("the session was ended while its agent was starting"));
    }

    /// Tells everyone who waits for the agent that it will not be up.
    pub(super) fn fail_start(&mut self, failure: StartFailure) {
        self.pending.refuse_all(&failure);
        self.startup.fail(failure);
    }

    pub(super) fn abort_start(&mut self) {
        self.startup.abort_any();
    }

    fn end(&mut self, journal: &mut Journal, clients: &mut Clients) {
        let Some(link) = self.link.take() else { return };
        self.context.shared.set_keeper(0);
        journal.follow_output(None, 0);
        let unanswered = if self.deletes {
            let (deletion, unanswered) = link.end_and_delete();
            self.deletion = Some(deletion);
            unanswered
        } else {
            let (ending, unanswered) = link.end();
            self.startup.set_ending(ending);
            unanswered
        };
        self.settle(unanswered, journal, clients);
    }

    /// Ends the agent, and waits until its tree is gone. Its clients are not told: the host stops.
    pub(super) async fn end_for_shutdown(&mut self) {
        self.end_awaited_tree();
        self.leave_ended();
        if let Some(link) = self.link.take() {
            self.startup.set_ending(link.end().0);
        }
        self.startup.wait_for_end().await;
    }

    /// Has the agent delete its own copy of the session when it is ended.
    pub(super) fn delete_at_end(&mut self) {
        self.deletes = true;
    }

    /// Ends the agent, and waits until its tree is gone. Returns the fate of its copy of the
    /// session: deleted on the process that ran, else on another one.
    pub(super) async fn end_for_deletion(
        &mut self,
        journal: &mut Journal,
        clients: &mut Clients,
    ) -> AgentDelete {
        self.end_awaited_tree();
        self.end(journal, clients);
        self.startup.wait_for_end().await;
        match self.deletion.take() {
            Some(deletion) => deletion.await.unwrap_or(AgentDelete::Failed),
            None => {
                self.context
                    .host
                    .delete_agent_copy(&self.context.shared.log_id, journal.state())
                    .await
            }
        }
    }

    /// Ends an agent whose session is not decided on any more.
    pub(super) fn abandon(&mut self) {
        self.end_awaited_tree();
        self.leave_ended();
        if let Some(link) = self.link.take() {
            link.end();
        }
    }

    /// Leaves the output of an agent that has ended without a host to the next one: the end of the
    /// session may not be in the log.
    fn leave_ended(&mut self) {
        drop(self.link.take_if(|link| link.has_no_keeper()));
    }

    /// The agent closed its output: whatever it does now, it is of no use. Its tree is ended and
    /// awaited.
    pub(super) fn lose(&mut self, journal: &mut Journal, clients: &mut Clients) {
        let Some(mut link) = self.link.take() else { return };
        self.context.shared.set_keeper(0);
        let remainder = link.remainder_bytes();
        if remainder > 0 {
            let detail = format!("the output ended in the middle of a line of {remainder} bytes");
            journal.input(
                Input::Agent(AgentInput::Faulted {
                    fault: Fault::Malformed,
                    detail: detail.into(),
                }),
                None,
            );
        }
        self.record_terminals(None, journal);
        let commands = self.context.commands.clone();
        let start = link.start();
        let (gone, unanswered) = link.bury();
        self.settle(unanswered, journal, clients);
        let watch = async move {
            let (exit, stderr, process) = gone.await;
            let _ = commands.send(Command::AgentGone { start, exit, stderr, process }).await;
        };
        self.startup.set_ending(tokio::spawn(watch.in_current_span()));
    }

    /// Ends an agent whose output cannot be read any further. Output that its keeper has left is
    /// kept for a person to look at.
    pub(super) fn lose_unreadable(
        &mut self,
        error: &io::Error,
        journal: &mut Journal,
        clients: &mut Clients,
    ) {
        let Some(link) = &mut self.link else { return };
        tracing::error!(session = %self.context.shared.id, %error, "the output of an agent cannot be read");
        if link.has_no_keeper() {
            link.process().set_output_aside();
        }
        let detail = format!("the rest of the output cannot be read: {error}").into();
        journal.input(Input::Agent(AgentInput::Faulted { fault: Fault::Malformed, detail }), None);
        self.lose(journal, clients);
    }

    /// Settles everything that the agent has left open: the clients' unanswered requests get an
    /// error, and the agent's requests to clients are withdrawn.
    fn settle(&mut self, unanswered: Vec<Forwarded>, journal: &Journal, clients: &mut Clients) {
        self.services.close();
        for to in unanswered {
            self.tell_gone(&to, journal, clients);
        }
        clients.withdraw_all(journal.head());
    }

    /// Carries out a kill or a cancel although the log cannot be written and will not mention it.
    /// Returns a description of the action; `None` if it did nothing.
    pub(super) fn obey_unwritten(&mut self, input: &Input) -> Option<&'static str> {
        let is_forced = matches!(input, Input::Client(ClientInput::Interrupt { force: true, .. }));
        let ends_agent =
            is_forced || matches!(input, Input::Lifecycle(LifecycleInput::Kill { .. }));
        if ends_agent && self.end_awaited_tree() {
            return Some("the agent was ended");
        }
        let link = self.link.as_mut()?;
        if ends_agent {
            link.process().request_end();
            return Some("the agent was ended");
        }
        matches!(input, Input::Client(ClientInput::Cancel { .. } | ClientInput::Interrupt { .. }))
            .then(|| {
                self.send_cancel(None);
                "the agent was told to end its turn"
            })
    }
}
