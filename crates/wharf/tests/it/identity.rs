//! Agents as callers of their own host: each one is identified by its session, sees only that
//! session and changes nothing (rule 10.1).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, polling, processes, program};

use crate::mcp_client::Mcp;
use crate::rest::{spawn_session, wait_for_session, wait_until_idle};
use crate::{
    add_section, connect_client, connect_client_with, cwd, expect_error, log, open_session,
    prompt_for_text, scripted_host,
};

/// A session whose agent calls the host.
pub(crate) struct CallingAgent {
    pub(crate) client: TestClient,
    pub(crate) session: String,
}

impl CallingAgent {
    pub(crate) async fn new(host: &TestHost) -> Result<Self> {
        let (client, session) = open_session(host).await?;
        Ok(Self { client, session })
    }

    pub(crate) async fn in_directory(host: &TestHost, cwd: &str) -> Result<Self> {
        let client = connect_client(host).await?;
        let session = client.new_session(cwd).await?;
        Ok(Self { client, session })
    }

    /// Returns the agent's own token. The agent writes it to a file, since its output would be in
    /// the log.
    pub(crate) async fn token(&self, host: &TestHost) -> Result<String> {
        token_of(&self.client, &self.session, host).await
    }

    /// Returns a caller with that token, over TCP.
    pub(crate) async fn http(&self, host: &TestHost) -> Result<RestClient> {
        Ok(RestClient::with_token(host, &self.token(host).await?))
    }

    /// Runs a command in a shell of the agent and returns its output.
    pub(crate) async fn sh(&self, command: &str) -> Result<String> {
        prompt_for_text(&self.client, &self.session, &format!("sh {command}")).await
    }

    /// Calls the host from a child process of the agent. Returns the status and the body.
    pub(crate) async fn call(&self, before: &str, arguments: &str) -> Result<(u16, Value)> {
        let said = self.sh(&format!("{before} {}", call_command(arguments)?)).await?;
        parse_response(&said)
    }
}

pub(crate) async fn token_of(
    client: &TestClient,
    session: &str,
    host: &TestHost,
) -> Result<String> {
    let file = host.directory().join(format!("token of {session}"));
    prompt_for_text(
        client,
        session,
        &format!(r#"sh printf %s "$WHARF_TOKEN" > '{}'"#, file.display()),
    )
    .await?;
    let token = fs::read_to_string(&file)?;
    fs::remove_file(file)?;
    Ok(token)
}

/// Returns the command that calls a host.
fn call_command(arguments: &str) -> Result<String> {
    Ok(format!("'{}' --call {arguments}", program::find_scripted_agent()?.display()))
}

fn parse_response(said: &str) -> Result<(u16, Value)> {
    let (status, body) = said
        .trim_end()
        .split_once(' ')
        .with_context(|| format!("no status: {said:?}"))?;
    // The body may be chunked, with lengths between the chunks.
    let json = body.find(['{', '[']).map_or("", |begin| &body[begin..]);
    let json = &json[..json.rfind(['}', ']']).map_or(0, |end| end + 1)];
    Ok((
        status.parse().with_context(|| said.to_owned())?,
        serde_json::from_str(json).unwrap_or_default(),
    ))
}

pub(crate) fn list_ids(listed: &Value) -> Vec<&str> {
    listed["sessions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|session| session["id"].as_str())
        .collect()
}

#[tokio::test]
async fn every_agent_gets_its_session_id_and_a_token_of_its_own() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let [one, two] = [CallingAgent::new(&host).await?, CallingAgent::new(&host).await?];
    for agent in [&one, &two] {
        assert_eq!(
            agent.sh("echo $WHARF_SESSION $WHARF_URL").await?,
            format!("{} {}\n", agent.session, host.url())
        );
        assert_eq!(
            agent.sh("echo $WHARF_STATE_DIR").await?.trim_end(),
            host.state_dir().to_str().context("odd")?
        );
    }
    let (first, second) = (one.token(&host).await?, two.token(&host).await?);
    ensure!(
        first.starts_with("wharf_agent_") && first.len() == 64 && first != second,
        "{first} {second}"
    );
    // Each of the agent's terminals has a token of its own, which ends with the terminal.
    let said =
        prompt_for_text(&one.client, &one.session, "terminal echo $WHARF_SESSION ${#WHARF_TOKEN}")
            .await?;
    ensure!(said.contains(&format!("{} 64", one.session)), "{said}");
    Ok(())
}

#[tokio::test]
async fn prestarted_agent_gets_the_identity_of_its_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let here = cwd(&host)?;
    let told_where =
        connect_client_with(&host, json!({}), json!({ "wharf": { "cwd": here } })).await?;
    let greeted =
        told_where.received_frames().remove(0).body["result"]["_meta"]["scripted"]["pid"].take();
    let pid = greeted.as_u64().context("no pid")?;
    let environment = fs::read(format!("/proc/{pid}/environ"))?;
    let token = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(b"WHARF_TOKEN="));
    let early = RestClient::with_token(&host, std::str::from_utf8(token.context("no token")?)?);
    assert_eq!(
        early.get("/sessions").await?.status_and_code(),
        (403, "agent_process".to_owned()),
        "it has no session yet"
    );
    let session = told_where.new_session(&here).await?;
    assert_eq!(prompt_for_text(&told_where, &session, "pid").await?, format!("pid {greeted}"));
    assert_eq!(
        prompt_for_text(&told_where, &session, "env WHARF_SESSION").await?,
        format!("WHARF_SESSION={session}")
    );
    let http = RestClient::with_token(&host, &token_of(&told_where, &session, &host).await?);
    assert_eq!(http.token(), early.token());
    assert_eq!(list_ids(&http.get("/sessions").await?.expect(200)?), [&session]);
    Ok(())
}

