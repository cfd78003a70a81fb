//! The events of a session's log, as they are stored.

use serde_json::value::RawValue;
use wharf_api::{ErrorCode, EventPage, EventQuery};
use wharf_host::core::{EventId, Seq, encode};
use wharf_host::{Entry, ReadError, SessionHandle};

use super::faults::{invalid_query, unreadable_session};
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

const DEFAULT_PAGE_EVENTS: usize = 100;
const MAX_PAGE_EVENTS: usize = 1_000;
/// The most bytes of a page, unless it holds a single larger event.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// Reads a page of events.
pub(crate) async fn list_events(
    app: &App,
    caller: &Caller,
    id: &str,
    args: &EventQuery,
) -> Result<EventPage, Fault> {
    let limit = args.limit.unwrap_or(DEFAULT_PAGE_EVENTS);
    if limit == 0 || limit > MAX_PAGE_EVENTS {
        let detail = format!("limit: {limit} is not between 1 and {MAX_PAGE_EVENTS}");
        return Err(invalid_query(detail));
    }
    let handle = open_session(app, caller, id).await?;
    let after = match args.after.as_deref().filter(|after| !after.is_empty()) {
        None => Seq::ZERO,
        Some(after) => find_event(&handle, after).await?,
    };
    let bytes = MAX_PAGE_BYTES.min(app.host.config().limits.history.0);
    read_page(&handle, after, limit, bytes)
        .await
        .map_err(|error| unreadable_session(id, &error))
}

pub(crate) fn unknown_event(id: &str) -> Fault {
    let id: String = id.chars().take(80).collect();
    let detail = format!("the log has no event {id:?}; start again without it");
    Fault::new(ErrorCode::UNKNOWN_EVENT, detail)
}

/// Returns the number of the event with this id, or a fault if the log does not hold it.
async fn find_event(handle: &SessionHandle, id: &str) -> Result<Seq, Fault> {
    let event: EventId = id.parse().map_err(|_| unknown_event(id))?;
    let is_held = handle.holds_event(event).await.unwrap_or(false);
    is_held.then_some(event.seq).ok_or_else(|| unknown_event(id))
}

async fn read_page(
    handle: &SessionHandle,
    after: Seq,
    limit: usize,
    most: usize,
) -> Result<EventPage, ReadError> {
    let mut cursor = handle.cursor(after);
    let mut events = Vec::new();
    let mut bytes = 0;
    let mut last = None;
    while cursor.is_behind() {
        let batch = cursor.next().await?;
        for entry in batch.entries() {
            if events.len() >= limit || bytes >= most {
                return Ok(EventPage { events, next: last });
            }
            let Some(event) = to_stored_event(entry) else { continue };
            bytes += event.get().len();
            events.push(event);
            last = Some(entry.id().to_string());
        }
    }
    Ok(EventPage { events, next: None })
}

/// Returns the stored text with the members `id`, `seq` and `epoch` in front.
fn to_stored_event(entry: &Entry) -> Option<Box<RawValue>> {
    let mut body = Vec::new();
    encode(&entry.event, entry.at, &mut body);
    let body = String::from_utf8(body).ok()?;
    let epoch = entry.epoch;
    let seq = entry.seq;
    let members = body.strip_prefix('{')?;
    RawValue::from_string(format!(
        r#"{{"id":"{epoch}-{seq}","seq":{seq},"epoch":{epoch},{members}"#
    ))
    .ok()
}
