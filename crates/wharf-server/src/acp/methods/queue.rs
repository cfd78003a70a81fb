//! `_wharf/queue/*`: the prompts that wait (rule 7.3).

use serde::Deserialize;
use serde_json::{Value, json};
use wharf_api::QueueChange;
use wharf_host::core::{QueuedPrompt, Raw, SessionId};
use wharf_json::Json;

use super::prompt::RequestParams;
use super::{attached_session, controlled_session};
use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, unreadable_params};
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::acp::updates::who;
use crate::use_cases;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueueParams<'a> {
    prompt_id: String,
    #[serde(borrow)]
    prompt: Option<Json<'a>>,
    position: Option<usize>,
}

pub(super) async fn list_queue(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let session = attached_session(connection, request.envelope).await?.handle.id().clone();
    let caller = connection.caller_in(&session);
    let waiting = use_cases::waiting_prompts(&connection.app, &caller, session.as_str()).await?;
    let list_entry = |(position, queued): (usize, &QueuedPrompt)| {
        let frame = wharf_acp::to_value(queued.frame.bytes());
        json!({
            "promptId": queued.prompt.as_str(),
            "position": position,
            "prompt": frame["params"]["prompt"],
            "sentBy": who(&queued.sender),
            "acceptedAt": wharf_host::format_timestamp(queued.accepted_at),
        })
    };
    let prompts: Vec<Value> = waiting.iter().enumerate().map(list_entry).collect();
    Ok(Some(request.respond(&json!({ "prompts": prompts }))))
}

pub(super) async fn remove_queued(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let (session, params) = read_call(connection, request).await?;
    let caller = connection.caller_in(&session);
    use_cases::remove_queued(&connection.app, &caller, session.as_str(), &params.prompt_id).await?;
    Ok(Some(request.respond(&json!({}))))
}

pub(super) async fn update_queued(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let (session, params) = read_call(connection, request).await?;
    let prompt = params
        .prompt
        .ok_or_else(|| RpcError::params("`prompt` is missing: the new content blocks"))?;
    let new = Raw::new(wharf_acp::prompt_request(session.as_str(), prompt))
        .ok_or_else(|| RpcError::params("not one line of UTF-8"))?;
    let caller = connection.caller_in(&session);
    use_cases::replace_queued(&connection.app, &caller, session.as_str(), &params.prompt_id, new)
        .await?;
    Ok(Some(request.respond(&json!({}))))
}

pub(super) async fn move_queued(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let (session, params) = read_call(connection, request).await?;
    let position = params
        .position
        .ok_or_else(|| RpcError::params("`position` is missing: 0 is next"))?;
    let caller = connection.caller_in(&session);
    let change = QueueChange { position: Some(position), ..QueueChange::default() };
    use_cases::change_queued(&connection.app, &caller, session.as_str(), &params.prompt_id, change)
        .await?;
    Ok(Some(request.respond(&json!({}))))
}

/// Returns the session that the request names, attached if it was not (rule 3.5), and the request's
/// parameters.
async fn read_call<'f>(
    connection: &Connection,
    request: ClientRequest<'f>,
) -> Result<(SessionId, QueueParams<'f>), RpcError> {
    let handle = controlled_session(connection, request.envelope).await?;
    let params = wharf_acp::peek::<RequestParams<QueueParams<'_>>>(request.frame)
        .map_err(unreadable_params)?;
    Ok((handle.id().clone(), params.params))
}
