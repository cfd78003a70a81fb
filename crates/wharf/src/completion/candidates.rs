//! The values that the host knows: sessions, agents, workspaces, settings.

use wharf_api::{
    AdapterDescription, AttentionState, SessionInfo, SessionSettingsInfo, SessionStatus, TurnPhase,
    WorkspaceRegistry,
};

use super::Candidate;
use super::plan::{CompletionPlan, ValueKind};
use crate::client::{HostCall, HostClient};
use crate::contexts::{Contexts, LOCAL_CONTEXT};
use crate::global::GlobalOptions;
use crate::verbs::{agents, serve, set};
use crate::{session_ref, session_state};

/// The most sessions that are offered; more would not help a person.
const MAX_SESSIONS: usize = 60;

/// Returns the candidates. Fails if no host runs.
pub(super) async fn ask_host(
    global: &GlobalOptions,
    plan: &CompletionPlan,
) -> anyhow::Result<Vec<Candidate>> {
    let client = global.connect_if_running().await?;
    Ok(match &plan.kind {
        ValueKind::Session => list_sessions(&client).await?,
        ValueKind::Agent => list_agents(&agents::list_adapters(&client).await?),
        ValueKind::Workspace => list_workspaces(&client).await?,
        ValueKind::AgentMode => {
            agent_values(&client, plan, |agent| {
                let modes = agent.modes.iter();
                modes
                    .map(|mode| {
                        Candidate::new(&mode.id, mode.description.clone().unwrap_or_default())
                    })
                    .collect()
            })
            .await?
        }
        ValueKind::AgentOption => agent_values(&client, plan, list_agent_options).await?,
        ValueKind::Setting => list_settings(&client, &plan.values).await?,
        ValueKind::FilterValue(key) => list_filter_values(&client, key).await?,
        ValueKind::Context => list_contexts(global),
        ValueKind::Fixed(_) | ValueKind::File | ValueKind::Directory | ValueKind::Nothing => {
            Vec::new()
        }
    })
}

/// Returns the candidates that can be had without a host.
pub(super) fn without_host(global: &GlobalOptions, plan: &CompletionPlan) -> Vec<Candidate> {
    match &plan.kind {
        ValueKind::Agent => {
            let listed = serve::load_config(global)
                .map(|config| config.adapters().list())
                .unwrap_or_default();
            let installed = listed.into_iter().filter(|agent| agent.installed);
            installed.map(|agent| Candidate::new(agent.slug, agent.description)).collect()
        }
        ValueKind::FilterValue(key) => {
            words_of_filter(key).iter().map(|word| Candidate::new(*word, "")).collect()
        }
        ValueKind::Context => list_contexts(global),
        ValueKind::Fixed(_)
        | ValueKind::Session
        | ValueKind::Workspace
        | ValueKind::AgentMode
        | ValueKind::AgentOption
        | ValueKind::Setting
        | ValueKind::File
        | ValueKind::Directory
        | ValueKind::Nothing => Vec::new(),
    }
}

/// Returns the names of hosts, that of this machine first.
fn list_contexts(global: &GlobalOptions) -> Vec<Candidate> {
    let contexts = global
        .contexts_path()
        .and_then(|path| Contexts::load(&path))
        .unwrap_or_default();
    let named = contexts
        .contexts
        .iter()
        .map(|(name, context)| Candidate::new(name, &context.url));
    std::iter::once(Candidate::new(LOCAL_CONTEXT, "the host of this machine"))
        .chain(named)
        .collect()
}

/// Returns a name for each session: its label if a shell takes it as one word, and its short id.
/// Sessions that can go on stand first.
async fn list_sessions(client: &HostClient) -> anyhow::Result<Vec<Candidate>> {
    let mut sessions: Vec<SessionInfo> = session_ref::list_sessions(client, "")
        .await?
        .into_iter()
        .map(|listed| listed.session)
        .collect();
    let ids = session_ref::short_ids(&sessions.iter().collect::<Vec<_>>());
    let mut named: Vec<(SessionInfo, String)> = sessions.drain(..).zip(ids).collect();
    named.sort_by_key(|(session, _)| {
        !(session.status.is_alive() || session_state::is_asleep(session))
    });
    named.truncate(MAX_SESSIONS);
    let describe = |session: &SessionInfo| {
        let (word, _) = session_state::list_word(session);
        let name = session_state::display_name(session).unwrap_or_default();
        format!("{word} · {} {name}", session.adapter_slug).trim_end().to_owned()
    };
    let candidates = named.iter().flat_map(|(session, id)| {
        let label = session.label.as_deref().filter(|label| is_one_word(label));
        label
            .into_iter()
            .chain([id.as_str()])
            .map(|word| Candidate::new(word, describe(session)))
            .collect::<Vec<_>>()
    });
    Ok(candidates.collect())
}

