//! One connection of an ACP client. It owns the parts that its messages need; `inbound` takes the
//! messages in, `methods` handles them. How frames come and go is the transport's: a WebSocket and
//! an HTTP client's streams use it alike.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;
use wharf_acp::Envelope;
use wharf_api::ErrorCode;
use wharf_host::core::{Ask, Attachment, Joined, Peer, Role, Sender, Seq, SessionId};
use wharf_host::{Attendance, CallError, Cursor, Serves, SessionHandle, Transport};

use super::attachments::{AttachedSession, Attachments};
use super::client_profile::ClientProfile;
use super::errors::RpcError;
use super::inbound::Outcome;
use super::message_order::{MessageOrder, MessageTurn};
use super::methods::AcpMethod;
use super::outbound::{Join, Out};
use super::outbox::{ClientOutbox, Outlet};
use super::past::{HistoryTurns, NotInline};
use super::pending_requests::PendingRequests;
use super::unbound_agent::UnboundAgent;
use super::under_way::UnderWay;
use super::view::{TurnSeen, View, ViewExtension};
use crate::App;
use crate::auth::Identity;
use crate::use_cases::Caller;
use crate::visible_sessions::VisibleSessions;

/// The state of a connection. Requests that take long run beside the others and share it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) app: App,
    pub(super) client: ClientProfile,
    /// Requests of both directions that have no answer yet.
    pub(super) requests: Arc<PendingRequests>,
    /// The sessions that the client is attached to.
    pub(super) attachments: Attachments,
    pub(super) outbox: ClientOutbox,
    /// The agent that serves requests without a session.
    pub(super) agent: UnboundAgent,
    /// The messages that wait to be accepted, by session.
    pub(super) order: Arc<MessageOrder>,
    pub(super) under_way: UnderWay,
    pub(super) histories: HistoryTurns,
    options: ConnectionOptions,
}

/// How a connection differs from a plain one. A module that wraps connections sets these.
#[derive(Debug, Default)]
pub(super) struct ConnectionOptions {
    /// The client as the protocol that wraps ACP knows it.
    pub(super) peer: Option<Peer>,
    pub(super) peer_name: Option<Arc<str>>,
    /// The client asked to be an observer, whatever its token allows.
    pub(super) observes: bool,
    /// The client serves neither files nor terminals, whatever it says in `initialize`.
    pub(super) without_tools: bool,
    /// The connection's own request ids come after this number.
    pub(super) request_ids_after: u64,
    /// The close code and reason that follow an answer which says that an agent could not be
    /// started.
    pub(super) close_on_failed_start: Option<(u16, &'static str)>,
    pub(super) extension: Option<Arc<dyn SessionExtension>>,
    pub(super) transport: Transport,
}

/// Adds frames of another protocol to those of ACP, for the sessions that it extends.
pub(super) trait SessionExtension: fmt::Debug + Send + Sync {
    /// Returns true if clients of this connection see the session with this extension.
    fn extends(&self, session: &SessionId) -> bool;

    /// Makes the extension for a view of the session.
    fn extend_view<'a>(&'a self, handle: &'a SessionHandle) -> BoxFuture<'a, ExtendedView>;

    /// Reads the session's past from the cursor to `head`, as the extended view shows it.
    fn read_history(
        &self,
        cursor: Cursor,
        head: Seq,
        limit: usize,
        view: View,
    ) -> BoxFuture<'_, Result<Vec<Value>, NotInline>>;

    /// Returns the open asks as entries of such a history.
    fn list_pending(&self, asks: &[Ask]) -> Vec<Value>;
}

/// The extension of one view, and the frame that precedes everything else of the session.
#[derive(Debug)]
pub(super) struct ExtendedView {
    pub(super) extension: Box<dyn ViewExtension>,
    pub(super) first_frame: Bytes,
}

impl Connection {
    /// `agent` is the slug of the adapter that the connection means.
    pub(super) fn new(
        app: App,
        identity: Identity,
        agent: Arc<str>,
        mut options: ConnectionOptions,
    ) -> (Arc<Self>, Outlet) {
        let client = ClientProfile::new(identity, &mut options);
        let attachments = Attachments::default();
        let (outbox, outlet) =
            ClientOutbox::new(client.id(), attachments.shown(), app.host.buffers());
        let connection = Self {
            requests: Arc::new(PendingRequests::new(options.request_ids_after)),
            attachments,
            outbox,
            agent: UnboundAgent::new(app.host.clone(), agent),
            order: Arc::default(),
            under_way: UnderWay::new(app.host.config().limits.frame.0),
            histories: HistoryTurns::new(&app.histories),
            client,
            options,
            app,
        };
        (Arc::new(connection), outlet)
    }

    /// Returns the sessions that this connection's identity covers.
    pub(super) fn sight(&self) -> VisibleSessions {
        self.app.visible_to(self.client.identity())
    }

    /// Returns the client as others know it in this session: `session/attach` may say more about it
    /// than `initialize`.
    pub(super) fn sender_in(&self, session: &SessionId) -> Sender {
        self.attachments
            .get(session)
            .map_or_else(|| self.client.sender(), |attached| attached.sender)
    }

    /// Returns the client as the use cases know it in this session.
    pub(super) fn caller_in(&self, session: &SessionId) -> Caller {
        let role = self
            .attachments
            .get(session)
            .map_or_else(|| self.client.role(), |attached| attached.role);
        Caller::for_connection(self.client.identity().clone(), role, self.sender_in(session))
    }

