//! A small agent written with the official Rust SDK, to be run behind Wharf.
//!
//! It repeats each prompt word by word. `ask` asks for a permission first, `read PATH` reads a file
//! through the client, `hang` works until it is cancelled.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, ContentBlock, ContentChunk, Implementation,
    InitializeRequest, InitializeResponse, LoadSessionRequest, LoadSessionResponse,
    NewSessionRequest, NewSessionResponse, PermissionOption, PermissionOptionKind, PromptRequest,
    PromptResponse, ReadTextFileRequest, RequestPermissionOutcome, RequestPermissionRequest,
    SessionId, SessionNotification, SessionUpdate, StopReason, ToolCallUpdate,
    ToolCallUpdateFields,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, Error, Result, Stdio, on_receive_notification, on_receive_request,
};
use tokio::sync::Notify;

/// The open sessions, each with the notification for a cancel.
#[derive(Debug, Clone, Default)]
struct Sessions(Arc<Mutex<HashMap<SessionId, Arc<Notify>>>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> SessionId {
        let mut open = self.lock();
        let id = SessionId::new(format!("sdk-{}", open.len() + 1));
        open.insert(id.clone(), Arc::default());
        id
    }

    fn reopen(&self, id: SessionId) {
        self.lock().insert(id, Arc::default());
    }

    fn bell(&self, id: &SessionId) -> Result<Arc<Notify>> {
        self.lock()
            .get(id)
            .cloned()
            .ok_or_else(|| Error::new(-32002, format!("no session {id}")))
    }
}

/// A prompt that is being worked on.
struct Turn {
    session: SessionId,
    client: ConnectionTo<Client>,
    cancelled: Arc<Notify>,
}

impl Turn {
    async fn perform(&self, text: &str) -> Result<StopReason> {
        let (command, rest) = text.split_once(' ').unwrap_or((text, ""));
        match command {
            "hang" => {
                self.say("working")?;
                self.cancelled.notified().await;
                return Ok(StopReason::Cancelled);
            }
            "ask" => {
                let chosen = self.ask().await?;
                self.say(&chosen)?;
            }
            "read" => {
                let request = ReadTextFileRequest::new(self.session.clone(), PathBuf::from(rest));
                let file = self.client.send_request(request).block_task().await?;
                self.say(&file.content)?;
            }
            _ => text.split_inclusive(' ').try_for_each(|word| self.say(word))?,
        }
        Ok(StopReason::EndTurn)
    }

    fn say(&self, text: &str) -> Result<()> {
        let chunk = ContentChunk::new(ContentBlock::from(text.to_owned()));
        let update = SessionUpdate::AgentMessageChunk(chunk);
        self.client
            .send_notification(SessionNotification::new(self.session.clone(), update))
    }

    async fn ask(&self) -> Result<String> {
        let options = vec![
            PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce),
            PermissionOption::new("no", "No", PermissionOptionKind::RejectOnce),
        ];
        let call = ToolCallUpdate::new("call-1", ToolCallUpdateFields::new().title("May I?"));
        let request = RequestPermissionRequest::new(self.session.clone(), call, options);
        let answer = self.client.send_request(request).block_task().await?;
        Ok(match answer.outcome {
            RequestPermissionOutcome::Selected(selected) => {
                format!("chosen: {}", selected.option_id)
            }
            RequestPermissionOutcome::Cancelled => "cancelled".to_owned(),
            // The SDK's enum may grow.
            other => format!("{other:?}"),
        })
    }
}

/// Works outside of the SDK's loop, so that answers and cancels arrive meanwhile.
fn prompt(
    sessions: &Sessions,
    request: PromptRequest,
    responder: Responder<PromptResponse>,
    client: ConnectionTo<Client>,
) -> Result<()> {
    let cancelled = match sessions.bell(&request.session_id) {
        Ok(bell) => bell,
        Err(error) => return responder.respond_with_error(error),
    };
    let text = request.prompt.iter().find_map(|block| {
        if let ContentBlock::Text(text) = block { Some(text.text.clone()) } else { None }
    });
    let turn = Turn {
        session: request.session_id,
        client: client.clone(),
        cancelled,
    };
    client.spawn(async move {
        let stopped = turn.perform(&text.unwrap_or_default()).await;
        responder.respond_with_result(stopped.map(PromptResponse::new))
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    serve(Sessions::default()).await
}

async fn serve(sessions: Sessions) -> Result<()> {
    let loading = sessions.clone();
    let prompting = sessions.clone();
    let cancelling = sessions.clone();
    Agent
        .v1()
        .name("sdk-agent")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _client| {
                responder.respond(
                    InitializeResponse::new(request.protocol_version)
                        .agent_info(Implementation::new("sdk-agent", env!("CARGO_PKG_VERSION")))
                        .agent_capabilities(AgentCapabilities::new().load_session(true)),
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _client| {
                responder.respond(NewSessionResponse::new(sessions.open()))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder, _client| {
                loading.reopen(request.session_id);
                responder.respond(LoadSessionResponse::new())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, client| {
                prompt(&prompting, request, responder, client)
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancel: CancelNotification, _client| {
                cancelling.bell(&cancel.session_id)?.notify_waiters();
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(Stdio::new())
        .await
}
