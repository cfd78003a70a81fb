//! The time until the keeper of an earlier host's agent answers. The session goes on without its
//! agent meanwhile (rule 2.14).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::Instrument;
use wharf_core::{Input, LifecycleInput, StartNo};
use wharf_store::{Log, StoreError};

use super::AgentConnection;
use crate::agent::adoption::{FoundAgent, SilentKeeper, ask_until_answered};
use crate::host::{Takeover, warn_of_put_off_output};
use crate::session::command::Command;
use crate::session::journal::Journal;

/// The pause before an agent is taken over whose session could not do so at once.
const NEXT_TRY_AFTER: Duration = Duration::from_secs(1);

/// A keeper that is asked again and again.
#[derive(Debug)]
pub(super) struct AwaitedKeeper {
    keeper: SilentKeeper,
    asking: JoinHandle<()>,
}

/// Waits until all of a log is on the disk. Returns false if that fails.
async fn sync_log(log: &dyn Log) -> bool {
    let (done, synced) = oneshot::channel();
    let note = move |result: Result<u64, StoreError>| {
        if result.is_ok() {
            let _ = done.send(());
        }
    };
    log.sync(Box::new(note));
    synced.await.is_ok()
}

impl AgentConnection {
    /// Asks the keeper until it answers; the outcome comes back as a command.
    pub(in crate::session) fn await_keeper(&mut self, keeper: SilentKeeper) {
        let shared = &self.context.shared;
        shared.set_keeper(keeper.keeper_pid());
        shared.note_silent_keeper(true);
        let tree = keeper.tree.clone();
        let presence = keeper.presence;
        let records = self.context.host.agents.records().clone();
        let log = Arc::clone(&shared.log);
        let commands = self.context.commands.clone();
        let asking = async move {
            let answer = loop {
                let answer = ask_until_answered(tree.clone(), presence, records.clone()).await;
                // The output on the disk is taken over only when the log is there too.
                if !matches!(answer, Ok(FoundAgent::Ended(_))) || sync_log(&*log).await {
                    break Box::new(answer);
                }
            };
            let _ = commands.send(Command::KeeperAnswered(answer)).await;
        };
        let asking = tokio::spawn(asking.in_current_span());
        self.awaited_keeper = Some(AwaitedKeeper { keeper, asking });
    }

    /// Brings the answer of a keeper again later.
    pub(in crate::session) fn put_off_keeper(&self, answer: Box<io::Result<FoundAgent>>) {
        let commands = self.context.commands.clone();
        tokio::spawn(async move {
            tokio::time::sleep(NEXT_TRY_AFTER).await;
            let _ = commands.send(Command::KeeperAnswered(answer)).await;
        });
    }

    /// Takes the agent of a keeper over that has answered. Returns false if the agent is lost.
    pub(in crate::session) fn take_keeper(
        &mut self,
        answer: io::Result<FoundAgent>,
        journal: &mut Journal,
    ) -> bool {
        // Without one the session was killed meanwhile, and the tree with it.
        let Some(AwaitedKeeper { keeper, asking }) = self.awaited_keeper.take() else {
            return true;
        };
        let shared = &self.context.shared;
        shared.note_silent_keeper(false);
        let host = &self.context.host;
        if matches!(answer, Ok(FoundAgent::Ended(_))) && !keeper.presence.is_gone() {
            // The keeper is gone, and nothing else takes its tree off the records.
            host.agents.records().remove(keeper.keeper_pid());
        }
        let adopted = match answer {
            Ok(answered) => {
                match host.adopt_agent(answered, keeper.token, journal.head(), shared) {
                    Takeover::Done(adopted) => Some(adopted),
                    Takeover::PutOff { tree, why } => {
                        if !keeper.presence.is_gone() {
                            warn_of_put_off_output(&shared.id, &why);
                            let news =
                                LifecycleInput::AgentAdopted { is_idle: false, has_ended: true };
                            journal.input(Input::Lifecycle(news), None);
                        }
                        self.await_keeper(SilentKeeper::of_left_output(
                            tree,
                            keeper.presence.tries() + 1,
                        ));
                        return true;
                    }
                    Takeover::Failed => None,
                }
            }
            Err(error) => {
                tracing::warn!(keeper = keeper.keeper_pid(), %error, "an agent cannot be taken over and is ended");
                self.awaited_keeper = Some(AwaitedKeeper { keeper, asking });
                self.end_awaited_tree();
                None
            }
        };
        let Some(adopted) = adopted else {
            self.context.shared.set_keeper(0);
            return false;
        };
        let has_ended = adopted.has_ended;
        // The keeper knows whether a turn runs, if the log does not tell it any more.
        let is_idle = self.context.shared.has_losses() && !adopted.turn_status.is_running;
        self.adopt(*adopted, journal);
        journal.input(Input::Lifecycle(LifecycleInput::AgentAdopted { is_idle, has_ended }), None);
        true
    }

    /// Ends the agent of this start if its keeper has not answered yet.
    pub(super) fn stop_awaited(&mut self, start: StartNo) {
        if self
            .awaited_keeper
            .as_ref()
            .is_some_and(|awaited| awaited.keeper.tree.kept.start == start.0)
        {
            self.end_awaited_tree();
        }
    }

    /// Ends the tree of a keeper that has not answered yet. Returns false if there is none.
    pub(super) fn end_awaited_tree(&mut self) -> bool {
        let Some(AwaitedKeeper { keeper, asking }) = self.awaited_keeper.take() else {
            return false;
        };
        asking.abort();
        self.context.shared.set_keeper(0);
        self.context.shared.note_silent_keeper(false);
        let records = self.context.host.agents.records().clone();
        let ending = async move {
            let _ = tokio::task::spawn_blocking(move || keeper.end_tree(&records)).await;
        };
        self.startup.set_ending(tokio::spawn(ending.in_current_span()));
        true
    }

    /// Returns true while the output that a keeper has left cannot be taken in.
    pub(super) fn awaits_left_output(&self) -> bool {
        self.awaited_keeper
            .as_ref()
            .is_some_and(|awaited| awaited.keeper.presence.is_gone())
    }

    /// Leaves the agent of a keeper that has not answered yet to the next host. Returns false if
    /// there is none.
    pub(super) fn leave_awaited(&mut self) -> bool {
        let awaited = self.awaited_keeper.take();
        awaited.inspect(|awaited| awaited.asking.abort()).is_some()
    }
}
