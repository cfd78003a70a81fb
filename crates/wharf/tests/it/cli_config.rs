//! `wharf config`, `reload` and `restart`: settings with their sources, and changes of them in a
//! running host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::http::RestClient;
use wharf_testkit::polling::poll_until;

use crate::program::wharf_command;
use crate::rest::caller_with_role;
use crate::scripted_host;

/// A home with a state directory of its own. Its host is stopped when the test ends.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = wharf_command(arguments);
        command
            .env("HOME", self.0.path())
            .env("WHARF_STATE_DIR", self.0.path().join("state"));
        command
    }

    fn config_file(&self) -> PathBuf {
        self.0.path().join(".config/wharf/config.toml")
    }

    /// Runs a verb that must succeed, and returns its stdout.
    fn run(&self, arguments: &[&str]) -> Result<String> {
        stdout_of(self.command(arguments).output()?)
    }

    fn run_json(&self, arguments: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.run(arguments)?)?)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.command(&["stop", "--force"]).output();
    }
}

fn stdout_of(output: Output) -> Result<String> {
    let (out, err) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{out}{err}");
    Ok(out)
}

/// Returns the exit code and stderr of a verb.
fn failure_of(mut command: Command) -> Result<(Option<i32>, String)> {
    let output = command.output()?;
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

#[test]
fn settings_are_changed_in_the_file_without_a_host() -> Result<()> {
    let home = Home::new()?;
    let file = home.config_file();
    assert_eq!(home.run(&["config", "path"])?.trim(), file.to_str().context("not UTF-8")?);
    assert!(home.run(&["config", "check"])?.contains("every setting has its default"));
    home.run(&["config", "set", "session.idle_ttl", "8h"])?;
    home.run(&["config", "set", "hosts", "a.example,b.example"])?;
    assert_eq!(
        fs::read_to_string(&file)?,
        "hosts = [\"a.example\", \"b.example\"]\n[session]\nidle_ttl = \"8h\"\n"
    );
    assert_eq!(home.run(&["config", "get", "session.idle_ttl"])?, "8h\n");
    let changed = home.run(&["config", "list", "--changed"])?;
    let row = "session.idle_ttl\t\"8h\"\tfile\t\tWHARF_SESSION_IDLE_TTL\tnew sessions\t\n";
    assert!(changed.contains(row) && changed.lines().count() == 2, "{changed}");

    let before = fs::read_to_string(&file)?;
    for (key, value, code) in [
        ("session.idle_ttl", "soon", 2),
        ("session.idle_tll", "1h", 2),
        ("default_agent", "nobody", 2),
        ("limits.queue", "many", 2),
    ] {
        let (exit, said) = failure_of(home.command(&["config", "set", key, value]))?;
        assert_eq!(exit, Some(code), "{key} = {value}: {said}");
    }
    assert_eq!(fs::read_to_string(&file)?, before, "a refused value touches nothing");
    home.run(&["config", "unset", "session.idle_ttl"])?;
    assert_eq!(home.run(&["config", "get", "session.idle_ttl"])?, "never\n");

    fs::write(&file, "listn = \"x\"\n")?;
    let (exit, said) = failure_of(home.command(&["config", "check"]))?;
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("did you mean \"listen\""), "{said}");
    Ok(())
}

