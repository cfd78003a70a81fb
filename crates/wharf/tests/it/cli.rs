//! The command line against a real host: arguments of a person, and output for a program.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::processes;

use crate::program::wharf_command;
use crate::rest::{wait_for_session, wait_until_idle};
use crate::{scripted_host, without_usage};

/// Returns a `run_wharf` command with these arguments, in the host's directory and for this host.
pub(crate) fn command_for_host(host: &TestHost, arguments: &[&str]) -> Command {
    let mut command = wharf_command(arguments);
    command
        .env("WHARF_STATE_DIR", host.state_dir())
        .env("PWD", host.directory())
        .current_dir(host.directory());
    // Processes that it leaves running, such as the attendant of a turn, end with the host.
    processes::mark_command(&mut command, host.directory());
    command.arg("--no-start");
    command
}

/// Returns the command's stdout and checks that it ended with this exit code.
pub(crate) fn expect_output(output: Output, code: i32) -> Result<String> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8(output.stdout)?;
    ensure!(
        output.status.code() == Some(code),
        "{:?} instead of {code}\n{stdout}{stderr}",
        output.status
    );
    Ok(stdout)
}

/// Runs a command that must succeed and returns its stdout.
pub(crate) fn run_wharf(host: &TestHost, arguments: &[&str]) -> Result<String> {
    expect_output(command_for_host(host, arguments).output()?, 0)
}

/// Runs a command that must end with this code and write only to stderr; returns stderr.
pub(crate) fn run_failing_wharf(host: &TestHost, arguments: &[&str], code: i32) -> Result<String> {
    let output = command_for_host(host, arguments).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(code), "{:?} instead of {code}\n{stderr}", output.status);
    ensure!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(stderr)
}

/// Starts a session that stays, and returns its id.
pub(crate) fn start_kept_session(host: &TestHost, arguments: &[&str]) -> Result<String> {
    Ok(run_wharf(host, &[&["run", "scripted", "--keep"], arguments].concat())?
        .trim()
        .to_owned())
}

/// Starts a host with a session of the scripted agent that is labelled `docs` and idle.
pub(crate) async fn start_docs_session(flags: &[&str]) -> Result<(TestHost, RestClient, String)> {
    let host = scripted_host(flags)?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &["--label", "docs"])?;
    wait_until_idle(&http, &id).await?;
    Ok((host, http, id))
}

fn parse_object(text: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| text.to_owned())
}

#[tokio::test]
async fn a_session_is_named_by_a_piece_of_its_id_by_its_label_or_by_the_directory() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let one = start_kept_session(&host, &["--label", "one"])?;
    let other = start_kept_session(&host, &["--label", "other", "--cwd", "/"])?;
    let body = one.strip_prefix("sess_").context("no id")?;
    let pieces = [&one, body, &body[..24], &body[18..], &body[10..18], "one", "."];
    for piece in pieces {
        let shown = parse_object(&run_wharf(&host, &["show", piece, "--json"])?)?;
        assert_eq!(shown["id"], one.as_str(), "{piece}");
    }
    assert_eq!(
        parse_object(&run_wharf(&host, &["show", "--json"])?)?["id"],
        one.as_str(),
        "nothing means the directory"
    );
    let ambiguous = run_failing_wharf(&host, &["show", &body[..3]], 2)?;
    assert!(
        ambiguous.contains(&one) && ambiguous.contains(&other) && ambiguous.contains("other"),
        "{ambiguous}"
    );
    let unknown = run_failing_wharf(&host, &["show", "nobody"], 4)?;
    assert!(unknown.contains("\"nobody\"") && unknown.contains("wharf sessions"), "{unknown}");
    let unknown = run_failing_wharf(&host, &["show", "sess_00000000000000000000000000"], 4)?;
    assert!(unknown.contains("sess_0"), "{unknown}");
    Ok(())
}