fn is_one_word(label: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+' | '@');
    !label.is_empty() && !label.starts_with('-') && label.chars().all(is_plain)
}

fn list_agents(adapters: &[AdapterDescription]) -> Vec<Candidate> {
    let installed = adapters.iter().filter(|adapter| adapter.installed);
    installed
        .map(|adapter| Candidate::new(&adapter.slug, &adapter.description))
        .collect()
}

async fn list_workspaces(client: &HostClient) -> anyhow::Result<Vec<Candidate>> {
    let registry: WorkspaceRegistry = client.fetch_json(&HostCall::get("/workspaces")).await?;
    Ok(registry
        .workspaces
        .iter()
        .map(|workspace| Candidate::new(&workspace.slug, &workspace.path))
        .collect())
}

/// Returns values of the agent that the line names.
async fn agent_values(
    client: &HostClient,
    plan: &CompletionPlan,
    list: impl Fn(&AdapterDescription) -> Vec<Candidate>,
) -> anyhow::Result<Vec<Candidate>> {
    let adapters = agents::list_adapters(client).await?;
    let named = plan
        .values
        .first()
        .and_then(|name| adapters.iter().find(|adapter| adapter.slug == *name));
    Ok(named.map(list).unwrap_or_default())
}

fn list_agent_options(agent: &AdapterDescription) -> Vec<Candidate> {
    let values = |choices: &[String], kind: &str| match kind {
        "boolean" => vec!["true".to_owned(), "false".to_owned()],
        _ if choices.is_empty() => vec![String::new()],
        _ => choices.to_vec(),
    };
    let named = agent.options.iter().flat_map(|option| {
        let about = option.description.clone().unwrap_or_default();
        values(&option.choices, &option.kind)
            .into_iter()
            .map(move |value| (format!("{}={value}", option.id), about.clone()))
    });
    named.map(|(word, about)| Candidate::new(word, about)).collect()
}

/// Returns what can follow the words after `set`.
async fn list_settings(client: &HostClient, values: &[String]) -> anyhow::Result<Vec<Candidate>> {
    let words: Vec<&str> = values.iter().map(String::as_str).collect();
    let kinds = || ["mode", "model", "option"].map(|word| Candidate::new(word, "")).to_vec();
    let (session, rest) = match words[..] {
        [] => return Ok([kinds(), list_sessions(client).await?].concat()),
        ["mode" | "model" | "option", ..] => (None, &words[..]),
        [session, ..] => (Some(session), &words[1..]),
    };
    if rest.is_empty() {
        return Ok(kinds());
    }
    let session = session_ref::find_session(client, session).await?;
    Ok(setting_values(&set::fetch_settings(client, &session.id).await?, rest))
}

fn setting_values(settings: &SessionSettingsInfo, words: &[&str]) -> Vec<Candidate> {
    let values = |all: &[wharf_api::ChoiceValue]| -> Vec<Candidate> {
        all.iter().map(|value| Candidate::new(&value.id, &value.name)).collect()
    };
    let choice = |choice: &Option<wharf_api::SettingChoice>| {
        choice.as_ref().map(|choice| values(&choice.all))
    };
    match words {
        ["mode"] => choice(&settings.modes).unwrap_or_default(),
        ["model"] => choice(&settings.models).unwrap_or_default(),
        ["option"] => settings
            .options
            .iter()
            .map(|option| Candidate::new(&option.id, &option.name))
            .collect(),
        ["option", name] => match settings.options.iter().find(|option| option.id == *name) {
            Some(option) if option.kind == "boolean" => {
                ["true", "false"].map(|word| Candidate::new(word, "")).to_vec()
            }
            Some(option) => values(&option.all),
            None => Vec::new(),
        },
        _ => Vec::new(),
    }
}

async fn list_filter_values(client: &HostClient, key: &str) -> anyhow::Result<Vec<Candidate>> {
    Ok(match key {
        "agent" => list_agents(&agents::list_adapters(client).await?),
        "workspace" => list_workspaces(client).await?,
        "label" => list_sessions(client).await?,
        _ => words_of_filter(key).iter().map(|word| Candidate::new(*word, "")).collect(),
    })
}

fn words_of_filter(key: &str) -> &'static [&'static str] {
    match key {
        "attention" => AttentionState::WORDS,
        "turn" => TurnPhase::WORDS,
        "status" => SessionStatus::WORDS,
        "archived" | "alive" => &["true", "false"],
        "since" | "before" => &["1h", "1d", "7d"],
        _ => &[],
    }
}