#[test]
fn running_host_uses_a_new_setting_at_once_and_the_others_after_a_restart() -> Result<()> {
    let home = Home::new()?;
    let start = |arguments: &[&str]| {
        stdout_of(home.command(arguments).env("WHARF_LISTEN", "127.0.0.1:0").output()?)
    };
    start(&["run", "demo", "--keep", "--label", "kept", "echo hello"])?;
    let pid = home.run_json(&["status", "--json"])?["pid"].clone();

    let said = home.run(&["config", "set", "ask_timeout", "5m"])?;
    assert!(
        said.contains("ask_timeout = \"5m\"") && said.contains("new sessions: ask_timeout"),
        "{said}"
    );
    let said = home.run(&["config", "set", "limits.frame", "2MiB"])?;
    assert!(said.contains("waits for a restart (wharf restart): limits.frame"), "{said}");
    assert_eq!(home.run(&["config", "get", "limits.frame"])?, "32MiB\n");
    let host = home.run_json(&["status", "--json"])?;
    assert_eq!(
        (&host["settings"]["waiting"], &host["staleVariables"]),
        (&json!(["limits.frame"]), &json!(["WHARF_LISTEN"]))
    );
    let listed = home.run_json(&["config", "list", "--json"])?;
    let listen = listed["settings"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|setting| setting["key"] == "listen");
    let listen = listen.context("no listen")?;
    assert_eq!(
        (&listen["source"], &listen["setBy"]),
        (&json!("environment"), &json!("WHARF_LISTEN")),
        "{listen}"
    );
    assert_eq!(listen["here"], "\"127.0.0.1:7433\" (default)");

    let said = start(&["restart"])?;
    assert!(said.starts_with(&format!("restarted: pid {pid} has ended")), "{said}");
    let again = home.run_json(&["status", "--json"])?;
    assert_ne!(again["pid"], pid);
    assert_eq!(again["settings"]["waiting"], json!([]));
    assert_eq!(again["process"]["startedAs"], "background");
    assert_eq!(home.run(&["config", "get", "limits.frame"])?, "2MiB\n");
    assert!(home.run(&["sessions"])?.contains("kept"), "the session is still there");
    Ok(())
}

#[test]
fn restart_leaves_the_host_alone_if_the_settings_cannot_be_used() -> Result<()> {
    let home = Home::new()?;
    let file = home.config_file();
    stdout_of(home.command(&["status", "--json"]).output()?).unwrap_err();
    stdout_of(
        home.command(&["run", "demo", "echo hello"])
            .env("WHARF_LISTEN", "127.0.0.1:0")
            .output()?,
    )?;
    let pid = home.run_json(&["status", "--json"])?["pid"].clone();
    fs::create_dir_all(file.parent().context("no folder")?)?;
    for (text, complaint) in [
        ("listn = \"x\"\n", "listn"),
        ("default_agent = \"nobody\"\n", "nobody"),
        ("[limits\n", "line 1"),
        ("log_level = \"a=b=c\"\n", "log_level"),
    ] {
        fs::write(&file, text)?;
        let (exit, said) = failure_of(home.command(&["restart"]))?;
        assert_eq!(exit, Some(2), "{text}: {said}");
        assert!(said.contains(complaint) && said.contains("goes on"), "{text}: {said}");
        assert_eq!(home.run_json(&["status", "--json"])?["pid"], pid, "{text}: the host was ended");
    }
    Ok(())
}

#[test]
fn rejected_value_of_a_secret_key_is_not_shown() -> Result<()> {
    let home = Home::new()?;
    for value in [
        "ftp://me:hush-1@box.example/hook",
        "https://me:hush-1@box.example/hook",
        "https://box/ hush-1",
    ] {
        let (exit, said) = failure_of(home.command(&["config", "set", "notify.webhook", value]))?;
        assert_eq!(exit, Some(2), "{said}");
        assert!(said.contains("webhook") && !said.contains("hush-1"), "{said}");
    }
    Ok(())
}

#[test]
fn missing_file_empty_variable_and_unknown_key_are_told_and_mended() -> Result<()> {
    let home = Home::new()?;
    let (exit, said) = failure_of(home.command(&["config", "check", "/nope.toml"]))?;
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("/nope.toml"), "{said}");
    stdout_of(home.command(&["config", "check"]).env("WHARF_CONFIG", "").output()?)?;
    let path = stdout_of(home.command(&["config", "path"]).env("WHARF_CONFIG", "").output()?)?;
    assert_eq!(path, home.run(&["config", "path"])?);

    let file = home.config_file();
    fs::create_dir_all(file.parent().context("no folder")?)?;
    fs::write(&file, "listn = \"x\"\nask_timeout = \"1h\"\n")?;
    let (exit, said) = failure_of(home.command(&["config", "set", "ask_timeout", "2h"]))?;
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("listn") && said.contains("wharf config edit"), "{said}");
    assert!(home.run(&["config", "unset", "listn"])?.contains("listn is not set any more"));
    assert_eq!(fs::read_to_string(&file)?, "ask_timeout = \"1h\"\n");
    let (exit, said) = failure_of(home.command(&["config", "unset", "listn"]))?;
    assert_eq!(exit, Some(2), "a key that is neither known nor in the file: {said}");
    Ok(())
}

