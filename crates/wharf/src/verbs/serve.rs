//! `wharf serve`: the host.

mod greeting;
mod signals;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Parser};
use tokio::sync::mpsc::Receiver;
use tracing_subscriber::EnvFilter;
use wharf_api::{HostProcess, StartKind};
use wharf_config::{Auth, Config, ConfigSources, LogFormat, ReplayTurns, own_variables};
use wharf_host::Host;
use wharf_render::text::shorten_path;
use wharf_server::{Server, StopKind, Tokens};

use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::log_file::RotatedLogFile;
use crate::logging::{LogWriter, log_panics};
use crate::{allocator, connect, output, paths, start_check};
use greeting::Greeting;

/// The adapter that `--agent-cmd` defines.
const COMMAND_LINE_AGENT: &str = "agent";

#[derive(Debug, Args)]
pub(crate) struct ServeVerb {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:7433, or a free port if
    /// another program has that]. An address that is given is used, or the host does not start.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The host part of `--listen`, as amux has it.
    #[arg(long, value_name = "HOST", conflicts_with = "listen")]
    host: Option<String>,
    /// The port of `--listen`, as amux has it.
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// A PEM file with the certificate for TLS; those that lead to its root may follow in it.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// A PEM file with the certificate's private key.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Listen on other addresses than this machine's own without TLS: tokens and sessions can be
    /// read on the way.
    #[arg(long)]
    insecure_no_tls: bool,
    /// The agent of clients that name none [default: demo].
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// A command line that starts an ACP agent; makes it the default agent.
    #[arg(long, value_name = "CMD", conflicts_with = "agent")]
    agent_cmd: Option<String>,
    /// A directory with manifests of agents, besides `adapters` beside the configuration file.
    #[arg(long, value_name = "DIR")]
    adapters: Option<PathBuf>,
    /// The authentication of TCP connections: `token`, or `none` for old amux clients on a machine
    /// of your own.
    #[arg(long, value_name = "HOW")]
    auth: Option<Auth>,
    /// End a session that no client has been attached to for so long (amux's name for
    /// `session.idle_ttl`).
    #[arg(long, value_name = "N")]
    session_ttl_seconds: Option<u64>,
    /// How many turns an amux client that comes late is shown: `unbounded`, 0 or more.
    #[arg(long, value_name = "TURNS")]
    replay_turns: Option<ReplayTurns>,
    /// How lines of the host's own output look: `text`, or `json` for programs [default: text].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Write the host's own log to this file instead of stderr; at 8 MiB it becomes FILE.1, of
    /// which three are kept.
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// How the host was started: `background`, or `service:NAME`. For `wharf restart`.
    #[arg(long, value_name = "HOW", hide = true)]
    started_as: Option<String>,
    /// Print one line of JSON once connections are accepted, and nothing else.
    #[arg(long)]
    json: bool,
}

impl ServeVerb {
    /// Returns true if the configuration file has to be there. A service always names its file,
    /// which may be made later.
    fn requires_file(&self, global: &GlobalOptions) -> bool {
        let is_service = self.started_as.as_deref().is_some_and(|how| how.starts_with("service:"));
        global.config_file().is_some() && !is_service
    }
}

pub(crate) fn run(global: &GlobalOptions, serve: ServeVerb) -> anyhow::Result<()> {
    if global.url.is_some() || global.context.is_some() {
        global.refuse_remote("serve runs a host on this machine")?;
    }
    let config = build_config(global, &serve)?;
    let set_log_filter = start_log(&config, global.colours_stderr())?;
    allocator::keep_thresholds();
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(run_host(global, config, &serve, set_log_filter))
}

