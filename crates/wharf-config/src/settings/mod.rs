//! `config.toml`: every setting with its default. `docs/configuration.md` lists the same keys.

mod amux;
mod default_port;
mod delegation;
mod environment;
mod file_stamp;
mod keeper;
mod keys;
mod layers;
mod log_format;
mod mistakes;
mod notify;
mod public_url;
mod reload;
mod report;
mod retention;
mod sandbox;
mod tls;
mod tools;
mod units;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wharf_api::HostProcess;
use wharf_core::{FormAnswerers, OnRestart, Settings};

pub use amux::{AmuxSettings, ReplayTurns};
pub use default_port::{DEFAULT_LISTEN, KeptPort};
pub use delegation::{AllowedAdapters, Children, Delegation};
pub use environment::own_variables;
pub use file_stamp::FileStamp;
pub use keeper::{KeeperScope, KeeperSettings};
pub(crate) use keys::find_nearest;
pub use keys::{CONFIG_KEYS, ChangeEffect, ConfigKey, NO_DEFAULT, SettingValueKind, unknown_key};
pub use layers::{ConfigSources, LayeredSettings, Setting, SettingOrigin};
pub use log_format::LogFormat;
pub use notify::{NotifyContent, NotifyKind, NotifySettings, WEBHOOK_SECRET_VARIABLE, WebhookUrl};
pub use public_url::PublicUrl;
pub use reload::{ReloadReport, ReloadState, Reloaded, WaitingSetting};
pub use retention::{RetentionSettings, WorkspaceRetention};
pub use sandbox::{SandboxMode, SandboxSettings};
pub use tls::TlsSettings;
pub use tools::ServeTools;
pub use units::{Cap, Duration, Size};
pub use values::parse_value;

/// Everything that can be set. `Config::default()` is a host that works.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Where sessions, tokens and logs are kept; from the command line or the environment, not from
    /// the file.
    #[serde(skip)]
    pub state_dir: PathBuf,
    /// This program, for the keeper and the demo agent.
    #[serde(skip)]
    pub program: PathBuf,
    /// Where `config.toml` is or would be: manifests are in `adapters` beside it.
    #[serde(skip)]
    pub config_dir: Option<PathBuf>,
    /// The file itself, if it is there.
    #[serde(skip)]
    pub config_file: Option<PathBuf>,
    /// The stamp of the file when it was read.
    #[serde(skip)]
    pub file_stamp: Option<FileStamp>,
    /// Whether a server will announce the address of this host, which the host passes on to agents.
    #[serde(skip)]
    pub serves: bool,
    /// The file that the host's own log goes to; stderr if there is none. Set on the command line
    /// only.
    #[serde(skip)]
    pub log_file: Option<PathBuf>,
    /// How this process was started. The host reports it to clients.
    #[serde(skip)]
    pub process: HostProcess,
    /// Whether the host takes another port if `listen` has its default and another program has that
    /// port.
    #[serde(skip)]
    pub takes_free_port: bool,
    pub listen: String,
    /// Further names by which clients call this host.
    pub hosts: Vec<String>,
    /// The address by which browsers reach it through a proxy or a tunnel.
    pub public_url: Option<PublicUrl>,
    pub tls: TlsSettings,
    /// Whether the host listens without TLS on a public address. Set on the command line only.
    #[serde(skip)]
    pub insecure_no_tls: bool,
    pub auth: Auth,
    pub default_agent: String,
    pub agents: BTreeMap<String, AgentCommand>,
    /// A further directory of manifests.
    pub adapters: Option<PathBuf>,
    /// Variables of callers that every agent gets.
    pub env_passthrough: Vec<String>,
    pub start_timeout: Duration,
    pub cancel_timeout: Duration,
    pub ask_timeout: Duration,
    /// The callers that a form may wait for.
    pub forms: FormAnswerersWord,
    pub on_restart: OnRestartWord,
    pub resume_on_start: ResumeOnStart,
    /// After which times a start that failed is tried again while prompts wait for it.
    pub start_retries: Vec<Duration>,
    /// How long a client that never says `session/ready` waits for its first update.
    pub ready_timeout: Duration,
    /// To which agents the host says that their client has files and terminals.
    pub serve_tools: ServeTools,
    /// Whether text that looks like a secret is removed from output lines.
    pub redact_output: bool,
    pub session: SessionSettings,
    pub amux: AmuxSettings,
    pub turn: TurnSettings,
    pub limits: Limits,
    /// For all agents; `agents.NAME.sandbox` is for one.
    pub sandbox: SandboxSettings,
    pub delegation: Delegation,
    pub notify: NotifySettings,
    pub keeper: KeeperSettings,
    pub retention: RetentionSettings,
    /// How lines of the host's own output look.
    pub log_format: LogFormat,
    /// The log lines that are written: a level, or a filter of `tracing`.
    pub log_level: String,
    /// Complaints about the file that do not keep the host from starting; logged at its start.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// The sources to load it from again.
    #[serde(skip)]
    pub sources: ConfigSources,
    /// The settings that are not defaults.
    #[serde(skip)]
    pub settings: LayeredSettings,
}

