//! Effects and replies that wait until the log is far enough (rule 1.4).

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use wharf_core::{Effect, Reply, Seq};
use wharf_store::OnSynced;

use crate::agent::AgentProcess;
use crate::agent::initialize::StartFailure;
use crate::session::agent_calls::AgentAnswer;
use crate::session::command::{ReplyTo, Started, StartedTo, UpTo};
use crate::session::handle::CallError;

/// Something to do once the log is far enough.
#[derive(Debug)]
pub(in crate::session) enum Act {
    /// An effect, with the event that causes it if it is a message to the agent.
    Effect(Effect, Option<Seq>),
    Reply(ReplyTo, Reply),
    Started(StartedTo, Box<Result<Started, StartFailure>>),
    Up(UpTo, Box<Result<(), StartFailure>>),
    /// Hands the agent's answer to the caller that waits for it.
    AnswerCall(oneshot::Sender<AgentAnswer>, AgentAnswer),
    /// Passes on the messages that waited for the agent's start.
    PassOnPending,
    /// Lets the agent outlive the host, now that its start is in the log.
    KeepAgent,
    /// Lets the keeper go, now that the agent's exit is in the log.
    Release(AgentProcess),
}

/// How far the log is synced, or why it can no longer be.
#[derive(Clone, Debug, Default)]
struct Synced {
    upto: Seq,
    failure: Option<Arc<str>>,
}

#[derive(Debug)]
struct Waiting {
    after: Seq,
    /// On disk for good, not only written.
    sync: bool,
    act: Act,
}

/// The acts in their order: no act overtakes another.
#[derive(Debug)]
pub(super) struct ActQueue {
    waiting: VecDeque<Waiting>,
    synced: watch::Sender<Synced>,
    synced_news: watch::Receiver<Synced>,
}

impl ActQueue {
    pub(super) fn new() -> Self {
        let (synced, synced_news) = watch::channel(Synced::default());
        Self { waiting: VecDeque::new(), synced, synced_news }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, after: Seq, sync: bool, act: Act) {
        self.waiting.push_back(Waiting { after, sync, act });
    }

    /// Returns the next act that need not wait any more. The error: a sync has failed.
    pub(super) fn next(&mut self) -> Result<Option<Act>, Arc<str>> {
        let synced = {
            let known = self.synced.borrow();
            if let Some(failure) = &known.failure {
                return Err(Arc::clone(failure));
            }
            known.upto
        };
        let next = self.waiting.pop_front_if(|next| !next.sync || next.after <= synced);
        Ok(next.map(|waiting| waiting.act))
    }

    /// Waits until a sync is done. Returns false if none can be any more.
    pub(super) async fn synced(&mut self) -> bool {
        self.synced_news.changed().await.is_ok()
    }

    /// Returns the way for the log to tell that it is synced.
    pub(super) fn on_synced(&self, observe: impl FnOnce() + Send + 'static) -> OnSynced {
        let synced = self.synced.clone();
        Box::new(move |result| {
            observe();
            synced.send_modify(|known| match result {
                Ok(seq) => known.upto = known.upto.max(Seq(seq)),
                Err(error) => known.failure = Some(error.to_string().into()),
            });
        })
    }

    /// Tells all callers that wait that it will not be done.
    pub(super) fn refuse_all(&mut self, error: &CallError) {
        for waiting in self.waiting.drain(..) {
            match waiting.act {
                Act::Reply(to, _) => drop(to.send(Err(error.clone()))),
                Act::Started(to, _) => drop(to.send(Err(StartFailure::new(error.to_string())))),
                Act::Up(to, _) => drop(to.send(Err(StartFailure::new(error.to_string())))),
                Act::Effect(..)
                | Act::AnswerCall(..)
                | Act::PassOnPending
                | Act::KeepAgent
                | Act::Release(_) => {}
            }
        }
    }
}
