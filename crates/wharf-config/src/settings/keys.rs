//! The table of all settings: the key in `config.toml`, its variable, its default, and when a
//! change of it counts. `docs/configuration.md`, the environment and `wharf config` follow this
//! table; tests compare them.

use ChangeEffect::{NewSessions, Now, Restart};
use SettingValueKind::{Count, List, ListOrAll, Path, Switch, Text};

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigKey {
    /// The key, dotted. `*` stands for a name that the user chooses.
    pub path: &'static str,
    pub kind: SettingValueKind,
    /// The default as TOML, in the words of the documentation if it depends on the machine, or
    /// [`NO_DEFAULT`].
    pub default: &'static str,
    pub effect: ChangeEffect,
    /// The value may be a secret and is shown nowhere.
    pub secret: bool,
}

/// The form of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingValueKind {
    /// A string: words, durations and sizes too.
    Text,
    /// A file or directory. Relative paths in `config.toml` begin where the file is, others in the
    /// current directory.
    Path,
    Count,
    Switch,
    /// A list of strings.
    List,
    /// A list of strings, or `"*"`.
    ListOrAll,
}

/// When a change of a setting counts in a host that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeEffect {
    /// At once: for the next thing that asks for it.
    Now,
    /// For sessions that are started, or loaded again, after the change.
    NewSessions,
    /// Once the host is started again.
    Restart,
}

/// Stands for the default of a setting that has none.
pub const NO_DEFAULT: &str = "–";

const fn key(
    path: &'static str,
    kind: SettingValueKind,
    default: &'static str,
    effect: ChangeEffect,
) -> ConfigKey {
    ConfigKey { path, kind, default, effect, secret: false }
}

const fn secret_key(
    path: &'static str,
    kind: SettingValueKind,
    default: &'static str,
    effect: ChangeEffect,
) -> ConfigKey {
    ConfigKey { path, kind, default, effect, secret: true }
}

