//! A new session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use wharf_api::{ErrorCode, SpawnArgs, SpawnedSession};
use wharf_config::MAX_LABEL_BYTES;
use wharf_host::core::{EndReason, Overlap, Raw, SessionId};
use wharf_host::{
    CreateError, Created, LabelPolicy, NewSessionRequest, PrestartedAgent, SessionHandle,
    SpawnRequest, Spawned, SpawnedAs,
};

use super::Caller;
use super::attention::describe_session;
use super::faults::{fault_from_create_error, start_failed};
use super::prompt::{IDEMPOTENCY_KEY_HEADER, PromptBlocks, check_idempotency_key, submit_blocks};
use crate::App;
use crate::fault::Fault;

/// Refuses a label that is too long.
pub(super) fn check_label(label: Option<&str>) -> Result<(), Fault> {
    let Some(label) = label.filter(|label| label.len() > MAX_LABEL_BYTES) else { return Ok(()) };
    let detail = format!("label: has {} bytes; {MAX_LABEL_BYTES} are allowed", label.len());
    Err(Fault::new(ErrorCode::LABEL_TOO_LONG, detail))
}

/// The outcome of a spawn.
#[derive(Debug)]
pub(crate) struct SpawnOutcome {
    pub(crate) answer: SpawnedSession,
    pub(crate) spawned_as: SpawnedAs,
}

/// Starts an agent in a new session. Returns when the agent runs, or at once unless `wait` is set.
pub(crate) async fn spawn_session(
    app: &App,
    caller: &Caller,
    args: SpawnArgs,
    key: Option<&str>,
    wait: bool,
) -> Result<SpawnOutcome, Fault> {
    let parent = caller.identity.agent_session().cloned();
    if parent.is_none() {
        caller.may_change()?;
    }
    let key = key.map(|key| check_idempotency_key(IDEMPOTENCY_KEY_HEADER, key)).transpose()?;
    let prompt = args.prompt.as_ref().map(PromptBlocks::from_content).transpose()?;
    let label = args.label.filter(|label| !label.is_empty());
    check_label(label.as_deref())?;
    if args.on_label == Some(wharf_api::OnLabel::Take) {
        // It changes another session.
        caller.may_change()?;
    }
    let request = SpawnRequest {
        adapter: args.adapter,
        workspace: args.workspace_slug,
        cwd: args.cwd.map(PathBuf::from),
        label,
        on_label: args.on_label.map_or(LabelPolicy::Share, to_host_word),
        mode: args.mode,
        options: args.options.unwrap_or_default(),
        env: caller.allowed_env(args.env.unwrap_or_default()),
        mcp_servers: args.mcp_servers.unwrap_or_default(),
        additional_directories: args
            .additional_directories
            .unwrap_or_default()
            .into_iter()
            .map(Into::into)
            .collect(),
        sender: Some(caller.sender()),
        key: key.map(ToOwned::to_owned),
        key_covers: prompt.as_ref().map(|prompt| prompt.as_str().to_owned()),
        directory_scope: caller.identity.directory_scope(),
        parent,
        caller_waits: wait,
    };
    let visible = app.visible_to(&caller.identity);
    let spawned = app.host.spawn(request, &|known| visible.sees(known)).await;
    let Spawned { handle, warnings, spawned_as } =
        spawned.map_err(|error| fault_from_create_error(&error))?;
    let prompt_id =
        submit_first_prompt(app, caller, &handle, prompt.as_ref(), key, spawned_as).await?;
    if wait && needs_waiting(&handle) {
        handle
            .up()
            .await
            .map_err(|failure| start_failed(&failure).with_session(handle.id().as_str()))?;
    }
    let session = describe_session(app, caller, &handle.descriptor());
    Ok(SpawnOutcome {
        answer: SpawnedSession { session, warnings, prompt_id },
        spawned_as,
    })
}

/// Returns the host's word for what happens if another session has the label.
const fn to_host_word(on_label: wharf_api::OnLabel) -> LabelPolicy {
    match on_label {
        wharf_api::OnLabel::Share => LabelPolicy::Share,
        wharf_api::OnLabel::Refuse => LabelPolicy::Refuse,
        wharf_api::OnLabel::Take => LabelPolicy::Take,
        wharf_api::OnLabel::Continue => LabelPolicy::Continue,
    }
}

