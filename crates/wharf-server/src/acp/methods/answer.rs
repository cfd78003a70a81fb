//! Takes a client's answers to the host's requests: asks of an agent, and requests that the host
//! gave to this client alone.

use bytes::Bytes;
use wharf_acp::Envelope;
use wharf_api::ErrorCode;
use wharf_host::SessionHandle;
use wharf_host::core::{AskId, Raw};
use wharf_json::rpc::{self, Salvaged, code};

use crate::acp::ask_answer::{AskResponse, declined};
use crate::acp::attachments::AttachedSession;
use crate::acp::connection::Connection;
use crate::acp::errors::RpcError;
use crate::acp::pending_requests::{Wanted, What};
use crate::acp::under_way::MAX_ID_BYTES;
use crate::fault::Fault;
use crate::use_cases::{self, AskReply, reply_to_ask};

/// Takes a client's answer to one of our requests.
pub(in crate::acp) async fn take_response(
    connection: &Connection,
    frame: &Bytes,
    envelope: &Envelope<'_>,
) {
    let id = envelope.id_number(frame);
    let Some((request, asked)) = id.and_then(|id| Some((id, connection.requests.answered(id)?)))
    else {
        // Settled already or never asked: dropped, never answered (rule 3.15).
        return;
    };
    let Some(AttachedSession { handle, .. }) = connection.attachments.get(&asked.session) else {
        return;
    };
    if asked.wanted == Wanted::Terminal {
        connection.requests.note_terminal(&asked.session, frame);
    }
    let outcome = match asked.what {
        What::Relay(relay) => answer_relay(connection, &handle, relay, frame.clone()).await,
        What::Ask(ask) => answer_ask(connection, &handle, ask, asked.wanted, frame).await,
    };
    if let Err(fault) = outcome {
        tracing::debug!(client = %connection.client.id(), error = fault.detail(), "an answer was not taken");
        connection.requests.reopen(request, asked);
    }
}

/// Settles what a message that cannot be read names: an answer that was awaited counts as a failed
/// one. Returns the id with which to refuse the message: its own, if it is a request.
pub(in crate::acp) async fn settle_malformed(
    connection: &Connection,
    found: &[Salvaged],
    why: &str,
) -> Bytes {
    let named = found
        .iter()
        .filter(|message| message.may_be_answer())
        .flat_map(Salvaged::id_numbers);
    let mut refused = rpc::refused_id(found);
    for (request, asked) in named.filter_map(|id| Some((id, connection.requests.answered(id)?))) {
        refused = b"null";
        let Some(AttachedSession { handle, .. }) = connection.attachments.get(&asked.session)
        else {
            continue;
        };
        let why = format!("the client's answer could not be read: {why}");
        let outcome = match asked.what {
            What::Relay(relay) => {
                let error =
                    RpcError::new(code::INTERNAL_ERROR, why).frame(request.to_string().as_bytes());
                answer_relay(connection, &handle, relay, error).await
            }
            What::Ask(ask) => decline_invalid(connection, &handle, ask, asked.wanted, &why).await,
        };
        if let Err(fault) = outcome {
            tracing::debug!(client = %connection.client.id(), error = fault.detail(), "an answer was not taken");
        }
    }
    if refused.len() > MAX_ID_BYTES {
        Bytes::from_static(b"null")
    } else {
        Bytes::copy_from_slice(refused)
    }
}

/// Answers a request that was given to this client alone. Other surfaces are given none.
async fn answer_relay(
    connection: &Connection,
    handle: &SessionHandle,
    relay: u64,
    frame: Bytes,
) -> Result<(), Fault> {
    let answered = handle.answer_relay(connection.client.id().clone(), relay, frame).await;
    answered.map_err(|error| use_cases::fault_from_call_error(&error, handle.id().as_str()))
}

/// Answers an ask: a choice settles it, a decline counts only when all have said so (rule 3.7). An
/// answer that is not valid is a decline, and the agent never sees it (rule 12.3).
async fn answer_ask(
    connection: &Connection,
    handle: &SessionHandle,
    ask: AskId,
    wanted: Wanted,
    frame: &Bytes,
) -> Result<(), Fault> {
    let Some(raw) = Raw::new(frame.clone()) else { return Ok(()) };
    let reply = match AskResponse::read(wanted, frame) {
        AskResponse::Option(option) => AskReply::Option(option, raw),
        AskResponse::Form => AskReply::Form(raw),
        AskResponse::Decline => AskReply::Decline(raw),
        AskResponse::Invalid(why) => {
            return decline_invalid(connection, handle, ask, wanted, &why).await;
        }
    };
    let caller = connection.caller_in(handle.id());
    let option =
        if let AskReply::Option(option, _) = &reply { option.clone() } else { String::new() };
    match reply_to_ask(&connection.app, &caller, handle, ask, reply).await {
        Err(fault) if fault.code() == ErrorCode::OPTION_NOT_OFFERED => {
            decline_invalid(
                connection,
                handle,
                ask,
                wanted,
                &format!("option {option:?} was not offered"),
            )
            .await
        }
        answered => answered,
    }
}

/// Counts an answer that is not valid as this client's decline, with the reason in the log.
async fn decline_invalid(
    connection: &Connection,
    handle: &SessionHandle,
    ask: AskId,
    wanted: Wanted,
    why: &str,
) -> Result<(), Fault> {
    let client = connection.client.id();
    tracing::warn!(%client, session = %handle.id(), "an answer is not valid and counts as a decline");
    let Some(answer) = declined(wanted, why) else { return Ok(()) };
    let caller = connection.caller_in(handle.id());
    reply_to_ask(&connection.app, &caller, handle, ask, AskReply::Decline(answer)).await
}