async fn run_host(
    global: &GlobalOptions,
    config: Config,
    serve: &ServeVerb,
    set_log_filter: SetLogFilter,
) -> anyhow::Result<()> {
    // Signals are caught from now on: a signal during the start must not leave agents running.
    let (stopped, reloads) = signals::listen()?;
    let state_dir = config.state_dir.clone();
    wharf_host::adopt_orphans();
    // Each agent that is taken over needs several files.
    let _ = wharf_host::raise_open_files();
    let host = Host::start(config)?;
    let watched = host.clone();
    tokio::spawn(reload_on_signal(host.clone(), reloads));
    tokio::spawn(follow_log_level(host.clone(), set_log_filter));
    let token_file = state_dir.join("token");
    let tokens = Tokens::open(&state_dir)?;
    let socket = state_dir.join("wharf.sock");
    let server = Server::bind(host, tokens, &socket)?;
    #[cfg(target_env = "gnu")]
    crate::memory_return::start_returning_memory()
        .context("starting the thread that returns memory")?;
    let url = server.url().to_owned();
    let is_greeted = !serve.json && global.screen().terminal;
    // The greeting says it. The port of the other program is never named: a user might open it.
    if !is_greeted && server.taken_address().is_some() {
        tracing::info!(%url, "another program has the usual port; this host keeps its own from now on");
    }
    if serve.json {
        let line = serde_json::json!({
            "event": "listening",
            "url": url,
            "socket": socket,
            "tokenFile": token_file,
        });
        output::print_line(&line.to_string());
    } else {
        // A pipe or a journal must not hold a code.
        let sign_in = global.screen().terminal.then(|| server.create_sign_in_address()).flatten();
        print_greeting(global, &server, sign_in, &watched);
    }
    let mut is_gone = false;
    let stop = async {
        tokio::select! {
            kind = stopped => kind,
            () = watched.state_gone() => {
                is_gone = true;
                let dir = state_dir.display();
                tracing::error!(%dir, "stopping: the state directory was deleted, moved or replaced");
                StopKind::EndAgents
            }
        }
    };
    server.run(stop).await;
    if is_gone {
        bail!(
            "the state directory {} was deleted, moved or replaced while the host ran",
            state_dir.display()
        );
    }
    Ok(())
}

/// Loads the settings again at each SIGHUP. The outcome goes to the log.
async fn reload_on_signal(host: Host, mut reloads: Receiver<()>) {
    while reloads.recv().await.is_some() {
        let host = host.clone();
        let _ = tokio::task::spawn_blocking(move || host.reload_config()).await;
    }
}

/// Keeps the filter of the log as the settings have it.
async fn follow_log_level(host: Host, set_log_filter: SetLogFilter) {
    let mut changes = host.config_changes();
    let mut level = host.config().log_level.clone();
    while changes.changed().await.is_ok() {
        let wanted = &host.config().log_level;
        if *wanted != level {
            level.clone_from(wanted);
            if let Err(error) = parse_log_filter(wanted).and_then(&set_log_filter) {
                tracing::error!(%error, "the log keeps its level");
            }
        }
    }
}

/// Returns the sources of the configuration, without flags of `wharf serve`.
pub(crate) fn config_sources(global: &GlobalOptions) -> anyhow::Result<ConfigSources> {
    Ok(ConfigSources::new(
        Some(global.config_path()?),
        global.config_file().is_some(),
        &own_variables(),
    )?)
}

/// Returns the configuration of a host that is started without flags of its own.
pub(crate) fn load_config(global: &GlobalOptions) -> anyhow::Result<Config> {
    finish_config(global, config_sources(global)?.load()?)
}

/// Returns the defaults, with the directories of the host.
pub(crate) fn base_config(global: &GlobalOptions) -> anyhow::Result<Config> {
    finish_config(global, Config::default())
}

fn finish_config(global: &GlobalOptions, mut config: Config) -> anyhow::Result<Config> {
    config.state_dir = global.state_dir()?;
    config.program = std::env::current_exe().context("finding this program")?;
    // As a verb would start it.
    config.takes_free_port = true;
    Ok(config)
}

fn build_config(global: &GlobalOptions, serve: &ServeVerb) -> anyhow::Result<Config> {
    let sources = ConfigSources::new(
        Some(global.config_path()?),
        serve.requires_file(global),
        &own_variables(),
    )?;
    build_config_from(sources, global, serve)
}

fn build_config_from(
    mut sources: ConfigSources,
    global: &GlobalOptions,
    serve: &ServeVerb,
) -> anyhow::Result<Config> {
    add_flags(&mut sources, serve)?;
    let mut config = finish_config(global, sources.load()?)?;
    config.serves = true;
    config.log_file = serve
        .log_file
        .as_ref()
        .map(std::path::absolute)
        .transpose()
        .context("finding the log file")?;
    config.insecure_no_tls = serve.insecure_no_tls;
    config.process = describe_process(serve.started_as.as_deref());
    // A program that starts a host in the foreground may count on an address that it knows (rule
    // 11.5).
    config.takes_free_port =
        config.process.started_as != StartKind::Foreground || global.screen().terminal;
    config.check_agents()?;
    Ok(config)
}

