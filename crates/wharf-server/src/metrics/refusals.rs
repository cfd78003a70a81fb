//! Requests that were refused: counted by code, and written to the host's log at the level debug.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Span;
use wharf_host::metrics::{Family, Value};

use crate::App;
use crate::auth::Identity;
use crate::client_span::client_span;
use crate::use_cases::client_id_without_connection;

/// Codes come from a fixed table, so there are few. The bound holds even if a code came from
/// elsewhere.
const MAX_COUNTED_CODES: usize = 200;

/// The code of a problem, attached to its response as an extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusalCode(pub(crate) &'static str);

#[derive(Debug, Default)]
pub(crate) struct RefusalCounts(Mutex<BTreeMap<String, u64>>);

impl RefusalCounts {
    pub(crate) fn add(&self, code: impl Into<String>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let code = code.into();
        let code = if counts.len() < MAX_COUNTED_CODES || counts.contains_key(&code) {
            code
        } else {
            "other".to_owned()
        };
        *counts.entry(code).or_default() += 1;
    }

    pub(super) fn to_family(&self) -> Family {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let help =
            "Requests that were refused or failed, by code: a problem's, or a JSON-RPC error's";
        counts
            .iter()
            .fold(Family::counter("wharf_requests_refused_total", help), |family, (code, count)| {
                family.with("code", code, Value::Whole(*count))
            })
    }
}

/// Counts each response that is a problem.
pub(crate) async fn count_refusals(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let response = next.run(request).await;
    if let Some(RefusalCode(code)) = response.extensions().get() {
        app.refusals.add(*code);
        let identity = response.extensions().get::<Identity>();
        let span = identity.map_or_else(Span::none, |identity| {
            client_span(&client_id_without_connection(identity))
        });
        let token = identity.and_then(|identity| identity.token.as_deref());
        let status = response.status().as_u16();
        span.in_scope(|| tracing::debug!(%method, code, status, token, "a request was refused"));
    }
    response
}
