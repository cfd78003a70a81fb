//! Conversions from the host's types to the types of the contract (`wharf-api`). Each match is
//! exhaustive, so that a new variant of the host needs a word here.

use super::to_accepted_kinds;
use wharf_api::{
    AdapterDescription, AdapterMode, AdapterOption, AskOption, AskType, ContextUse, EndCause,
    ForkOrigin, KeeperInfo, KeeperLimitsInfo, LoginState, OpenAsk, ResourceUse, SessionInfo,
    SessionStatus, StoragePause, TokenUsage, TurnOutcome, TurnPhase, UsageCost, WorkspaceInfo,
    WorkspaceRegistry,
};
use wharf_config::{AdapterInfo, AdapterSource, Workspace, WorkspaceList};
use wharf_host::core::{Ask, AskKind, EndReason, OutcomeKind, PauseReason, ReportedCost, Status};
use wharf_host::{AgentUsage, Descriptor, KeeperDescription, ReportedContext, Resources, TurnWord};

/// Returns the session without its attention, which depends on the person that asks.
pub(crate) fn to_session_info(known: &Descriptor) -> SessionInfo {
    let known = known.clone();
    SessionInfo {
        id: known.id,
        adapter_slug: known.adapter_slug,
        workspace_slug: known.workspace_slug,
        cwd: known.cwd,
        status: to_session_status(known.status),
        started_at: known.started_at,
        ended_at: known.ended_at,
        last_output_at: known.last_output_at,
        exit_code: known.exit_code,
        label: known.label,
        name: known.name,
        agent_session_id: known.agent_session_id,
        title: known.title,
        turn: to_turn_phase(known.turn),
        queued: known.queued,
        clients: known.clients,
        last_seq: known.last_seq,
        resumable: known.resumable,
        end_reason: known.end_reason.map(to_end_cause),
        paused: known.paused.map(to_storage_pause),
        message: known.message,
        depth: known.parent_session_id.as_ref().map(|_| known.depth),
        parent_session_id: known.parent_session_id,
        forkable: known.forkable,
        forked_from: known
            .forked_from
            .map(|from| ForkOrigin { session_id: from.session_id, event_id: from.event_id }),
        resources: known.resources.map(to_resource_use),
        attention: None,
        last_outcome: known.last_outcome.map(to_turn_outcome),
        archived: known.archived,
        usage: known.usage.as_ref().map(to_token_usage),
        context: known.context.map(to_context_use),
        keeper: None,
    }
}

const fn to_turn_outcome(outcome: OutcomeKind) -> TurnOutcome {
    match outcome {
        OutcomeKind::Done => TurnOutcome::Done,
        OutcomeKind::Stopped => TurnOutcome::Stopped,
        OutcomeKind::Refused => TurnOutcome::Refused,
        OutcomeKind::Cancelled => TurnOutcome::Cancelled,
        OutcomeKind::Failed => TurnOutcome::Failed,
        OutcomeKind::CutOff => TurnOutcome::CutOff,
    }
}

pub(super) fn to_token_usage(usage: &AgentUsage) -> TokenUsage {
    let AgentUsage { tokens, at_least, guessed, .. } = *usage;
    TokenUsage {
        input: tokens.input,
        output: tokens.output,
        cached: tokens.cached_read,
        total: tokens.total,
        cost: usage.cost.as_ref().and_then(to_usage_cost),
        at_least,
        guessed,
    }
}

fn to_usage_cost(cost: &ReportedCost) -> Option<UsageCost> {
    Some(UsageCost::new(cost.amount.parse().ok()?, cost.currency.clone()))
}

pub(super) const fn to_context_use(context: ReportedContext) -> ContextUse {
    ContextUse { used: context.used, size: context.size }
}

pub(crate) const fn to_session_status(status: Status) -> SessionStatus {
    match status {
        Status::Starting => SessionStatus::Starting,
        Status::Running => SessionStatus::Running,
        Status::Exited => SessionStatus::Exited,
        Status::Killed => SessionStatus::Killed,
        Status::Error => SessionStatus::Error,
    }
}

/// Returns the keeper with the limit that holds for an agent in this state.
pub(super) fn to_keeper_info(keeper: KeeperDescription, turn: TurnWord) -> KeeperInfo {
    let KeeperDescription { version, limits } = keeper;
    let limits = limits.map(|limits| {
        let absence_millis = match turn {
            TurnWord::Idle => limits.idle_absence_millis,
            TurnWord::Running | TurnWord::AwaitingInput => limits.absence_millis,
        };
        KeeperLimitsInfo { absence_millis, output_bytes: limits.output_bytes }
    });
    KeeperInfo { version, limits }
}

pub(super) const fn to_turn_phase(turn: TurnWord) -> TurnPhase {
    match turn {
        TurnWord::Idle => TurnPhase::Idle,
        TurnWord::Running => TurnPhase::Running,
        TurnWord::AwaitingInput => TurnPhase::AwaitingInput,
    }
}

