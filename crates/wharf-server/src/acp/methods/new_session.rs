//! `session/new`: a session and its agent.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use wharf_host::Created;
use wharf_host::core::Raw;
use wharf_json::Json;

use super::enter::placed_answer;
use super::prompt::RequestParams;
use crate::acp::answers;
use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, from_call, unreadable_answer, unreadable_params};
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::acp::outbound::Join;
use crate::acp::view::TurnSeen;
use crate::use_cases::{self, NewSession, NotCreated};

#[derive(Deserialize)]
struct NewParams<'a> {
    cwd: String,
    #[serde(rename = "_meta", borrow)]
    meta: Option<Json<'a>>,
}

/// Starts a session, joins it and answers.
pub(in crate::acp) async fn begin_session(
    connection: &Connection,
    request: ClientRequest<'_>,
    name: Option<Arc<str>>,
) -> Outcome {
    let created = create_session(connection, request.frame, name).await?;
    join_created(connection, request, created).await
}

/// Joins a session that was created for this request, and answers.
pub(super) async fn join_created(
    connection: &Connection,
    request: ClientRequest<'_>,
    created: Result<Created, NotCreated>,
) -> Outcome {
    let created = match created {
        Ok(created) => created,
        // The agent's own error goes to the client as it came: it may be asking for a login.
        Err(NotCreated::ByAgent { answer, session, fault }) => {
            let Ok(envelope) = wharf_acp::scan(&answer) else { return Err(fault.into()) };
            use_cases::discard_session(&connection.app, &session).await;
            return Ok(Some(wharf_acp::with_id(&answer, &envelope, request.id)));
        }
        Err(NotCreated::Refused(fault)) => return Err(fault.into()),
    };
    let handle = created.handle;
    let attachment = connection.attachment(handle.id(), false);
    let attendance = connection.attendance(true);
    let attached = connection.attach(&handle, attachment, attendance).await;
    attached.map_err(|error| from_call(&error, handle.id().as_str()))?;
    let answer = answers::new_session(&created.answer, handle.id().as_str(), request.id)
        .map_err(unreadable_answer)?;
    let answer = placed_answer(connection, &handle, created.seq, answer).await;
    // History ends where the agent came up: there were no asks before that, and everything after it
    // is news.
    let view = connection.plain_view(&handle, created.seq, TurnSeen::None);
    let answer = Some((created.seq, connection.outbox.count(answer)));
    let asks = (created.seq, Vec::new());
    let cursor = handle.cursor(created.seq);
    let hold = connection.app.host.config().ready_timeout.to_std();
    connection
        .subscribe(Join { cursor, view, answer, asks, hold, only_news: false })
        .await;
    Ok(None)
}

/// Starts a session and its agent.
pub(in crate::acp) async fn create_session(
    connection: &Connection,
    frame: &Bytes,
    name: Option<Arc<str>>,
) -> Result<Result<Created, NotCreated>, RpcError> {
    let client = &connection.client;
    let caller = connection.client.caller();
    caller.may_change()?;
    let request: RequestParams<NewParams<'_>> = wharf_acp::peek(frame).map_err(|error| {
        RpcError::params(format!("session/new needs `cwd`, an absolute path: {error}"))
    })?;
    let raw = Raw::new(frame.clone()).ok_or_else(|| RpcError::params("not one line of UTF-8"))?;
    let agent = request.params.meta.map(|meta| meta.seek(&["wharf", "agent"])).transpose();
    let adapter = agent
        .map_err(unreadable_params)?
        .flatten()
        .and_then(Json::text)
        .map(Cow::into_owned);
    let cwd = PathBuf::from(request.params.cwd);
    connection.agent.note_cwd(&cwd);
    // The agent that waits is of the connection's adapter; another one's must be started.
    let (agent, logins) = match adapter {
        None => (connection.agent.take_for(&cwd).await, connection.requests.logins()),
        Some(_) => (None, Vec::new()),
    };
    let new = NewSession {
        adapter: adapter.unwrap_or_else(|| connection.agent.adapter().to_string()),
        cwd,
        name,
        frame: raw,
        capabilities: client.info().for_agent(),
        env: client.info().env.as_ref().clone(),
        agent,
        logins,
    };
    Ok(use_cases::create_session(&connection.app, &caller, new).await)
}
