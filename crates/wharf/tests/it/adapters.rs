//! Agents described by a manifest: which settings reach them, and which spawns are refused before a
//! session is created (rule 8.7).

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::{AgentPipe, joined_text};
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;

use crate::rest::{caller_with_role, output_lines, send_prompt, wait_until_idle};
use crate::{cwd, log, scripted_host, wharf_binary};

/// A host with a directory of manifests.
struct AdapterHost {
    host: TestHost,
    _adapters: tempfile::TempDir,
}

/// Returns a manifest with this name; `more` holds further lines of its front matter.
fn format_manifest(name: &str, bin: &str, more: &str) -> String {
    let check = r"{ cmd: 'echo version 1.2.3', parse: 'version (\S+)', range: '>=2' }";
    format!(
        "---\nname: {name}\nid: {name}\ndescription: For tests.\nversion: 1.0.0\nbin: {bin}\n\
         install: [{{ method: npm, package: '@x/{name}' }}]\nversion_check: {check}\nsandbox: {{}}\n{more}\n---\n"
    )
}

const ACP_FRONT_MATTER: &str = "protocol: acp\nacp: ACP.md\n";

/// Starts a host whose user has these manifests: name, program (the scripted agent if empty) and
/// front matter.
fn start_with_manifests(
    options: HostOptions,
    manifests: &[(&str, &str, &str)],
) -> Result<AdapterHost> {
    let adapters = tempfile::tempdir()?;
    let agent = wharf_testkit::program::find_scripted_agent()?;
    for (name, bin, more) in manifests {
        let bin = if bin.is_empty() { agent.to_str().context("not UTF-8")? } else { bin };
        fs::create_dir(adapters.path().join(name))?;
        fs::write(
            adapters.path().join(name).join("AGENT-CLI.md"),
            format_manifest(name, bin, more),
        )?;
    }
    let dir = adapters.path().to_str().context("not UTF-8")?;
    let host = options.with_argument("--adapters").with_argument(dir).start_host()?;
    Ok(AdapterHost { host, _adapters: adapters })
}