#[test]
fn wrong_arguments_and_unknown_tokens_have_their_exit_codes() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    start_kept_session(&host, &[])?;
    for arguments in [
        &["run", "scripted", "-C", "/nope", "hello"][..],
        &["workspace", "add", "x", "/nope"],
        &["output", "-n", "0"],
    ] {
        let said = run_failing_wharf(&host, arguments, 2)?;
        assert!(!said.contains("not an absolute path"), "{arguments:?}: {said}");
    }
    let said = run_failing_wharf(&host, &["workspace", "add", "x", "/nope"], 2)?;
    assert!(said.contains("/nope is no directory that exists"), "{said}");
    run_failing_wharf(&host, &["token", "revoke", "zz"], 4)?;
    let said = run_failing_wharf(&host, &["answer", "x", "y", "--content", "{bad"], 2)?;
    assert!(said.contains("--content"), "{said}");
    Ok(())
}

#[tokio::test]
async fn json_output_is_the_hosts_answer() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &["--label", "quite \"a\" label"])?;
    wait_until_idle(&http, &id).await?;
    run_wharf(&host, &["prompt", &id, "echo a; ask"])?;
    wait_for_session(&http, &id, "an ask", |session| session["turn"] == "awaiting_input").await?;
    run_wharf(&host, &["prompt", &id, "--queue", "echo b"])?;
    let session = format!("/sessions/{id}");
    for (arguments, route) in [
        (&["sessions", "--all", "--json"][..], "/sessions"),
        (&["show", &id, "--json"], &session),
        (&["output", &id, "--style", "lines", "--json"], &format!("{session}/output")),
        (&["asks", &id, "--json"], &format!("{session}/asks")),
        (&["queue", &id, "--json"], &format!("{session}/queue")),
        (&["queue", &id, "list", "--json"], &format!("{session}/queue")),
        (&["workspace", "list", "--json"], "/workspaces"),
        (&["agents", "--json"], "/adapters"),
    ] {
        let answer = without_usage(http.get(route).await?.expect(200)?);
        assert_eq!(
            without_usage(parse_object(&run_wharf(&host, arguments)?)?),
            answer,
            "{arguments:?}"
        );
    }
    let all = parse_object(&run_wharf(&host, &["asks", "--json"])?)?;
    assert_eq!(all["asks"][0]["sessionId"], id.as_str(), "{all}");
    Ok(())
}

#[tokio::test]
async fn output_to_a_pipe_has_plain_columns() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &["--label", "a\tb"])?;
    wait_until_idle(&http, &id).await?;
    let line = run_wharf(&host, &["sessions"])?;
    let columns: Vec<&str> = line.trim_end_matches('\n').split('\t').collect();
    assert_eq!(columns.len(), 16, "{line:?}");
    let directory = host.directory().display().to_string();
    assert_eq!(columns[..7], [&id, "running", "idle", "0", "scripted", "default", &directory]);
    assert!(columns[7].ends_with('Z') && columns[9] == "a b" && columns[14] == "quiet", "{line:?}");
    run_wharf(&host, &["prompt", &id, "--wait", "think hm; echo \x1b[31mred"])?;
    for arguments in [
        &["sessions"][..],
        &["show", &id],
        &["output", &id],
        &["status"],
        &["agents"],
        &["queue", &id],
    ] {
        let text = run_wharf(&host, arguments)?;
        assert!(!text.contains('\x1b'), "{arguments:?} {text:?}");
    }
    let coloured = run_wharf(&host, &["output", &id, "--style", "lines", "--color", "always"])?;
    assert!(
        coloured.contains("\x1b[2m[thought] hm\x1b[0m") && !coloured.contains("\x1b[31mred"),
        "{coloured:?}"
    );
    assert_eq!(run_wharf(&host, &["sessions", "--agent", "nobody"])?, "");
    Ok(())
}

