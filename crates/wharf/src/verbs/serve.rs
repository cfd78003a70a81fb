//! `wharf serve`: the host.

mod signals;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use tracing_subscriber::EnvFilter;
use wharf_host::{AgentCommand, Auth, Config, Duration, Host, LogFormat, ReplayTurns};
use wharf_server::{Server, Tokens};

use crate::global::GlobalOptions;
use crate::logging::{LogWriter, log_panics};
use crate::{allocator, output, paths};

/// The adapter that `--agent-cmd` defines.
const COMMAND_LINE_AGENT: &str = "agent";

#[derive(Debug, Args)]
pub(crate) struct ServeVerb {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:7433].
    #[arg(long, env = "WHARF_LISTEN", value_name = "ADDR")]
    listen: Option<String>,
    /// The host part of `--listen`, as amux has it.
    #[arg(long, value_name = "HOST", conflicts_with = "listen")]
    host: Option<String>,
    /// The port of `--listen`, as amux has it.
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// A PEM file with the certificate for TLS; those that lead to its root may follow in it.
    #[arg(long, env = "WHARF_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// A PEM file with the certificate's private key.
    #[arg(long, env = "WHARF_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Listen on other addresses than this machine's own without TLS: tokens and sessions can be read on the way.
    #[arg(long)]
    insecure_no_tls: bool,
    /// The agent of clients that name none [default: demo].
    #[arg(long, env = "WHARF_DEFAULT_AGENT", value_name = "NAME")]
    agent: Option<String>,
    /// A command line that starts an ACP agent; makes it the default agent.
    #[arg(long, value_name = "CMD", conflicts_with = "agent")]
    agent_cmd: Option<String>,
    /// A directory with manifests of agents, besides `adapters` beside the configuration file.
    #[arg(long, env = "WHARF_ADAPTERS", value_name = "DIR")]
    adapters: Option<PathBuf>,
    /// The authentication of TCP connections: `token`, or `none` for old amux clients on a machine of your own.
    #[arg(long, env = "WHARF_AUTH", value_name = "HOW")]
    auth: Option<Auth>,
    /// End a session that no client has been attached to for so long (amux's name for `session.idle_ttl`).
    #[arg(long, value_name = "N")]
    session_ttl_seconds: Option<u64>,
    /// How many turns an amux client that comes late is shown: `unbounded`, 0 or more.
    #[arg(long, value_name = "TURNS")]
    replay_turns: Option<ReplayTurns>,
    /// How lines of the host's own output look: `text`, or `json` for programs [default: text].
    #[arg(long, env = "WHARF_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Print one line of JSON once connections are accepted, and nothing else.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(global: &GlobalOptions, serve: ServeVerb) -> anyhow::Result<()> {
    let config = build_config(global, &serve)?;
    start_log(&config)?;
    allocator::keep_thresholds();
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(run_host(config, &serve))
}

async fn run_host(config: Config, serve: &ServeVerb) -> anyhow::Result<()> {
    // Signals are caught from now on: a signal during the start must not leave agents running.
    let stopped = signals::listen()?;
    let state_dir = config.state_dir.clone();
    let listen = config.listen.clone();
    wharf_host::adopt_orphans();
    let host = Host::start(config)?;
    let watched = host.clone();
    let token_file = state_dir.join("token");
    let tokens = Tokens::open(&state_dir)?;
    let socket = state_dir.join("wharf.sock");
    let server = Server::bind(host, tokens, &listen, &socket)?;
    let url = server.url().to_owned();
    if serve.json {
        let line = serde_json::json!({
            "event": "listening",
            "url": url,
            "socket": socket,
            "tokenFile": token_file,
        });
        output::print_line(&line.to_string());
    } else {
        print_greeting(&url, &token_file.display().to_string(), &state_dir.display().to_string());
    }
    let mut is_gone = false;
    let stop = async {
        tokio::select! {
            () = stopped => {}
            () = watched.state_gone() => is_gone = true,
        }
        if is_gone {
            tracing::error!(dir = %state_dir.display(), "stopping: the state directory was deleted, moved or replaced");
        }
    };
    server.run(stop).await;
    if is_gone {
        bail!("the state directory {} was deleted, moved or replaced while the host ran", state_dir.display());
    }
    Ok(())
}

/// Returns the configuration of a host that is started without flags of its own.
pub(crate) fn load_config(global: &GlobalOptions) -> anyhow::Result<Config> {
    let mut config = match paths::config_file(global.config.as_deref())? {
        Some(path) => Config::load(&path)?,
        None => Config { config_dir: Some(paths::config_dir()?), ..Config::default() },
    };
    config.state_dir = global.state_dir()?;
    config.program = std::env::current_exe().context("finding this program")?;
    Ok(config)
}

