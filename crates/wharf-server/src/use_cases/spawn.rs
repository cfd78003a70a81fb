//! A new session.

use std::path::PathBuf;

use wharf_api::{ErrorCode, SpawnArgs, SpawnedSession};
use wharf_host::core::{EndReason, Overlap};
use wharf_host::{SessionHandle, SpawnRequest};

use super::Caller;
use super::contract::to_session_info;
use super::faults::{fault_from_create_error, start_failed};
use super::prompt::{IDEMPOTENCY_KEY_HEADER, PromptBlocks, check_idempotency_key, submit_prompt};
use crate::App;
use crate::fault::Fault;

/// A label is for people and filters; a megabyte of it in every listing would be for nobody.
const MAX_LABEL_BYTES: usize = 1024;

/// The outcome of a spawn.
#[derive(Debug)]
pub(crate) struct SpawnOutcome {
    pub(crate) answer: SpawnedSession,
    /// The idempotency key was known: this is the session of an earlier request.
    pub(crate) duplicate: bool,
}

/// Starts an agent. Returns when it runs, or at once if the caller does not want to `wait`.
pub(crate) async fn spawn_session(
    app: &App,
    who: &Caller,
    args: SpawnArgs,
    key: Option<&str>,
    wait: bool,
) -> Result<SpawnOutcome, Fault> {
    let parent = who.identity.agent().cloned();
    if parent.is_none() {
        who.may_change()?;
    }
    let key = key.map(|key| check_idempotency_key(IDEMPOTENCY_KEY_HEADER, key)).transpose()?;
    let prompt = args.prompt.as_ref().map(PromptBlocks::from_content).transpose()?;
    let label = args.label.filter(|label| !label.is_empty());
    if let Some(label) = label.as_ref().filter(|label| label.len() > MAX_LABEL_BYTES) {
        let detail = format!("label: has {} bytes; {MAX_LABEL_BYTES} are allowed", label.len());
        return Err(Fault::new(ErrorCode::LABEL_TOO_LONG, detail));
    }
    let request = SpawnRequest {
        adapter: args.adapter,
        workspace: args.workspace_slug,
        cwd: args.cwd.map(PathBuf::from),
        label,
        mode: args.mode,
        options: args.options.unwrap_or_default(),
        env: who.allowed_env(args.env.unwrap_or_default()),
        mcp_servers: args.mcp_servers.unwrap_or_default(),
        additional_directories: args.additional_directories.unwrap_or_default().into_iter().map(Into::into).collect(),
        sender: Some(who.sender()),
        key: key.map(ToOwned::to_owned),
        key_covers: prompt.as_ref().map(|prompt| prompt.as_str().to_owned()),
        ground: who.identity.ground(),
        parent,
        caller_waits: wait,
    };
    let spawned = app.host.spawn(request).await.map_err(|error| fault_from_create_error(&error))?;
    let (handle, duplicate) = (spawned.handle, spawned.duplicate);
    let prompt_id = submit_first_prompt(app, who, &handle, prompt.as_ref(), key, duplicate).await?;
    if wait && needs_waiting(&handle) {
        handle.up().await.map_err(|failure| start_failed(&failure).with_session(handle.id().as_str()))?;
    }
    let session = to_session_info(&handle.descriptor());
    Ok(SpawnOutcome { answer: SpawnedSession { session, warnings: spawned.warnings, prompt_id }, duplicate })
}

/// The session of an earlier request may have ended since, which is no failure of its start.
fn needs_waiting(handle: &SessionHandle) -> bool {
    let known = handle.descriptor();
    known.status.is_alive() || known.end_reason == Some(EndReason::StartFailed)
}

/// The prompt waits for the agent in the queue (rule 2.10). A repeated request finds the prompt of the first.
async fn submit_first_prompt(
    app: &App,
    who: &Caller,
    handle: &SessionHandle,
    blocks: Option<&PromptBlocks>,
    key: Option<&str>,
    duplicate: bool,
) -> Result<Option<String>, Fault> {
    let Some(blocks) = blocks else { return Ok(None) };
    let key = key.map(|key| format!("spawn {key}"));
    match submit_prompt(app, who, handle, blocks, Overlap::Queue, key.as_deref()).await {
        Ok(prompted) => Ok(Some(prompted.prompt_id)),
        // It never came to be, and the session has ended since; what is told of that session stays true.
        Err(_) if duplicate => Ok(None),
        // The agent failed faster than its prompt came: the wait for it says why.
        Err(fault) if fault.code() == ErrorCode::NOT_RESUMABLE => Ok(None),
        Err(fault) => Err(fault),
    }
}
