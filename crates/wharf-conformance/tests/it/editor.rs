//! A client made with the SDK as its documentation shows it, with a record of everything that it
//! receives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, InitializeRequest, InitializeResponse, ListSessionsRequest,
    LoadSessionRequest, LoadSessionResponse, NewSessionRequest, NewSessionResponse,
    PermissionOptionKind, PromptRequest, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, ResumeSessionRequest, ResumeSessionResponse,
    SelectedPermissionOutcome, SessionId, SessionInfo, SessionNotification, SessionUpdate,
    StopReason,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, DynConnectTo, Error, Handled, JsonRpcRequest, UntypedMessage,
    on_receive_notification, on_receive_request,
};
use anyhow::{Context, Result, ensure};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wharf_testkit::WAIT_LIMIT;

/// The messages that reached the client's handlers, in order.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) updates: Vec<SessionNotification>,
    pub(crate) asks: Vec<RequestPermissionRequest>,
    /// The number of asks that the agent has withdrawn.
    pub(crate) withdrawn: usize,
    /// The number of notifications, understood or not, except `$/cancel_request`.
    notifications: usize,
}

/// A transport of the SDK to a host.
pub(crate) type HostTransport = DynConnectTo<Client>;

/// One connection of the SDK.
pub(crate) struct Editor {
    connection: ConnectionTo<Agent>,
    shared: Shared,
    leave: oneshot::Sender<()>,
    driver: JoinHandle<Result<(), Error>>,
}

#[derive(Clone)]
struct Shared {
    seen: Arc<watch::Sender<Seen>>,
    /// True if permissions are granted at once; false if they are left to another client.
    grants: Arc<AtomicBool>,
}

impl Editor {
    pub(crate) async fn connect(transport: HostTransport) -> Result<Self> {
        let shared = Shared {
            seen: Arc::default(),
            grants: Arc::new(AtomicBool::new(true)),
        };
        let (connected, connection) = oneshot::channel();
        let (leave, left) = oneshot::channel();
        let driver = tokio::spawn(drive_connection(transport, shared.clone(), connected, left));
        match timeout(WAIT_LIMIT, connection).await.context("the transport does not start")? {
            Ok(connection) => Ok(Self { connection, shared, leave, driver }),
            Err(_) => {
                driver.await??;
                anyhow::bail!("the transport ended at once")
            }
        }
    }

    /// Closes the connection as the SDK does. Fails if the SDK did not understand a received
    /// message.
    pub(crate) async fn leave(self) -> Result<()> {
        let _ = self.leave.send(());
        timeout(WAIT_LIMIT, self.driver)
            .await
            .context("the transport does not end")???;
        let seen = self.shared.seen.borrow();
        ensure!(
            seen.notifications == seen.updates.len(),
            "{} unknown notifications",
            seen.notifications
        );
        Ok(())
    }

    pub(crate) fn leave_asks_to_others(&self) {
        self.shared.grants.store(false, Ordering::Relaxed);
    }

    pub(crate) async fn call_method<R: JsonRpcRequest>(&self, request: R) -> Result<R::Response> {
        let method = request.method().to_owned();
        let answer = timeout(WAIT_LIMIT, self.connection.send_request(request).block_task()).await;
        answer
            .with_context(|| format!("no answer to {method}"))?
            .with_context(|| format!("{method} was refused"))
    }

    pub(crate) async fn initialize(&self) -> Result<InitializeResponse> {
        self.call_method(InitializeRequest::new(ProtocolVersion::V1)).await
    }

    pub(crate) async fn open_session(&self, cwd: &std::path::Path) -> Result<NewSessionResponse> {
        self.call_method(NewSessionRequest::new(cwd)).await
    }

    pub(crate) async fn load_session(
        &self,
        session: &SessionId,
        cwd: &std::path::Path,
    ) -> Result<LoadSessionResponse> {
        self.call_method(LoadSessionRequest::new(session.clone(), cwd)).await
    }

    pub(crate) async fn resume_session(
        &self,
        session: &SessionId,
        cwd: &std::path::Path,
    ) -> Result<ResumeSessionResponse> {
        self.call_method(ResumeSessionRequest::new(session.clone(), cwd)).await
    }

    /// Returns all pages of `session/list`.
    pub(crate) async fn list_sessions(&self) -> Result<Vec<SessionInfo>> {
        let mut page = self.call_method(ListSessionsRequest::new()).await?;
        let mut sessions = page.sessions;
        while let Some(cursor) = page.next_cursor {
            page = self.call_method(ListSessionsRequest::new().cursor(cursor)).await?;
            sessions.append(&mut page.sessions);
        }
        Ok(sessions)
    }

