//! End-to-end tests of the binary: a real process, real agents, real sockets.
#![expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")]
#![expect(clippy::print_stdout, reason = "a test prints its seed")]

mod acp_session;
mod adapters;
mod address;
mod agent_directory;
mod agent_requests;
mod agent_restarts;
mod amux;
mod attach;
mod attention;
mod auth;
mod backup;
mod bridge;
mod bridge_reconnect;
mod capability_filter;
mod changed_files;
mod chat;
mod cli;
mod cli_attend;
mod cli_completion;
mod cli_config;
mod cli_detach;
mod cli_host;
mod cli_login;
mod cli_logs;
mod cli_output;
mod cli_read;
mod cli_remote;
mod cli_run;
mod cli_service;
mod cli_stop;
mod cli_terminal;
mod cli_turn;
mod cli_words;
mod comeback;
mod comeback_faults;
mod control_bytes;
mod damaged_logs;
mod delegation;
mod deletes;
mod demo;
mod detach;
mod disabled_keeper;
mod doctor;
mod event_ids;
mod export;
mod faults;
mod file_and_terminal_fallback;
mod first_minute;
mod foreign_sessions;
mod forks;
mod forms;
mod frame_bytes;
mod full_disk;
mod full_screen;
mod full_screen_clients;
mod full_screen_faults;
mod full_screen_history;
mod host_process;
mod host_relay;
mod host_state;
mod hostile_agents;
mod hostile_disk;
mod http;
mod http2;
mod http_client;
mod http_streams;
mod idempotent_spawn;
mod identity;
mod initialize_cache;
mod interrupted_turns;
mod keepers;
mod known_clients;
mod labels;
mod limits;
mod log;
mod logins;
mod mass_resume;
mod mcp;
mod mcp_client;
mod mcp_lifecycle;
mod memory;
mod message_order;
mod metrics;
mod metrics_page;
mod misbehaving_clients;
mod notify;
mod numbered_options;
mod odd_answers;
mod odd_bytes;
mod odd_client_answers;
mod odd_frames;
mod odd_members;
mod odd_values;
mod openapi;
mod operator_output;
mod orphans;
mod oversized_answers;
mod page;
mod past_forms;
mod program;
mod queue;
mod raw_client;
mod reattach;
mod recorded_agents;
mod recording;
mod request_checks;
mod rest;
mod rest_contract;
mod rest_docs;
mod rest_files;
mod rest_input;
mod rest_places;
mod rest_queue;
mod rest_refusals;
mod rest_send_now;
mod rest_settings;
mod rest_stream;
mod rest_uploads;
mod restart;
mod retention;
mod revocation;
mod rows;
mod rows_state;
mod rows_walk;
mod sandbox;
mod sandbox_limits;
mod scope_audit;
mod scopes;
mod screen_terminal;
mod search;
mod secrets;
mod serve_command;
mod session_ready;
mod session_usage;
mod settings;
mod settings_refused;
mod sharing;
mod slow_client;
mod status_list;
mod surfaces_agree;
mod terminal;
mod terminal_output;
mod tls;
mod tokens;
mod transports;
mod turn_failures;
mod turns;
mod walk;
mod workspaces;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{CallFailure, TestClient};
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::pauses::PauseWatch;

/// The longest time that the stop of a host and its agents may take, as the documentation promises.
const HOST_STOPS_WITHIN: Duration = Duration::from_secs(10);
/// The time after which a process that should end counts as stuck, on any machine. How long it took
/// is checked apart from this.
const EXIT_LIMIT: Duration = Duration::from_secs(60);

/// Terminates the host, which has to end within the promised time.
fn stop_in_time(host: &mut TestHost) -> Result<()> {
    let pauses = PauseWatch::start();
    wharf_testkit::processes::send_sigterm(host.pid());
    assert!(host.wait_exit(EXIT_LIMIT)?.success());
    pauses.expect_within(HOST_STOPS_WITHIN, "the stop of the host")
}

/// The longest time that the end of a process tree may take: five seconds of grace, and room for a
/// busy machine.
const TREE_ENDS_WITHIN: Duration = Duration::from_secs(15);

/// Why a test is run without keepers: the agent has to end with the host, since the test is about
/// the return of its session.
const AGENT_COMES_BACK: &str = "the session has to come back with another agent";
/// Why a test is run without keepers: a turn that outlives the host would never end, or would end
/// otherwise.
const TURN_IS_CUT: &str = "the end of the host has to cut the turn";
/// Why a test is run without keepers: it is about the end of all processes with the host.
const PROCESSES_END: &str = "all processes have to end with the host";

/// Returns the binary under test: this build's, or the one that `WHARF_TEST_BINARY` names, to see
/// which tests fail on an older one.
fn wharf_binary() -> PathBuf {
    std::env::var_os("WHARF_TEST_BINARY")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_wharf")), PathBuf::from)
}

