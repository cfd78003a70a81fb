//! The sandbox with real agents: operations that a confined agent can and cannot do (rules 3.8,
//! 10.1).

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;
use wharf_host::sandbox::{SandboxSupport, detect_support};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;

use crate::agent_restarts::QueuedCrash;
use crate::{
    add_section, connect_client, connect_client_with, cwd, expect_error, log, open_session,
    parse_pids, prompt_for_text, scripted_host,
};

/// The directories of a sandbox test; none is inside another that an agent may write.
pub(crate) struct SandboxDirectories {
    _dir: tempfile::TempDir,
    work: PathBuf,
    temp: PathBuf,
    /// The directory outside the session. It holds `keep`, a file of the user.
    out: PathBuf,
}

impl SandboxDirectories {
    pub(crate) fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let root = dir.path().canonicalize()?;
        let [work, temp, out] = ["work", "temp", "out"].map(|name| root.join(name));
        for place in [&work, &temp, &out] {
            fs::create_dir(place)?;
        }
        fs::write(out.join("keep"), "kept")?;
        Ok(Self { _dir: dir, work, temp, out })
    }

    /// Configures a host whose agents are confined.
    pub(crate) fn options(&self, flags: &[&str]) -> Result<HostOptions> {
        Ok(self.with_sandbox(scripted_host(flags)?))
    }

    fn with_sandbox(&self, options: HostOptions) -> HostOptions {
        add_section(options, "[sandbox]\nmode = \"landlock\"")
            .with_variable("TMPDIR", &self.temp.display().to_string())
    }

    pub(crate) async fn open(&self, host: &TestHost) -> Result<(TestClient, String)> {
        let client = connect_client(host).await?;
        let session = client.new_session(&self.work.display().to_string()).await?;
        Ok((client, session))
    }
}

/// Returns true if the kernel has Landlock, and reports a skipped test otherwise.
pub(crate) fn has_landlock() -> bool {
    match detect_support() {
        SandboxSupport::Landlock { .. } => true,
        SandboxSupport::None(why) => {
            println!("SKIPPED, not passed: the sandbox cannot be tried here: {why}");
            false
        }
    }
}

/// Returns true if the kernel reports that the process cannot gain privileges, which Wharf sets for
/// confined agents.
fn is_confined(pid: u32) -> Result<bool> {
    Ok(fs::read_to_string(format!("/proc/{pid}/status"))?.contains("NoNewPrivs:\t1"))
}

const PERMISSION_DENIED: &str = "failed: Permission denied";

#[tokio::test]
async fn confined_agent_writes_only_in_its_directory_and_temporary_files() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let host = yard.options(&[])?.start_host()?;
    let (client, session) = yard.open(&host).await?;
    for place in [&yard.work, &yard.temp] {
        assert_eq!(
            prompt_for_text(&client, &session, &format!("save {}/x y", place.display())).await?,
            "saved"
        );
        assert_eq!(
            prompt_for_text(
                &client,
                &session,
                &format!("sh cat {}/x > /dev/null", place.display())
            )
            .await?,
            ""
        );
    }
    let out = yard.out.display();
    assert!(
        prompt_for_text(&client, &session, &format!("save {out}/x y"))
            .await?
            .starts_with(PERMISSION_DENIED)
    );
    for deed in [
        format!("echo y > {out}/x"),
        format!("echo y >> {out}/keep"),
        format!("truncate -s 0 {out}/keep"),
        format!("rm -f {out}/keep"),
        format!("mv {out}/keep taken"),
        format!("ln {out}/keep taken"),
        format!("mkdir {out}/x"),
        format!("ln -s / way && echo y > way/{out}/x"),
        format!("setsid sh -c 'echo y > {out}/x'"),
    ] {
        let said = prompt_for_text(&client, &session, &format!("sh {deed}")).await?;
        assert!(
            said.contains("ermission denied") || said.contains("cross-device"),
            "{deed}: {said}"
        );
    }
    assert_eq!(fs::read_to_string(yard.out.join("keep"))?, "kept");
    assert_eq!(fs::read_dir(&yard.out)?.count(), 1, "nothing came to be");
    assert_eq!(
        prompt_for_text(&client, &session, &format!("load {out}/keep")).await?,
        "kept",
        "reading is another matter"
    );
    Ok(())
}