/// One way to start an agent. Without a command it only holds the sandbox of an agent that has a
/// manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AgentCommand {
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// How long the agent must send no part of a replay before the replay counts as over; some
    /// agents replay after their answer.
    pub replay_quiet: Option<Duration>,
    pub queue: QueueBy,
    pub sandbox: SandboxSettings,
}

/// The side that keeps the queue of waiting prompts (rule 7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueBy {
    #[default]
    Wharf,
    /// The agent, if it says that it can.
    Agent,
}

/// The proof of identity that a connection over TCP needs (rules 10.1, 10.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    #[default]
    Token,
    /// No proof: every process of this machine counts as its user. Old amux clients have no token.
    None,
}

impl Auth {
    /// Returns the word of the setting.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::None => "none",
        }
    }
}

impl std::str::FromStr for Auth {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "token" => Ok(Self::Token),
            "none" => Ok(Self::None),
            _ => Err(format!("{word:?} is not a way to authenticate; write \"token\" or \"none\"")),
        }
    }
}

/// Which ended sessions a starting host brings back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResumeOnStart {
    None,
    /// Sessions with waiting prompts.
    #[default]
    Queued,
    All,
}

/// The value of `forms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FormAnswerersWord {
    #[default]
    Clients,
    Anyone,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRestartWord {
    #[default]
    Mark,
    Requeue,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct SessionSettings {
    pub idle_ttl: Duration,
    /// An idle session without a controller is put to sleep after this time, if it can come back
    /// (rule 2.11).
    pub sleep_after: Duration,
    /// A session that was never prompted is forgotten after this time without a client (rule 2.13).
    pub unused_ttl: Duration,
}

impl Default for SessionSettings {
    fn default() -> Self {
        let unused_ttl = Duration::from_millis(24 * 60 * 60 * 1_000);
        Self {
            idle_ttl: Duration::NEVER,
            sleep_after: Duration::NEVER,
            unused_ttl,
        }
    }
}

/// How long a turn may take, and how long its agent may say nothing (rule 2.8).
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct TurnSettings {
    pub deadline: Duration,
    pub no_progress: Duration,
}

impl Default for TurnSettings {
    fn default() -> Self {
        Self { deadline: Duration::NEVER, no_progress: Duration::NEVER }
    }
}

/// Limits. A client that hits a limit gets an error, and no other client is affected (rule 10.5).
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// One JSON-RPC message, from either side. ACP embeds files and images in messages.
    pub frame: Size,
    /// Prompts waiting in one session.
    pub queue: usize,
    /// Asks open in one session.
    pub asks: usize,
    /// Sessions with a running agent.
    pub sessions: usize,
    /// Agents that are being started at the same time.
    pub starts: usize,
    /// New sessions that one token may start in a minute.
    pub spawns_per_minute: u32,
    /// The log of one session; at this it is ended.
    pub log: Size,
    /// Connections over TCP in all, and as many over the socket.
    pub connections: usize,
    /// Wrong tokens and codes of one address in a minute.
    pub failed_logins: usize,
    /// Of one token.
    pub connections_per_token: usize,
    /// The body of a request.
    pub body: Size,
    /// Bytes that are held of all messages on their way in.
    pub bodies: Size,
    /// Messages on their way in and out, over all connections.
    pub buffers: Size,
    /// How much of a log one answer may carry.
    pub history: Size,
    /// The head of a request: its line and its headers.
    pub headers: Size,
    /// How long a client may keep a connection and say nothing.
    pub silence: Duration,
    /// Recent events of one session kept in memory.
    pub tail: Size,
    /// The same for all sessions together.
    pub tail_total: Size,
    /// Memory of one session's processes. The host puts a session that uses more to sleep when the
    /// session is idle, and never kills it at work.
    pub session_memory: Cap,
    /// The same for all sessions together: the session that has been idle for longest goes to sleep
    /// first.
    pub memory: Cap,
    /// Disk space that is reserved for a full disk.
    pub reserve: Size,
}

