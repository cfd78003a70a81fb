//! The way to a session's task. A call returns after its step is in the log.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use wharf_core::{
    AgentSetting, AgentTraits, Ask, AskId, Attachment, CancelScope, ClientId, ClientInput,
    Description, EndReason, EventId, Input, Joined, Latest, LifecycleInput, Member, PromptId,
    PromptReceipt, QueuedPrompt, Raw, Refusal, Reply, Sender, Seq, SessionId, SettingsLoss, State,
    Submission, Turn, WakeCause,
};

use super::agent_connection::AgentDelete;
use super::attached::Transport;
use super::close_signal::CloseSignal;
use super::command::{Command, DeleteCondition};
use super::cursor::{Cursor, ReadError};
use super::shared::Shared;
use crate::agent::initialize::StartFailure;
use crate::descriptor::Descriptor;
use crate::host::StartPriority;
use crate::limits::{ByteBudget, BytePermit};
use crate::settings::ReturnTerms;

/// Why a call did not go through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("{0:?}")]
    Refused(Refusal),
    /// The log cannot take more, so the call has changed nothing.
    #[error("the disk is full: prompts are refused until there is space")]
    StorageFull,
    #[error("the log cannot be written: {0}")]
    Storage(String),
    /// It has been done, which is not in the log.
    #[error(
        "{done}, but the log cannot be written now (the disk is full or read-only) and does not say who wanted it; repeat this when there is space"
    )]
    NotWritten { done: &'static str },
    /// The session's own log may not grow further, so the call has changed nothing.
    #[error(
        "the session's log has {limit} bytes, which is as much as it may have (limits.log); start a new session"
    )]
    LogFull { limit: usize },
    /// The session would have to start, but all permits are taken. The call has changed nothing.
    #[error("{limit} sessions are running (limits.sessions); end one first")]
    TooMany { limit: usize },
    /// The client has left and could not get the answer. The call has changed nothing.
    #[error("the client left the session before this reached its agent")]
    Left,
    /// The session's task is gone: the host is stopping, or the session was forgotten.
    #[error("the session is gone")]
    Gone,
}

/// A message to one client that is not in the log: presence, and responses that are not facts (rule
/// 1.2).
#[derive(Clone, Debug)]
pub enum Direct {
    Presence {
        member: Member,
        connected: bool,
    },
    /// An answer or a notification as it is.
    Frame(Bytes),
    /// A request of the agent that this client alone is to answer; its id is given by the
    /// connection.
    Request {
        relay: u64,
        frame: Bytes,
    },
    /// That request is settled.
    Withdraw {
        relay: u64,
    },
}

/// One such message and the event after which it may be delivered.
#[derive(Clone, Debug)]
pub struct LaneMessage {
    pub session: SessionId,
    pub after: Seq,
    pub direct: Direct,
    /// Counts a large message until it is delivered.
    pub permit: Option<Arc<BytePermit>>,
}

impl Direct {
    /// The size of what the message carries.
    fn bytes(&self) -> usize {
        match self {
            Self::Frame(frame) | Self::Request { frame, .. } => frame.len(),
            Self::Presence { .. } | Self::Withdraw { .. } => 0,
        }
    }

    /// Takes bytes of the budget for a large message; `Some(None)` for a small message, which is
    /// not counted. Returns `None` if the budget has no room and the client has not taken its
    /// earlier messages.
    pub(super) fn count(
        &self,
        lane: &Lane,
        buffers: &Arc<ByteBudget>,
    ) -> Option<Option<Arc<BytePermit>>> {
        let bytes = self.bytes();
        if bytes <= ByteBudget::UNCOUNTED_BYTES {
            return Some(None);
        }
        let is_taken = lane.capacity() == lane.max_capacity();
        let permit = buffers
            .try_reserve_out(bytes)
            .or_else(|| is_taken.then(|| buffers.charge_out(bytes)))?;
        Some(Some(Arc::new(permit)))
    }
}

/// The bounded way to one connection.
pub type Lane = mpsc::Sender<LaneMessage>;

/// Describes how the session reaches a client past the log, and how the client can serve the agent.
#[derive(Clone, Debug)]
pub struct Attendance {
    pub lane: Lane,
    /// Raised when the connection has to close: its lane is full, or the session's log has failed.
    pub close: Arc<CloseSignal>,
    pub serves: Serves,
    pub abilities: Abilities,
    pub transport: Transport,
}

