//! `POST /acp`: one message of a client.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tracing::Instrument;
use wharf_acp::{Envelope, FrameKind, ScanError};
use wharf_api::ErrorCode;
use wharf_host::BytePermit;
use wharf_json::rpc::{salvage, salvage_head};

use super::connections::{Connections, HttpConnection};
use super::faults::Fault;
use super::{CONNECTION_ID, SESSION_ID, find, text};
use crate::App;
use crate::acp::AcpQuery;
use crate::acp::errors::RpcError;
use crate::acp::inbound::{self, ClientRequest, without_bom};
use crate::acp::methods::{initialize as initialize_client, settle_malformed};
use crate::auth::Identity;
use crate::body_limit::BodyError;
use crate::client_span::client_span;

pub(crate) async fn post(
    State(app): State<App>,
    Extension(identity): Extension<Identity>,
    Query(query): Query<AcpQuery>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    match take(&app, identity, query, &head.headers, body).await {
        Ok(response) => response,
        Err(fault) => fault.into_response(),
    }
}

async fn take(
    app: &App,
    identity: Identity,
    query: AcpQuery,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    if !is_json(headers) {
        return Err(Fault::new(
            ErrorCode::UNSUPPORTED_MEDIA_TYPE,
            "a message is sent as `Content-Type: application/json`",
        ));
    }
    let (frame, permit) = match app.body_reader.read_message(headers, body).await {
        Ok(read) => read,
        Err((why, head)) => return Err(refuse_unread(app, &identity, headers, (why, head)).await),
    };
    let read = without_bom(frame);
    let frame = match wharf_acp::read_line(read.clone()) {
        Ok(frame) => frame,
        Err(error) => return refuse_malformed(app, &identity, headers, &read, error).await,
    };
    let envelope = match wharf_acp::scan(&frame) {
        Ok(envelope) => envelope,
        Err(error) => return refuse_malformed(app, &identity, headers, &frame, error).await,
    };
    if envelope.kind == FrameKind::Request
        && envelope.method == "initialize"
        && !headers.contains_key(CONNECTION_ID)
    {
        return initialize(app, identity, query, &frame, &envelope).await;
    }
    let http = find(app, &identity, headers)?;
    check_session(headers, &envelope)?;
    if envelope.kind == FrameKind::Request && http.streams.are_unread() {
        return Err(Fault::new(
            ErrorCode::ANSWERS_UNREAD,
            "too many answers wait to be read; open the connection's stream (GET) and read it",
        ));
    }
    receive(http, frame, permit).await;
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Hands the message in before the answer goes out, so that a client that waits for it has its
/// messages in order; to the end, even if the client does not wait.
async fn receive(http: Arc<HttpConnection>, frame: Bytes, permit: BytePermit) {
    let span = client_span(http.connection().client.id());
    let work = async move { inbound::receive(&http.methods, frame, Some(permit)).await };
    let _ = tokio::spawn(work.instrument(span)).await;
}

/// Makes a connection. Its id is in a header, the answer in the body.
async fn initialize(
    app: &App,
    identity: Identity,
    query: AcpQuery,
    frame: &Bytes,
    envelope: &Envelope<'_>,
) -> Result<Response, Fault> {
    let id = envelope.id_bytes(frame);
    let agent = query.agent(app);
    let http = Connections::start(app, identity, agent)?;
    let answer = match initialize_client(
        http.connection(),
        ClientRequest { frame, envelope, id: &id },
    )
    .await
    {
        Ok(answer) => answer.unwrap_or_default(),
        // The connection stays: the client may try again on it.
        Err(error) => error.frame(&id),
    };
    let mut response = json(StatusCode::OK, answer);
    response
        .headers_mut()
        .extend(HeaderValue::from_str(&http.id).map(|id| (CONNECTION_ID, id)));
    Ok(response)
}

/// Where the header names a session, it must be the message's own.
fn check_session(headers: &HeaderMap, envelope: &Envelope<'_>) -> Result<(), Fault> {
    match (text(headers, &SESSION_ID), &envelope.session) {
        (Some(header), Some(session)) if header != session.value => Err(Fault::new(
            ErrorCode::SESSION_MISMATCH,
            "Acp-Session-Id and `params.sessionId` name different sessions",
        )),
        _ => Ok(()),
    }
}

/// Says why a message was not read. An answer that is too large fails the request that its first
/// bytes name.
async fn refuse_unread(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    (why, head): (BodyError, Bytes),
) -> Fault {
    if matches!(why, BodyError::TooLarge(_))
        && let Ok(http) = find(app, identity, headers)
    {
        let detail = Fault::from(why).detail().to_owned();
        settle_malformed(http.connection(), &salvage_head(&without_bom(head)), &detail).await;
    }
    match why {
        BodyError::TooLarge(_) => Fault::from(why).with_legacy_code("too_large"),
        BodyError::Stalled => Fault::from(why).with_legacy_code("stalled"),
        BodyError::CutOff | BodyError::NoRoom => Fault::from(why),
    }
}

/// Refuses a body that is not a message. An answer that it holds counts as failed.
async fn refuse_malformed(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    frame: &[u8],
    error: ScanError,
) -> Result<Response, Fault> {
    let id = match find(app, identity, headers) {
        Ok(http) => settle_malformed(http.connection(), &salvage(frame), &error.to_string()).await,
        Err(_) => Bytes::from_static(b"null"),
    };
    let error = match error {
        ScanError::Batch => {
            return Err(Fault::new(
                ErrorCode::BATCH,
                "batches are not taken: send one message at a time",
            ));
        }
        ScanError::NotMessage(why) => RpcError::invalid_request(why),
        ScanError::NotUtf8 | ScanError::NotJson(_) => RpcError::parse(error.to_string()),
    };
    Ok(json(StatusCode::BAD_REQUEST, error.frame(&id)))
}

fn json(status: StatusCode, body: Bytes) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body)
        .into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = text(headers, &header::CONTENT_TYPE).and_then(|value| value.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}