    /// Returns the client's attachment to this session; `wake` if a cold session's agent is to be
    /// brought back.
    pub(super) fn attachment(&self, session: &SessionId, wake: bool) -> Attachment {
        let role = self.client.role();
        let elicits = self.client.info().abilities().forms;
        Attachment {
            sender: self.sender_in(session),
            role,
            elicits,
            wake,
            needs_agent: false,
        }
    }

    /// Returns how the client is present in a session; `serves` if it takes over files and
    /// terminals.
    pub(super) fn attendance(&self, serves: bool) -> Attendance {
        let serves =
            if serves && self.client.role() == Role::Controller { Serves::Yes } else { Serves::No };
        self.outbox
            .attendance(serves, self.client.info().abilities(), self.options.transport)
    }

    /// Returns a view of the session as it was when the client came.
    pub(super) fn view_of(&self, handle: &SessionHandle, joined: &Joined, turn: TurnSeen) -> View {
        self.plain_view(handle, joined.head, turn)
            .with_queue(&joined.queued, joined.head)
    }

    /// Returns a view for which the events up to `history` are past.
    pub(super) fn plain_view(&self, handle: &SessionHandle, history: Seq, turn: TurnSeen) -> View {
        View::new(
            handle.id().clone(),
            self.client.wishes(),
            Arc::clone(&self.requests),
            history,
            turn,
        )
    }

    /// Attaches the client to a session. Attaching again replaces the attachment.
    pub(super) async fn attach(
        &self,
        handle: &SessionHandle,
        attachment: Attachment,
        attendance: Attendance,
    ) -> Result<Joined, CallError> {
        self.attachments.attach(handle, attachment, attendance).await
    }

    /// Detaches the client from a session and shows it no longer.
    pub(super) async fn leave(&self, handle: &SessionHandle) {
        self.attachments.detach(handle, self.client.sender(), &self.outbox).await;
    }

    /// The client is gone: its sessions live on without it.
    pub(super) async fn leave_all(&self) {
        self.attachments.detach_all(&self.client.sender()).await;
        // Last: it may be in the middle of a start.
        self.agent.discard().await;
    }

    /// Shows a session from now on.
    pub(super) async fn subscribe(&self, mut join: Join) {
        self.extend(&mut join).await;
        let session = join.view.session().clone();
        self.show(Out::Join(Box::new(join)), &session).await;
    }

    /// The same, after the sessions to which the client came before.
    pub(super) async fn subscribe_in_turn(&self, join: Join, mut showing: MessageTurn) {
        showing.come().await;
        self.subscribe(join).await;
    }

    /// The same because of a message that only implies it: a session that is shown already stays as
    /// it is.
    pub(super) async fn subscribe_implied(&self, mut join: Join) {
        self.extend(&mut join).await;
        let session = join.view.session().clone();
        self.show(Out::Implied(Box::new(join)), &session).await;
    }

    /// Has a session shown, and no longer if the client has left it meanwhile.
    async fn show(&self, join: Out, session: &SessionId) {
        self.outbox.send(join).await;
        if self.attachments.get(session).is_none() {
            self.outbox.send(Out::Leave(session.clone())).await;
        }
    }

    /// Returns the extension with which the client sees this session.
    pub(super) fn extension_of(&self, session: &SessionId) -> Option<&dyn SessionExtension> {
        self.options.extension.as_deref().filter(|extension| extension.extends(session))
    }

    async fn extend(&self, join: &mut Join) {
        let session = join.view.session().clone();
        let Some(extension) = self.extension_of(&session) else { return };
        let Some(AttachedSession { handle, .. }) = self.attachments.get(&session) else { return };
        let ExtendedView { extension, first_frame } = extension.extend_view(&handle).await;
        join.view.extend(extension);
        self.outbox.send_after(&session, first_frame, Seq::ZERO).await;
    }

    /// Answers a request. `Ok(None)`: the answer comes later, by another way.
    pub(super) async fn answer(&self, session: Option<SessionId>, id: &Bytes, outcome: Outcome) {
        let (frame, failed) = match outcome {
            Ok(Some(frame)) => (frame, false),
            Ok(None) => return,
            Err(error) => (error.frame(id), error.tells(ErrorCode::START_FAILED)),
        };
        self.outbox.answer(session, frame).await;
        if let Some((code, reason)) = self.options.close_on_failed_start.filter(|_| failed) {
            self.outbox.close(code, reason).await;
        }
    }

    /// Refuses a request before it is handled.
    pub(super) async fn refuse(&self, id: &Bytes, envelope: &Envelope<'_>, error: RpcError) {
        let outcome = Err(error);
        self.note_refused(envelope, &outcome);
        self.answer(None, id, outcome).await;
    }

    /// Counts a refusal. A method that is not ours may be called anything, so its name is not told.
    pub(super) fn note_refused(&self, envelope: &Envelope<'_>, outcome: &Outcome) {
        let Err(error) = outcome else { return };
        self.app.refusals.add(error.code().to_string());
        let method = AcpMethod::find(&envelope.method).map_or("other", AcpMethod::name);
        let token = self.client.identity().token.as_deref();
        tracing::debug!(client = %self.client.id(), token, method, code = error.code(), "a request was refused");
    }
}

/// Returns when the host stops.
pub(super) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
