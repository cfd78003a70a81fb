//! Starting a host in the background. The one place of this program that starts processes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::Context;
use wharf_host::Launchable;

/// Of the log, when a host does not come up: its last words, not its life.
const TAIL: u64 = 2_000;

/// How a host is to be started.
#[derive(Debug)]
pub(crate) struct Starter {
    pub(crate) state_dir: PathBuf,
    pub(crate) config: Option<PathBuf>,
    /// Held on to so that it can be reaped when it ends before us.
    child: Option<Child>,
}

impl Starter {
    pub(crate) fn new(state_dir: PathBuf, config: Option<PathBuf>) -> Self {
        Self { state_dir, config, child: None }
    }

    /// Starts a host that outlives us. It is not up yet. Returns its pid.
    #[expect(clippy::disallowed_methods, reason = "all processes of this program are started from here")]
    pub(crate) fn start(&mut self) -> anyhow::Result<u32> {
        let program = std::env::current_exe().context("finding this program")?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.state_dir)
            .with_context(|| format!("making {}", self.state_dir.display()))?;
        let path = log_path(&self.state_dir);
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let log = log.with_context(|| format!("opening {}", path.display()))?;
        let mut command = Command::new(program);
        command.args(["serve", "--json", "--state-dir"]).arg(&self.state_dir);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        // A group of its own: what interrupts the editor or the terminal does not reach it.
        command.process_group(0).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("starting a host in the background")?;
        Ok(self.child.insert(child).id())
    }

    /// How the host that was started ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        self.child = None;
        Some(status)
    }

    /// What a host wrote last, for the one who has to find out why it is not there.
    pub(crate) fn last_words(&self) -> String {
        let path = log_path(&self.state_dir);
        match tail(&path) {
            Ok(text) if !text.trim().is_empty() => format!("{} ends with:\n{}", path.display(), text.trim_end()),
            Ok(_) | Err(_) => format!("{} says nothing", path.display()),
        }
    }
}

/// Becomes the agent, in the terminal that this program was started in; returns only if that fails. Variables that are
/// kept have the values that they have here.
#[expect(clippy::disallowed_methods, reason = "all processes of this program are started from here")]
pub(crate) fn become_agent(agent: &Launchable, arguments: &[String], keep_env: &[String]) -> anyhow::Error {
    let Some((program, own)) = agent.command.split_first() else { return anyhow::anyhow!("the agent has no command") };
    let env = agent.env.iter().filter(|(name, _)| !keep_env.contains(name));
    let error = Command::new(program).args(own).args(arguments).envs(env).exec();
    anyhow::Error::from(error).context(format!("running {program}; is it installed and on the PATH?"))
}

fn log_path(state_dir: &Path) -> PathBuf {
    state_dir.join("host.log")
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = fs::metadata(path)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