async fn spawn_session(http: &RestClient, host: &TestHost, mut body: Value) -> Result<String> {
    body["cwd"] = cwd(host)?.into();
    let session = http.post("/sessions/agent", &body).await?.expect(201)?;
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

/// Returns the lines that the agent writes in answer to a script.
async fn prompt_for_lines(http: &RestClient, session: &str, script: &str) -> Result<Vec<String>> {
    let before = output_lines(http, session).await?.len();
    send_prompt(http, session, script).await?;
    wait_until_idle(http, session).await?;
    let lines = output_lines(http, session).await?.split_off(before);
    Ok(lines.into_iter().filter(|line| !line.starts_with("──")).collect())
}

#[tokio::test]
async fn spawn_that_cannot_be_carried_out_is_refused_before_a_session_is_created() -> Result<()> {
    let mode = format!(
        "{ACP_FRONT_MATTER}modes: [{{ id: plan }}]\noptions: [{{ id: turns, type: integer }}]"
    );
    let manifests = [
        ("absent", "no-such-agent", ACP_FRONT_MATTER),
        ("modal", "", &mode),
        ("mcp-one", "sh", "protocol: mcp\nmcp: { transport: stdio }"),
        ("broken", "sh", "protocol: telepathy"),
    ];
    let AdapterHost { host, _adapters } = start_with_manifests(scripted_host(&[])?, &manifests)?;
    let http = RestClient::new(&host);
    let expected = [
        (json!({ "adapter": "absent" }), 501, "adapter_not_installed", "npm install -g @x/absent"),
        (json!({ "adapter": "modell" }), 422, "unknown_adapter", "did you mean \\\"modal\\\""),
        (json!({ "adapter": "modal", "mode": "yolo" }), 422, "unknown_mode", "it has: plan"),
        (
            json!({ "adapter": "modal", "options": { "turns": "x" } }),
            422,
            "invalid_option",
            "a whole number",
        ),
        (
            json!({ "adapter": "modal", "options": { "speed": 1 } }),
            422,
            "invalid_option",
            "known: turns",
        ),
        (json!({ "adapter": "scripted", "mode": "plan" }), 422, "unknown_mode", "none"),
        (json!({ "adapter": "mcp-one" }), 501, "protocol_not_supported", "mcp"),
        (json!({ "adapter": "broken" }), 422, "invalid_manifest", "protocol"),
        (
            json!({ "adapter": "scripted", "label": "l".repeat(1 << 20) }),
            422,
            "label_too_long",
            "1048576",
        ),
        (
            json!({ "adapter": "scripted", "cwd": "/no/such/dir" }),
            422,
            "invalid_cwd",
            "/no/such/dir",
        ),
        (json!({ "adapter": "scripted", "cwd": "relative/.." }), 422, "invalid_cwd", "relative"),
        (
            json!({ "adapter": "scripted", "additionalDirectories": ["/no/such"] }),
            422,
            "invalid_cwd",
            "/no/such",
        ),
        (
            json!({ "adapter": "scripted", "workspaceSlug": "../../x" }),
            422,
            "unknown_workspace",
            "../../x",
        ),
    ];
    for (body, status, code, words) in expected {
        let mut body = body;
        if body.get("cwd").is_none() && body.get("workspaceSlug").is_none() {
            body["cwd"] = cwd(&host)?.into();
        }
        let answer = http.post("/sessions/agent", &body).await?;
        assert_eq!(answer.status_and_code(), (status, code.to_owned()), "{answer:?}");
        assert!(answer.json().to_string().contains(words), "{answer:?}");
        if code == "adapter_not_installed" {
            assert_eq!(answer.json()["install"], "npm install -g @x/absent");
        }
    }
    assert_eq!(http.get("/sessions").await?.expect(200)?, json!({ "sessions": [] }));
    let kept: Vec<_> = fs::read_dir(host.state_dir().join("workspaces"))?.collect();
    assert!(kept.is_empty(), "{kept:?}");
    Ok(())
}

#[tokio::test]
async fn mode_and_options_reach_the_agent_and_are_restored_on_return() -> Result<()> {
    let more = format!(
        "{ACP_FRONT_MATTER}bin_args: [--resume]\nenv: {{ BASE: given }}\nmodes: [{{ id: plan, env: {{ MODE: planning }} }}]\n\
         options: [{{ id: turns, type: integer, env: {{ TURNS: 't{{value}}' }} }}]"
    );
    let AdapterHost { mut host, _adapters } =
        start_with_manifests(scripted_host(&[])?, &[("modal", "", &more)])?;
    let http = RestClient::new(&host);
    let body = json!({ "adapter": "modal", "mode": "plan", "options": { "turns": 7 } });
    let session = spawn_session(&http, &host, body).await?;
    let script = "env BASE; env MODE; env TURNS";
    assert_eq!(
        prompt_for_lines(&http, &session, script).await?.concat(),
        "BASE=givenMODE=planningTURNS=t7"
    );
    host.restart()?;
    let http = RestClient::new(&host);
    assert_eq!(
        prompt_for_lines(&http, &session, script).await?.concat(),
        "BASE=givenMODE=planningTURNS=t7"
    );
    Ok(())
}

#[tokio::test]
async fn log_has_the_meaning_of_token_counts_only_if_the_manifest_states_it() -> Result<()> {
    let stated = format!("{ACP_FRONT_MATTER}usage: {{ tokens: process }}");
    let manifests = [("stating", "", stated.as_str()), ("silent", "", ACP_FRONT_MATTER)];
    let AdapterHost { host, _adapters } = start_with_manifests(scripted_host(&[])?, &manifests)?;
    let http = RestClient::new(&host);
    for (adapter, expected) in
        [("stating", json!({ "tokens": "process", "source": "answer" })), ("silent", Value::Null)]
    {
        let session = spawn_session(&http, &host, json!({ "adapter": adapter })).await?;
        let started = log::expect_event(&host, &session, "agent_started", |_| true).await?;
        assert_eq!(started["traits"]["usage"], expected, "{adapter}: {started}");
    }
    Ok(())
}

#[tokio::test]
async fn agent_gets_only_the_named_variables_of_its_callers_environment() -> Result<()> {
    let more = format!(
        "{ACP_FRONT_MATTER}bin_args: [--resume]\nauth: {{ state: {{ env: [AGENT_KEY] }} }}\nmodels: {{ env: {{ a: MODEL_KEY }} }}"
    );
    let mut options = scripted_host(&[])?;
    options
        .config
        .get_or_insert_default()
        .insert_str(0, "env_passthrough = [\"EXTRA\"]\n");
    let AdapterHost { mut host, _adapters } =
        start_with_manifests(options, &[("keyed", "", &more)])?;
    let http = RestClient::new(&host);
    let env = json!({
        "AGENT_KEY": "hush-1", "MODEL_KEY": "hush-2", "EXTRA": "hush-3", "LANG": "de_DE", "SECRET": "never", "WHARF_X": "y",
    });
    let session = spawn_session(&http, &host, json!({ "adapter": "keyed", "env": env })).await?;
    let script = "env AGENT_KEY; env MODEL_KEY; env EXTRA; env LANG; env SECRET; env WHARF_X";
    let expected =
        "AGENT_KEY=hush-1MODEL_KEY=hush-2EXTRA=hush-3LANG=de_DESECRET=(unset)WHARF_X=(unset)";
    assert_eq!(prompt_for_lines(&http, &session, script).await?.concat(), expected);
    host.restart()?;
    let http = RestClient::new(&host);
    assert_eq!(prompt_for_lines(&http, &session, script).await?.concat(), expected);
    let start = fs::read_to_string(crate::log::session_dir(&host, &session).join("start.json"))?;
    assert!(start.contains("hush-1") && !start.contains("never"), "{start}");
    let created = crate::log::list_events(&host, &session, "created")?;
    assert!(
        !created[0].to_string().contains("hush") && !host.read_stderr().contains("hush"),
        "{created:?}"
    );
    Ok(())
}

#[test]
fn the_bridge_brings_the_variables_that_the_adapter_names() -> Result<()> {
    let more = format!("{ACP_FRONT_MATTER}auth: {{ state: {{ env: [AGENT_KEY] }} }}");
    let AdapterHost { host, _adapters } =
        start_with_manifests(scripted_host(&[])?, &[("keyed", "", &more)])?;
    let state_dir = host.state_dir();
    let arguments = [
        "acp",
        "--no-start",
        "--agent",
        "keyed",
        "--state-dir",
        state_dir.to_str().context("not UTF-8")?,
    ];
    let variables = [("AGENT_KEY", "from the editor"), ("SECRET", "never"), ("LC_ALL", "C.UTF-8")];
    let mut editor = AgentPipe::start(
        &wharf_binary(),
        &arguments,
        &variables.map(|(name, value)| (name, value.as_ref())),
    )?;
    let session = editor.open_session()?;
    let (_, updates) = editor.send_prompt(&session, "env AGENT_KEY; env LC_ALL; env SECRET")?;
    assert_eq!(joined_text(&updates), "AGENT_KEY=from the editorLC_ALL=C.UTF-8SECRET=(unset)");
    Ok(())
}

#[tokio::test]
async fn sessions_of_an_ephemeral_agent_do_not_come_back() -> Result<()> {
    let more = format!("{ACP_FRONT_MATTER}bin_args: [--resume]\nsession: {{ mode: ephemeral }}");
    let AdapterHost { host, _adapters } =
        start_with_manifests(scripted_host(&[])?, &[("mayfly", "", &more)])?;
    let http = RestClient::new(&host);
    let session = spawn_session(&http, &host, json!({ "adapter": "mayfly" })).await?;
    http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
    let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
    assert_eq!(known["resumable"], false);
    let answer = http.post_empty(&format!("/sessions/{session}/resume")).await?;
    assert_eq!(answer.status_and_code(), (409, "not_resumable".to_owned()));
    Ok(())
}

#[tokio::test]
async fn adapter_list_shows_installed_and_missing_programs() -> Result<()> {
    let options = format!(
        "{ACP_FRONT_MATTER}options: [{{ id: effort, type: enum, enum: [low, high], default: low }}]"
    );
    let manifests =
        [("absent", "no-such-agent", ACP_FRONT_MATTER), ("there", "", options.as_str())];
    let AdapterHost { host, _adapters } = start_with_manifests(scripted_host(&[])?, &manifests)?;
    let http = RestClient::new(&host);
    let one = |listed: &Value, slug: &str| {
        let found = listed["adapters"]
            .as_array()
            .and_then(|all| all.iter().find(|one| one["slug"] == slug).cloned());
        found.with_context(|| format!("no {slug}"))
    };
    let listed = http.get("/adapters").await?.expect(200)?;
    let absent = one(&listed, "absent")?;
    assert_eq!((&absent["installed"], &absent["source"]), (&json!(false), &json!("manifest")));
    assert_eq!(absent["installHint"], "npm install -g @x/absent");
    assert!(
        absent["missing"][0].as_str().is_some_and(|text| text.contains("no-such-agent")),
        "{absent}"
    );
    let there = one(&listed, "there")?;
    assert_eq!(
        there["options"],
        json!([{ "id": "effort", "type": "enum", "enum": ["low", "high"], "default": "low" }])
    );
    assert!(there.get("binVersion").is_none() && there["installed"] == true, "{there}");
    assert_eq!(one(&listed, "scripted")?["default"], true);
    for slug in [
        "claude", "codex", "gemini", "opencode", "goose", "hermes", "qwen", "kimi", "copilot",
        "cursor", "demo",
    ] {
        assert_eq!(one(&listed, slug)?["source"], "built-in");
    }
    let checked = one(&http.get("/adapters?check=true").await?.expect(200)?, "there")?;
    assert_eq!((&checked["binVersion"], &checked["versionOk"]), (&json!("1.2.3"), &json!(false)));
    assert!(checked["missing"].to_string().contains("out of the range"), "{checked}");
    let observer = caller_with_role(&host, "observer")?;
    observer.get("/adapters").await?.expect(200)?;
    assert_eq!(
        observer.get("/adapters?check=true").await?.status_and_code(),
        (403, "observer".to_owned())
    );
    Ok(())
}

#[tokio::test]
async fn a_repeated_spawn_with_the_same_key_is_the_same_session_after_a_restart_too() -> Result<()>
{
    let mut host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let (key, body) = (
        ("idempotency-key", "once"),
        json!({ "adapter": "scripted", "cwd": cwd(&host)?, "prompt": "echo hi" }),
    );
    let (one, two) = tokio::join!(
        http.post_with("/sessions/agent", key, &body),
        http.post_with("/sessions/agent", key, &body)
    );
    let (one, two) = (one?, two?);
    assert_eq!(one.status + two.status, 201 + 200, "one made it, the other found it");
    let id = one.json()["id"].clone();
    assert_eq!((&two.json()["id"], &two.json()["promptId"]), (&id, &one.json()["promptId"]));
    let mut other = body.clone();
    other["prompt"] = "echo something else".into();
    let answer = http.post_with("/sessions/agent", key, &other).await?;
    assert_eq!(answer.status_and_code(), (422, "idempotency_key_reused".to_owned()));
    let stranger = caller_with_role(&host, "admin")?;
    assert_ne!(stranger.post_with("/sessions/agent", key, &body).await?.expect(201)?["id"], id);
    for without_index in [false, true] {
        host.kill()?;
        if without_index {
            fs::remove_file(host.state_dir().join("index.db"))?;
        }
        host.restart()?;
        let answer = RestClient::new(&host).post_with("/sessions/agent", key, &body).await?;
        assert_eq!(answer.header("idempotency-replayed"), Some("true"));
        assert_eq!(answer.expect(200)?["id"], id);
    }
    assert_eq!(
        RestClient::new(&host).get("/sessions").await?.expect(200)?["sessions"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    Ok(())
}

#[tokio::test]
async fn a_session_that_is_idle_for_as_long_as_its_manifest_says_sleeps_and_wakes() -> Result<()> {
    let idle_for =
        |millis: u32| format!("{ACP_FRONT_MATTER}session: {{ idle_timeout_ms: {millis} }}");
    let (short, long) = (idle_for(300), idle_for(600_000));
    let AdapterHost { host, _adapters } =
        start_with_manifests(scripted_host(&[])?, &[("short", "", &short), ("long", "", &long)])?;
    let http = RestClient::new(&host);
    let stays = spawn_session(&http, &host, json!({ "adapter": "long" })).await?;
    let id = spawn_session(&http, &host, json!({ "adapter": "short" })).await?;
    let asleep = crate::rest::wait_for_session(&http, &id, "a session that sleeps", |session| {
        session["status"] == "killed"
    })
    .await?;
    assert_eq!(
        (&asleep["endReason"], &asleep["resumable"]),
        (&json!("idle"), &json!(true)),
        "{asleep}"
    );
    assert_eq!(prompt_for_lines(&http, &id, "echo back").await?, ["back"]);
    assert_eq!(http.get(&format!("/sessions/{stays}")).await?.expect(200)?["status"], "running");
    Ok(())
}

/// Whether a client asks about the agent or starts a session, an agent that is not installed has
/// one code.
#[tokio::test]
async fn agent_that_is_not_installed_has_the_same_code_for_initialize_and_session_new() -> Result<()>
{
    let manifests = [("absent", "/nonexistent/absent", ACP_FRONT_MATTER)];
    let adapter_host = start_with_manifests(scripted_host(&[])?, &manifests)?;
    let host = &adapter_host.host;
    let asking = crate::connect_client_of(host, "absent").await?;
    let initialize = crate::expect_error(asking.initialize().await)?;
    let client = crate::connect_client(host).await?;
    let params =
        json!({ "cwd": cwd(host)?, "mcpServers": [], "_meta": { "wharf": { "agent": "absent" } } });
    let session_new = crate::expect_error(client.call_method("session/new", params).await)?;
    for error in [initialize, session_new] {
        assert_eq!(
            (error.code, &error.data["reason"]),
            (-32603, &json!("adapter_not_installed")),
            "{error}"
        );
        assert!(error.message.contains("npm install -g @x/absent"), "{error}");
    }
    Ok(())
}