/// Every setting, in the order of the documentation.
#[rustfmt::skip]
pub const CONFIG_KEYS: &[ConfigKey] = &[
    key("listen", Text, r#""127.0.0.1:7433""#, Restart),
    key("hosts", List, "[]", Now),
    key("public_url", Text, NO_DEFAULT, Restart),
    key("tls.cert", Path, NO_DEFAULT, Restart),
    key("tls.key", Path, NO_DEFAULT, Restart),
    key("auth", Text, r#""token""#, Restart),
    key("default_agent", Text, r#""demo""#, Now),
    key("agents.*.command", List, NO_DEFAULT, Now),
    secret_key("agents.*.env.*", Text, "{}", Now),
    key("agents.*.replay_quiet", Text, r#""250ms""#, Now),
    key("agents.*.sandbox.mode", Text, NO_DEFAULT, Now),
    key("agents.*.sandbox.writable", List, "[]", Now),
    key("agents.*.sandbox.hidden", List, "[]", Now),
    key("agents.*.sandbox.readable", List, "[]", Now),
    key("agents.*.queue", Text, r#""wharf""#, Now),
    key("adapters", Path, NO_DEFAULT, Now),
    key("env_passthrough", List, "[]", Now),
    key("start_timeout", Text, r#""60s""#, Now),
    key("start_retries", List, r#"["1s", "4s", "15s"]"#, NewSessions),
    key("cancel_timeout", Text, r#""30s""#, NewSessions),
    key("ask_timeout", Text, r#""never""#, NewSessions),
    key("forms", Text, r#""clients""#, NewSessions),
    key("on_restart", Text, r#""mark""#, NewSessions),
    key("resume_on_start", Text, r#""queued""#, Restart),
    key("ready_timeout", Text, r#""100ms""#, Now),
    key("serve_tools", Text, r#""stand-in""#, Now),
    key("redact_output", Switch, "true", Restart),
    key("session.idle_ttl", Text, r#""never""#, NewSessions),
    key("session.sleep_after", Text, r#""never""#, Now),
    key("session.unused_ttl", Text, r#""24h""#, Now),
    key("keeper.enabled", Switch, "true", Now),
    key("keeper.absence", Text, r#""12h""#, Now),
    key("keeper.idle_absence", Text, r#""30m""#, Now),
    key("keeper.output", Text, r#""64MiB""#, Now),
    key("keeper.scope", Text, r#""none""#, Now),
    key("retention.keep_for", Text, r#""never""#, Now),
    key("retention.keep_sessions", Count, "0", Now),
    key("retention.workspaces.*.keep_for", Text, NO_DEFAULT, Now),
    key("retention.workspaces.*.keep_sessions", Count, NO_DEFAULT, Now),
    key("retention.dry_run", Switch, "false", Now),
    key("notify.on", List, r#"["needs_answer", "failed", "finished"]"#, Now),
    key("notify.min_turn", Text, r#""20s""#, Now),
    key("notify.content", Text, r#""full""#, Now),
    key("notify.command", List, "[]", Now),
    secret_key("notify.webhook", Text, NO_DEFAULT, Now),
    key("notify.webhook_secret_file", Path, NO_DEFAULT, Now),
    key("notify.webhook_ca", Path, NO_DEFAULT, Now),
    key("notify.webhook_http", Switch, "false", Now),
    key("notify.timeout", Text, r#""10s""#, Now),
    key("amux.replay_turns", Text, r#""unbounded""#, Now),
    key("turn.deadline", Text, r#""never""#, NewSessions),
    key("turn.no_progress", Text, r#""never""#, NewSessions),
    key("delegation.allow.*", ListOrAll, "{}", Now),
    key("delegation.max_depth", Count, "1", Now),
    key("delegation.max_children", Count, "4", Now),
    key("delegation.answer", Switch, "false", Now),
    key("delegation.children", Text, r#""end""#, Now),
    key("limits.frame", Text, r#""32MiB""#, Restart),
    key("limits.queue", Count, "100", NewSessions),
    key("limits.asks", Count, "100", NewSessions),
    key("limits.sessions", Count, "1000", Restart),
    key("limits.starts", Count, "twice the cores", Restart),
    key("limits.spawns_per_minute", Count, "600", Restart),
    key("limits.log", Text, r#""4GiB""#, Now),
    key("limits.history", Text, r#""8MiB""#, Now),
    key("limits.connections", Count, "5000", Restart),
    key("limits.connections_per_token", Count, "2000", Restart),
    key("limits.headers", Text, r#""64KiB""#, Restart),
    key("limits.body", Text, r#""32MiB""#, Restart),
    key("limits.bodies", Text, r#""128MiB""#, Restart),
    key("limits.buffers", Text, r#""256MiB""#, Restart),
    key("limits.silence", Text, r#""30s""#, Restart),
    key("limits.failed_logins", Count, "30", Restart),
    key("limits.tail", Text, r#""2MiB""#, Restart),
    key("limits.tail_total", Text, r#""64MiB""#, Restart),
    key("limits.reserve", Text, r#""2MiB""#, Restart),
    key("sandbox.mode", Text, r#""off""#, Now),
    key("sandbox.writable", List, "[]", Now),
    key("sandbox.hidden", List, "[]", Now),
    key("sandbox.readable", List, "[]", Now),
    key("limits.session_memory", Text, r#""never""#, Now),
    key("limits.memory", Text, r#""never""#, Now),
    key("log_format", Text, r#""text""#, Restart),
    key("log_level", Text, r#""info""#, Now),
];

impl ConfigKey {
    /// Returns the row of a key, with the user's names in it: `agents.claude.command`.
    pub fn find(path: &str) -> Option<&'static Self> {
        CONFIG_KEYS.iter().find(|key| fits_whole(key.path, path))
    }

    /// Returns the name of the variable that sets this key: `WHARF_LIMITS_FRAME` for
    /// `limits.frame`. All keys below a name that the user chooses share the variable of the table
    /// above it: `WHARF_AGENTS`.
    pub fn variable(&self) -> String {
        format!("WHARF_{}", self.variable_path().replace('.', "_").to_ascii_uppercase())
    }

    /// Returns the part of the key that its variable sets.
    pub(crate) fn variable_path(&self) -> &'static str {
        self.path.split_once(".*").map_or(self.path, |(table, _)| table)
    }

    /// Tells whether the variable of this key holds a table with names that the user chooses.
    pub(crate) fn is_in_named_table(&self) -> bool {
        self.path.contains('*')
    }
}

impl ChangeEffect {
    /// Returns the word of the documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Now => "now",
            NewSessions => "new sessions",
            Restart => "restart",
        }
    }
}

/// Refuses a table with a key that is not known.
pub(super) fn check_keys(table: &toml::Table) -> Result<(), String> {
    check_table(table, "")
}

fn check_table(table: &toml::Table, above: &str) -> Result<(), String> {
    for (key, value) in table {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        if !CONFIG_KEYS.iter().any(|known| leads_to(known.path, &path)) {
            return Err(unknown_key(&path));
        }
        if let toml::Value::Table(inner) = value {
            check_table(inner, &path)?;
        }
    }
    Ok(())
}

/// Returns the complaint about a key that is not known, with the nearest that is.
pub fn unknown_key(path: &str) -> String {
    let known: Vec<&str> = CONFIG_KEYS.iter().map(|key| key.path).collect();
    let hint = find_nearest(path, &known)
        .map(|near| format!("; did you mean {near:?}?"))
        .unwrap_or_default();
    format!("unknown key {path:?}{hint}")
}

/// Tells whether the value of this key, or a value below it, may be a secret.
pub(super) fn holds_secrets(path: &str) -> bool {
    CONFIG_KEYS.iter().filter(|key| key.secret).any(|key| leads_to(key.path, path))
}

/// Tells whether `path` is a known key or the beginning of one.
fn leads_to(known: &str, path: &str) -> bool {
    let mut known = known.split('.');
    path.split('.')
        .all(|part| known.next().is_some_and(|word| word == "*" || word == part))
}

fn fits_whole(known: &str, path: &str) -> bool {
    known.split('.').count() == path.split('.').count() && leads_to(known, path)
}

/// Returns the candidate that takes the fewest edits to reach, if at most a third of the word must
/// change.
pub(crate) fn find_nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let best = candidates.iter().min_by_key(|candidate| strsim::levenshtein(word, candidate))?;
    (strsim::levenshtein(word, best) <= word.len().max(3) / 3).then_some(best)
}
