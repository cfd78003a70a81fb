//! An adapter as a listing shows it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;
use wharf_core::AcceptedContent;

/// Where an adapter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdapterSource {
    /// `[agents.NAME]` in the configuration, or a flag.
    Config,
    /// An `AGENT-CLI.md` of the user.
    Manifest,
    /// An `AGENT-CLI.md` that was made from an ACP registry.
    Registry,
    BuiltIn,
}

/// One row of `GET /adapters`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterInfo {
    pub slug: String,
    pub name: String,
    pub description: String,
    /// Of the manifest; empty where there is none.
    pub version: String,
    pub source: AdapterSource,
    /// The manifest's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    pub command: Vec<String>,
    pub protocol: String,
    pub installed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bin_path: Option<PathBuf>,
    /// The version that the program prints; only present if the program was run for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bin_version: Option<String>,
    /// Whether `bin_version` is in the manifest's range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login_hint: Option<String>,
    /// Variables of its caller that it gets, besides those that every agent gets.
    pub variables: Vec<String>,
    /// Obstacles to a start, and oddities, as sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    pub modes: Vec<ModeInfo>,
    pub options: Vec<OptionInfo>,
    /// As the manifest states them.
    pub capabilities: BTreeMap<String, bool>,
    /// Whether it is the agent of clients that name none.
    pub default: bool,
    /// The agent's last answer to `initialize`, in short. `None` if this version of it has not been
    /// started yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<KnownAgent>,
}

/// An agent by its last answer to `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownAgent {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepts: Option<AcceptedContent>,
    /// It can copy a session.
    pub fork: bool,
    /// It offers ways to log in.
    pub has_login: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModeInfo {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptionInfo {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
}