#[tokio::test]
async fn confined_agent_cannot_read_files_of_the_host() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let host = yard.options(&[])?.start_host()?;
    let (client, session) = yard.open(&host).await?;
    let (state, config) = (host.state_dir(), host.directory().join("config.toml"));
    symlink(state.join("token"), yard.work.join("door"))?;
    symlink(&state, yard.work.join("gate"))?;
    let start = state.join("workspaces/default/sessions").join(&session).join("start.json");
    assert!(start.exists() && config.exists());
    let door = yard.work.join("door");
    // The kernel allows root this much, whatever the sandbox says.
    let root = fs::metadata("/proc/self")?.uid() == 0;
    let environ = (!root).then(|| PathBuf::from(format!("/proc/{}/environ", host.pid())));
    let through =
        PathBuf::from(format!("/proc/{}/cwd{}", host.pid(), state.join("token").display()));
    let own = [
        state.join("token"),
        state.join("id"),
        start,
        config,
        door,
        yard.work.join("gate/token"),
        through,
    ];
    for path in own.into_iter().chain(environ) {
        let said = prompt_for_text(&client, &session, &format!("load {}", path.display())).await?;
        assert!(said.starts_with(PERMISSION_DENIED), "{}: {said}", path.display());
    }
    for dir in [state.clone(), yard.work.join("gate"), state.join("workspaces")] {
        assert!(
            prompt_for_text(&client, &session, &format!("ls {}", dir.display()))
                .await?
                .starts_with(PERMISSION_DENIED),
            "{dir:?}"
        );
    }
    let said =
        prompt_for_text(&client, &session, &format!("sh cat {}", state.join("token").display()))
            .await?;
    assert!(said.contains("ermission denied") && !said.contains(host.token()), "{said}");
    Ok(())
}

