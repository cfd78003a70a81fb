//! The agents that can be started.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::AcceptedKind;

#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AdapterQuery {
    /// Ask the programs that are there for their version. Takes a moment, and not for observers.
    pub check: Option<bool>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AdapterList {
    pub adapters: Vec<AdapterDescription>,
}

/// One way to start an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Adapter)]
pub struct AdapterDescription {
    pub slug: String,
    pub name: String,
    pub description: String,
    /// The version of the manifest; empty without a manifest.
    pub version: String,
    /// `built-in`, `manifest`, `registry` or `config`.
    pub source: String,
    /// The manifest's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub path: Option<String>,
    pub command: Vec<String>,
    pub protocol: String,
    pub installed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub bin_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub bin_version: Option<String>,
    /// Is that in the manifest's range?
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub version_ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub install_hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub login_hint: Option<String>,
    /// Variables of the caller's environment that the agent gets, besides `PATH` and the locale.
    pub variables: Vec<String>,
    /// Sentences about everything that prevents a start or is odd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    pub modes: Vec<AdapterMode>,
    pub options: Vec<AdapterOption>,
    /// As the manifest states them.
    pub capabilities: BTreeMap<String, bool>,
    /// True for the agent of clients that name none.
    pub default: bool,
    /// The version that the agent gave when it was last started; absent if this version of it has
    /// not been started yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub agent_version: Option<String>,
    /// The content that a prompt may have; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub accepts: Option<Vec<AcceptedKind>>,
    /// Can the agent copy a session? Absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub forks: Option<bool>,
    /// Is the agent logged in?
    #[serde(default = "unknown_login")]
    #[schema(required = true)]
    pub login: LoginState,
}

words! {
    /// Whether an agent is logged in: `yes` if it needs no login or has opened a session, `no` if
    /// its last start failed for want of a login, else `unknown`.
    pub enum LoginState as "LoginState" {
        Yes = "yes",
        No = "no",
        Unknown = "unknown",
    }
}

/// An older host does not tell it.
const fn unknown_login() -> LoginState {
    LoginState::Unknown
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AdapterMode {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AdapterOption {
    pub id: String,
    /// `boolean`, `integer`, `string` or `enum`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    #[serde(rename = "enum", default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub default: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub min: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max: Option<i64>,
}