#[tokio::test]
async fn clients_and_adapters_cannot_set_the_identity_of_an_agent() -> Result<()> {
    let names = ["WHARF_SESSION", "WHARF_TOKEN"];
    let mut options = add_section(
        scripted_host(&[])?,
        "env = { WHARF_SESSION = \"adapters\", WHARF_TOKEN = \"adapters\" }",
    );
    options.environment.extend(names.map(|name| (name.into(), "hosts".into())));
    // These keys go before the table of the agent.
    let config = options.config.take().unwrap_or_default();
    options.config =
        Some(format!("env_passthrough = [\"WHARF_SESSION\", \"WHARF_TOKEN\"]\n{config}"));
    let host = options.start_host()?;
    let env = json!({ "WHARF_SESSION": "callers", "WHARF_TOKEN": "callers" });
    let client = connect_client_with(&host, json!({}), json!({ "wharf": { "env": env } })).await?;
    let session = client.new_session(&cwd(&host)?).await?;
    assert_eq!(
        prompt_for_text(&client, &session, "env WHARF_SESSION").await?,
        format!("WHARF_SESSION={session}")
    );
    assert!(token_of(&client, &session, &host).await?.starts_with("wharf_agent_"));
    Ok(())
}

#[tokio::test]
async fn agent_token_appears_only_in_the_agents_environment() -> Result<()> {
    let host = FullTracing::with_debug_log(scripted_host(&["--resume"])?).start_host()?;
    let agent = CallingAgent::new(&host).await?;
    let token = agent.token(&host).await?;
    let secret = token.trim_start_matches("wharf_agent_");
    agent.http(&host).await?.get("/sessions").await?.expect(200)?;
    let user = RestClient::new(&host);
    let session = &agent.session;
    for path in [
        "/debug/sessions",
        "/metrics",
        &format!("/sessions/{session}"),
        &format!("/sessions/{session}/events"),
    ] {
        let answer = user.get(path).await?;
        ensure!(!answer.body.contains(secret), "{path}");
    }
    let below = processes::list_descendants(host.pid());
    ensure!(below.len() >= 2, "{below:?}");
    for pid in below.into_iter().chain([host.pid()]) {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        ensure!(!String::from_utf8_lossy(&arguments).contains(secret), "in the arguments of {pid}");
    }
    ensure!(
        !host.read_stderr().contains(secret) && !host.read_stdout().contains(secret),
        "in the host's own log"
    );
    let files = read_files(&host.state_dir())?;
    ensure!(files.len() > 3, "{files:?}");
    for file in files {
        let holds = fs::read(&file)
            .unwrap_or_default()
            .windows(secret.len())
            .any(|part| part == secret.as_bytes());
        ensure!(!holds, "in {}", file.display());
    }
    // If the agent prints its token after all, the output lines do not contain it.
    prompt_for_text(&agent.client, session, "env WHARF_TOKEN").await?;
    let output = user.get(&format!("/sessions/{session}/output")).await?;
    ensure!(
        output.body.contains("WHARF_TOKEN=") && !output.body.contains(secret),
        "{}",
        output.body
    );
    Ok(())
}