#[tokio::test]
async fn wharfs_own_files_and_terminals_obey_the_same_sandbox() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let host = yard.options(&["--session-id", "own"])?.start_host()?;
    let (client, session) = yard.open(&host).await?;
    let (work, out) = (yard.work.display(), yard.out.display());
    let token = host.state_dir().join("token");
    symlink(&token, yard.work.join("door"))?;
    assert_eq!(
        prompt_for_text(&client, &session, &format!("fs write {work}/x y")).await?,
        "answered: {}"
    );
    assert_eq!(
        prompt_for_text(&client, &session, &format!("fs read {work}/x")).await?,
        r#"answered: {"content":"y"}"#
    );
    for deed in [
        format!("fs write {out}/x y"),
        format!("fs read {}", token.display()),
        format!("fs read {work}/door"),
    ] {
        assert!(prompt_for_text(&client, &session, &deed).await?.starts_with("failed: "), "{deed}");
    }
    let said =
        prompt_for_text(&client, &session, &format!("terminal echo y > {work}/t && cat {work}/t"))
            .await?;
    assert!(said.contains(r#""exitCode":0"#) && said.contains(r"y\n"), "{said}");
    for deed in [format!("echo y > {out}/x"), format!("cat {}", token.display())] {
        let said = prompt_for_text(&client, &session, &format!("terminal {deed}")).await?;
        assert!(
            said.contains("ermission denied") && !said.contains(host.token()),
            "{deed}: {said}"
        );
    }
    assert!(!yard.out.join("x").exists());
    Ok(())
}

#[tokio::test]
async fn files_served_to_a_confined_agent_follow_its_sandbox() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let [work, temp, out] =
        [&yard.work, &yard.temp, &yard.out].map(|place| place.display().to_string());
    let options = add_section(
        yard.options(&["--session-id", "own"])?,
        &format!("writable = [\"{out}/keep\"]"),
    );
    let host = options.start_host()?;
    let (client, session) = yard.open(&host).await?;
    fs::write(yard.out.join("other"), "other")?;
    symlink(yard.out.join("other"), yard.temp.join("door"))?;
    // The second path is a single file that the sandbox opens.
    for path in [format!("{temp}/x"), format!("{out}/keep")] {
        assert_eq!(
            prompt_for_text(&client, &session, &format!("fs write {path} y")).await?,
            "answered: {}",
            "{path}"
        );
        assert_eq!(
            prompt_for_text(&client, &session, &format!("fs read {path}")).await?,
            r#"answered: {"content":"y"}"#,
            "{path}"
        );
    }
    // The agent may read the user's files and cannot write them through any path.
    for path in [format!("{out}/other"), format!("{temp}/door"), format!("{work}/../out/other")] {
        let said = prompt_for_text(&client, &session, &format!("fs read {path}")).await?;
        assert_eq!(said, r#"answered: {"content":"other"}"#, "{path}");
        let said = prompt_for_text(&client, &session, &format!("fs write {path} y")).await?;
        assert!(
            said.starts_with("failed: ") && said.contains("ermission denied"),
            "{path}: {said}"
        );
    }
    let token = host.state_dir().join("token");
    let said = prompt_for_text(
        &client,
        &session,
        &format!("fs read /proc/{}/root{}", host.pid(), token.display()),
    )
    .await?;
    assert!(said.starts_with("failed: ") && !said.contains(host.token()), "{said}");
    assert_eq!(fs::read_to_string(yard.out.join("other"))?, "other");
    Ok(())
}

/// A variable of the dynamic loader runs code in every program that it reaches, so it must reach
/// only confined ones.
#[tokio::test]
async fn variables_that_an_agent_chooses_reach_no_program_that_is_not_confined() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let host = yard.options(&["--session-id", "own"])?.start_host()?;
    let (client, session) = yard.open(&host).await?;
    let env = json!([{ "name": "LD_PRELOAD", "value": "/none.so" }, { "name": "COLOUR", "value": "red" },
        { "name": "WHARF_AGENT_TAG", "value": "forged" }, { "name": "WHARF_TOKEN", "value": "forged" }]);
    let script = "echo colour $COLOUR; echo tag $WHARF_AGENT_TAG; echo tag $WHARF_TOKEN";
    let create =
        json!({ "sessionId": "own", "command": "/bin/sh", "args": ["-c", script], "env": env });
    let created =
        prompt_for_text(&client, &session, &format!("ext terminal/create {create}")).await?;
    let id = created.split('"').nth(3).context("no terminal")?.to_owned();
    let terminal = json!({ "sessionId": "own", "terminalId": id });
    prompt_for_text(&client, &session, &format!("ext terminal/wait_for_exit {terminal}")).await?;
    let said =
        prompt_for_text(&client, &session, &format!("ext terminal/output {terminal}")).await?;
    assert!(said.contains("colour red") && !said.contains("tag forged"), "{said}");
    assert_eq!(
        said.matches("/none.so").count(),
        1,
        "the shell's loader complains, no other: {said}"
    );
    Ok(())
}