pub(crate) const fn to_end_cause(reason: EndReason) -> EndCause {
    match reason {
        EndReason::AgentExited => EndCause::AgentExited,
        EndReason::StartFailed => EndCause::StartFailed,
        EndReason::Unresponsive => EndCause::Unresponsive,
        EndReason::User => EndCause::User,
        EndReason::Closed => EndCause::Closed,
        EndReason::Finished => EndCause::Finished,
        EndReason::Idle => EndCause::Idle,
        EndReason::Memory => EndCause::Memory,
        EndReason::LogFull => EndCause::LogFull,
        EndReason::HostShutdown => EndCause::HostShutdown,
        EndReason::HostRestarted => EndCause::HostRestarted,
    }
}

pub(crate) const fn to_storage_pause(reason: PauseReason) -> StoragePause {
    match reason {
        PauseReason::StorageFull => StoragePause::StorageFull,
        PauseReason::StorageReadOnly => StoragePause::StorageReadOnly,
    }
}

const fn to_resource_use(used: Resources) -> ResourceUse {
    let Resources { memory_bytes, cpu_millis, processes, over_limit } = used;
    ResourceUse { memory_bytes, cpu_millis, processes, over_limit }
}

pub(crate) const fn to_ask_type(kind: AskKind) -> AskType {
    match kind {
        AskKind::Permission => AskType::Permission,
        AskKind::Elicitation => AskType::Elicitation,
    }
}

/// Returns the ask with the choices that its request offers. The time of its opening, which is in
/// the log, is not set.
pub(crate) fn to_open_ask(ask: &Ask) -> OpenAsk {
    let params = wharf_acp::to_value(ask.frame.bytes())["params"].take();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The ids as the session knows them: texts, also where the agent numbers its options.
    let ids = ask.options.iter().map(ToString::to_string);
    let options = options
        .iter()
        .zip(ids)
        .map(|(option, option_id)| AskOption {
            option_id,
            name: text(&option["name"]),
            kind: text(&option["kind"]),
        })
        .collect();
    let tool_call = params.get("toolCall").cloned();
    let ask_id = ask.id.0;
    let kind = to_ask_type(ask.kind);
    OpenAsk {
        ask_id,
        kind,
        opened_at: None,
        row: None,
        subject: None,
        options,
        tool_call,
        params,
    }
}

pub(super) fn to_adapter_description(info: AdapterInfo) -> AdapterDescription {
    let shown = |path: std::path::PathBuf| path.display().to_string();
    let modes = info
        .modes
        .into_iter()
        .map(|mode| AdapterMode { id: mode.id, description: mode.description });
    let options = info.options.into_iter().map(|option| AdapterOption {
        id: option.id,
        kind: option.kind.to_owned(),
        description: option.description,
        choices: option.choices,
        default: option.default,
        min: option.min,
        max: option.max,
    });
    AdapterDescription {
        slug: info.slug,
        name: info.name,
        description: info.description,
        version: info.version,
        source: adapter_source_word(info.source).to_owned(),
        path: info.path.map(shown),
        command: info.command,
        protocol: info.protocol,
        installed: info.installed,
        bin_path: info.bin_path.map(shown),
        bin_version: info.bin_version,
        version_ok: info.version_ok,
        install_hint: info.install_hint,
        login_hint: info.login_hint,
        variables: info.variables,
        missing: info.missing,
        modes: modes.collect(),
        options: options.collect(),
        capabilities: info.capabilities,
        default: info.default,
        agent_version: info.known.as_ref().and_then(|known| known.version.clone()),
        accepts: info.known.as_ref().and_then(|known| known.accepts).map(to_accepted_kinds),
        forks: info.known.as_ref().map(|known| known.fork),
        login: match &info.known {
            Some(known) if !known.has_login => LoginState::Yes,
            Some(_) | None => LoginState::Unknown,
        },
    }
}

const fn adapter_source_word(source: AdapterSource) -> &'static str {
    match source {
        AdapterSource::Config => "config",
        AdapterSource::Manifest => "manifest",
        AdapterSource::Registry => "registry",
        AdapterSource::BuiltIn => "built-in",
    }
}

pub(super) fn to_workspace_registry(list: WorkspaceList) -> WorkspaceRegistry {
    let WorkspaceList { version, active, workspaces, more } = list;
    let workspaces = workspaces.into_iter().map(to_workspace_info).collect();
    WorkspaceRegistry {
        version,
        active: active.map(|slug| slug.to_string()),
        workspaces,
        more,
    }
}

pub(super) fn to_workspace_info(workspace: Workspace) -> WorkspaceInfo {
    WorkspaceInfo {
        slug: workspace.slug.to_string(),
        path: workspace.path.display().to_string(),
        added_at: workspace.added_at,
        updated_at: workspace.updated_at,
        label: workspace.label,
        more: workspace.more,
    }
}