/// Enables full tracing in the host's own log.
struct FullTracing;

impl FullTracing {
    fn with_debug_log(
        mut options: wharf_testkit::host::HostOptions,
    ) -> wharf_testkit::host::HostOptions {
        options.environment.push(("WHARF_LOG".into(), "trace".into()));
        options
    }
}

fn read_files(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(read_files(&entry.path())?);
        } else if entry.file_type()?.is_file() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[tokio::test]
async fn agent_sees_its_own_session_only() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let other = spawn_session(&RestClient::new(&host), &host).await?;
    let agent = CallingAgent::new(&host).await?;
    let (http, own) = (agent.http(&host).await?, agent.session.as_str());
    assert_eq!(list_ids(&http.get("/sessions").await?.expect(200)?), [own]);
    for part in ["", "/output", "/events", "/asks", "/queue"] {
        http.get(&format!("/sessions/{own}{part}")).await?.expect(200)?;
        let answer = http.get(&format!("/sessions/{other}{part}")).await?;
        assert_eq!(answer.status_and_code(), (404, "unknown_session".to_owned()), "{part}");
    }
    assert_eq!(
        http.send_until_stream("GET", &format!("/sessions/{other}/stream"), &[], "")
            .await?
            .status,
        404
    );
    let snapshot = http
        .open_stream("/sessions/stream", None)
        .await?
        .next()
        .await?
        .context("no snapshot")?;
    assert_eq!(list_ids(&snapshot.data), [own]);
    for path in ["/host", "/debug/sessions", "/metrics", "/workspaces", "/no/such"] {
        assert_eq!(
            http.get(path).await?.status_and_code(),
            (403, "not_for_agents".to_owned()),
            "{path}"
        );
    }
    assert_eq!(http.get("/adapters").await?.expect(200)?, json!({ "adapters": [] }));
    let mut mcp = Mcp::over_http(http.clone());
    assert_eq!(list_ids(&mcp.call_tool("list_agent_sessions", json!({})).await?), [own]);
    let unseen = json!({ "sessionId": other });
    for tool in ["get_agent_session_output", "wait_agent_session"] {
        assert_eq!(
            mcp.call_for_refusal(tool, unseen.clone()).await?.0,
            "unknown_session",
            "{tool}"
        );
    }
    let acp = TestClient::connect(&host.ws_url(), http.token()).await?;
    acp.initialize().await?;
    let listed = acp
        .call_method("session/list", json!({ "_meta": { "wharf": { "all": true } } }))
        .await?;
    let listed: Vec<&Value> = listed["sessions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| &one["sessionId"])
        .collect();
    assert_eq!(listed, [own]);
    assert_eq!(acp.call_method("session/status", unseen.clone()).await?["status"], "not_found");
    for (method, code) in
        [("session/load", -32002), ("session/resume", -32002), ("session/attach", -32001)]
    {
        assert_eq!(
            expect_error(acp.call_method(method, unseen.clone()).await)?.code,
            code,
            "{method}"
        );
    }
    acp.call_method("session/attach", json!({ "sessionId": own })).await?;
    assert_eq!(prompt_for_text(&agent.client, own, "echo seen").await?, "seen");
    acp.expect_text("seen").await;
    Ok(())
}

