//! The configuration of a running host, which can change while others read it.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use wharf_api::{HostSettingList, SettingsState};
use wharf_config::{Config, ConfigError, FileStamp, ReloadReport, ReloadState, Reloaded};

use super::Inner;

/// How many versions of the configuration one host can have. The host keeps all versions until it
/// ends, so that a reader can go on with its version; they are small, and only a changed setting
/// makes a new one.
const MAX_VERSIONS: usize = 4_096;
/// How often the file is looked at: soon enough for a person who edits it, at the cost of one
/// `stat`.
const FILE_CHECK_PERIOD: Duration = Duration::from_secs(1);

/// The configuration in force. It dereferences to the newest version; a reader needs no lock, and a
/// reference that it has stays valid while the configuration changes.
#[derive(Debug)]
pub(crate) struct LiveConfig {
    versions: Box<[OnceLock<Box<Config>>]>,
    first: Box<Config>,
    /// 0 is `first`.
    newest: AtomicUsize,
    state: Mutex<ReloadState>,
    changes: watch::Sender<()>,
}

impl Deref for LiveConfig {
    type Target = Config;

    fn deref(&self) -> &Config {
        let newest = self.newest.load(Ordering::Acquire);
        newest
            .checked_sub(1)
            .and_then(|at| self.versions.get(at)?.get())
            .unwrap_or(&self.first)
    }
}

impl LiveConfig {
    pub(super) fn new(config: Config) -> Self {
        Self {
            versions: (1..MAX_VERSIONS).map(|_| OnceLock::new()).collect(),
            first: Box::new(config),
            newest: AtomicUsize::new(0),
            state: Mutex::default(),
            changes: watch::Sender::new(()),
        }
    }

    /// Changes whenever a setting has.
    pub(crate) fn watch_changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    fn lock_state(&self) -> MutexGuard<'_, ReloadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the sources again because someone asks for it. A setting that cannot change while the
    /// host runs keeps its value. If anything is wrong, nothing changes. A file that is gone counts
    /// as empty.
    pub(super) fn reload(&self) -> Result<ReloadReport, ConfigError> {
        self.reload_from(|live| live.load_again())
    }

    /// Does the same because the file has changed by itself. A file that is gone is a mistake then:
    /// a slip of an editor or of a script must not turn protections off.
    fn reload_changed_file(&self) -> Result<ReloadReport, ConfigError> {
        self.reload_from(|live| match &live.config_file {
            Some(path) if !path.exists() => Err(ConfigError::FileGone(path.clone())),
            Some(_) | None => live.load_again(),
        })
    }

    fn reload_from(
        &self,
        load: impl FnOnce(&Self) -> Result<Reloaded, ConfigError>,
    ) -> Result<ReloadReport, ConfigError> {
        // One at a time.
        let mut state = self.lock_state();
        let reloaded = load(self).and_then(|reloaded| {
            if !reloaded.report.changed.is_empty() {
                self.publish(reloaded.config)?;
            }
            Ok((reloaded.report, reloaded.waiting))
        });
        match reloaded {
            Ok((report, waiting)) => {
                *state = ReloadState { waiting, fault: None };
                log_report(&report);
                Ok(report)
            }
            Err(error) => {
                tracing::error!(%error, "the settings cannot be used; those that were read before stay in force");
                state.fault = Some(error.to_string());
                Err(error)
            }
        }
    }

    fn publish(&self, config: Config) -> Result<(), ConfigError> {
        let newest = self.newest.load(Ordering::Acquire);
        let slot = self.versions.get(newest).ok_or(ConfigError::TooManyReloads(MAX_VERSIONS))?;
        if slot.set(Box::new(config)).is_ok() {
            self.newest.store(newest + 1, Ordering::Release);
        }
        self.changes.send_replace(());
        Ok(())
    }

    /// Lists every setting that is in force.
    pub(super) fn describe(&self) -> HostSettingList {
        let settings = self.list_settings(&self.lock_state());
        HostSettingList { state: self.describe_state(), settings }
    }

    /// Describes the file, and what waits for a restart.
    pub(super) fn describe_state(&self) -> SettingsState {
        let state = self.lock_state();
        let waiting = state.waiting.iter().map(|waiting| waiting.path.clone()).collect();
        SettingsState {
            file: self.source_file(),
            waiting,
            fault: state.fault.clone(),
        }
    }
}

fn log_report(report: &ReloadReport) {
    if !report.changed.is_empty() {
        tracing::info!(keys = report.changed.join(", "), "settings changed");
    }
    if !report.waiting.is_empty() {
        tracing::warn!(
            keys = report.waiting.join(", "),
            "changed settings that wait for a restart of the host"
        );
    }
}

/// Reloads the configuration of this host when its file has changed, as long as the host runs.
pub(super) fn watch_file(inner: &Arc<Inner>) {
    let Some(path) = inner.config.sources.file.clone() else { return };
    let host = Arc::downgrade(inner);
    // As of the load: the file may have changed since, while the host was starting.
    let mut loaded = inner.config.file_stamp;
    tokio::spawn(async move {
        let mut seen = loaded;
        loop {
            tokio::time::sleep(FILE_CHECK_PERIOD).await;
            let looked = path.clone();
            let Ok(now) = tokio::task::spawn_blocking(move || FileStamp::of(&looked)).await else {
                return;
            };
            // A file that is being written is read once it has stayed the same between two looks.
            let settled = now == seen;
            seen = now;
            if settled && now != loaded {
                loaded = now;
                if !reload_in_background(&host).await {
                    return;
                }
            } else if host.strong_count() == 0 {
                return;
            }
        }
    });
}