/// The smallest head limit that the HTTP library accepts.
const MIN_HEADERS_BYTES: usize = 8 << 10;

impl Limits {
    fn check_values(&self) -> Result<(), String> {
        if self.headers.0 < MIN_HEADERS_BYTES {
            return Err(
                "limits.headers: less than \"8KiB\" would refuse ordinary requests".to_owned()
            );
        }
        if self.connections == 0 || self.connections_per_token == 0 {
            return Err(
                "limits.connections, limits.connections_per_token: with 0 no client could reach the host".to_owned()
            );
        }
        if self.silence == Duration::NEVER {
            return Err("limits.silence: \"never\" would let a client hold a connection for ever"
                .to_owned());
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame: Size(32 << 20),
            queue: 100,
            asks: 100,
            sessions: 1_000,
            starts: 2 * std::thread::available_parallelism().map_or(2, usize::from),
            spawns_per_minute: 600,
            // Months of work; a flood is stopped before it fills a disk.
            log: Size(4 << 30),
            connections: 5_000,
            // A person mistypes, a program with an old token tries again: neither does so every two
            // seconds.
            failed_logins: 30,
            // Two fifths: one token alone, or two, leave room for others.
            connections_per_token: 2_000,
            body: Size(32 << 20),
            bodies: Size(128 << 20),
            buffers: Size(256 << 20),
            history: Size(8 << 20),
            headers: Size(64 << 10),
            silence: Duration::from_millis(30_000),
            // Enough for a client that pauses for a second at full stream; a slower one reads from
            // the page cache.
            tail: Size(2 << 20),
            tail_total: Size(64 << 20),
            session_memory: Cap(None),
            memory: Cap(None),
            // Some hundred pauses and kills, each of which takes a block of 4 KiB at least.
            reserve: Size(2 << 20),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            state_dir: PathBuf::new(),
            program: PathBuf::new(),
            config_dir: None,
            config_file: None,
            file_stamp: None,
            serves: false,
            log_file: None,
            process: HostProcess::default(),
            takes_free_port: false,
            listen: DEFAULT_LISTEN.to_owned(),
            hosts: Vec::new(),
            public_url: None,
            tls: TlsSettings::default(),
            insecure_no_tls: false,
            auth: Auth::default(),
            default_agent: "demo".to_owned(),
            agents: BTreeMap::new(),
            adapters: None,
            env_passthrough: Vec::new(),
            start_timeout: Duration::from_millis(60_000),
            cancel_timeout: Duration::from_millis(30_000),
            ask_timeout: Duration::NEVER,
            forms: FormAnswerersWord::Clients,
            on_restart: OnRestartWord::Mark,
            resume_on_start: ResumeOnStart::Queued,
            start_retries: [1_000, 4_000, 15_000].map(Duration::from_millis).to_vec(),
            ready_timeout: Duration::from_millis(100),
            serve_tools: ServeTools::default(),
            redact_output: true,
            session: SessionSettings::default(),
            amux: AmuxSettings::default(),
            turn: TurnSettings::default(),
            limits: Limits::default(),
            sandbox: SandboxSettings::default(),
            delegation: Delegation::default(),
            notify: NotifySettings::default(),
            keeper: KeeperSettings::default(),
            retention: RetentionSettings::default(),
            log_format: LogFormat::default(),
            log_level: "info".to_owned(),
            warnings: Vec::new(),
            sources: ConfigSources::default(),
            settings: LayeredSettings::default(),
        }
    }
}

