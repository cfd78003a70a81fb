//! The starts of a session's agent: the start that is under way, the inputs of the next start, and
//! the callers that wait for it.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tracing::Instrument;
use wharf_core::{Session, StartKind, StartNo, Status};

use super::command::{Command, Started, StartedTo, UpTo};
use super::context::{FirstStart, TaskContext};
use super::handle::Abilities;
use super::journal::{Act, Journal};
use crate::agent::initialize::{StartFailure, launch_and_initialize};
use crate::agent::{self, InitializedAgent};
use crate::host::StartPriority;
use crate::settings::{AgentSettings, ReturnTerms, are_settings_lost, check_terms_after_loss};

#[derive(Debug)]
pub(super) struct Startup {
    under_way: Option<(StartNo, JoinHandle<()>)>,
    /// The last agent on its way out; the next start waits for it.
    ending: Option<JoinHandle<()>>,
    /// An agent that has answered `initialize` already, for the first start.
    prestarted: Option<InitializedAgent>,
    /// How much the next start is needed.
    need: StartPriority,
    /// The start that a caller waits for, and what that caller can do if it is an ACP client.
    wanted: Option<(StartNo, Option<Abilities>)>,
    /// The settings of the next start.
    terms: ReturnTerms,
    waiters: Vec<UpTo>,
    /// Waits for the first start.
    creator: Option<StartedTo>,
    /// A start that fails is not tried again, but told.
    is_awaited: bool,
}

impl Startup {
    pub(super) fn new(first: &mut FirstStart) -> Self {
        Self {
            under_way: None,
            ending: None,
            prestarted: first.spare.take(),
            need: StartPriority::Client,
            wanted: None,
            terms: ReturnTerms::default(),
            waiters: Vec::new(),
            creator: first.started_tx.take(),
            is_awaited: first.caller_waits,
        }
    }