#[tokio::test]
async fn session_comes_back_confined_to_the_same_directory() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let mut options = yard.options(&[])?;
    // Retries are off, so that the test need not wait for them.
    options.config.get_or_insert_default().insert_str(0, "start_retries = []\n");
    let mut host = options.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
    let (first, session) = yard.open(&host).await?;
    assert_eq!(prompt_for_text(&first, &session, "echo before").await?, "before");
    host.restart()?;
    let second = connect_client(&host).await?;
    second.load_session(&session, &yard.work.display().to_string()).await?;
    let out = yard.out.display();
    assert!(
        prompt_for_text(&second, &session, &format!("save {out}/x y"))
            .await?
            .starts_with(PERMISSION_DENIED)
    );
    assert_eq!(
        prompt_for_text(&second, &session, &format!("save {}/x y", yard.work.display())).await?,
        "saved"
    );
    // Another agent with write access beside it could do this.
    host.kill()?;
    fs::rename(&yard.work, yard.temp.join("away"))?;
    symlink(&yard.out, &yard.work)?;
    host.restart()?;
    let third = connect_client(&host).await?;
    // The history can be read all the same; it depends on timing whether the load already fails.
    let _ = third.load_session(&session, &yard.work.display().to_string()).await;
    log::expect_event(&host, &session, "ended", |event| event.to_string().contains("now leads to"))
        .await?;
    assert_eq!(
        expect_error(third.send_prompt(&session, "echo never").await)?.data["reason"],
        "start_failed"
    );
    assert_eq!(fs::read_dir(&yard.out)?.count(), 1);
    Ok(())
}

#[tokio::test]
async fn prestarted_agent_is_confined_and_serves_only_sessions_with_the_same_rights() -> Result<()>
{
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let host = yard.options(&[])?.start_host()?;
    let (work, out) = (yard.work.display().to_string(), yard.out.display().to_string());
    let greeted = |client: &TestClient| {
        let pid =
            client.received_frames().remove(0).body["result"]["_meta"]["scripted"]["pid"].as_u64();
        pid.and_then(|pid| u32::try_from(pid).ok()).context("no pid")
    };
    let here = connect_client_with(&host, json!({}), json!({ "wharf": { "cwd": work } })).await?;
    assert!(is_confined(greeted(&here)?)?);
    let session = here.new_session(&work).await?;
    assert_eq!(
        parse_pids(&prompt_for_text(&here, &session, "pid").await?),
        [greeted(&here)?],
        "the same rights"
    );
    // The session has a further directory: an agent that was started without it cannot serve it.
    let more = connect_client_with(
        &host,
        json!({ "auth": { "terminal": true } }),
        json!({ "wharf": { "cwd": work } }),
    )
    .await?;
    let new = json!({ "cwd": work, "mcpServers": [], "additionalDirectories": [out] });
    let session = more.call_method("session/new", new).await?["sessionId"]
        .as_str()
        .context("no id")?
        .to_owned();
    assert_ne!(parse_pids(&prompt_for_text(&more, &session, "pid").await?), [greeted(&more)?]);
    assert_eq!(prompt_for_text(&more, &session, &format!("save {out}/x y")).await?, "saved");
    Ok(())
}

#[tokio::test]
async fn required_sandbox_without_landlock_refuses_sessions() -> Result<()> {
    let yard = SandboxDirectories::new()?;
    let options = crate::add_scripted_agent(yard.options(&[])?, "free", &[])?;
    let options = add_section(options, "[agents.free.sandbox]\nmode = \"off\"");
    let host = options.with_variable("WHARF_WITHOUT_LANDLOCK", "1").start_host()?;
    let work = yard.work.display().to_string();
    let http = RestClient::new(&host);
    let body = json!({ "adapter": "scripted", "cwd": work });
    let answer = http.post("/sessions/agent", &body).await?;
    assert_eq!(answer.status_and_code(), (501, "sandbox_not_supported".to_owned()));
    let client = TestClient::connect(&host.ws_url(), host.token()).await?;
    let error = expect_error(client.initialize().await)?;
    assert!(
        error.message.contains("WHARF_WITHOUT_LANDLOCK") && error.message.contains("wharf doctor"),
        "{error:?}"
    );
    let error = expect_error(client.new_session(&work).await)?;
    assert!(error.message.contains("wharf doctor"), "{error:?}");
    let listed = http.get("/sessions").await?.json();
    assert_eq!(listed["sessions"], json!([]), "nothing was made");
    // An agent without the sandbox setting is not affected.
    let answer = http.post("/sessions/agent", &json!({ "adapter": "free", "cwd": work })).await?;
    assert_eq!(answer.status, 201);
    Ok(())
}