/// Refuses settings that a host with these arguments, from `serve` on, could not start with.
/// `variables` are those of the host's environment, `own` is the address of the running host in
/// whose place it starts.
pub(super) fn check_start(
    arguments: &[String],
    variables: &[(String, String)],
    own: Option<SocketAddr>,
) -> Result<(), Failure> {
    let refused =
        |why: String| Failure::new(Exit::Usage, format!("the settings cannot be used: {why}"));
    let words = std::iter::once("wharf").chain(arguments.iter().map(String::as_str));
    let parsed = crate::Cli::try_parse_from(words).map_err(|error| refused(error.to_string()))?;
    let Some(crate::Verb::Serve(serve)) = parsed.verb else {
        return Err(refused("they start no host".to_owned()));
    };
    let check = || -> anyhow::Result<()> {
        let global = &parsed.global;
        let sources = ConfigSources::new(
            Some(global.config_path()?),
            serve.requires_file(global),
            variables,
        )?;
        let config = build_config_from(sources, global, &serve)?;
        start_check::check_startable(&config, own)?;
        Ok(())
    };
    check().map_err(|error| refused(format!("{error:#}")))
}

/// Describes how this process was started, so that it can be started again.
fn describe_process(started_as: Option<&str>) -> HostProcess {
    let (started_as, service) = match started_as.map(|how| how.split_once(':').unwrap_or((how, "")))
    {
        Some(("service", name)) => (StartKind::Service, Some(name.to_owned())),
        Some(("background", _)) => (StartKind::Background, None),
        Some(_) | None => (StartKind::Foreground, None),
    };
    let arguments = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    HostProcess { started_as, service, arguments: arguments.collect() }
}

/// Adds the flags to the sources, so that each counts before the file and the environment, also
/// after a reload.
fn add_flags(sources: &mut ConfigSources, serve: &ServeVerb) -> anyhow::Result<()> {
    if serve.host.is_some() || serve.port.is_some() {
        let address = join_address(&sources.load()?.listen, serve.host.as_deref(), serve.port)?;
        sources.add_flag(if serve.host.is_some() { "--host" } else { "--port" }, "listen", address);
    }
    let words = [
        ("--listen", "listen", serve.listen.clone()),
        ("--auth", "auth", serve.auth.map(|auth| auth.as_str().to_owned())),
        ("--log-format", "log_format", serve.log_format.map(|format| format.as_str().to_owned())),
        ("--replay-turns", "amux.replay_turns", serve.replay_turns.map(|turns| turns.to_string())),
        (
            "--session-ttl-seconds",
            "session.idle_ttl",
            serve.session_ttl_seconds.map(|seconds| format!("{seconds}s")),
        ),
        ("--agent", "default_agent", serve.agent.clone()),
    ];
    for (flag, key, value) in words {
        if let Some(value) = value {
            sources.add_flag(flag, key, value);
        }
    }
    let paths = [
        ("--adapters", "adapters", &serve.adapters),
        ("--tls-cert", "tls.cert", &serve.tls_cert),
        ("--tls-key", "tls.key", &serve.tls_key),
    ];
    for (flag, key, path) in paths {
        let Some(path) = path else { continue };
        let path =
            std::path::absolute(path).with_context(|| format!("finding {}", path.display()))?;
        let path = path
            .to_str()
            .with_context(|| format!("reading {flag}: {} is not UTF-8", path.display()))?;
        sources.add_flag(flag, key, path.to_owned());
    }
    if let Some(line) = &serve.agent_cmd {
        let command = wharf_host::split_command(line)
            .with_context(|| format!("reading --agent-cmd {line:?}"))?;
        if command.is_empty() {
            bail!(
                "--agent-cmd is empty; give a command, for example --agent-cmd \"claude-agent-acp\""
            );
        }
        sources.add_flag("--agent-cmd", &format!("agents.{COMMAND_LINE_AGENT}.command"), command);
        sources.add_flag("--agent-cmd", "default_agent", COMMAND_LINE_AGENT);
    }
    Ok(())
}