    pub(crate) async fn send_prompt(&self, session: &SessionId, text: &str) -> Result<StopReason> {
        let prompt = vec![ContentBlock::from(text)];
        Ok(self.call_method(PromptRequest::new(session.clone(), prompt)).await?.stop_reason)
    }

    pub(crate) fn cancel_turn(&self, session: &SessionId) -> Result<()> {
        Ok(self.connection.send_notification(CancelNotification::new(session.clone()))?)
    }

    /// Waits until the received messages match.
    pub(crate) async fn wait_until(
        &self,
        what: &str,
        fits: impl FnMut(&Seen) -> bool,
    ) -> Result<()> {
        let mut seen = self.shared.seen.subscribe();
        let found = timeout(WAIT_LIMIT, seen.wait_for(fits)).await.map(drop);
        found.with_context(|| format!("no {what}; seen: {:#?}", self.shared.seen.borrow()))
    }

    /// Waits until the agent has sent this text in a chunk of its own.
    pub(crate) async fn wait_until_text(&self, text: &str) -> Result<()> {
        self.wait_until(text, |seen| {
            seen.updates.iter().filter_map(chunk_text).any(|said| said == text)
        })
        .await
    }

    /// Returns the agent's text so far, one line per chunk.
    pub(crate) fn chunk_texts(&self) -> Vec<String> {
        self.shared
            .seen
            .borrow()
            .updates
            .iter()
            .filter_map(chunk_text)
            .map(str::to_owned)
            .collect()
    }

    /// Returns the prompts that this client received: those of others and, in a replay, all.
    pub(crate) fn prompt_texts(&self) -> Vec<String> {
        let seen = self.shared.seen.borrow();
        let shown = seen.updates.iter().filter_map(|told| match &told.update {
            SessionUpdate::UserMessageChunk(chunk) => text_of(&chunk.content),
            _ => None,
        });
        shown.map(str::to_owned).collect()
    }

    pub(crate) fn has_update(&self, fits: impl FnMut(&SessionUpdate) -> bool) -> bool {
        self.shared.seen.borrow().updates.iter().map(|told| &told.update).any(fits)
    }

    /// Returns true if every update so far was about this session.
    pub(crate) fn heard_only_of(&self, session: &SessionId) -> bool {
        self.shared.seen.borrow().updates.iter().all(|told| told.session_id == *session)
    }
}

fn chunk_text(told: &SessionNotification) -> Option<&str> {
    match &told.update {
        SessionUpdate::AgentMessageChunk(chunk) => text_of(&chunk.content),
        _ => None,
    }
}

fn text_of(content: &ContentBlock) -> Option<&str> {
    match content {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}

async fn drive_connection(
    transport: HostTransport,
    shared: Shared,
    connected: oneshot::Sender<ConnectionTo<Agent>>,
    left: oneshot::Receiver<()>,
) -> Result<(), Error> {
    let (counting, telling) = (Arc::clone(&shared.seen), Arc::clone(&shared.seen));
    Client
        .v1()
        .on_receive_notification(
            async move |message: UntypedMessage, agent| {
                if message.method() != "$/cancel_request" {
                    counting.send_modify(|seen| seen.notifications += 1);
                }
                Ok(Handled::No { message: (message, agent), retry: false })
            },
            on_receive_notification!(),
        )
        .on_receive_notification(
            async move |told: SessionNotification, _agent| {
                telling.send_modify(|seen| seen.updates.push(told));
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |ask: RequestPermissionRequest, responder, agent| {
                shared.answer_permission(ask, responder, &agent)
            },
            on_receive_request!(),
        )
        .connect_with(transport, async move |agent: ConnectionTo<Agent>| {
            let _ = connected.send(agent);
            let _ = left.await;
            Ok(())
        })
        .await
}

impl Shared {
    fn answer_permission(
        &self,
        ask: RequestPermissionRequest,
        responder: Responder<RequestPermissionResponse>,
        agent: &ConnectionTo<Agent>,
    ) -> Result<(), Error> {
        let granted =
            ask.options.iter().find(|option| option.kind == PermissionOptionKind::AllowOnce);
        let granted =
            granted.map(|option| SelectedPermissionOutcome::new(option.option_id.clone()));
        self.seen.send_modify(|seen| seen.asks.push(ask));
        if let Some(selected) = granted.filter(|_| self.grants.load(Ordering::Relaxed)) {
            return responder.respond(RequestPermissionResponse::new(
                RequestPermissionOutcome::Selected(selected),
            ));
        }
        let seen = Arc::clone(&self.seen);
        agent.spawn(async move {
            responder.cancellation().cancelled().await;
            seen.send_modify(|seen| seen.withdrawn += 1);
            // The SDK requires an answer to every request; this one comes too late to count.
            responder.respond(RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled))
        })
    }
}