/// Configures a host whose default agent is the scripted one with these flags.
fn scripted_host(flags: &[&str]) -> Result<HostOptions> {
    Ok(HostOptions {
        binary: Some(wharf_binary()),
        ..HostOptions::with_scripted_agent(flags)?
    })
}

/// Adds a further agent: the scripted one with other flags.
fn add_scripted_agent(options: HostOptions, name: &str, flags: &[&str]) -> Result<HostOptions> {
    let agent = wharf_testkit::program::find_scripted_agent()?;
    let mut command = vec![agent.to_str().context("the agent's path is not UTF-8")?.to_owned()];
    command.extend(flags.iter().map(|flag| (*flag).to_owned()));
    Ok(options.with_agent(name, &command))
}

/// Adds a section to the configuration.
fn add_section(mut options: HostOptions, text: &str) -> HostOptions {
    options.config.get_or_insert_default().push_str(&format!("\n{text}\n"));
    options
}

/// Configures a host that a shell starts after this command, such as a limit or a mask. The
/// directory holds the shell's script.
fn start_from_shell(
    options: HostOptions,
    setting: &str,
) -> Result<(HostOptions, tempfile::TempDir)> {
    let folder = tempfile::TempDir::with_prefix("wharf-started-after-")?;
    let script = folder.path().join("wharf");
    let binary = options.binary.clone().context("no binary")?;
    std::fs::write(&script, format!("#!/bin/sh\n{setting}\nexec {} \"$@\"\n", binary.display()))?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok((HostOptions { binary: Some(script), ..options }, folder))
}

/// Connects a client and sends `initialize`.
async fn connect_client(host: &TestHost) -> Result<TestClient> {
    let client = TestClient::connect(&host.ws_url(), host.token()).await?;
    client.initialize().await?;
    Ok(client)
}

/// Connects a client and sends `initialize` with these capabilities and this `_meta`.
async fn connect_client_with(
    host: &TestHost,
    capabilities: Value,
    meta: Value,
) -> Result<TestClient> {
    let client = TestClient::connect(&host.ws_url(), host.token()).await?;
    let info = json!({ "name": "wharf-testkit", "version": "1" });
    let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info, "_meta": meta });
    client.call_method("initialize", params).await?;
    Ok(client)
}

/// Connects a client with an observer's token and sends `initialize`.
async fn connect_observer(host: &TestHost) -> Result<TestClient> {
    let client =
        TestClient::connect(&host.ws_url(), &transports::create_observer_token(host)?).await?;
    client.initialize().await?;
    Ok(client)
}

/// Connects a client of an agent that is not the default one. It does not send `initialize`, which
/// would start the agent.
async fn connect_client_of(host: &TestHost, agent: &str) -> Result<TestClient> {
    TestClient::connect(&format!("{}?agent={agent}", host.ws_url()), host.token()).await
}

/// Connects a client and creates a session.
async fn open_session(host: &TestHost) -> Result<(TestClient, String)> {
    let client = connect_client(host).await?;
    let session = client.new_session(&cwd(host)?).await?;
    Ok((client, session))
}

/// Skips the frames received so far: `expect` looks at later ones.
async fn catch_up(client: &TestClient) {
    if let Some(last) = client.received_frames().pop() {
        client.expect("the last frame", |frame| frame.raw == last.raw).await;
    }
}

/// Connects a second client that loads the session.
async fn join_session(host: &TestHost, session: &str) -> Result<TestClient> {
    let client = connect_client(host).await?;
    client.load_session(session, &cwd(host)?).await?;
    Ok(client)
}

fn cwd(host: &TestHost) -> Result<String> {
    Ok(host.directory().to_str().context("the directory is not UTF-8")?.to_owned())
}

/// Returns the error of a call that must fail.
fn expect_error(answer: Result<impl std::fmt::Debug, CallFailure>) -> Result<CallFailure> {
    match answer {
        Ok(result) => anyhow::bail!("answered with {result:?} instead of an error"),
        Err(error) => Ok(error),
    }
}

fn stop_reason(answer: Result<Value, CallFailure>) -> Result<String> {
    Ok(answer?["stopReason"].as_str().unwrap_or_default().to_owned())
}

/// Removes the measured usage of sessions from an answer, since it changes with time.
fn without_usage(mut answer: Value) -> Value {
    match &mut answer {
        Value::Object(members) => {
            members.remove("resources");
            members.values_mut().for_each(|value| *value = without_usage(value.take()));
        }
        Value::Array(values) => {
            values.iter_mut().for_each(|value| *value = without_usage(value.take()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    answer
}

/// Returns the pids in a chunk such as `pid 7` or `pids 7 8 9`.
fn parse_pids(text: &str) -> Vec<u32> {
    text.split(' ').filter_map(|word| word.parse().ok()).collect()
}

/// Sends one prompt and returns the text of the agent's answer.
async fn prompt_for_text(client: &TestClient, session: &str, prompt: &str) -> Result<String> {
    let before = client.chunk_texts().len();
    client.send_prompt(session, prompt).await?;
    Ok(client.chunk_texts().get(before..).unwrap_or_default().concat())
}
