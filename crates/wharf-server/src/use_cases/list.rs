//! Which sessions there are. Nothing is woken by asking.

use std::sync::Arc;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wharf_host::Descriptor;
use wharf_host::core::{SessionId, Status};

use super::faults::from_open;
use super::session::StatusWord;
use super::{Caller, Session};
use crate::App;
use crate::problem::Problem;

/// Sessions in one page, unless the caller says otherwise.
const PAGE: usize = 100;
const LARGEST_PAGE: usize = 1_000;

/// Which sessions, and how many.
#[derive(Clone, Debug, Default, Deserialize, IntoParams, JsonSchema)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListArgs {
    /// Sessions in a page.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub(crate) limit: Option<usize>,
    /// `nextCursor` of the page before.
    pub(crate) cursor: Option<String>,
    #[param(value_type = Option<StatusWord>)]
    #[schemars(with = "Option<StatusWord>")]
    pub(crate) status: Option<Status>,
    /// The slug of a workspace.
    pub(crate) workspace: Option<String>,
    /// The slug of an adapter.
    pub(crate) adapter: Option<String>,
    /// The whole label.
    pub(crate) label: Option<String>,
    /// True: those that are starting or running. False: those that have ended.
    pub(crate) alive: Option<bool>,
}

/// A page of sessions, the newest first.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionList {
    pub(crate) sessions: Vec<Session>,
    /// There are more: ask again with this as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) next_cursor: Option<String>,
}

impl ListArgs {
    fn fits(&self, known: &Descriptor) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        is(&self.workspace, &known.workspace_slug)
            && is(&self.adapter, &known.adapter_slug)
            && self.label.as_ref().is_none_or(|label| known.label.as_ref() == Some(label))
            && self.status.is_none_or(|status| known.status == status)
            && self.alive.is_none_or(|alive| known.status.is_alive() == alive)
            && self.cursor.as_ref().is_none_or(|cursor| known.id < *cursor)
    }
}

/// A page of the sessions that fit.
pub(crate) fn list(app: &App, who: &Caller, args: &ListArgs) -> Result<SessionList, Problem> {
    let limit = args.limit.unwrap_or(PAGE);
    if limit == 0 || limit > LARGEST_PAGE {
        let detail = format!("limit: {limit} is not between 1 and {LARGEST_PAGE}");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_query", detail));
    }
    let mut known: Vec<Arc<Descriptor>> = app.seen_by(&who.identity).descriptors();
    known.retain(|known| args.fits(known));
    // Ids begin with their time.
    known.sort_unstable_by(|a, b| b.id.cmp(&a.id));
    let more = known.len() > limit;
    known.truncate(limit);
    let next_cursor = known.last().filter(|_| more).map(|last| last.id.clone());
    Ok(SessionList { sessions: known.iter().map(|known| Session::from(&**known)).collect(), next_cursor })
}

/// One session.
pub(crate) fn get(app: &App, who: &Caller, id: &str) -> Result<Session, Problem> {
    let (sight, session) = (app.seen_by(&who.identity), SessionId::new(id));
    let known = sight.descriptor(&session).ok_or_else(|| from_open(id, &sight.why_not_open(&session)))?;
    Ok(Session::from(&*known))
}