/// Returns `address` with another host or port.
fn join_address(address: &str, host: Option<&str>, port: Option<u16>) -> anyhow::Result<String> {
    let (old_host, old_port) = address
        .rsplit_once(':')
        .with_context(|| format!("reading listen {address:?}: it has no port"))?;
    let host = match host {
        Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
        Some(host) => host.to_owned(),
        None => old_host.to_owned(),
    };
    Ok(format!("{host}:{}", port.map_or_else(|| old_port.to_owned(), |port| port.to_string())))
}

/// Prints the first lines: commands to try on a terminal, else only the address.
fn print_greeting(global: &GlobalOptions, server: &Server, sign_in: Option<String>, host: &Host) {
    let config = host.config();
    let (installed, missing): (Vec<_>, Vec<_>) =
        config.adapters().list().into_iter().partition(|info| info.installed);
    let home = std::env::var("HOME").ok();
    let greeting = Greeting {
        url: server.url().to_owned(),
        new_port: server
            .taken_address()
            .and_then(|_| server.address().ok())
            .map(|it| connect::describe_new_port(it.port())),
        sign_in,
        command: greeting::find_command(
            &config.program,
            &config.state_dir,
            paths::default_state_dir().ok().as_deref(),
        ),
        agents: installed.into_iter().map(|info| info.slug).collect(),
        missing_agents: missing.len(),
        sessions: host.descriptors().len(),
        state_dir: shorten_path(
            &config.state_dir.display().to_string(),
            home.as_deref(),
            usize::MAX,
        ),
    };
    for line in greeting.to_lines(global.screen()) {
        output::print_line(&line);
    }
}

/// Replaces the filter of the log.
type SetLogFilter = Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send + Sync>;

/// Reads a level or a filter of `tracing`.
pub(crate) fn parse_log_filter(wanted: &str) -> anyhow::Result<EnvFilter> {
    let filter =
        EnvFilter::try_new(wanted).with_context(|| format!("reading log_level {wanted:?}"))?;
    // Libraries log whole messages and headers, and those hold prompts and tokens.
    Ok(QUIET_TARGETS
        .iter()
        .filter_map(|quiet| quiet.parse().ok())
        .fold(filter, EnvFilter::add_directive))
}

/// Starts a log whose filter can be replaced.
macro_rules! init_log {
    ($output:expr) => {{
        let output = $output.with_filter_reloading();
        let handle = output.reload_handle();
        output.init();
        Box::new(move |filter| Ok(handle.reload(filter)?))
    }};
}

/// Starts the host's log, on stderr or in a file. It never holds prompts, output of agents or
/// tokens.
fn start_log(config: &Config, colours: bool) -> anyhow::Result<SetLogFilter> {
    let filter = parse_log_filter(&config.log_level)?;
    // The subscriber would report its errors with `eprintln!`, which panics if stderr cannot be
    // written.
    let output = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .log_internal_errors(false);
    let set_filter: SetLogFilter = match (&config.log_file, config.log_format) {
        (Some(path), LogFormat::Text) => {
            init_log!(output.with_ansi(false).with_writer(RotatedLogFile::open(path)?))
        }
        (Some(path), LogFormat::Json) => {
            init_log!(output.json().flatten_event(true).with_writer(RotatedLogFile::open(path)?))
        }
        (None, LogFormat::Text) => {
            init_log!(output.with_ansi(colours).with_writer(LogWriter::STDERR))
        }
        (None, LogFormat::Json) => {
            init_log!(output.json().flatten_event(true).with_writer(LogWriter::STDERR))
        }
    };
    log_panics();
    Ok(set_filter)
}

/// The levels of libraries, which no filter can raise.
const QUIET_TARGETS: [&str; 6] =
    ["rmcp=warn", "h2=warn", "hyper=warn", "hyper_util=warn", "tower=warn", "tungstenite=warn"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_replace_their_part_of_the_address() {
        let joined = |host, port| join_address("127.0.0.1:7433", host, port).unwrap();
        assert_eq!(joined(None, Some(0)), "127.0.0.1:0");
        assert_eq!(joined(Some("localhost"), None), "localhost:7433");
        assert_eq!(joined(Some("::1"), Some(80)), "[::1]:80");
        assert_eq!(joined(Some("[::1]"), Some(80)), "[::1]:80");
        assert!(join_address("nowhere", None, Some(1)).is_err());
    }
}