#[tokio::test]
async fn a_busy_session_takes_a_prompt_that_waits_and_the_queue_can_be_changed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &["--label", "q"])?;
    wait_until_idle(&http, &id).await?;
    let accepted = run_wharf(&host, &["prompt", "q", "echo begun; hang"])?;
    assert!(accepted.starts_with("prm_") && accepted.ends_with("\t\n"), "{accepted:?}");
    let busy = run_failing_wharf(&host, &["prompt", "q", "echo no"], 5)?;
    assert!(
        busy.contains("--queue") && busy.contains("--interrupt") && busy.contains(&id),
        "{busy}"
    );
    for (text, place) in [("echo a", "1"), ("echo b", "2"), ("echo c", "3")] {
        let accepted = run_wharf(&host, &["prompt", "q", "--queue", text])?;
        assert_eq!(accepted.trim_end().split('\t').nth(1), Some(place), "{accepted}");
    }
    run_wharf(&host, &["queue", "q", "move", "3", "1"])?;
    run_wharf(&host, &["queue", "q", "edit", "2", "echo", "changed"])?;
    run_wharf(&host, &["queue", "q", "remove", "3"])?;
    let waiting = run_wharf(&host, &["queue", "q"])?;
    let texts: Vec<&str> = waiting.lines().filter_map(|line| line.split('\t').nth(4)).collect();
    assert_eq!(texts, ["echo c", "echo changed"]);
    assert!(
        run_failing_wharf(&host, &["queue", "q", "remove", "9999"], 4)?.contains("wharf queue")
    );
    assert_eq!(run_wharf(&host, &["interrupt", "q"])?, format!("{id} interrupted\n"));
    wait_for_session(&http, &id, "an empty queue", |session| {
        session["queued"] == 0 && session["turn"] == "idle"
    })
    .await?;
    let output = run_wharf(&host, &["output", "q", "--style", "lines", "-n", "5"])?;
    assert_eq!(
        output.lines().filter(|line| !line.contains("turn-end")).collect::<Vec<_>>(),
        ["c", "changed"]
    );
    assert_eq!(run_wharf(&host, &["interrupt", "q"])?, format!("{id} was not busy\n"));
    Ok(())
}

#[tokio::test]
async fn a_session_ends_returns_and_is_forgotten() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &[])?;
    wait_until_idle(&http, &id).await?;
    assert_eq!(run_wharf(&host, &["kill", &id])?, format!("{id} killed\n"));
    assert_eq!(run_wharf(&host, &["kill", &id])?, format!("{id} had ended\n"));
    assert!(!run_wharf(&host, &["sessions"])?.contains(&id), "killed ones are not listed");
    assert!(run_wharf(&host, &["sessions", "--all"])?.contains(&id));
    assert!(run_failing_wharf(&host, &["prompt", &id, "echo x"], 5)?.contains("wharf resume"));
    assert_eq!(run_wharf(&host, &["resume", &id])?, format!("{id} running\n"));
    assert!(run_failing_wharf(&host, &["forget", &id], 2)?.contains("--yes"));
    assert!(run_wharf(&host, &["show", &id])?.contains("running"));
    assert_eq!(run_wharf(&host, &["forget", &id, "--yes"])?, format!("{id} forgotten\n"));
    run_failing_wharf(&host, &["show", &id], 4)?;
    Ok(())
}