/// Returns false if the host has ended.
async fn reload_in_background(host: &Weak<Inner>) -> bool {
    let Some(inner) = host.upgrade() else { return false };
    // The outcome is in the log and in the host's description.
    let _ = tokio::task::spawn_blocking(move || inner.config.reload_changed_file().is_ok()).await;
    true
}

#[cfg(test)]
mod tests {
    use wharf_config::ConfigSources;

    use super::*;

    fn live_config(text: &str) -> (tempfile::TempDir, LiveConfig) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, text).unwrap();
        let config = ConfigSources::new(Some(file), false, &[]).unwrap().load().unwrap();
        (folder, LiveConfig::new(config))
    }

    fn write(folder: &tempfile::TempDir, text: &str) {
        std::fs::write(folder.path().join("config.toml"), text).unwrap();
    }

    #[test]
    fn reload_changes_the_settings_that_can_change_and_names_the_others() {
        let (folder, live) =
            live_config("listen = \"127.0.0.1:1\"\nask_timeout = \"1s\"\n[limits]\nqueue = 3\n");
        let before: &Config = &live;
        write(
            &folder,
            "listen = \"127.0.0.1:2\"\nask_timeout = \"2s\"\nhosts = [\"box.example\"]\n",
        );
        let report = live.reload().unwrap();
        assert_eq!(report.changed, ["ask_timeout", "hosts", "limits.queue"]);
        assert_eq!(report.waiting, ["listen"]);
        let words =
            |config: &Config| (config.listen.clone(), config.ask_timeout, config.limits.queue);
        assert_eq!(
            words(&live),
            ("127.0.0.1:1".to_owned(), wharf_config::Duration::from_millis(2_000), 100)
        );
        assert_eq!(
            words(before),
            ("127.0.0.1:1".to_owned(), wharf_config::Duration::from_millis(1_000), 3)
        );
        let listen = live
            .list_settings(&live.lock_state())
            .into_iter()
            .find(|setting| setting.key == "listen")
            .unwrap();
        assert_eq!(
            (listen.value.as_deref(), listen.waiting.as_deref()),
            (Some("\"127.0.0.1:1\""), Some("\"127.0.0.1:2\""))
        );
        write(
            &folder,
            "listen = \"127.0.0.1:1\"\nask_timeout = \"2s\"\nhosts = [\"box.example\"]\n",
        );
        assert_eq!(live.reload().unwrap(), ReloadReport::default());
        assert!(live.lock_state().waiting.is_empty());
    }

    #[test]
    fn broken_file_changes_nothing_and_is_named_until_it_is_right() {
        let (folder, live) = live_config("ask_timeout = \"1s\"\n");
        for broken in [
            "ask_timeout = \"2s\"\nask_timeot = \"1s\"",
            "ask_timeout = ",
            "ask_timeout = \"2s\"\ndefault_agent = \"gone\"",
        ] {
            write(&folder, broken);
            live.reload().unwrap_err();
            assert_eq!(live.ask_timeout, wharf_config::Duration::from_millis(1_000), "{broken}");
            assert!(
                live.lock_state().fault.as_ref().is_some_and(|fault| !fault.is_empty()),
                "{broken}"
            );
        }
        write(&folder, "ask_timeout = \"2s\"\n");
        assert_eq!(live.reload().unwrap().changed, ["ask_timeout"]);
        assert_eq!(live.lock_state().fault, None);
    }

    #[test]
    fn file_that_vanishes_by_itself_changes_nothing_and_is_named_until_it_is_back() {
        let (folder, live) = live_config("ask_timeout = \"1s\"\n");
        let file = folder.path().join("config.toml");
        std::fs::remove_file(&file).unwrap();
        live.reload_changed_file().unwrap_err();
        assert_eq!(live.ask_timeout, wharf_config::Duration::from_millis(1_000));
        let fault = live.lock_state().fault.clone().unwrap();
        assert!(
            fault.contains(&*file.to_string_lossy()) && fault.contains("wharf reload"),
            "{fault}"
        );
        write(&folder, "ask_timeout = \"2s\"\n");
        assert_eq!(live.reload_changed_file().unwrap().changed, ["ask_timeout"]);
        assert_eq!(live.lock_state().fault, None);
    }

    #[test]
    fn host_that_started_without_a_file_goes_on_without_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = Some(folder.path().join("config.toml"));
        let live = LiveConfig::new(ConfigSources::new(file, false, &[]).unwrap().load().unwrap());
        assert_eq!(live.reload_changed_file().unwrap(), ReloadReport::default());
        write(&folder, "ask_timeout = \"2s\"\n");
        assert_eq!(live.reload_changed_file().unwrap().changed, ["ask_timeout"]);
    }

    #[tokio::test]
    async fn edit_of_the_file_while_the_host_starts_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, "ask_timeout = \"1s\"\n");
        let file = folder.path().join("config.toml");
        let mut config = ConfigSources::new(Some(file), false, &[]).unwrap().load().unwrap();
        config.state_dir = folder.path().join("state");
        write(&folder, "ask_timeout = \"120s\"\n");
        let host = crate::Host::start(config).unwrap();
        let mut changes = host.config_changes();
        tokio::time::timeout(Duration::from_secs(30), changes.changed())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(host.config().ask_timeout, wharf_config::Duration::from_millis(120_000));
    }

    #[test]
    fn removed_file_gives_the_defaults_back_to_a_person_who_reloads() {
        let (folder, live) = live_config("ask_timeout = \"1s\"\n");
        std::fs::remove_file(folder.path().join("config.toml")).unwrap();
        assert_eq!(live.reload().unwrap().changed, ["ask_timeout"]);
        assert_eq!(live.ask_timeout, wharf_config::Duration::NEVER);
    }
}
