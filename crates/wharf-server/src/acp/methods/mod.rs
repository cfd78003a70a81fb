//! The methods of ACP: each translates a message into calls of the session's host, and their
//! results into an answer.

mod answer;
mod attach;
mod describe;
mod end_session;
mod enter;
mod fork_session;
mod forward;
mod initialize;
mod list_sessions;
mod load_session;
mod new_session;
mod prompt;
mod queue;
mod table;

use std::sync::Arc;

use bytes::Bytes;
use wharf_acp::Envelope;
use wharf_host::core::{SessionId, Status};
use wharf_host::{SessionHandle, is_setting_method};

use super::RESERVED_PREFIXES;
use super::attachments::AttachedSession;
use super::connection::Connection;
use super::errors::RpcError;
use super::inbound::{ClientRequest, Methods, Outcome, named_session};
use super::message_order::MessageTurn;
use crate::use_cases;
pub(super) use answer::{settle_malformed, take_response};
pub(super) use attach::{attach_to, turn_seen};
pub(super) use enter::{Arrival, enter_quietly, enter_session, placed_answer};
pub(super) use initialize::initialize;
pub(super) use list_sessions::{ListFilter, list_page};
pub(super) use new_session::{begin_session, create_session};
pub(super) use prompt::{cancelled_request, send_prompt};
pub use table::{AcpMethod, MethodTrait};

/// A plain ACP connection.
#[derive(Debug)]
pub(super) struct AcpMethods {
    connection: Arc<Connection>,
}

impl AcpMethods {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self { connection }
    }
}

impl Methods for AcpMethods {
    fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    fn ordered_in(&self, envelope: &Envelope<'_>) -> Option<SessionId> {
        envelope.session.as_ref().map(|session| SessionId::new(session.value.as_ref()))
    }

    fn may_wait(&self, envelope: &Envelope<'_>) -> bool {
        if let Some(method) = AcpMethod::find(&envelope.method) {
            return method.has(MethodTrait::MayWait);
        }
        if is_reserved(&envelope.method) {
            return false;
        }
        let attached = self
            .ordered_in(envelope)
            .and_then(|session| self.connection.attachments.get(&session));
        attached.is_none_or(|attached| attached.handle.descriptor().status != Status::Running)
    }

    async fn handle(&self, request: ClientRequest<'_>, turn: Option<MessageTurn>) -> Outcome {
        let connection = &self.connection;
        let Some(method) = AcpMethod::find(&request.envelope.method) else {
            return handle_other(connection, request, turn).await;
        };
        match method {
            AcpMethod::Load => load_session::load_session(connection, request, turn).await,
            AcpMethod::Resume => load_session::resume_session(connection, request, turn).await,
            AcpMethod::Attach => attach::attach_session(connection, request, turn).await,
            AcpMethod::Initialize => initialize::initialize(connection, request).await,
            AcpMethod::Authenticate => initialize::authenticate(connection, request).await,
            AcpMethod::Logout => initialize::log_out(connection, request).await,
            AcpMethod::New => begin_session(connection, request, None).await,
            AcpMethod::Fork => {
                let _turn = turn;
                fork_session::fork_session(connection, request).await
            }
            AcpMethod::List => list_sessions::list_sessions(connection, request),
            AcpMethod::Status => list_sessions::tell_status(connection, request),
            AcpMethod::Close => end_session::close_session(connection, request).await,
            AcpMethod::Delete => end_session::delete_session(connection, request).await,
            AcpMethod::Detach => attach::detach_session(connection, request).await,
            AcpMethod::Prompt => prompt::prompt(connection, request).await,
            AcpMethod::SetTitle => describe::set_title(connection, request).await,
            AcpMethod::Archive => describe::archive_session(connection, request, true).await,
            AcpMethod::Unarchive => describe::archive_session(connection, request, false).await,
        }
    }

    async fn notify(&self, frame: &Bytes, envelope: &Envelope<'_>) {
        match envelope.method.as_ref() {
            "session/cancel" => prompt::cancel(&self.connection, frame, envelope).await,
            "$/cancel_request" => prompt::cancel_request(&self.connection, frame).await,
            "session/ready" => {}
            // These are requests without an id. The host drops them: the client would not learn of
            // their end, and no log would record their changes.
            method if AcpMethod::find(method).is_some() || is_setting_method(method) => {}
            method if is_reserved(method) => {}
            _ => forward::forward_notification(&self.connection, frame, envelope).await,
        }
    }
}

/// Opens the session that a message names.
async fn open_session(
    connection: &Connection,
    envelope: &Envelope<'_>,
) -> Result<SessionHandle, RpcError> {
    let session = named_session(envelope)?;
    Ok(use_cases::open_session(&connection.app, &connection.client.caller(), session.as_str())
        .await?)
}

/// Returns the session that a message names, attached if it was not, for clients that may change
/// it.
pub(super) async fn controlled_session(
    connection: &Connection,
    envelope: &Envelope<'_>,
) -> Result<SessionHandle, RpcError> {
    let AttachedSession { handle, .. } = attached_session(connection, envelope).await?;
    connection
        .caller_in(handle.id())
        .may_work_in(&connection.app, handle.id().as_str())?;
    Ok(handle)
}

/// Returns the session that a message names, attached as by `session/resume` if it was not (rule
/// 3.5).
async fn attached_session(
    connection: &Connection,
    envelope: &Envelope<'_>,
) -> Result<AttachedSession, RpcError> {
    let session = named_session(envelope)?;
    if let Some(attached) = connection.attachments.get(&session) {
        return Ok(attached);
    }
    let handle = open_session(connection, envelope).await?;
    let (join, attached) = enter_quietly(connection, handle, None).await?;
    connection.subscribe_implied(join).await;
    Ok(attached)
}

/// Handles a request that is not in the table: one about the queue, or one for the agent to answer
/// or to refuse (rule 3.10).
async fn handle_other(
    connection: &Arc<Connection>,
    request: ClientRequest<'_>,
    turn: Option<MessageTurn>,
) -> Outcome {
    let is_for_agent = !is_reserved(&request.envelope.method);
    if request.envelope.session.is_some() && is_for_agent {
        return forward::forward_request(connection, request, turn).await;
    }
    let _turn = turn;
    match request.envelope.method.as_ref() {
        "_wharf/queue/list" => queue::list_queue(connection, request).await,
        "_wharf/queue/remove" => queue::remove_queued(connection, request).await,
        "_wharf/queue/update" => queue::update_queued(connection, request).await,
        "_wharf/queue/move" => queue::move_queued(connection, request).await,
        _ if is_for_agent => initialize::ask_agent(connection, request).await,
        method => Err(RpcError::unknown_method(method)),
    }
}

/// Returns true if only Wharf answers methods of this kind.
fn is_reserved(method: &str) -> bool {
    RESERVED_PREFIXES.iter().any(|prefix| method.starts_with(prefix))
}