#[tokio::test]
async fn agent_has_read_only_access() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let user = RestClient::new(&host);
    let other = spawn_session(&user, &host).await?;
    let agent = CallingAgent::new(&host).await?;
    let (http, own) = (agent.http(&host).await?, agent.session.as_str());
    let here = cwd(&host)?;
    let say = json!({ "prompt": "echo mine" });
    for (session, fault) in
        [(own, (403, "observer".to_owned())), (&other, (404, "unknown_session".to_owned()))]
    {
        for verb in ["prompt", "interrupt", "kill"] {
            assert_eq!(
                http.post(&format!("/sessions/{session}/{verb}"), &say).await?.status_and_code(),
                fault,
                "{verb}"
            );
        }
        for verb in ["resume", "queue/prm_1"] {
            assert_eq!(
                http.post(&format!("/sessions/{session}/{verb}"), &say).await?.status,
                403,
                "{verb}"
            );
        }
        assert_eq!(
            http.delete(&format!("/sessions/{session}")).await?.status_and_code(),
            (403, "not_for_agents".to_owned())
        );
    }
    let start = json!({ "adapter": "scripted", "cwd": here });
    assert_eq!(
        http.post("/sessions/agent", &start).await?.status_and_code(),
        (403, "delegation_denied".to_owned())
    );
    assert_eq!(
        http.post_empty("/stop").await?.status_and_code(),
        (403, "not_for_agents".to_owned())
    );
    let workspace = json!({ "slug": "mine", "path": here });
    assert_eq!(
        http.post("/workspaces", &workspace).await?.status_and_code(),
        (403, "not_for_agents".to_owned())
    );
    let mut mcp = Mcp::over_http(http.clone());
    assert_eq!(mcp.call_for_refusal("start_agent_session", start).await?.0, "delegation_denied");
    let prompt = json!({ "sessionId": own, "prompt": "echo mine" });
    assert_eq!(mcp.call_for_refusal("prompt_agent_session", prompt).await?.0, "observer");
    for (session, code) in [(own, "observer"), (&other, "unknown_session")] {
        assert_eq!(
            mcp.call_for_refusal("kill_agent_session", json!({ "sessionId": session }))
                .await?
                .0,
            code
        );
    }
    let acp = TestClient::connect(&host.ws_url(), http.token()).await?;
    acp.initialize().await?;
    for (method, params) in [
        ("session/new", json!({ "cwd": here, "mcpServers": [] })),
        ("session/prompt", json!({ "sessionId": own, "prompt": [] })),
        ("session/set_mode", json!({ "sessionId": own, "modeId": "auto" })),
        ("session/close", json!({ "sessionId": own })),
        ("session/delete", json!({ "sessionId": own })),
        ("_wharf/queue/remove", json!({ "sessionId": own, "promptId": "prm_1" })),
        ("authenticate", json!({ "methodId": "token" })),
        ("logout", json!({})),
    ] {
        assert_eq!(expect_error(acp.call_method(method, params).await)?.code, -32011, "{method}");
    }
    let seat =
        TestClient::connect(&format!("{}?session=work&peer_id=ann", host.ws_url()), http.token())
            .await?;
    assert!(seat.wait_closed().await.starts_with("closed 4400"));
    assert_eq!(list_ids(&user.get("/sessions").await?.expect(200)?).len(), 2);
    for session in [own, &other] {
        let now = wait_until_idle(&user, session).await?;
        assert_eq!(
            log::list_events(&host, session, "prompt_accepted")?.len(),
            usize::from(session == own),
            "{now}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn agent_cannot_answer_its_own_ask() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let agent = CallingAgent::new(&host).await?;
    let (http, own) = (agent.http(&host).await?, agent.session.clone());
    let looking = TestClient::connect(&host.ws_url(), http.token()).await?;
    looking.initialize().await?;
    looking.load_session(&own, &cwd(&host)?).await?;
    // A child process of the agent waits for the permission's id in a pipe and answers it over the
    // socket with its user's token.
    let (go, done) = (host.directory().join("go"), host.directory().join("done"));
    let socket = host.socket_path();
    let script = format!(
        "{answer} > '{done}.new'; mv '{done}.new' '{done}'",
        done = done.display(),
        answer = call_command(&format!(
            r#"'{}' POST "/sessions/{own}/asks/$(cat '{}')" {} '{{"optionId":"allow_once"}}'"#,
            socket.display(),
            go.display(),
            host.token()
        ))?,
    );
    let file = host.directory().join("answer.sh");
    fs::write(&file, script)?;
    agent
        .sh(&format!(
            "mkfifo '{}'; (setsid sh '{}' >/dev/null 2>&1 &)",
            go.display(),
            file.display()
        ))
        .await?;

    let asking = agent.client.start_prompt(&own, "ask").await;
    let asked = agent.client.expect_request("session/request_permission").await;
    let asks = http.get(&format!("/sessions/{own}/asks")).await?.expect(200)?;
    let ask = asks["asks"][0]["askId"].as_u64().context("no ask")?;
    let yes = json!({ "optionId": "allow_once" });
    let answered = http.post(&format!("/sessions/{own}/asks/{ask}"), &yes).await?;
    assert_eq!(answered.status_and_code(), (403, "observer".to_owned()));
    let mut mcp = Mcp::over_http(http.clone());
    for arguments in [
        json!({ "sessionId": own, "askId": ask, "optionId": "allow_once" }),
        json!({ "sessionId": own, "optionId": "allow_once" }),
    ] {
        assert_eq!(mcp.call_for_refusal("answer_agent_session", arguments).await?.0, "observer");
    }
    // Over ACP the agent is not asked, and responses with made-up ids are ignored.
    for id in [asked.id().clone(), json!(0), json!(1), json!(ask)] {
        looking
            .send_result(
                &id,
                json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } }),
            )
            .await;
    }
    looking.call_method("session/status", json!({ "sessionId": own })).await?;
    assert!(
        !looking
            .received_frames()
            .iter()
            .any(|frame| frame.method() == "session/request_permission")
    );
    fs::write(&go, ask.to_string())?;
    let said = polling::poll_until(WAIT_LIMIT, || Ok(fs::read_to_string(&done).ok()))
        .await?
        .context("no answer")?;
    assert_eq!(parse_response(&said)?.0, 403, "{said}");
    assert_eq!(
        http.get(&format!("/sessions/{own}/asks")).await?.expect(200)?["asks"][0]["askId"],
        ask,
        "still open"
    );
    agent
        .client
        .send_result(
            asked.id(),
            json!({ "outcome": { "outcome": "selected", "optionId": "reject_once" } }),
        )
        .await;
    asking.wait_answer().await?;
    agent.client.expect_text("chosen: reject_once").await;
    Ok(())
}