/// Returns the state of the host's settings that satisfies the condition.
async fn wait_for_settings(state: &Path, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    let look = || {
        let output = wharf_command(&["status", "--json", "--state-dir"]).arg(state).output()?;
        let host: Value = serde_json::from_slice(&output.stdout)?;
        Ok(Some(host["settings"].clone()).filter(&wanted))
    };
    poll_until(WAIT_LIMIT, look).await?.context("the host does not see the file")
}

#[tokio::test]
async fn host_sees_changes_of_its_file_and_keeps_its_settings_if_the_file_is_broken() -> Result<()>
{
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let listed: Value = http.get("/host/settings").await?.expect(200)?;
    let file = PathBuf::from(listed["file"].as_str().context("no file")?);
    let text = fs::read_to_string(&file)?;
    let limit = async || -> Result<Value> {
        let listed: Value = http.get("/host/settings").await?.expect(200)?;
        let found = listed["settings"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|it| it["key"] == "limits.history")
            .cloned();
        Ok(found.context("no limits.history")?["value"].clone())
    };
    assert_eq!(limit().await?, "\"8MiB\"");

    fs::write(&file, format!("{text}\n[limits]\nhistory = \"1MiB\"\nframe = \"1MiB\"\n"))?;
    wait_for_settings(&host.state_dir(), |settings| settings["waiting"] == json!(["limits.frame"]))
        .await?;
    assert_eq!(limit().await?, "\"1MiB\"");

    fs::write(&file, format!("{text}\n[limits]\nhistory = \"2MiB\"\nframes = \"1MiB\"\n"))?;
    let settings =
        wait_for_settings(&host.state_dir(), |settings| settings["fault"].is_string()).await?;
    assert!(
        settings["fault"].as_str().is_some_and(|fault| fault.contains("limits.frames")),
        "{settings}"
    );
    assert_eq!(limit().await?, "\"1MiB\"");
    let refused = http
        .send("POST", "/host/reload", &[("content-type", "application/json")], "{}")
        .await?;
    assert_eq!(refused.status_and_code(), (409, "invalid_settings".to_owned()));

    fs::write(&file, &text)?;
    let pid = i32::try_from(host.pid()).ok().and_then(Pid::from_raw).context("no pid")?;
    kill_process(pid, Signal::HUP)?;
    wait_for_settings(&host.state_dir(), |settings| {
        settings["fault"].is_null() && settings["waiting"] == json!([])
    })
    .await?;
    assert_eq!(limit().await?, "\"8MiB\"");
    let log = host.read_stderr();
    assert!(
        log.contains("settings changed")
            && log.contains("wait for a restart")
            && log.contains("limits.frames"),
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn settings_are_for_admins_and_show_no_secret() -> Result<()> {
    let options = scripted_host(&[])?.with_variable(
        "WHARF_AGENTS",
        "{ mine = { command = [\"x\"], env = { KEY = \"hush\" } } }",
    );
    let host = options.start_host()?;
    let all = RestClient::new(&host).get("/host/settings").await?;
    assert!(all.body.contains("agents.mine.env.KEY") && !all.body.contains("hush"), "{}", all.body);
    let controller = caller_with_role(&host, "controller")?;
    for (method, path) in [("GET", "/host/settings"), ("POST", "/host/reload")] {
        let answer = controller
            .send(method, path, &[("content-type", "application/json")], "{}")
            .await?;
        assert_eq!(answer.status_and_code(), (403, "admin_only".to_owned()), "{path}");
    }
    let described: Value = controller.get("/host").await?.expect(200)?;
    assert!(described["settings"].is_null() && described["process"].is_null(), "{described}");
    assert_eq!(described["cancelTimeoutMs"], 30_000);
    Ok(())
}

#[test]
fn host_in_a_terminal_is_not_restarted_and_an_unknown_variable_is_warned_about() -> Result<()> {
    let host = scripted_host(&[])?.with_variable("WHARF_LIMIT_FRAME", "1MiB").start_host()?;
    let mut restart = wharf_command(&["restart", "--state-dir"]);
    restart.arg(host.state_dir());
    let (exit, said) = failure_of(restart)?;
    assert_eq!(exit, Some(5), "{said}");
    assert!(
        host.read_stderr().contains("did you mean WHARF_LIMITS_FRAME?"),
        "{}",
        host.read_stderr()
    );
    Ok(())
}
