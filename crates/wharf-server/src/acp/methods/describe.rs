//! `session/set_title`, `session/archive` and `session/unarchive`: a session's description, as
//! clients set it (rule 14.9).

use serde_json::json;
use wharf_api::{SessionInfo, SessionPatch};
use wharf_json::Json;

use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, unreadable_params};
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::use_cases;

/// Gives the session a title, or with null takes the client's own away. The answer has the title
/// that is shown now.
pub(super) async fn set_title(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let params = read_params(&request)?;
    let title = match params.last_member("title") {
        Some(title) if title.raw() == "null" => None,
        Some(title) => Some(
            title
                .text()
                .ok_or_else(|| RpcError::params("title: is neither a text nor null"))?
                .into_owned(),
        ),
        None => return Err(RpcError::params("title: is missing; null takes it away")),
    };
    let patch = SessionPatch { title: Some(title), ..SessionPatch::default() };
    let session = change(connection, &request, patch).await?;
    Ok(Some(request.respond(&json!({ "title": session.title }))))
}

/// Puts the session into the archive, or takes it out. Its agent is left alone, and its clients
/// stay (rule 14.9).
///
/// A client that knows an earlier form of `session/archive` sends `archived: false` with it to get
/// the session back. It is refused instead of archiving the session.
pub(super) async fn archive_session(
    connection: &Connection,
    request: ClientRequest<'_>,
    archived: bool,
) -> Outcome {
    let wish = read_params(&request)?.last_member("archived").and_then(Json::bool);
    if wish.is_some_and(|wish| wish != archived) {
        return Err(RpcError::params(
            "archived: session/archive archives; session/unarchive gets a session back",
        ));
    }
    let patch = SessionPatch { archived: Some(archived), ..SessionPatch::default() };
    change(connection, &request, patch).await?;
    Ok(Some(request.respond(&json!({}))))
}

fn read_params<'a>(request: &ClientRequest<'a>) -> Result<Json<'a>, RpcError> {
    let params = Json::parse(request.frame)
        .and_then(|frame| frame.at(&["params"]))
        .map_err(unreadable_params)?;
    params.ok_or_else(|| RpcError::params("params: are missing"))
}

async fn change(
    connection: &Connection,
    request: &ClientRequest<'_>,
    patch: SessionPatch,
) -> Result<SessionInfo, RpcError> {
    let session = request.session()?;
    Ok(use_cases::change_session(
        &connection.app,
        &connection.caller_in(&session),
        session.as_str(),
        patch,
    )
    .await?)
}