/// Returns false if the session of an earlier request has ended since for another reason than a
/// failed start.
pub(super) fn needs_waiting(handle: &SessionHandle) -> bool {
    let known = handle.descriptor();
    known.status.is_alive() || known.end_reason == Some(EndReason::StartFailed)
}

/// Queues the first prompt, which waits until the agent runs (rule 2.10), and returns its id. A
/// repeated request finds the prompt of the first.
async fn submit_first_prompt(
    app: &App,
    caller: &Caller,
    handle: &SessionHandle,
    blocks: Option<&PromptBlocks>,
    key: Option<&str>,
    spawned_as: SpawnedAs,
) -> Result<Option<String>, Fault> {
    let Some(blocks) = blocks else { return Ok(None) };
    let key = key.map(|key| format!("spawn {key}"));
    match submit_blocks(app, caller, handle, blocks, Overlap::Queue, key.as_deref()).await {
        Ok(prompted) => Ok(Some(prompted.prompt_id)),
        // The first request's prompt was never accepted and its session has ended since: the
        // session is still the answer.
        Err(_) if spawned_as == SpawnedAs::Repeat => Ok(None),
        // The agent failed before the prompt was submitted: waiting for the start reports the
        // reason.
        Err(fault) if fault.code() == ErrorCode::NOT_RESUMABLE && spawned_as == SpawnedAs::New => {
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

/// A session as an ACP client wants it: the agent gets the client's own `session/new`.
#[derive(Debug)]
pub(crate) struct NewSession {
    pub(crate) adapter: String,
    pub(crate) cwd: PathBuf,
    /// The name by which further clients find it.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) frame: Raw,
    /// The client's capabilities as the agent gets them.
    pub(crate) capabilities: String,
    pub(crate) env: BTreeMap<String, String>,
    /// An agent that was started before, and the logins that another one needs.
    pub(crate) agent: Option<PrestartedAgent>,
    pub(crate) logins: Vec<Bytes>,
}

/// Why an ACP client has no new session.
#[derive(Debug)]
pub(crate) enum NotCreated {
    Refused(Fault),
    /// The agent answered `session/new` or `session/fork` with this error. The session is there,
    /// without an agent.
    ByAgent {
        answer: Bytes,
        session: SessionId,
        fault: Fault,
    },
}

impl NotCreated {
    pub(super) fn from_create_error(error: CreateError) -> Self {
        let fault = fault_from_create_error(&error);
        if let CreateError::Start { failure, session } = error
            && let Some(answer) = failure.answer
        {
            return Self::ByAgent { answer, session: SessionId::new(session.as_str()), fault };
        }
        Self::Refused(fault)
    }
}

impl From<NotCreated> for Fault {
    fn from(why: NotCreated) -> Self {
        match why {
            NotCreated::Refused(fault) | NotCreated::ByAgent { fault, .. } => fault,
        }
    }
}

/// Starts a session and its agent for an ACP client. Returns when the agent has answered.
pub(crate) async fn create_session(
    app: &App,
    caller: &Caller,
    new: NewSession,
) -> Result<Created, NotCreated> {
    caller.may_change().map_err(NotCreated::Refused)?;
    let NewSession { adapter, cwd, name, frame, capabilities, env, agent, logins } = new;
    let created = app.host.create(NewSessionRequest {
        adapter,
        cwd,
        bucket: None,
        label: None,
        name,
        sender: Some(caller.sender()),
        frame,
        capabilities,
        spare: agent,
        prelude: logins,
        mode: None,
        options: BTreeMap::new(),
        env: caller.allowed_env(env),
        directory_scope: caller.identity.directory_scope(),
        key: None,
        lineage: Vec::new(),
        caller_waits: true,
        fork: None,
    });
    created.await.map_err(NotCreated::from_create_error)
}

/// Forgets a session that its agent refused to open: to the client it never was.
pub(crate) async fn discard_session(app: &App, session: &SessionId) {
    let _ = app.host.forget(session).await;
}
