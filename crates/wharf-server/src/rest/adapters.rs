//! `/adapters`: which agents can be started (rule 8.7).

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wharf_host::AdapterInfo;

use super::extract::Params;
use crate::App;
use crate::problem::Problem;
use crate::use_cases::Caller;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AdaptersArgs {
    /// Ask the programs that are there for their version. Takes a moment, and not for observers.
    check: Option<bool>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AdapterList {
    #[schema(value_type = Vec<AdapterShape>)]
    adapters: Vec<AdapterInfo>,
}

/// One way to start an agent.
#[derive(ToSchema)]
#[schema(as = Adapter)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "a schema")]
struct AdapterShape {
    slug: String,
    name: String,
    description: String,
    /// Of the manifest; empty where there is none.
    version: String,
    /// `built-in`, `manifest`, `registry` or `config`.
    source: String,
    /// The manifest's file.
    #[schema(nullable = false)]
    path: Option<String>,
    command: Vec<String>,
    protocol: String,
    installed: bool,
    #[schema(nullable = false)]
    bin_path: Option<String>,
    #[schema(nullable = false)]
    bin_version: Option<String>,
    /// Is that in the manifest's range?
    #[schema(nullable = false)]
    version_ok: Option<bool>,
    #[schema(nullable = false)]
    install_hint: Option<String>,
    #[schema(nullable = false)]
    login_hint: Option<String>,
    /// Variables of whoever starts it that it gets, besides `PATH` and the locale.
    variables: Vec<String>,
    /// What stands in the way of a start or is odd, as sentences.
    #[schema(nullable = false)]
    missing: Option<Vec<String>>,
    modes: Vec<ModeShape>,
    options: Vec<OptionShape>,
    /// As the manifest states them.
    capabilities: std::collections::BTreeMap<String, bool>,
    /// Is it the agent of clients that name none?
    default: bool,
}

#[derive(ToSchema)]
#[schema(as = AdapterMode)]
#[expect(dead_code, reason = "a schema")]
struct ModeShape {
    id: String,
    #[schema(nullable = false)]
    description: Option<String>,
}

#[derive(ToSchema)]
#[schema(as = AdapterOption)]
#[expect(dead_code, reason = "a schema")]
struct OptionShape {
    id: String,
    /// `boolean`, `integer`, `string` or `enum`.
    #[schema(rename = "type")]
    kind: String,
    #[schema(nullable = false)]
    description: Option<String>,
    #[schema(rename = "enum", nullable = false)]
    choices: Option<Vec<String>>,
    #[schema(nullable = false)]
    default: Option<serde_json::Value>,
    #[schema(nullable = false)]
    min: Option<i64>,
    #[schema(nullable = false)]
    max: Option<i64>,
}

/// The agents that can be started, by slug.
#[utoipa::path(
    get, path = "/adapters", tag = "adapters", operation_id = "list_adapters", params(AdaptersArgs),
    responses((status = 200, description = "All of them", body = AdapterList), (status = 422, description = "`invalid_query`"))
)]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(args): Params<AdaptersArgs>,
) -> Result<Json<AdapterList>, Problem> {
    let check = args.check.unwrap_or(false);
    if check {
        // It starts programs.
        caller.may_change()?;
    }
    let mut adapters = app.host.adapters(check).await;
    if let Some(agent) = caller.identity.agent() {
        // Which agents there are is told to one only of those that it may start.
        let own = app.host.descriptor(agent).map(|own| own.adapter_slug.clone()).unwrap_or_default();
        adapters.retain(|adapter| app.host.config().delegation.allows(&own, &adapter.slug));
    }
    Ok(Json(AdapterList { adapters }))
}