#[tokio::test]
async fn session_in_a_directory_that_holds_the_hosts_files_is_refused() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let host = yard.options(&[])?.start_host()?;
    let client = connect_client(&host).await?;
    for dir in [cwd(&host)?, host.state_dir().display().to_string(), "/".to_owned()] {
        let error = expect_error(client.new_session(&dir).await)?;
        assert!(error.message.contains("cannot let the agent write in"), "{dir}: {error:?}");
    }
    assert_eq!(client.new_session(&yard.work.display().to_string()).await.map(drop).ok(), Some(()));
    Ok(())
}

#[tokio::test]
async fn sandbox_is_off_by_default_and_on_for_configured_adapters() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let pid = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
    assert!(!is_confined(pid[0])?);
    // A manifest asks for the sandbox and names a directory of the agent's own.
    let adapters = host.directory().join("adapters/mine");
    fs::create_dir_all(&adapters)?;
    let agent = wharf_testkit::program::find_scripted_agent()?;
    let own = yard.out.join("own/deep");
    let manifest = format!(
        "---\nname: mine\nid: mine\ndescription: x\nversion: 1.0.0\nbin: {}\ninstall: [{{ method: npm, package: x }}]\n\
         version_check: {{ cmd: x, parse: '(x)', range: '*' }}\n\
         sandbox: {{ mode: landlock, writable: ['{}/'] }}\nprotocol: acp\nacp: x\nenv: {{ TMPDIR: '{}' }}\n---\n",
        agent.display(),
        own.display(),
        yard.temp.display()
    );
    fs::write(adapters.join("AGENT-CLI.md"), manifest)?;
    let client =
        TestClient::connect(&format!("{}?agent=mine", host.ws_url()), host.token()).await?;
    client.initialize().await?;
    let session = client.new_session(&yard.work.display().to_string()).await?;
    assert_eq!(
        prompt_for_text(&client, &session, &format!("save {}/x y", own.display())).await?,
        "saved"
    );
    assert!(
        prompt_for_text(&client, &session, &format!("save {}/x y", yard.out.display()))
            .await?
            .starts_with(PERMISSION_DENIED)
    );
    Ok(())
}

#[tokio::test]
async fn the_demo_agent_works_in_the_sandbox() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let mut host = yard
        .with_sandbox(HostOptions {
            binary: Some(crate::wharf_binary()),
            ..HostOptions::default()
        })
        .start_host()?;
    let (client, session) = yard.open(&host).await?;
    client.send_prompt(&session, "help").await?;
    host.restart()?;
    let client = crate::connect_client(&host).await?;
    client.load_session(&session, &yard.work.display().to_string()).await?;
    client.send_prompt(&session, "help").await?;
    Ok(())
}

#[tokio::test]
async fn start_that_the_sandbox_refuses_is_not_tried_again() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let mut options = yard.options(&[])?;
    options
        .config
        .get_or_insert_default()
        .insert_str(0, "start_retries = [\"50ms\"]\n");
    let host = options.start_host()?;
    let (client, session) = yard.open(&host).await?;
    let crash = QueuedCrash::queue(&host, &client, &session, ("crash", "echo after")).await?;
    fs::rename(&yard.work, yard.work.with_extension("moved"))?;
    symlink(&yard.out, &yard.work)?;
    let (crashes, waits) = crash.let_crash()?;
    assert_eq!(expect_error(crashes.wait_answer().await)?.data["reason"], "agent_exited");
    assert_eq!(expect_error(waits.wait_answer().await)?.data["reason"], "start_failed");
    assert_eq!(log::list_events(&host, &session, "start_failed")?, Vec::<serde_json::Value>::new());
    let known = RestClient::new(&host).get(&format!("/sessions/{session}")).await?.expect(200)?;
    assert!(known["message"].to_string().contains("the sandbox does not follow"), "{known}");
    Ok(())
}