impl AgentCommand {
    fn is_sandbox_only(&self) -> bool {
        let only = Self { sandbox: self.sandbox.clone(), ..Self::default() };
        *self == only && self.sandbox != SandboxSettings::default()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path}: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{path}: {message}", path = path.display())]
    Invalid { path: PathBuf, message: String },
    #[error(
        "{path} is gone; the settings that were read from it stay in force: put it back, or run `wharf reload` to go on without it",
        path = .0.display()
    )]
    FileGone(PathBuf),
    /// Names the variable.
    #[error("{0}")]
    Environment(String),
    #[error("the settings cannot be used: {0}")]
    Settings(String),
    #[error(transparent)]
    Agent(#[from] crate::adapters::AdapterError),
    #[error(
        "the settings were changed {0} times since the host started; restart it for this change: wharf restart"
    )]
    TooManyReloads(usize),
}

impl Config {
    /// Reads a file, without variables and flags.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        ConfigSources::new(Some(path.to_owned()), true, &[])?.load()
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::from_settings(LayeredSettings::of_text(text)?)
    }

    /// Makes the configuration of these settings, and checks those that depend on each other.
    fn from_settings(settings: LayeredSettings) -> Result<Self, String> {
        let table = settings.table().clone();
        let mut config: Self = table
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| mistakes::hide_value(error.message()))?;
        config.settings = settings;
        config.warnings.extend(tools::warn_of_old_value(&table));
        let mut sandboxes = std::iter::once(&config.sandbox)
            .chain(config.agents.values().map(|agent| &agent.sandbox));
        if let Some(path) = sandboxes.find_map(SandboxSettings::find_bad_path) {
            return Err(format!(
                "sandbox: {path:?} is not a valid path; begin it with /, ~/ or $VARIABLE/, without .."
            ));
        }
        tls::check_names(&config.hosts)?;
        config.limits.check_values()?;
        config.notify.check_values()?;
        match config
            .agents
            .iter()
            .find(|(_, agent)| agent.command.is_empty() && !agent.is_sandbox_only())
        {
            Some((name, _)) => Err(format!(
                "agents.{name} has no command; write: command = [\"program\", \"argument\"]"
            )),
            None => Ok(config),
        }
    }

    /// Refuses a default agent that is not known, and sandbox settings for an unknown agent.
    pub fn check_agents(&self) -> Result<(), crate::adapters::AdapterError> {
        self.adapters().find(&self.default_agent, None, &BTreeMap::new())?;
        self.check_sandboxes()
    }

    /// Refuses sandbox settings for an unknown agent: they would protect nothing.
    pub fn check_sandboxes(&self) -> Result<(), crate::adapters::AdapterError> {
        let mut only = self.agents.iter().filter(|(_, agent)| agent.is_sandbox_only());
        only.try_for_each(|(name, _)| self.adapters().find(name, None, &BTreeMap::new()).map(drop))
    }

    /// Returns the settings that the core needs.
    pub fn core_settings(&self) -> Settings {
        Settings {
            cancel_timeout: self.cancel_timeout.to_millis(),
            ask_timeout: self.ask_timeout.to_millis(),
            forms: match self.forms {
                FormAnswerersWord::Clients => FormAnswerers::Clients,
                FormAnswerersWord::Anyone => FormAnswerers::Anyone,
            },
            idle_ttl: self.session.idle_ttl.to_millis(),
            turn_deadline: self.turn.deadline.to_millis(),
            no_progress: self.turn.no_progress.to_millis(),
            on_restart: match self.on_restart {
                OnRestartWord::Mark => OnRestart::Mark,
                OnRestartWord::Requeue => OnRestart::Requeue,
            },
            start_retries: self.start_retries.iter().filter_map(|wait| wait.to_millis()).collect(),
            max_queue: self.limits.queue,
            max_asks: self.limits.asks,
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests;