/// Does a client serve files and terminals from now on?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// As before.
    No,
    /// It did on a connection that was lost, and does again unless another client does by now.
    Again,
    /// It created, loaded or resumed the session.
    Yes,
}

/// The capabilities of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    pub read_files: bool,
    pub write_files: bool,
    pub terminals: bool,
    pub forms: bool,
    pub links: bool,
}

impl Abilities {
    pub(crate) const ALL_TOOLS: Self = Self {
        read_files: true,
        write_files: true,
        terminals: true,
        forms: false,
        links: false,
    };
}

impl Attendance {
    pub(super) fn can(&self, method: &str) -> bool {
        match method {
            "fs/read_text_file" => self.abilities.read_files,
            "fs/write_text_file" => self.abilities.write_files,
            "elicitation/create" => self.abilities.links,
            method if method.starts_with("terminal/") => self.abilities.terminals,
            _ => true,
        }
    }
}

/// A message of a client for the agent, which the session does not look into.
#[derive(Clone, Debug)]
pub struct Forward {
    pub client: ClientId,
    pub frame: Bytes,
    /// The request's id as the client spelled it; `None` for a notification.
    pub request: Option<Bytes>,
}

/// Told when a message was passed on to an agent that was starting, or why it was not.
pub type PassedOn = oneshot::Receiver<Result<(), StartFailure>>;

/// The fate of a message for the agent.
#[derive(Debug)]
pub enum Taken {
    /// It was passed on.
    Now,
    /// The agent is starting. The session passes the message on in its order when the agent runs,
    /// and then reports the outcome here.
    Later(PassedOn),
    /// Too many of this connection's messages wait for the start.
    Refused,
}

/// The agent's last statement about itself, as in [`Joined`].
#[derive(Clone, Debug)]
pub struct AgentReport {
    pub answer: Option<Raw>,
    pub answer_at: Seq,
    pub settings: Option<Vec<AgentSetting>>,
    /// Whether the log has lost an event that may have changed the settings.
    pub settings_loss: SettingsLoss,
    pub latest: Latest,
    pub traits: AgentTraits,
    /// The agent's own id of the session.
    pub agent_session: Option<Arc<str>>,
    /// True while the agent works on a prompt.
    pub has_turn: bool,
    /// The last event of the log at that moment.
    pub head: Seq,
}

impl AgentReport {
    pub(super) fn of(state: &State) -> Self {
        let answer = state.answer.clone();
        let answer_at = state.answer_at;
        Self {
            answer,
            answer_at,
            settings: state.settings.clone(),
            settings_loss: state.settings_loss,
            latest: state.latest.clone(),
            traits: state.traits,
            agent_session: state.agent_session.clone(),
            has_turn: !state.turns.is_empty(),
            head: state.head,
        }
    }
}