#[tokio::test]
async fn process_of_an_agent_acts_as_that_agent_over_the_socket_with_any_token() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let other = spawn_session(&RestClient::new(&host), &host).await?;
    let agent = CallingAgent::new(&host).await?;
    let socket = format!("'{}'", host.socket_path().display());
    let own = agent.session.as_str();
    for before in ["", "env -i", "setsid", "env -i setsid sh -c '\"$@\"' sh"] {
        for token in ["''", host.token(), "wrong"] {
            let (status, listed) =
                agent.call(before, &format!("{socket} GET /sessions {token}")).await?;
            assert_eq!((status, list_ids(&listed)), (200, vec![own]), "{before} {token}");
            let (status, _) =
                agent.call(before, &format!("{socket} GET /sessions/{other} {token}")).await?;
            assert_eq!(status, 404, "{before} {token}");
        }
        let kill = format!("{socket} POST /sessions/{own}/kill {}", host.token());
        assert_eq!(agent.call(before, &kill).await?.1["code"], "observer", "{before}");
        let stop = format!("{socket} POST /stop {}", host.token());
        assert_eq!(agent.call(before, &stop).await?.1["code"], "not_for_agents", "{before}");
    }
    // A process whose parent has exited still counts as the agent's.
    let file = host.directory().join("orphan");
    let call = call_command(&format!("{socket} GET /sessions {}", host.token()))?;
    let orphan = format!(
        "tail -s 0.01 --pid=$1 -f /dev/null; {call} > '{0}.new'; mv '{0}.new' '{0}'",
        file.display()
    );
    fs::write(host.directory().join("orphan.sh"), orphan)?;
    let script = host.directory().join("orphan.sh");
    agent
        .sh(&format!("(env -i setsid sh '{}' $$ >/dev/null 2>&1 &)", script.display()))
        .await?;
    let said = polling::poll_until(WAIT_LIMIT, || Ok(fs::read_to_string(&file).ok()))
        .await?
        .context("no answer")?;
    assert_eq!(list_ids(&parse_response(&said)?.1), [own]);
    // Processes in the agent's terminals count as the agent's too.
    let said = prompt_for_text(&agent.client, own, &format!("terminal {call}")).await?;
    ensure!(said.contains(own) && !said.contains(&other), "{said}");
    Ok(())
}

