//! A new session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use wharf_host::core::{EndReason, Overlap};
use wharf_host::{SessionHandle, SpawnRequest};

use super::faults::{from_create, spawn_failed};
use super::prompt::{ContentShape, checked_key, submit};
use super::{Caller, Content, Session};
use crate::App;
use crate::problem::Problem;

/// A label is for people and filters; a megabyte of it in every listing would be for nobody.
const LABEL: usize = 1024;

/// AIP-46's `SpawnAgentRequest`, with Wharf's own members besides.
#[derive(Debug, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpawnArgs {
    /// The slug of an adapter; `GET /adapters` lists them.
    pub(crate) adapter: String,
    /// A registered workspace. Without it and `cwd` the active one.
    pub(crate) workspace_slug: Option<String>,
    /// An absolute path; wins over the workspace.
    pub(crate) cwd: Option<String>,
    /// The first prompt.
    #[schema(value_type = Option<ContentShape>)]
    #[schemars(with = "Option<ContentShape>")]
    pub(crate) prompt: Option<Content>,
    /// For people and filters, up to 1024 bytes.
    pub(crate) label: Option<String>,
    /// A mode of the adapter.
    pub(crate) mode: Option<String>,
    /// Options of the adapter by their ids.
    pub(crate) options: Option<BTreeMap<String, Value>>,
    /// Environment variables for the agent; those that the adapter or the configuration names are passed on.
    pub(crate) env: Option<BTreeMap<String, String>>,
    /// MCP servers for the agent, as ACP writes them.
    pub(crate) mcp_servers: Option<Vec<Value>>,
    /// Further directories that the agent may use.
    pub(crate) additional_directories: Option<Vec<String>>,
}

/// A session and what is to be said of its start.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpawnedSession {
    #[serde(flatten)]
    pub(crate) session: Session,
    /// What the caller should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    #[schemars(default)]
    pub(crate) warnings: Vec<String>,
    /// The first prompt, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) prompt_id: Option<String>,
}

/// What a spawn led to.
#[derive(Debug)]
pub(crate) struct Spawn {
    pub(crate) answer: SpawnedSession,
    /// The idempotency key was known: this is the session of an earlier request.
    pub(crate) duplicate: bool,
}

/// Starts an agent. Returns when it runs, or at once if the caller does not want to `wait`.
pub(crate) async fn spawn(
    app: &App,
    who: &Caller,
    args: SpawnArgs,
    key: Option<&str>,
    wait: bool,
) -> Result<Spawn, Problem> {
    let parent = who.identity.agent().cloned();
    if parent.is_none() {
        who.may_change()?;
    }
    let key = key.map(checked_key).transpose()?;
    let label = args.label.filter(|label| !label.is_empty());
    if let Some(label) = label.as_ref().filter(|label| label.len() > LABEL) {
        let detail = format!("label: has {} bytes; {LABEL} are allowed", label.len());
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "label_too_long", detail));
    }
    let request = SpawnRequest {
        adapter: args.adapter,
        workspace: args.workspace_slug,
        cwd: args.cwd.map(PathBuf::from),
        label,
        mode: args.mode,
        options: args.options.unwrap_or_default(),
        env: who.env(args.env.unwrap_or_default()),
        mcp_servers: args.mcp_servers.unwrap_or_default(),
        additional_directories: args.additional_directories.unwrap_or_default().into_iter().map(Into::into).collect(),
        sender: Some(who.sender()),
        key: key.map(ToOwned::to_owned),
        key_covers: args.prompt.as_ref().map(|prompt| prompt.0.clone()),
        ground: who.identity.ground(),
        parent,
        caller_waits: wait,
    };
    let spawned = app.host.spawn(request).await.map_err(|error| from_create(&error))?;
    let (handle, duplicate) = (spawned.handle, spawned.duplicate);
    let prompt_id = first_prompt(app, who, &handle, args.prompt.as_ref(), key, duplicate).await?;
    if wait && needs_waiting(&handle) {
        handle.up().await.map_err(|failure| spawn_failed(handle.id().as_str(), &failure))?;
    }
    let session = Session::from(&*handle.descriptor());
    Ok(Spawn { answer: SpawnedSession { session, warnings: spawned.warnings, prompt_id }, duplicate })
}

/// The session of an earlier request may have ended since, which is no failure of its start.
fn needs_waiting(handle: &SessionHandle) -> bool {
    let known = handle.descriptor();
    known.status.is_alive() || known.end_reason == Some(EndReason::StartFailed)
}

/// The prompt waits for the agent in the queue (rule 2.10). A repeated request finds the prompt of the first.
async fn first_prompt(
    app: &App,
    who: &Caller,
    handle: &SessionHandle,
    content: Option<&Content>,
    key: Option<&str>,
    duplicate: bool,
) -> Result<Option<String>, Problem> {
    let Some(content) = content else { return Ok(None) };
    let key = key.map(|key| format!("spawn {key}"));
    match submit(app, who, handle, content, Overlap::Queue, key.as_deref()).await {
        Ok(prompted) => Ok(Some(prompted.prompt_id)),
        // It never came to be, and the session has ended since; what is told of that session stays true.
        Err(_) if duplicate => Ok(None),
        // The agent failed faster than its prompt came: the wait for it says why.
        Err(problem) if problem.code == "not_resumable" => Ok(None),
        Err(problem) => Err(problem),
    }
}
