//! `_wharf/queue/*`: the prompts that wait (rule 7.3).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use wharf_host::core::{PromptId, Raw};
use wharf_host::{SessionHandle, frame};
use wharf_json::Json;

use super::enter::{attached_session, controlled_session};
use super::prompt::RequestParams;
use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, from_call, unreadable_params};
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::acp::updates::who;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueueParams<'a> {
    prompt_id: String,
    #[serde(borrow)]
    prompt: Option<Json<'a>>,
    position: Option<usize>,
}

impl QueueParams<'_> {
    fn prompt_id(&self) -> PromptId {
        PromptId::new(Arc::<str>::from(self.prompt_id.as_str()))
    }
}

pub(super) async fn list_queue(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let handle = attached_session(connection, request.envelope).await?.handle;
    let queue = handle.queue().await.map_err(|error| from_call(&error, handle.id().as_str()))?;
    let prompts: Vec<Value> = queue
        .iter()
        .enumerate()
        .map(|(position, queued)| {
            let frame = frame::to_value(queued.frame.bytes());
            json!({
                "promptId": queued.prompt.as_str(),
                "position": position,
                "prompt": frame["params"]["prompt"],
                "sentBy": who(&queued.sender),
                "acceptedAt": wharf_host::timestamp(queued.accepted_at),
            })
        })
        .collect();
    Ok(Some(request.respond(&json!({ "prompts": prompts }))))
}

pub(super) async fn remove_queued(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let (handle, params) = read_call(connection, request).await?;
    let done = handle.remove_prompt(params.prompt_id(), connection.sender_in(handle.id())).await;
    done.map_err(|error| from_call(&error, handle.id().as_str()))?;
    Ok(Some(request.respond(&json!({}))))
}

pub(super) async fn update_queued(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let (handle, params) = read_call(connection, request).await?;
    let prompt = params.prompt.ok_or_else(|| RpcError::params("`prompt` is missing: the new content blocks"))?;
    let new = format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"session/prompt","params":{{"sessionId":"{}","prompt":{prompt}}}}}"#,
        handle.id()
    );
    let new = Raw::new(new).ok_or_else(|| RpcError::params("not one line of UTF-8"))?;
    let done = handle.update_prompt(params.prompt_id(), connection.sender_in(handle.id()), new).await;
    done.map_err(|error| from_call(&error, handle.id().as_str()))?;
    Ok(Some(request.respond(&json!({}))))
}

pub(super) async fn move_queued(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let (handle, params) = read_call(connection, request).await?;
    let position = params.position.ok_or_else(|| RpcError::params("`position` is missing: 0 is next"))?;
    let done = handle.move_prompt(params.prompt_id(), connection.sender_in(handle.id()), position).await;
    done.map_err(|error| from_call(&error, handle.id().as_str()))?;
    Ok(Some(request.respond(&json!({}))))
}

async fn read_call<'f>(
    connection: &Connection,
    request: ClientRequest<'f>,
) -> Result<(SessionHandle, QueueParams<'f>), RpcError> {
    let handle = controlled_session(connection, request.envelope).await?;
    let params = frame::peek::<RequestParams<QueueParams<'_>>>(request.frame).map_err(unreadable_params)?;
    Ok((handle, params.params))
}
