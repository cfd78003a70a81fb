//! The adapters, and the versions that their programs report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::task::JoinSet;
use wharf_config::{AdapterInfo, KnownAgent, Launchable, QueueBy, VersionCheck};
use wharf_json::Json;

use super::sandbox_profile::make_profile;
use super::{Host, Inner};
use crate::agent::Launch;
use crate::agent::initialize::InitializeResponse;

/// The longest wait for a version, whatever a manifest says.
const MAX_VERSION_WAIT: Duration = Duration::from_secs(10);
/// The bytes of a program's answer that are read.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

impl Host {
    /// Every adapter, by slug. With `check`, the programs that are there are asked for their
    /// version.
    pub async fn adapters(&self, check: bool) -> Vec<AdapterInfo> {
        let inner = Arc::clone(&self.inner);
        let listed = tokio::task::spawn_blocking(move || {
            let mut listed = inner.config.adapters().list_with_checks();
            for (info, _) in listed.iter_mut().filter(|(info, _)| info.installed) {
                info.known = inner.introduced(&info.slug).map(|answer| to_known_agent(&answer));
            }
            listed
        })
        .await;
        let mut listed = listed.unwrap_or_default();
        if check {
            self.ask_versions(&mut listed).await;
        }
        listed.into_iter().map(|(info, _)| info).collect()
    }

    /// Returns whether the last start of the adapter's agent found a login; `None` if this process
    /// has not started it.
    pub fn known_login(&self, adapter: &str) -> Option<bool> {
        self.inner.agents.known_login(adapter)
    }

    async fn ask_versions(&self, listed: &mut [(AdapterInfo, Option<VersionCheck>)]) {
        let mut asking = JoinSet::new();
        for (at, (info, check)) in listed.iter().enumerate() {
            let Some(check) = check.clone().filter(|_| info.installed) else { continue };
            let inner = Arc::clone(&self.inner);
            let slug = info.slug.clone();
            asking.spawn(async move {
                let _permit = inner.start_limits.acquire_version_check().await;
                let answer = inner.ask_version(&slug, &check).await;
                (at, check, answer)
            });
        }
        while let Some(done) = asking.join_next().await {
            let Ok((at, check, answer)) = done else { continue };
            check.judge(answer, &mut listed[at].0);
        }
    }
}

fn to_known_agent(answer: &InitializeResponse) -> KnownAgent {
    let result = Json::parse(answer.frame.bytes())
        .and_then(|frame| frame.member("result"))
        .ok()
        .flatten();
    let at = |path: &[&str]| result.and_then(|result| result.at(path).ok().flatten());
    KnownAgent {
        version: answer.agent_version(),
        accepts: answer.traits.accepts,
        fork: answer.traits.fork,
        has_login: at(&["authMethods"]).is_some_and(|methods| methods.items().next().is_some()),
    }
}

impl Inner {
    /// Runs the manifest's command, without a shell, under a keeper and in the sandbox of the
    /// agent, since the agent may have written the program. Returns the output of the program, or
    /// why it has none.
    async fn ask_version(&self, slug: &str, check: &VersionCheck) -> Result<String, String> {
        let limit = check.timeout().min(MAX_VERSION_WAIT);
        let agent = self.agent(slug, None, &BTreeMap::new());
        let asked = Launchable {
            adapter: String::new(),
            command: check.command.clone(),
            env: BTreeMap::new(),
            queue: QueueBy::default(),
            replay_quiet: Duration::ZERO,
            variables: Vec::new(),
            comes_back: None,
            idle_limit: None,
            install: None,
            usage: None,
            sandbox: agent.map_or_else(|_| self.config.sandbox.clone(), |agent| agent.sandbox),
        };
        let sandbox = make_profile(&self.config, &asked, Vec::new());
        let sandbox = sandbox.map_err(|error| error.to_string())?;
        // A program finds no other program's settings in the state directory. A confined program
        // could not even look around there, so it runs in the directory for temporary files.
        let cwd =
            if sandbox.is_some() { std::env::temp_dir() } else { self.config.state_dir.clone() };
        let launch = Launch { sandbox, ..self.launch(&asked, None, cwd, &BTreeMap::new()) };
        let (read, write) = std::io::pipe().map_err(|error| error.to_string())?;
        let mut pipe =
            pipe::Receiver::from_owned_fd(read.into()).map_err(|error| error.to_string())?;
        let mut said = Vec::new();
        let answer = async {
            // Held until its output has ended: its drop ends the tree.
            let _process = launch.run_into(write.into()).await?;
            (&mut pipe)
                .take(MAX_ANSWER_BYTES)
                .read_to_end(&mut said)
                .await
                .map_err(|error| error.to_string())?;
            Ok(())
        };
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(())) => Ok(String::from_utf8_lossy(&said).into_owned()),
            Ok(Err(why)) => Err(why),
            Err(_) => Err(format!("no answer within {limit:?}")),
        }
    }
}
