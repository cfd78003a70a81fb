//! Serves ACP over Streamable HTTP: clients send messages by POST and receive them as server-sent
//! events (rule 3.12).
//!
//! A connection has one stream of its own and one for each session that the client opens one for.
//! Messages of a session wait for its stream; answers do not. Every event has an id, and a reader
//! that names the last one it had in `Last-Event-ID` gets exactly the events after it. For that the
//! host reads the log again and keeps the few messages that are not in the log, up to a bound. It
//! refuses an id from before that bound, or of another log, with 409.

mod body;
mod connections;
mod faults;
mod post;
mod stream;
mod stream_event_id;
mod streams;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use wharf_api::ErrorCode;
use wharf_host::SessionHandle;
use wharf_host::core::{Seq, SessionId};

use super::methods::enter_quietly;
use super::outbound::Out;
use crate::App;
use crate::auth::Identity;
use body::MissedLog;
pub(crate) use connections::Connections;
use connections::HttpConnection;
pub(super) use connections::new_connection_id;
use faults::Fault;
pub(crate) use post::post;
use stream::LogRange;
use stream_event_id::StreamEventId;
use streams::StreamRefused;

pub(super) const CONNECTION_ID: HeaderName = HeaderName::from_static("acp-connection-id");
const SESSION_ID: HeaderName = HeaderName::from_static("acp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENT_STREAM: &str = "text/event-stream";

/// `GET /acp`: opens the connection's stream, or a session's.
pub(super) async fn listen(app: &App, identity: &Identity, headers: &HeaderMap) -> Response {
    open(app, identity, headers).await.unwrap_or_else(Fault::into_response)
}

async fn open(app: &App, identity: &Identity, headers: &HeaderMap) -> Result<Response, Fault> {
    if !accepts_events(headers) {
        return Err(Fault::new(
            ErrorCode::NOT_ACCEPTABLE,
            "a GET opens an event stream: send `Accept: text/event-stream`, or upgrade to a WebSocket",
        ));
    }
    let http = find(app, identity, headers)?;
    let session = text(headers, &SESSION_ID).map(SessionId::new);
    let last = match text(headers, &LAST_EVENT_ID) {
        // A reader that had nothing yet says nothing, or this.
        None | Some("") => None,
        Some(id) => Some(id.parse::<StreamEventId>().map_err(|_| Fault::unknown_event(id))?),
    };
    let body = match (&session, last) {
        (Some(session), Some(last)) => http.open_session_after(session, last).await?,
        (place, last) => http.open(place.clone(), last, None)?,
    };
    let mut response = Response::new(body);
    let set = response.headers_mut();
    set.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    set.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Asks proxies not to collect events.
    set.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    set.extend(HeaderValue::from_str(&http.id).map(|id| (CONNECTION_ID, id)));
    Ok(response)
}

/// `DELETE /acp`: the client leaves. Its sessions live on.
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
) -> Response {
    match find(&app, &identity, &headers) {
        Ok(http) => {
            app.http.end(&http).await;
            StatusCode::ACCEPTED.into_response()
        }
        Err(fault) => fault.into_response(),
    }
}

/// The connection that a request names.
fn find(app: &App, identity: &Identity, headers: &HeaderMap) -> Result<Arc<HttpConnection>, Fault> {
    let id = text(headers, &CONNECTION_ID).ok_or_else(Fault::no_connection_id)?;
    let http = app.http.get(id, identity).ok_or_else(Fault::unknown_connection)?;
    http.streams.touch();
    Ok(http)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let offers = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = offers
        .flat_map(|value| value.split(','))
        .filter_map(|kind| kind.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case(EVENT_STREAM))
}

impl HttpConnection {
    /// A session's stream for a reader who had everything up to `last`.
    async fn open_session_after(
        &self,
        session: &SessionId,
        last: StreamEventId,
    ) -> Result<axum::body::Body, Fault> {
        let unknown = || Fault::unknown_event(&last.to_string());
        let handle = self.connection().sight().open(session).await.map_err(|_| unknown())?;
        let id = last.event_id();
        let seq = id.seq;
        // Zero stands for the time before the first event.
        if seq != Seq::ZERO && !handle.holds_event(id).await.unwrap_or(false) {
            return Err(unknown());
        }
        if !self.streams.is_new(Some(session)) || seq == Seq::ZERO {
            return self.open(Some(session.clone()), Some(last), Some(&handle));
        }
        // The id is from another connection of the client, perhaps from before a restart of the
        // host. The messages that were kept for that connection are gone, so an event of which the
        // client has only a part cannot be completed.
        if last.is_partial() {
            return Err(unknown());
        }
        self.go_on_after(session, handle, seq).await.map_err(|()| unknown())?;
        self.open(Some(session.clone()), None, None)
    }

    /// Shows a session from after that event, attaching to it if need be.
    async fn go_on_after(
        &self,
        session: &SessionId,
        handle: SessionHandle,
        after: Seq,
    ) -> Result<(), ()> {
        let out = if self.connection().attachments.get(session).is_some() {
            Out::Back { session: session.clone(), after }
        } else {
            let (join, _) =
                enter_quietly(self.connection(), handle, Some(after)).await.map_err(|_| ())?;
            Out::Rejoin(Box::new(join))
        };
        self.connection().outbox.try_send(out).await
    }

    fn open(
        &self,
        place: Option<SessionId>,
        last: Option<StreamEventId>,
        handle: Option<&SessionHandle>,
    ) -> Result<axum::body::Body, Fault> {
        let keep = |session: &SessionId| self.connection().attachments.get(session).is_some();
        let seat =
            self.streams.open(place.as_ref(), last, keep).map_err(|refused| match refused {
                StreamRefused::UnknownId => {
                    Fault::unknown_event(&last.map(|last| last.to_string()).unwrap_or_default())
                }
                StreamRefused::TooMany => Fault::new(
                    ErrorCode::TOO_MANY_STREAMS,
                    "this connection has too many session streams open; close some",
                ),
                StreamRefused::Ended => Fault::unknown_connection(),
            })?;
        let log = handle.map(|handle| {
            seat.missed.log.iter().map(|range| self.missed(*range, handle)).collect()
        });
        let log = log.unwrap_or_default();
        Ok(body::body(Arc::clone(&self.streams), place, seat, log))
    }

    fn missed(&self, range: LogRange, handle: &SessionHandle) -> MissedLog {
        let cursor = handle.cursor(Seq(range.from.0 - 1));
        let info = self.connection().client.info();
        MissedLog {
            range,
            cursor,
            event_ids: info.event_ids,
            understood: info.understood(),
        }
    }
}