#[tokio::test]
async fn an_agent_is_known_from_its_start_on() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("wharf.sock");
    // The agent calls the host before it answers `initialize`. The answer is on its stderr, which
    // the error of the failed start carries.
    let flags = ["--socket", socket.to_str().context("not UTF-8")?, "--exit-on-start", "5"];
    let host = crate::add_scripted_agent(scripted_host(&[])?, "early", &flags)?.start_host()?;
    std::os::unix::fs::symlink(host.socket_path(), &socket)?;
    let early = crate::connect_client_of(&host, "early").await?;
    let error = expect_error(early.new_session(&cwd(&host)?).await)?;
    ensure!(error.message.contains("HTTP/1.1 101"), "{error}");
    Ok(())
}

#[tokio::test]
async fn agent_token_ends_with_its_agent_and_the_next_agent_gets_a_new_one() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let agent = CallingAgent::new(&host).await?;
    let (user, own) = (RestClient::new(&host), agent.session.as_str());
    let first = agent.http(&host).await?;
    first.get("/sessions").await?.expect(200)?;
    expect_error(agent.client.send_prompt(own, "crash 7").await)?;
    wait_for_session(&user, own, "its end", |session| session["status"] == "exited").await?;
    assert_eq!(first.get("/sessions").await?.status_and_code(), (401, "unauthorized".to_owned()));
    let second = agent.http(&host).await?;
    assert_ne!(first.token(), second.token());
    assert_eq!(list_ids(&second.get("/sessions").await?.expect(200)?), [own]);
    assert_eq!(first.get("/sessions").await?.status, 401);
    user.post_empty(&format!("/sessions/{own}/kill")).await?.expect(200)?;
    let sessions_status = async || Ok::<_, anyhow::Error>(second.get("/sessions").await?.status);
    while sessions_status().await? != 401 {}
    Ok(())
}

#[tokio::test]
async fn wharf_command_inside_an_agent_acts_as_that_agent() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let other = spawn_session(&RestClient::new(&host), &host).await?;
    let agent = CallingAgent::new(&host).await?;
    let wharf = crate::wharf_binary();
    let run = async |verb: &str| {
        agent.sh(&format!("'{}' {verb} 2>&1; echo \"exit $?\"", wharf.display())).await
    };
    let listed = run("sessions --all").await?;
    ensure!(
        listed.contains(&agent.session) && !listed.contains(&other) && listed.ends_with("exit 0\n"),
        "{listed}"
    );
    for (verb, words) in [
        ("stop", "not for agents"),
        ("workspace list", "not for agents"),
        ("run scripted hello", "delegation"),
        (&format!("prompt {} hello", agent.session), "read-only access"),
        (&format!("kill {}", agent.session), "read-only access"),
        (&format!("kill {other}"), "no session"),
    ] {
        let said = run(verb).await?;
        ensure!(said.contains(words) && !said.ends_with("exit 0\n"), "{verb}: {said}");
    }
    // The bridge gets the same observer role as every other client of the agent.
    let (hello, new) = (
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "session/new", "params": { "cwd": "/", "mcpServers": [] } }),
    );
    let said = run_verb_in_agent(&host, &agent, "acp --no-start", &[hello, new]).await?;
    ensure!(said.contains("-32011"), "{said}");
    assert_eq!(list_ids(&RestClient::new(&host).get("/sessions").await?.expect(200)?).len(), 2);
    connect_client(&host).await?;
    Ok(())
}

/// Runs a Wharf verb inside the agent, sends it these lines, and returns its output up to the
/// answer with id 2.
pub(crate) async fn run_verb_in_agent(
    host: &TestHost,
    agent: &CallingAgent,
    verb: &str,
    lines: &[Value],
) -> Result<String> {
    let folder = host.directory().display().to_string();
    let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
    fs::write(host.directory().join("lines"), text.join("\n") + "\n")?;
    let script = format!(
        "cd '{folder}' && rm -f in out && mkfifo in out && {{ '{}' {verb} < in > out 2>&1 & }} ; exec 3> in 4< out; cat lines >&3; \
         while IFS= read -r line <&4; do printf '%s\\n' \"$line\"; case $line in *'\"id\":2'*) break;; esac; done; exec 3>&-; cat <&4; wait",
        crate::wharf_binary().display()
    );
    agent.sh(&script).await
}