    /// Returns true if the session's creator waits for its agent.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Returns true if no start is under way and no agent is on its way out.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way.is_none() && self.ending.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub(super) fn set_need(&mut self, need: StartPriority) {
        self.need = need;
    }

    pub(super) fn set_terms(&mut self, terms: ReturnTerms) {
        self.terms = terms;
    }

    /// Notes that a caller waits for this start. `abilities` are those of the caller if it is an
    /// ACP client.
    pub(super) fn set_wanted(&mut self, start: StartNo, abilities: Option<Abilities>) {
        self.wanted = Some((start, abilities));
    }

    pub(super) fn set_ending(&mut self, ending: JoinHandle<()>) {
        self.ending = Some(ending);
    }

    /// Waits until the last agent is gone.
    pub(super) async fn wait_for_end(&mut self) {
        if let Some(ending) = self.ending.take() {
            let _ = ending.await;
        }
    }

    /// Starts the agent beside the task; the outcome comes back as a command.
    pub(super) fn begin(
        &mut self,
        start: StartNo,
        how: StartKind,
        session: &Session,
        context: &TaskContext,
    ) {
        let TaskContext { host, shared, commands } = context;
        let host = Arc::clone(host);
        let shared = Arc::clone(shared);
        let commands = commands.clone();
        let ending = self.ending.take();
        let prestarted = self.prestarted.take();
        let origin = session.state().origin.clone();
        let agent_session = match how {
            StartKind::New => None,
            StartKind::Load | StartKind::Resume => session.state().agent_session.as_ref(),
            StartKind::Fork => origin.forked_from.as_ref().map(|source| &source.agent_session),
        };
        let agent_session = agent_session.map(ToString::to_string);
        let mut terms = std::mem::take(&mut self.terms);
        let state = session.state();
        let is_lost = are_settings_lost(state.settings_loss, state);
        let checked = if is_lost { check_terms_after_loss(&mut terms) } else { Ok(()) };
        let wanted = AgentSettings::from_sources(state).on_return(&terms);
        let need = std::mem::replace(&mut self.need, StartPriority::Client);
        let caller = self
            .wanted
            .take_if(|(wanted, _)| *wanted == start)
            .map(|(_, abilities)| abilities);
        let starter = async move {
            // One agent per session, ever: the old tree goes before the new one comes.
            if let Some(ending) = ending {
                let _ = ending.await;
            }
            let permit = host.start_limits.acquire_start(need).await;
            let work = async {
                checked?;
                let log_id = &shared.log_id;
                let mut inputs = host.start_inputs(log_id)?;
                let agent = host.agent(&origin.adapter, inputs.mode.as_deref(), &inputs.options)?;
                shared.rest_for_at_most(agent.idle_limit);
                let mut greeted: InitializedAgent = match prestarted {
                    Some(mut greeted) => {
                        greeted.restart_deadline();
                        greeted
                    }
                    None => {
                        agent.find_program(&inputs.env)?;
                        let launch = host.launch_of(&agent, &origin, &inputs)?;
                        let capabilities = host.capabilities_for_start(log_id, &mut inputs, caller);
                        let cwd = Some(launch.cwd.as_path());
                        let key = host.agents.initialize_cache().key(
                            &agent,
                            &inputs.env,
                            &capabilities,
                            cwd,
                        );
                        let mut greeted = launch_and_initialize(&launch, &capabilities).await?;
                        if let Some(key) = key {
                            host.agents
                                .initialize_cache()
                                .store(key, &greeted.initialize_response)
                                .await;
                        }
                        for frame in &inputs.prelude {
                            greeted.forward_request(frame.bytes()).await?;
                        }
                        greeted
                    }
                };
                if agent.comes_back == Some(false) {
                    greeted.initialize_response.traits.load = false;
                    greeted.initialize_response.traits.resume = false;
                }
                let version = greeted.initialize_response.agent_version();
                greeted.initialize_response.traits.usage =
                    agent.usage.as_ref().map(|usage| usage.meaning_for(version.as_deref()));
                let new_frame = inputs.new_frame;
                let quiet = agent.replay_quiet;
                let opening =
                    agent::SessionOpening { how, new_frame, agent_session, wanted, quiet };
                agent::open_session(greeted, &opening).await
            };
            let outcome = Box::new(permit.hold(work).await);
            host.agents.note_login(&origin.adapter, &outcome);
            let _ = commands.send(Command::AgentUp { start, outcome }).await;
        };
        self.under_way = Some((start, tokio::spawn(starter.in_current_span())));
    }

    /// Notes that a start is over.
    pub(super) fn finish(&mut self, start: StartNo) {
        self.under_way.take_if(|(number, _)| *number == start);
    }

    /// Aborts a start. If the agent's process runs already, it ends when the aborted task drops it.
    pub(super) fn abort(&mut self, start: StartNo) {
        if let Some((_, starter)) = self.under_way.take_if(|(number, _)| *number == start) {
            starter.abort();
        }
    }

    /// Aborts the start that is under way, whichever it is.
    pub(super) fn abort_any(&mut self) {
        if let Some((_, starter)) = self.under_way.take() {
            starter.abort();
        }
    }

    /// Answers a caller once the agent is up or has failed.
    pub(super) fn wait(&mut self, reply: UpTo, session: &Session) {
        match session.state().status {
            Status::Starting => self.waiters.push(reply),
            Status::Running => {
                let _ = reply.send(Ok(()));
            }
            Status::Exited | Status::Killed | Status::Error => {
                let ending = session.state().ending.as_ref();
                let text = ending
                    .and_then(|ending| ending.message.as_deref())
                    .unwrap_or("the session has ended");
                let _ = reply.send(Err(StartFailure::from_log(text)));
            }
        }
    }

    /// Tells all waiting callers of the outcome, once it is in the log.
    pub(super) fn answer(&mut self, outcome: Result<Started, StartFailure>, journal: &mut Journal) {
        let up = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
        for to in self.waiters.drain(..) {
            journal.act_later(Act::Up(to, Box::new(up.clone())));
        }
        if let Some(to) = self.creator.take() {
            journal.act_later(Act::Started(to, Box::new(outcome)));
        }
    }

    /// Tells all waiting callers at once that the agent will not be up.
    pub(super) fn fail(&mut self, failure: StartFailure) {
        for to in self.waiters.drain(..) {
            let _ = to.send(Err(failure.clone()));
        }
        if let Some(to) = self.creator.take() {
            let _ = to.send(Err(failure));
        }
    }
}
