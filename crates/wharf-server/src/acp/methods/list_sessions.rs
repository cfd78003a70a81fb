//! Answers `session/list` and `session/status` from the registry. Neither wakes a session or
//! appends to a log.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use wharf_api::SessionInfo;
use wharf_host::{Descriptor, TurnWord};
use wharf_json::Json;

use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, unreadable_params};
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::use_cases;

/// Sessions in one page of a list.
const SESSIONS_PER_PAGE: usize = 100;

#[derive(Deserialize)]
struct ListRequest<'a> {
    #[serde(borrow)]
    params: Option<ListParams<'a>>,
}

#[derive(Default, Deserialize)]
struct ListParams<'a> {
    cwd: Option<String>,
    cursor: Option<String>,
    #[serde(borrow)]
    archived: Option<Json<'a>>,
    #[serde(rename = "_meta", borrow)]
    meta: Option<Json<'a>>,
}

/// The sessions that a list is asked for.
#[derive(Debug, Default, Deserialize)]
pub(in crate::acp) struct ListFilter {
    cwd: Option<String>,
    #[serde(default)]
    archived: ArchivedFilter,
}

/// Whether a list has archived sessions (rule 14.9).
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ArchivedFilter {
    #[default]
    Exclude,
    Include,
    Only,
}

impl ArchivedFilter {
    /// Reads the member `archived` of a request.
    fn read(value: Option<Json<'_>>) -> Result<Self, RpcError> {
        let Some(value) = value.filter(|value| value.raw() != "null") else {
            return Ok(Self::default());
        };
        match value.text().as_deref() {
            Some("exclude") => Ok(Self::Exclude),
            Some("include") => Ok(Self::Include),
            Some("only") => Ok(Self::Only),
            Some(_) | None => {
                Err(RpcError::params("archived: is neither exclude, include nor only"))
            }
        }
    }

    const fn fits(self, known: &Descriptor) -> bool {
        match self {
            Self::Exclude => !known.archived,
            Self::Include => true,
            Self::Only => known.archived,
        }
    }
}

/// Lists the sessions of this connection's agent, the newest first; all with `_meta.wharf.all`.
pub(super) fn list_sessions(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let params = wharf_acp::peek::<ListRequest<'_>>(request.frame)
        .map_err(unreadable_params)?
        .params
        .unwrap_or_default();
    let all = params
        .meta
        .map(|meta| meta.seek(&["wharf", "all"]))
        .transpose()
        .map_err(unreadable_params)?;
    let all = all.flatten().and_then(Json::bool) == Some(true);
    let mut found = use_cases::visible_sessions(&connection.app, &connection.client.caller());
    if !all {
        found.retain(|known| known.adapter_slug == **connection.agent.adapter());
    }
    let view = use_cases::AttentionView::new(&connection.app, &connection.client.caller().identity);
    let filter = ListFilter {
        cwd: params.cwd,
        archived: ArchivedFilter::read(params.archived)?,
    };
    Ok(Some(request.respond(&list_page(found, &view, &filter, params.cursor.as_deref()))))
}

/// Tells whether the session is live (rules 5.1, 5.2).
pub(super) fn tell_status(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let session = request.session()?;
    let known =
        use_cases::find_session(&connection.app, &connection.client.caller(), session.as_str());
    let answer = match known {
        Some(known) if known.status.is_alive() => {
            let mut own = json!({ "turn": turn_word(known.turn), "clients": known.clients, "resumable": known.resumable });
            add_resources(&mut own, &known);
            if let Some(why) = known.paused {
                own["paused"] = serde_json::to_value(why).unwrap_or_default();
            }
            json!({ "status": "live", "_meta": { "wharf": own } })
        }
        Some(known) => json!({
            "status": "not_found",
            "_meta": { "wharf": { "turn": "idle", "clients": known.clients, "resumable": known.resumable } },
        }),
        None => json!({ "status": "not_found", "_meta": { "wharf": { "resumable": false } } }),
    };
    Ok(Some(request.respond(&answer)))
}

/// Returns one page of these sessions as `session/list` has it, the newest first.
pub(in crate::acp) fn list_page(
    mut found: Vec<Arc<Descriptor>>,
    view: &use_cases::AttentionView,
    filter: &ListFilter,
    cursor: Option<&str>,
) -> Value {
    let is_there = |known: &Descriptor| filter.cwd.as_ref().is_none_or(|cwd| known.cwd == *cwd);
    found.retain(|known| is_there(known) && filter.archived.fits(known));
    // Ids sort by age, so the last id of a page says where the next one begins, whatever comes or
    // goes.
    found.sort_by(|a, b| b.id.cmp(&a.id));
    if let Some(cursor) = cursor {
        found.retain(|known| *known.id < *cursor);
    }
    let next = (found.len() > SESSIONS_PER_PAGE).then(|| found[SESSIONS_PER_PAGE - 1].id.clone());
    let sessions: Vec<Value> = found
        .iter()
        .take(SESSIONS_PER_PAGE)
        .map(|known| list_entry(known, view))
        .collect();
    let mut answer = json!({ "sessions": sessions });
    if let Some(next) = next {
        answer["nextCursor"] = next.into();
    }
    answer
}

fn list_entry(known: &Descriptor, view: &use_cases::AttentionView) -> Value {
    let mut own = json!({
        "agent": known.adapter_slug, "status": known.status, "turn": turn_word(known.turn),
        "clients": known.clients, "queued": known.queued, "resumable": known.resumable, "label": known.label,
    });
    if let Some(reason) = known.end_reason {
        own["endReason"] = json!(reason);
    }
    add_resources(&mut own, known);
    add_attention(&mut own, view.session_info(known));
    if let Some(parent) = &known.parent_session_id {
        own["parentSessionId"] = parent.as_str().into();
        own["depth"] = known.depth.into();
    }
    if known.forkable {
        own["forkable"] = true.into();
    }
    if let Some(source) = &known.forked_from {
        own["forkedFrom"] = json!(source);
    }
    json!({
        "sessionId": known.id,
        "cwd": known.cwd,
        "title": known.title,
        "updatedAt": known.last_output_at.as_ref().unwrap_or(&known.started_at),
        "archived": known.archived,
        "_meta": { "wharf": own },
    })
}

/// Adds what the session wants of the client's person, how its last turn ended, and what its agent
/// reported.
fn add_attention(own: &mut Value, info: SessionInfo) {
    let SessionInfo { attention, last_outcome, archived, usage, context, .. } = info;
    own["attention"] = json!(attention);
    own["archived"] = archived.into();
    for (name, value) in
        [("lastOutcome", json!(last_outcome)), ("usage", json!(usage)), ("context", json!(context))]
    {
        if !value.is_null() {
            own[name] = value;
        }
    }
}

/// Adds what the session's processes use, where that is known.
fn add_resources(own: &mut Value, known: &Descriptor) {
    if let Some(resources) = &known.resources {
        own["resources"] = json!(resources);
    }
}

fn turn_word(turn: TurnWord) -> &'static str {
    match turn {
        TurnWord::Idle => "idle",
        TurnWord::Running => "running",
        TurnWord::AwaitingInput => "awaiting_input",
    }
}