fn build_config(global: &GlobalOptions, serve: &ServeVerb) -> anyhow::Result<Config> {
    let mut config = load_config(global)?;
    if let Some(dir) = &serve.adapters {
        config.adapters = Some(std::path::absolute(dir).context("finding the directory of adapters")?);
    }
    config.serves = true;
    if let Some(listen) = &serve.listen {
        config.listen.clone_from(listen);
    }
    if serve.host.is_some() || serve.port.is_some() {
        config.listen = join_address(&config.listen, serve.host.as_deref(), serve.port)?;
    }
    config.auth = serve.auth.unwrap_or(config.auth);
    config.log_format = serve.log_format.unwrap_or(config.log_format);
    config.tls.cert = serve.tls_cert.clone().or(config.tls.cert);
    config.tls.key = serve.tls_key.clone().or(config.tls.key);
    config.insecure_no_tls = serve.insecure_no_tls;
    config.amux.replay_turns = serve.replay_turns.unwrap_or(config.amux.replay_turns);
    if let Some(seconds) = serve.session_ttl_seconds {
        config.session.idle_ttl = Duration::from_millis(seconds.saturating_mul(1_000));
    }
    if let Some(name) = &serve.agent {
        config.default_agent.clone_from(name);
    }
    if let Some(line) = &serve.agent_cmd {
        let command = wharf_host::split_command(line).with_context(|| format!("reading --agent-cmd {line:?}"))?;
        if command.is_empty() {
            bail!("--agent-cmd is empty; give a command, for example --agent-cmd \"claude-agent-acp\"");
        }
        let sandbox = config.agents.remove(COMMAND_LINE_AGENT).unwrap_or_default().sandbox;
        config
            .agents
            .insert(COMMAND_LINE_AGENT.to_owned(), AgentCommand { command, sandbox, ..AgentCommand::default() });
        config.default_agent = COMMAND_LINE_AGENT.to_owned();
    }
    config.adapters().find(&config.default_agent, None, &std::collections::BTreeMap::new())?;
    config.check_sandboxes()?;
    Ok(config)
}

/// Returns `address` with another host or port.
fn join_address(address: &str, host: Option<&str>, port: Option<u16>) -> anyhow::Result<String> {
    let (old_host, old_port) =
        address.rsplit_once(':').with_context(|| format!("reading listen {address:?}: it has no port"))?;
    let host = match host {
        Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
        Some(host) => host.to_owned(),
        None => old_host.to_owned(),
    };
    Ok(format!("{host}:{}", port.map_or_else(|| old_port.to_owned(), |port| port.to_string())))
}

fn print_greeting(url: &str, token_file: &str, state_dir: &str) {
    let socket = url.replacen("http", "ws", 1);
    output::print_line(&format!("wharf is listening on {url}"));
    output::print_line("");
    output::print_line(&format!("  ACP        {socket}/acp   (WebSocket, subprotocol acp.v1)"));
    output::print_line(&format!("  token      {token_file}"));
    output::print_line(&format!("  sessions   {state_dir}"));
    output::print_line("");
    output::print_line(&format!("  try:       curl {url}/healthz"));
    output::print_line(&format!(
        "  or:        npx wscat -s acp.v1 -H \"Authorization: Bearer $(cat {token_file})\" -c {socket}/acp"
    ));
    output::print_line("");
    output::print_line("Ctrl-C stops it; every session is on disk.");
}

/// Starts the host's log on stderr. It never holds prompts, output of agents or tokens.
fn start_log(config: &Config) -> anyhow::Result<()> {
    let wanted = std::env::var("WHARF_LOG").ok().filter(|wanted| !wanted.is_empty());
    let filter = match &wanted {
        Some(wanted) => EnvFilter::try_new(wanted).with_context(|| format!("reading WHARF_LOG {wanted:?}"))?,
        None => EnvFilter::try_new(&config.log_level)
            .with_context(|| format!("reading log_level {:?}", config.log_level))?,
    };
    // Libraries log whole messages and headers, and those hold prompts and tokens.
    let filter = QUIET_TARGETS.iter().filter_map(|quiet| quiet.parse().ok()).fold(filter, EnvFilter::add_directive);
    let output = tracing_subscriber::fmt().with_env_filter(filter).with_writer(LogWriter::STDERR).with_target(false);
    // The subscriber would report its errors with `eprintln!`, which panics if stderr cannot be written.
    let output = output.log_internal_errors(false);
    match config.log_format {
        LogFormat::Text => output.init(),
        LogFormat::Json => output.json().flatten_event(true).init(),
    }
    log_panics();
    Ok(())
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
