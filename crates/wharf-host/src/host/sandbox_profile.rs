//! Decides which sandbox a process of an adapter gets: derives it at every start from the settings
//! and the session's directories.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use wharf_config::{Config, Launchable, PathVariables};
use wharf_core::Origin;

use super::{CreateError, Inner, StartInputs};
use crate::agent::Launch;
use crate::agent::initialize::StartFailure;
use crate::sandbox::{
    SandboxError, SandboxPlan, SandboxProfile, SessionRoot, detect_support, resolve_links,
};

/// The profile of an adapter's processes; `None` without a sandbox. Directories of the agent's own
/// that are missing are made: it could not do that itself.
pub(super) fn make_profile(
    config: &Config,
    agent: &Launchable,
    roots: Vec<SessionRoot>,
) -> Result<Option<SandboxProfile>, SandboxError> {
    if !agent.sandbox.is_on() {
        return Ok(None);
    }
    for dir in list_own_dirs(config, agent) {
        if let Err(error) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir) {
            // The agent has less than it should, and will say so.
            tracing::warn!(agent = agent.adapter, dir = %dir.display(), %error, "a directory of the agent cannot be made");
        }
    }
    plan_sandbox(config, agent, roots).make_profile(&detect_support()).map(Some)
}

/// Can the sandbox that is set for this agent be had here, whatever its cwd will be? `None`: none
/// is set.
pub fn check_sandbox(config: &Config, agent: &Launchable) -> Option<Result<(), SandboxError>> {
    let plan = agent.sandbox.is_on().then(|| plan_sandbox(config, agent, Vec::new()));
    plan.map(|plan| plan.make_profile(&detect_support()).map(drop))
}

/// Returns the directories of the agent's own that the host makes for it.
fn list_own_dirs(config: &Config, agent: &Launchable) -> Vec<PathBuf> {
    let places = places(agent);
    let named = agent.sandbox.writable.iter().filter(|path| path.ends_with('/'));
    named
        .filter_map(|path| places.expand_path(path))
        .chain(find_demo_state(config, agent))
        .collect()
}

/// Where the demo agent keeps its sessions, if it is that.
fn find_demo_state(config: &Config, agent: &Launchable) -> Option<PathBuf> {
    let demo = config.adapters().demo_state();
    agent
        .env
        .get("WHARF_DEMO_STATE")
        .is_some_and(|state| Path::new(state) == demo)
        .then_some(demo)
}

fn plan_sandbox(config: &Config, agent: &Launchable, roots: Vec<SessionRoot>) -> SandboxPlan {
    let places = places(agent);
    let expand = |written: &[String]| {
        written.iter().filter_map(|path| places.expand_path(path)).collect::<Vec<_>>()
    };
    let except = find_demo_state(config, agent);
    SandboxPlan {
        roots,
        temporary: places.temporary_dir(),
        own: expand(&agent.sandbox.writable).into_iter().chain(except.clone()).collect(),
        kept: list_kept_files(config),
        hidden: expand(&agent.sandbox.hidden),
        readable: expand(&agent.sandbox.readable),
        sealed: list_sealed_files(config),
        except,
    }
}

/// Returns the files of the host alone: its state with the tokens, settings that may hold secrets
/// of other agents, its key, the secret that signs notifications.
fn list_kept_files(config: &Config) -> Vec<PathBuf> {
    let state = std::iter::once(config.state_dir.clone());
    let secrets = config
        .tls
        .key
        .clone()
        .into_iter()
        .chain(config.notify.webhook_secret_file.clone());
    state.chain(config.config_file.clone()).chain(secrets).collect()
}

/// Returns the files that decide which programs run without a sandbox: settings, manifests, and
/// this program.
fn list_sealed_files(config: &Config) -> Vec<PathBuf> {
    let settings = config.config_dir.as_ref().map(|dir| dir.join("config.toml"));
    let program = Some(config.program.clone()).filter(|program| program.is_absolute());
    settings
        .into_iter()
        .chain(config.adapters().manifest_dirs())
        .chain(program)
        .collect()
}

fn places(agent: &Launchable) -> PathVariables<'_> {
    PathVariables { own: &agent.env, host: |name| std::env::var_os(name) }
}

impl Inner {
    /// How to start the agent of a session, in its sandbox.
    pub(crate) fn launch_of(
        &self,
        agent: &Launchable,
        origin: &Origin,
        inputs: &StartInputs,
    ) -> Result<Launch, StartFailure> {
        let more = named(agent, inputs.new_frame.bytes(), false);
        let more = more.map_err(|error| StartFailure::impossible(error.to_string()))?;
        let roots = roots(Path::new(&*origin.cwd), more, &inputs.real);
        let sandbox = make_profile(&self.config, agent, roots)?;
        Ok(Launch {
            sandbox,
            ..self.launch(agent, Some(&origin.session), origin.cwd.as_ref(), &inputs.env)
        })
    }
}

/// Returns the directories besides cwd that a `session/new` names. An unparsable list counts as
/// empty if nothing depends on it.
pub(super) fn named(
    agent: &Launchable,
    frame: &[u8],
    matter: bool,
) -> Result<Vec<PathBuf>, CreateError> {
    match StartInputs::directories(frame) {
        Err(_) if !matter && !agent.sandbox.is_on() => Ok(Vec::new()),
        told => told,
    }
}

/// Returns a session's directories, each with the path that it resolved to when it was named, if
/// that is known.
pub(super) fn roots(
    cwd: &Path,
    more: Vec<PathBuf>,
    was: &BTreeMap<PathBuf, PathBuf>,
) -> Vec<SessionRoot> {
    let given = std::iter::once(cwd.to_owned()).chain(more);
    given
        .map(|given| SessionRoot { was: was.get(&given).cloned(), given })
        .collect()
}

/// Returns the directories with links resolved, as they are now.
pub(super) fn reals(cwd: &Path, more: &[PathBuf]) -> BTreeMap<PathBuf, PathBuf> {
    let given = std::iter::once(cwd).chain(more.iter().map(PathBuf::as_path));
    given.map(|given| (given.to_owned(), resolve_links(given))).collect()
}

impl From<SandboxError> for StartFailure {
    fn from(error: SandboxError) -> Self {
        Self::impossible(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_host_are_kept_from_confined_agents() {
        let text = "[tls]\ncert = \"/c.pem\"\nkey = \"/k.pem\"\n[notify]\nwebhook_secret_file = \"/hook.secret\"\n";
        let mut config = Config::parse(text).unwrap();
        config.state_dir = PathBuf::from("/state");
        config.config_file = Some(PathBuf::from("/config.toml"));
        let expected = ["/state", "/config.toml", "/k.pem", "/hook.secret"].map(PathBuf::from);
        assert_eq!(list_kept_files(&config), expected);
    }
}