#[tokio::test]
async fn following_ends_with_the_session_and_watching_shows_every_change() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &["--label", "seen"])?;
    wait_until_idle(&http, &id).await?;
    run_wharf(&host, &["prompt", &id, "--wait", "echo before"])?;
    let mut watching = crate::program::start_and_read_lines(command_for_host(
        &host,
        &["sessions", "--watch", "--json"],
    ))?;
    assert_eq!(parse_object(&watching.next()?)?["id"], id.as_str());
    let mut following = crate::program::start_and_read_lines(command_for_host(
        &host,
        &["sessions", "--attach", "seen"],
    ))?;
    following.find(|line| line == "before")?;
    run_wharf(&host, &["prompt", &id, "echo after; hang"])?;
    let busy = watching.find(|line| line.contains(r#""turn":"running""#))?;
    assert!(busy.contains(&id), "{busy}");
    // The line is complete, and shown, when the turn is over.
    crate::log::expect_event(&host, &id, "agent_updated", |event| {
        event["frame"].to_string().contains("after")
    })
    .await?;
    run_wharf(&host, &["kill", &id])?;
    watching.find(|line| line.contains(r#""status":"killed""#))?;
    let rest = following.read_rest()?;
    assert!(rest.contains(&"after".to_owned()) && !rest.contains(&"before".to_owned()), "{rest:?}");
    assert_eq!(following.code()?, Some(0));
    Ok(())
}

#[test]
fn workspaces_are_named_used_and_removed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let project = host.directory().join("project");
    std::fs::create_dir(&project)?;
    run_wharf(&host, &["workspace", "add", "home"])?;
    run_wharf(&host, &["workspace", "add", "project", "project", "--label", "The project"])?;
    run_wharf(&host, &["workspace", "use", "project"])?;
    let listed = run_wharf(&host, &["workspace", "list"])?;
    let project = std::fs::canonicalize(project)?.display().to_string();
    let line = listed
        .lines()
        .find(|line| line.starts_with("project\t"))
        .context("not listed")?;
    let columns: Vec<&str> = line.split('\t').collect();
    assert_eq!((columns[1], columns[2], columns[4]), ("active", project.as_str(), "The project"));
    let id = start_kept_session(&host, &["--workspace", "project"])?;
    let shown = parse_object(&run_wharf(&host, &["show", &id, "--json"])?)?;
    assert_eq!((&shown["cwd"], &shown["workspaceSlug"]), (&json!(project), &json!("project")));
    run_wharf(&host, &["workspace", "remove", "project"])?;
    run_failing_wharf(&host, &["workspace", "use", "project"], 4)?;
    run_failing_wharf(&host, &["run", "scripted", "-w", "project", "echo x"], 4)?;
    run_failing_wharf(&host, &["workspace", "add", "../../x"], 2)?;
    Ok(())
}

#[test]
fn a_registry_is_imported_and_its_agents_are_listed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let config = host.directory().join("config.toml");
    let config = config.to_str().context("not UTF-8")?;
    let registry = json!({ "version": "1.0.0", "agents": [
        { "id": "fresh", "name": "Fresh", "version": "1.2.3", "description": "An agent.",
          "distribution": { "npx": { "package": "fresh@1.2.3", "args": ["--acp"] } } },
        { "id": "odd" },
    ] });
    std::fs::write(host.directory().join("registry.json"), registry.to_string())?;
    let imported = run_wharf(&host, &["agents", "import", "registry.json", "--config", config])?;
    assert!(
        imported.contains("fresh\timported") && imported.contains("odd\tskipped"),
        "{imported}"
    );
    let listed = run_wharf(&host, &["agents"])?;
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split('\t').next()).collect();
    assert!(
        ["fresh", "scripted", "demo", "claude"].iter().all(|name| names.contains(name)),
        "{listed}"
    );
    let scripted = listed
        .lines()
        .find(|line| line.starts_with("scripted\t"))
        .context("not listed")?;
    assert!(scripted.starts_with("scripted\tinstalled\t\tdefault\tconfig\tacp"), "{scripted}");
    Ok(())
}

#[test]
fn verbose_output_lists_the_requests_to_the_host() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let output = command_for_host(&host, &["sessions", "-v"]).output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.stdout.is_empty() && told.contains("GET /sessions") && told.contains(" ms"),
        "{told}"
    );
    assert!(told.contains("wharf.sock -> 200"), "{told}");
    Ok(())
}

#[tokio::test]
async fn piped_listings_hold_no_control_characters_of_others() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let hostile = "a\u{1b}]0;mine\u{7}b\u{1b}[2Jc\u{9b}d\r";
    let folder = host.directory().join(hostile);
    std::fs::create_dir(&folder)?;
    let session = start_kept_session(
        &host,
        &["--label", hostile, "--cwd", folder.to_str().context("not UTF-8")?],
    )?;
    for arguments in [&["sessions"][..], &["show", &session], &["workspace", "list"], &["agents"]] {
        let said = run_wharf(&host, arguments)?;
        let odd = said.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(odd, None, "{arguments:?}: {said:?}");
    }
    assert!(run_wharf(&host, &["sessions"])?.contains("abcd"), "what can be shown is shown");
    Ok(())
}
