//! The way to a session's task. A call returns after its step is in the log.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use wharf_core::{
    AskId, Attachment, CancelScope, ClientId, EndReason, Input, Joined, Member, PromptId, PromptReceipt, Raw, Refusal,
    Reply, Sender, Seq, SessionId, Submission,
};

use super::cursor::Cursor;
use super::shared::Shared;
use super::task::Command;
use crate::descriptor::Descriptor;

/// Why a call did not go through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("{0:?}")]
    Refused(Refusal),
    /// The log cannot take more: nothing was done.
    #[error("the disk is full: prompts are refused until there is space")]
    StorageFull,
    #[error("the log cannot be written: {0}")]
    Storage(String),
    /// The session's task is gone: the host is stopping, or the session was forgotten.
    #[error("the session is gone")]
    Gone,
}

/// What travels past the log to one client: presence and answers that are not facts (rule 1.2).
#[derive(Clone, Debug)]
pub enum Direct {
    Presence { member: Member, connected: bool },
    Frame(Bytes),
}

/// One such message and the event after which it may be delivered.
#[derive(Clone, Debug)]
pub struct LaneMessage {
    pub session: SessionId,
    pub after: Seq,
    pub direct: Direct,
}

/// The bounded way to one connection. If it overflows, the connection is too far gone and is closed.
pub type Lane = mpsc::Sender<LaneMessage>;

/// A cheap clone that talks to the task that owns the session.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::Sender<Command>,
}

impl SessionHandle {
    pub fn id(&self) -> &SessionId {
        &self.shared.id
    }

    /// The state in short, without waking the session.
    pub fn descriptor(&self) -> Arc<Descriptor> {
        self.shared.descriptor()
    }

    /// A reader of everything after `after`.
    pub fn cursor(&self, after: Seq) -> Cursor {
        Cursor::new(Arc::clone(&self.shared), after)
    }

    /// The last event that anyone may see.
    pub fn head(&self) -> Seq {
        *self.shared.head.borrow()
    }

    pub async fn prompt(&self, submission: Submission) -> Result<PromptReceipt, CallError> {
        match self.call(Input::Prompt(submission)).await? {
            Reply::Prompt(receipt) => Ok(receipt),
            other @ (Reply::Done | Reply::Joined(_) | Reply::Cancelled { .. } | Reply::Refused(_)) => {
                Err(unexpected(&other))
            }
        }
    }

    /// Attaches a client; presence of others reaches it by `lane`.
    pub async fn attach(&self, attachment: Attachment, lane: Lane) -> Result<Joined, CallError> {
        let client = attachment.sender.client.clone();
        self.send(Command::Lane { client, lane: Some(lane) }).await?;
        match self.call(Input::Attach(attachment)).await? {
            Reply::Joined(joined) => Ok(*joined),
            other @ (Reply::Done | Reply::Prompt(_) | Reply::Cancelled { .. } | Reply::Refused(_)) => {
                Err(unexpected(&other))
            }
        }
    }

    pub async fn detach(&self, sender: Sender) -> Result<(), CallError> {
        let client = sender.client.clone();
        self.call(Input::Detach { sender }).await?;
        self.send(Command::Lane { client, lane: None }).await
    }

    /// Ends the running turn as far as `scope` allows; true if there was one.
    pub async fn cancel(&self, by: Sender, scope: CancelScope) -> Result<bool, CallError> {
        match self.call(Input::Cancel { by, scope }).await? {
            Reply::Cancelled { was_busy } => Ok(was_busy),
            other @ (Reply::Done | Reply::Prompt(_) | Reply::Joined(_) | Reply::Refused(_)) => Err(unexpected(&other)),
        }
    }

    /// Answers an ask: `option` for a permission, `frame` is the client's response.
    pub async fn answer(&self, ask: AskId, by: Sender, option: Option<Arc<str>>, frame: Raw) -> Result<(), CallError> {
        self.call(Input::Answer { ask, by, option, frame }).await.map(drop)
    }

    /// An error or `cancelled` in answer to an ask.
    pub async fn decline(&self, ask: AskId, by: Sender, frame: Raw) -> Result<(), CallError> {
        self.call(Input::Decline { ask, by, frame }).await.map(drop)
    }

    /// Takes a waiting prompt out of the queue.
    pub async fn remove_prompt(&self, prompt: PromptId, by: Sender) -> Result<(), CallError> {
        self.call(Input::RemovePrompt { prompt, by }).await.map(drop)
    }

    pub async fn kill(&self, reason: EndReason) -> Result<(), CallError> {
        self.call(Input::Kill { reason }).await.map(drop)
    }

    /// Brings an ended session back.
    pub async fn resume(&self) -> Result<(), CallError> {
        self.call(Input::Resume).await.map(drop)
    }

    /// Ends the session because the host stops; returns when its agent's tree is gone.
    pub(crate) async fn shut_down(&self) {
        let (done, wait) = oneshot::channel();
        if self.send(Command::ShutDown { done }).await.is_ok() {
            let _ = wait.await;
        }
    }

    async fn call(&self, input: Input) -> Result<Reply, CallError> {
        let (reply, wait) = oneshot::channel();
        self.send(Command::Input { input: Box::new(input), reply }).await?;
        match wait.await.map_err(|_| CallError::Gone)?? {
            Reply::Refused(refusal) => Err(CallError::Refused(refusal)),
            reply @ (Reply::Done | Reply::Prompt(_) | Reply::Joined(_) | Reply::Cancelled { .. }) => Ok(reply),
        }
    }

    async fn send(&self, command: Command) -> Result<(), CallError> {
        self.commands.send(command).await.map_err(|_| CallError::Gone)
    }
}

fn unexpected(reply: &Reply) -> CallError {
    debug_assert!(false, "the core replied {reply:?}");
    CallError::Gone
}

/// The lanes of the attached clients.
pub(super) type Lanes = std::collections::BTreeMap<ClientId, Lane>;
