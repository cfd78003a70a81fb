//! Which sandbox a process of an adapter gets: derived anew at every start, from the settings and the session's
//! directories.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use wharf_core::Origin;

use super::{CreateError, Inner, StartInputs};
use crate::adapters::Launchable;
use crate::agent::Launch;
use crate::agent::introduction::StartFailure;
use crate::config::{Config, SandboxSettings};
use crate::sandbox::{Places, Plan, Profile, Root, SandboxError, real, support};

impl Config {
    /// The profile of an adapter's processes; `None` without a sandbox.
    pub(crate) fn profile(&self, agent: &Launchable, roots: Vec<Root>) -> Result<Option<Profile>, SandboxError> {
        if !agent.sandbox.is_on() {
            return Ok(None);
        }
        self.plan(&agent.sandbox, &agent.env, roots)?.profile(&support()).map(Some)
    }

    /// Can the sandbox that is set for this agent be had here, whatever its cwd will be? `None`: there is none to be had.
    pub fn check_sandbox(&self, agent: &Launchable) -> Option<Result<(), SandboxError>> {
        self.profile(agent, Vec::new()).map(|profile| profile.map(drop)).transpose()
    }

    fn plan(
        &self,
        settings: &SandboxSettings,
        env: &BTreeMap<String, String>,
        roots: Vec<Root>,
    ) -> Result<Plan, SandboxError> {
        let places = Places { own: env, host: |name| std::env::var_os(name) };
        let expand = |written: &[String]| written.iter().filter_map(|path| places.path(path)).collect();
        let demo = self.adapters().demo_state();
        let mut own: Vec<PathBuf> = expand(&settings.writable);
        // The settings name a directory so, and it is the user who wants it there.
        for made in settings.writable.iter().filter(|path| path.ends_with('/')).filter_map(|path| places.path(path)) {
            make(&made)?;
        }
        if env.get("WHARF_DEMO_STATE").is_some_and(|state| Path::new(state) == demo) {
            make(&demo)?;
            own.push(demo.clone());
        }
        Ok(Plan {
            roots,
            temporary: places.temporary(),
            own,
            kept: std::iter::once(self.state_dir.clone()).chain(self.config_file.clone()).collect(),
            hidden: expand(&settings.hidden),
            readable: expand(&settings.readable),
            sealed: self.sealed(),
            except: Some(demo),
        })
    }

    /// What decides which programs run without a sandbox: settings, manifests, and this program.
    fn sealed(&self) -> Vec<PathBuf> {
        let settings = self.config_dir.as_ref().map(|dir| dir.join("config.toml"));
        let program = Some(self.program.clone()).filter(|program| program.is_absolute());
        settings.into_iter().chain(self.adapters().dirs()).chain(program).collect()
    }
}

fn make(dir: &Path) -> Result<(), SandboxError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| SandboxError::Make { path: dir.to_owned(), why: error.to_string() })
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
        let more = more.map_err(|error| StartFailure::new(error.to_string()))?;
        let roots = roots(Path::new(&*origin.cwd), more, &inputs.real);
        let sandbox = self.config.profile(agent, roots)?;
        Ok(Launch { sandbox, ..self.launch(agent, origin.cwd.as_ref(), &inputs.env) })
    }
}

/// The directories besides cwd that a `session/new` names. Where nothing hangs on them, what cannot be told is none.
pub(super) fn named(agent: &Launchable, frame: &[u8], matter: bool) -> Result<Vec<PathBuf>, CreateError> {
    match StartInputs::directories(frame) {
        Err(_) if !matter && !agent.sandbox.is_on() => Ok(Vec::new()),
        told => told,
    }
}

/// A session's directories, with what they were when it was made.
pub(super) fn roots(cwd: &Path, more: Vec<PathBuf>, was: &BTreeMap<PathBuf, PathBuf>) -> Vec<Root> {
    let given = std::iter::once(cwd.to_owned()).chain(more);
    given.map(|given| Root { was: was.get(&given).cloned(), given }).collect()
}

/// What the directories are now.
pub(super) fn reals(cwd: &Path, more: &[PathBuf]) -> BTreeMap<PathBuf, PathBuf> {
    let given = std::iter::once(cwd).chain(more.iter().map(PathBuf::as_path));
    given.map(|given| (given.to_owned(), real(given))).collect()
}

impl From<SandboxError> for StartFailure {
    fn from(error: SandboxError) -> Self {
        Self::new(error.to_string())
    }
}