/// The outcome of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// Was a turn running that is now asked to end?
    pub was_busy: bool,
    /// True if another client's turn was left alone, since a turn of the caller's own ended just
    /// before.
    pub crossed: bool,
}

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

    /// Returns the span of the lines of the host's log that belong to the session.
    pub fn span(&self) -> &tracing::Span {
        &self.shared.span
    }

    /// The state in short, without waking the session.
    pub fn descriptor(&self) -> Arc<Descriptor> {
        self.shared.descriptor()
    }

    /// Returns true if the log holds this event. Another one may have its number if power loss had
    /// cut it off (rule 1.5).
    pub async fn holds_event(&self, id: EventId) -> Result<bool, ReadError> {
        if id.seq == Seq::ZERO || id.seq > self.head() {
            return Ok(false);
        }
        let batch = self.cursor(Seq(id.seq.0 - 1)).next().await?;
        Ok(batch.entries().first().is_some_and(|entry| entry.id() == id))
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
        match self.call(Input::Client(ClientInput::Prompt(submission))).await? {
            Reply::Prompt(receipt) => Ok(receipt),
            other @ (Reply::Done
            | Reply::Joined(_)
            | Reply::Cancelled { .. }
            | Reply::Refused(_)) => Err(unexpected(&other)),
        }
    }

    /// Attaches a client.
    pub async fn attach(
        &self,
        attachment: Attachment,
        attendance: Attendance,
    ) -> Result<Joined, CallError> {
        let client = attachment.sender.client.clone();
        let attend = Command::Attend {
            client: client.clone(),
            attendance: Some(Box::new(attendance)),
        };
        self.send(attend).await?;
        let reply = self.call(Input::Client(ClientInput::Attach(attachment))).await;
        if let Err(CallError::Refused(_)) = reply {
            self.send(Command::Attend { client, attendance: None }).await?;
        }
        match reply? {
            Reply::Joined(joined) => Ok(*joined),
            other @ (Reply::Done
            | Reply::Prompt(_)
            | Reply::Cancelled { .. }
            | Reply::Refused(_)) => Err(unexpected(&other)),
        }
    }

    pub async fn detach(&self, sender: Sender) -> Result<(), CallError> {
        let client = sender.client.clone();
        self.call(Input::Client(ClientInput::Detach { sender })).await.map(drop)?;
        self.send(Command::Attend { client, attendance: None }).await
    }

    /// Ends the caller's prompts, or the running turn as far as `scope` allows.
    pub async fn cancel(&self, by: Sender, scope: CancelScope) -> Result<Cancelled, CallError> {
        self.cancelled(Input::Client(ClientInput::Cancel { by, scope })).await
    }

    /// Ends the running turn, whoever sent its prompt. With `force` the agent is ended too and, if
    /// it can come back, started again.
    pub async fn interrupt(&self, by: Sender, force: bool) -> Result<Cancelled, CallError> {
        self.cancelled(Input::Client(ClientInput::Interrupt { by, force })).await
    }

    /// Runs a queued prompt next and interrupts the running turn for it; with `steer` the agent
    /// gets it in that turn.
    pub async fn send_now(
        &self,
        prompt: PromptId,
        by: Sender,
        steer: bool,
    ) -> Result<Cancelled, CallError> {
        self.cancelled(Input::Client(ClientInput::SendNow { prompt, by, steer })).await
    }

    async fn cancelled(&self, input: Input) -> Result<Cancelled, CallError> {
        match self.call(input).await? {
            Reply::Cancelled { was_busy, crossed } => Ok(Cancelled { was_busy, crossed }),
            other @ (Reply::Done | Reply::Prompt(_) | Reply::Joined(_) | Reply::Refused(_)) => {
                Err(unexpected(&other))
            }
        }
    }

    /// Answers an ask: `option` for a permission, `frame` is the client's response.
    pub async fn answer(
        &self,
        ask: AskId,
        by: Sender,
        option: Option<Arc<str>>,
        frame: Raw,
    ) -> Result<(), CallError> {
        self.call(Input::Client(ClientInput::Answer { ask, by, option, frame }))
            .await
            .map(drop)
    }

    /// An error or `cancelled` in answer to an ask.
    pub async fn decline(&self, ask: AskId, by: Sender, frame: Raw) -> Result<(), CallError> {
        self.call(Input::Client(ClientInput::Decline { ask, by, frame }))
            .await
            .map(drop)
    }

    /// Takes one prompt back: out of the queue, or by cancelling its turn.
    pub async fn cancel_prompt(&self, prompt: PromptId, by: Sender) -> Result<(), CallError> {
        self.call(Input::Client(ClientInput::CancelPrompt { prompt, by, reason: None }))
            .await
            .map(drop)
    }

    /// The same, with the reason that the caller gives. It is recorded as it is: the caller bounds
    /// its length.
    pub async fn cancel_prompt_because(
        &self,
        prompt: PromptId,
        by: Sender,
        reason: Option<Arc<str>>,
    ) -> Result<(), CallError> {
        self.call(Input::Client(ClientInput::CancelPrompt { prompt, by, reason }))
            .await
            .map(drop)
    }

    /// Takes a waiting prompt out of the queue.
    pub async fn remove_prompt(&self, prompt: PromptId, by: Sender) -> Result<(), CallError> {
        self.call(Input::Client(ClientInput::RemovePrompt { prompt, by }))
            .await
            .map(drop)
    }

    pub async fn kill(&self, reason: EndReason) -> Result<(), CallError> {
        self.call(Input::Lifecycle(LifecycleInput::Kill { reason })).await.map(drop)
    }

    /// Ends the agent of an idle session that can come back; refused if it is at work or cannot.
    pub(crate) async fn sleep(&self, reason: EndReason, why: Arc<str>) -> Result<(), CallError> {
        self.call(Input::Lifecycle(LifecycleInput::Sleep { reason, why }))
            .await
            .map(drop)
    }

    /// Brings an ended session back for a caller that is not an ACP client.
    pub async fn resume(&self) -> Result<(), CallError> {
        self.call(Input::Lifecycle(LifecycleInput::Resume)).await.map(drop)
    }

    /// The same, with other settings than those that were in force.
    pub async fn resume_on(&self, terms: ReturnTerms) -> Result<(), CallError> {
        self.come_back_on(None, terms).await
    }

    /// Brings an ended session back because its agent is needed; refused if a user killed it.
    pub async fn wake(&self) -> Result<(), CallError> {
        self.call(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::Caller }))
            .await
            .map(drop)
    }

    /// Brings an ended session back because an attached client needs its agent; refused if a user
    /// killed it.
    pub async fn wake_for(&self, client: ClientId) -> Result<(), CallError> {
        let (reply, wait) = oneshot::channel();
        self.send(Command::WakeFor { client, reply }).await?;
        done(wait.await.map_err(|_| CallError::Gone)??)
    }

    /// The same, with other settings than those that were in force.
    pub async fn wake_on(&self, client: ClientId, terms: ReturnTerms) -> Result<(), CallError> {
        self.come_back_on(Some(client), terms).await
    }

    async fn come_back_on(
        &self,
        client: Option<ClientId>,
        terms: ReturnTerms,
    ) -> Result<(), CallError> {
        let (reply, wait) = oneshot::channel();
        self.send(Command::ComeBackOn { client, terms, reply }).await?;
        done(wait.await.map_err(|_| CallError::Gone)??)
    }

    /// The same for a host that starts: it is less in a hurry than a client.
    pub(crate) async fn come_back(&self, need: StartPriority) -> Result<(), CallError> {
        let (reply, wait) = oneshot::channel();
        self.send(Command::ComeBack { need, reply }).await?;
        done(wait.await.map_err(|_| CallError::Gone)??)
    }

    pub async fn update_prompt(
        &self,
        prompt: PromptId,
        by: Sender,
        frame: Raw,
    ) -> Result<(), CallError> {
        self.call(Input::Client(ClientInput::UpdatePrompt { prompt, by, frame }))
            .await
            .map(drop)
    }

    pub async fn move_prompt(
        &self,
        prompt: PromptId,
        by: Sender,
        position: usize,
    ) -> Result<(), CallError> {
        self.call(Input::Client(ClientInput::MovePrompt { prompt, by, position }))
            .await
            .map(drop)
    }

    /// Sets the session's title, label or archive mark.
    pub async fn describe(&self, description: Description) -> Result<(), CallError> {
        self.call(Input::Client(ClientInput::Describe(description))).await.map(drop)
    }

    /// The prompts that wait, in order.
    pub async fn queue(&self) -> Result<Vec<QueuedPrompt>, CallError> {
        let (reply, wait) = oneshot::channel();
        self.send(Command::Queue { reply }).await?;
        wait.await.map_err(|_| CallError::Gone)
    }

    /// Returns the open asks, the oldest first. The descriptor is at least as new as this answer.
    pub async fn asks(&self) -> Result<Vec<Ask>, CallError> {
        let (reply, wait) = oneshot::channel();
        self.send(Command::Asks { reply }).await?;
        wait.await.map_err(|_| CallError::Gone)
    }

    /// The prompts that the agent works on, in the order in which they began.
    pub async fn turns(&self) -> Result<Vec<Turn>, CallError> {
        let (reply, wait) = oneshot::channel();
        self.send(Command::Turns { reply }).await?;
        wait.await.map_err(|_| CallError::Gone)
    }

    /// Waits while the agent is starting; the error is why it could not.
    pub async fn up(&self) -> Result<(), StartFailure> {
        let (reply, wait) = oneshot::channel();
        let gone = || StartFailure::new("the session is gone");
        self.send(Command::WaitUp { reply }).await.map_err(|_| gone())?;
        wait.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Returns true if this caller is attached as an observer, by this connection or another, and
    /// not as a controller.
    pub async fn is_observed_by(&self, caller: Sender) -> Result<bool, CallError> {
        let (reply, wait) = oneshot::channel();
        self.send(Command::IsObserver { caller: Box::new(caller), reply }).await?;
        wait.await.map_err(|_| CallError::Gone)
    }

    /// Returns the last event that may have changed what [`Self::agent_report`] says of settings
    /// and commands.
    pub fn settings_at(&self) -> Seq {
        self.shared.settings_at()
    }

    /// Returns a number that changes whenever [`Self::clients`] may have changed.
    pub fn presence(&self) -> u64 {
        self.shared.presence()
    }

    /// Returns what the agent last said of itself.
    pub async fn agent_report(&self) -> Result<AgentReport, CallError> {
        let (reply, wait) = oneshot::channel();
        self.send(Command::AgentReport { reply }).await?;
        wait.await.map_err(|_| CallError::Gone)
    }

    /// Passes a message on to the agent; the answer comes by the client's lane, which it must have.
    pub async fn forward(&self, forward: Forward) -> Result<Taken, CallError> {
        let (taken, wait) = oneshot::channel();
        self.send(Command::Forward { forward, taken: Some(taken) }).await?;
        wait.await.map_err(|_| CallError::Left)
    }

    /// Sends the agent a message that does not come from an attached client. The session drops the
    /// answer.
    pub async fn tell_agent(&self, forward: Forward) -> Result<(), CallError> {
        self.send(Command::Forward { forward, taken: None }).await
    }

    /// Takes back a request that was passed on.
    pub async fn cancel_forward(&self, client: ClientId, request: Bytes) -> Result<(), CallError> {
        self.send(Command::CancelForward { client, request }).await
    }

    /// A client's response to a request of the agent that it alone was given.
    pub async fn answer_relay(
        &self,
        client: ClientId,
        relay: u64,
        frame: Bytes,
    ) -> Result<(), CallError> {
        self.send(Command::RelayAnswer { client, relay, frame }).await
    }

    /// Ends the session because the host stops; returns when its agent's tree is gone.
    pub(crate) async fn shut_down(&self) {
        let (done, wait) = oneshot::channel();
        if self.send(Command::ShutDown { done }).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// Leaves the agent to its keeper because the host goes. A session whose agent is not kept is
    /// ended.
    pub(crate) async fn leave(&self) {
        let (done, wait) = oneshot::channel();
        if self.send(Command::Leave { done }).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// Ends the session for good; returns when its agent's tree is gone, with what became of the
    /// agent's own copy.
    pub(crate) async fn delete(&self, condition: DeleteCondition) -> Option<AgentDelete> {
        let (done, wait) = oneshot::channel();
        // If the log is lost, the session's task is gone, and so is its agent. The host then cannot
        // know whether the agent's own copy is left.
        let outcome = match self.send(Command::Delete { condition, done }).await {
            Ok(()) => wait.await.unwrap_or(Some(AgentDelete::Failed))?,
            Err(_) => AgentDelete::Failed,
        };
        self.commands.closed().await;
        Some(outcome)
    }

    /// Waits until the session's task is gone: the session was deleted, or its log failed.
    pub async fn closed(&self) {
        self.commands.closed().await;
    }

    /// Returns true if the session's task is gone.
    pub fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    /// Returns true if the session's task ends, or has ended, only because the host stops.
    pub fn is_stopped(&self) -> bool {
        self.shared.is_stopped()
    }

    /// Has this session's agent delete another session of its adapter. Returns `None` if the
    /// session has no agent.
    pub(crate) async fn delete_other(&self, agent_session: Arc<str>) -> Option<AgentDelete> {
        let (done, wait) = oneshot::channel();
        self.send(Command::DeleteOther { agent_session, done }).await.ok()?;
        wait.await.ok()
    }

    pub(super) async fn call(&self, input: Input) -> Result<Reply, CallError> {
        let (reply, wait) = oneshot::channel();
        self.send(Command::Input { input: Box::new(input), reply }).await?;
        match wait.await.map_err(|_| CallError::Gone)?? {
            Reply::Refused(refusal) => Err(CallError::Refused(refusal)),
            reply @ (Reply::Done
            | Reply::Prompt(_)
            | Reply::Joined(_)
            | Reply::Cancelled { .. }) => Ok(reply),
        }
    }

    pub(super) async fn send(&self, command: Command) -> Result<(), CallError> {
        self.commands.send(command).await.map_err(|_| CallError::Gone)
    }
}

fn done(reply: Reply) -> Result<(), CallError> {
    match reply {
        Reply::Refused(refusal) => Err(CallError::Refused(refusal)),
        Reply::Done | Reply::Prompt(_) | Reply::Joined(_) | Reply::Cancelled { .. } => Ok(()),
    }
}

fn unexpected(reply: &Reply) -> CallError {
    debug_assert!(false, "the core replied {reply:?}");
    CallError::Gone
}
