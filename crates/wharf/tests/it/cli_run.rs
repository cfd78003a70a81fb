//! `wharf run` and `wharf prompt --wait`: a turn from the shell, and how it ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, processes};

use crate::cli::{
    command_for_host, expect_output, run_failing_wharf, run_wharf, start_kept_session,
};
use crate::program::{ChildGuard, start_and_read_lines};
use crate::rest::wait_for_session;
use crate::scripted_host;

fn send_interrupt(child: &std::process::Child) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(child.id())?).context("no pid")?;
    Ok(kill_process(pid, Signal::INT)?)
}

/// Returns the newest session, as the host lists it.
async fn newest_session(http: &RestClient) -> Result<Value> {
    Ok(http.get("/sessions").await?.expect(200)?["sessions"][0].take())
}

#[tokio::test]
async fn the_exit_code_tells_how_the_turn_ended_and_the_history_stays() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    for (prompt, code) in [
        ("echo well", 0),
        ("echo well; stop refusal", 10),
        ("echo well; stop max_tokens", 11),
        ("echo well; stop max_turn_requests", 11),
        ("echo well; stop cancelled", 12),
        ("echo well; error", 13),
        ("echo well; crash", 13),
    ] {
        let output =
            expect_output(command_for_host(&host, &["run", "scripted", prompt]).output()?, code)?;
        ensure!(output.starts_with("well\n"), "{prompt}: {output}");
        let session = newest_session(&http).await?;
        let id = session["id"].as_str().context("no id")?;
        wait_for_session(&http, id, "its end", |session| session["endedAt"].is_string()).await?;
        assert!(run_wharf(&host, &["output", id, "--style", "lines"])?.starts_with("well\n"));
    }
    let live = run_wharf(&host, &["sessions"])?;
    assert!(!live.contains("running"), "{live}");
    Ok(())
}

#[tokio::test]
async fn session_of_a_finished_run_is_listed_as_exited() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    expect_output(command_for_host(&host, &["run", "scripted", "echo well"]).output()?, 0)?;
    let session = newest_session(&http).await?;
    let id = session["id"].as_str().context("no id")?;
    let session =
        wait_for_session(&http, id, "its end", |session| session["endedAt"].is_string()).await?;
    assert_eq!(
        (&session["status"], &session["endReason"]),
        (&"exited".into(), &"finished".into()),
        "{session}"
    );
    expect_output(command_for_host(&host, &["prompt", "--wait", id, "echo more"]).output()?, 0)?;
    Ok(())
}

#[tokio::test]
async fn missing_agent_is_named() -> Result<()> {
    let host = scripted_host(&[])?
        .with_agent("broken", &["false".to_owned()])
        .with_agent("absent", &["/no/such".to_owned()])
        .start_host()?;
    let unknown = run_failing_wharf(&host, &["run", "nobody", "echo x"], 4)?;
    assert!(unknown.contains("nobody") && unknown.contains("scripted"), "{unknown}");
    let absent = run_failing_wharf(&host, &["run", "absent", "echo x"], 4)?;
    assert!(absent.contains("/no/such"), "{absent}");
    let broken = command_for_host(&host, &["run", "broken", "echo x"]).output()?;
    assert_eq!(broken.status.code(), Some(13), "{broken:?}");
    for usage in
        [&["run", "scripted"][..], &["run", "scripted", ""], &["run", "scripted", "x", "-o", "y"]]
    {
        run_failing_wharf(&host, usage, 2)?;
    }
    Ok(())
}

#[tokio::test]
async fn continuing_a_busy_session_advises_what_can_be_typed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &[])?;
    run_wharf(&host, &["prompt", &id, "echo begun; hang"])?;
    wait_for_session(&http, &id, "its turn", |session| session["turn"] == "running").await?;
    let said = run_failing_wharf(&host, &["run", "-c", "echo more"], 5)?;
    let short = &id[id.len() - 6..];
    assert!(said.contains(&format!("wharf prompt --queue --wait {short}")), "{said}");
    assert!(said.contains(&format!("wharf interrupt {short}")), "{said}");
    Ok(())
}

#[test]
fn failed_turn_is_told_with_its_reason_and_the_last_words_of_the_agent() -> Result<()> {
    let command = ["sh", "-c", "echo 'no key: set FOO' >&2; exit 3"].map(str::to_owned);
    let mut options = scripted_host(&[])?.with_agent("failing", &command);
    options.config.get_or_insert_default().insert_str(0, "start_retries = []\n");
    let host = options.start_host()?;
    let output = command_for_host(&host, &["run", "failing", "hello"]).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(13), "{stderr}");
    assert!(
        stderr.contains("the agent did not start: ") && stderr.contains("exited with code 3"),
        "{stderr}"
    );
    let ending = "\n  | no key: set FOO\ntry again: wharf run failing TEXT\n";
    assert!(stderr.ends_with(ending), "{stderr}");
    let told = command_for_host(&host, &["run", "scripted", "error"]).output()?;
    let stderr = String::from_utf8_lossy(&told.stderr);
    assert!(stderr.contains("this prompt fails as told"), "{stderr}");
    let advice = stderr
        .lines()
        .find_map(|line| line.strip_prefix("try again: wharf prompt "))
        .context("no advice")?;
    let name = advice.strip_suffix(" TEXT").context("no TEXT")?;
    let again = run_wharf(&host, &["prompt", name, "--wait", "--text", "echo again"])?;
    assert_eq!(again, "again\n", "the advice works although the agent was ended");
    Ok(())
}

#[tokio::test]
async fn a_prompt_may_come_by_a_pipe() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let id = start_kept_session(&host, &["--label", "p"])?;
    for arguments in [
        &["run", "scripted"][..],
        &["run", "scripted", "-"],
        &["prompt", "p", "--wait"],
        &["prompt", "p", "-", "--wait"],
    ] {
        let mut child = command_for_host(&host, arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        child.stdin.take().context("no stdin")?.write_all(b"echo from a pipe\n")?;
        assert!(
            expect_output(child.wait_with_output()?, 0)?.starts_with("from a pipe\n"),
            "{arguments:?}"
        );
    }
    assert!(run_wharf(&host, &["sessions"])?.starts_with(&id));
    Ok(())
}

#[tokio::test]
async fn a_kept_session_goes_on_and_waiting_shows_only_its_own_turn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    run_wharf(&host, &["run", "scripted", "--keep", "--label", "k", "echo first"])?;
    let session = newest_session(&http).await?;
    assert_eq!(
        (session["status"].as_str(), session["label"].as_str()),
        (Some("running"), Some("k"))
    );
    run_wharf(&host, &["prompt", "k", "echo others; wait; echo late"])?;
    let mut waiting = start_and_read_lines(command_for_host(
        &host,
        &["prompt", "k", "--queue", "--wait", "echo ours; stop refusal"],
    ))?;
    let id = session["id"].as_str().context("no id")?;
    wait_for_session(&http, id, "the queue", |session| session["queued"] == 1).await?;
    run_wharf(&host, &["interrupt", "k"])?;
    assert_eq!(waiting.read_rest()?, ["ours", "── turn-end (refusal) ──"]);
    assert_eq!(waiting.code()?, Some(10));
    Ok(())
}

#[test]
fn without_a_terminal_an_ask_stays_open_until_it_is_answered() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut running = start_and_read_lines(command_for_host(
        &host,
        &["run", "scripted", "--label", "asking", "ask"],
    ))?;
    running.find(|line| line.starts_with("[awaiting input]"))?;
    let asks = run_wharf(&host, &["asks"])?;
    let columns: Vec<&str> = asks.trim_end().split('\t').collect();
    assert_eq!(
        (columns.len(), columns[2], columns[4], columns[5]),
        (6, "permission", "allow_once,allow_always,reject_once", "May I?")
    );
    let several = run_failing_wharf(&host, &["answer", "asking", "allow_"], 2)?;
    assert!(several.contains("allow_always") && several.contains("fits several"), "{several}");
    run_failing_wharf(&host, &["answer", &format!("asking/{}9", columns[1]), "rej"], 4)?;
    run_wharf(&host, &["answer", columns[1], "rej"])?;
    assert_eq!(running.read_rest()?, ["chosen: reject_once", "── turn-end (end_turn) ──"]);
    assert_eq!(running.code()?, Some(0));
    run_failing_wharf(&host, &["answer", "asking", "rej"], 4)?;
    Ok(())
}

#[test]
fn asks_are_denied_or_allowed_as_the_flags_say() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for (flag, answer) in [("--deny", "chosen: reject_once"), ("--allow", "chosen: allow_once")] {
        let output = run_wharf(&host, &["run", "scripted", flag, "ask 2"])?;
        assert_eq!(output.lines().filter(|line| *line == answer).count(), 2, "{output}");
    }
    run_failing_wharf(&host, &["run", "scripted", "--deny", "--allow", "ask"], 2)?;
    Ok(())
}

#[tokio::test]
async fn ctrl_c_cancels_the_turn_and_a_second_one_leaves() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let mut running = start_and_read_lines(command_for_host(
        &host,
        &["run", "scripted", "echo begun; tool; hang"],
    ))?;
    assert_eq!(running.next()?, "begun");
    send_interrupt(&running.guard.0)?;
    assert_eq!(running.read_rest()?.last().map(String::as_str), Some("── turn-end (cancelled) ──"));
    assert_eq!(running.code()?, Some(12));

    for (flags, status) in [(&["--keep"][..], "running"), (&[], "killed")] {
        let mut verb = command_for_host(
            &host,
            &[&["run", "scripted", "echo begun; tool; hang hard"], flags].concat(),
        );
        let mut running = ChildGuard(verb.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
        assert_eq!(read_first_line(running.0.stdout.take())?, "begun\n");
        let id = newest_session(&http).await?["id"].as_str().context("no id")?.to_owned();
        send_interrupt(&running.0)?;
        let said = read_first_line(running.0.stderr.take())?;
        assert!(said.contains("once more"), "{said}");
        send_interrupt(&running.0)?;
        let ended = processes::wait_exit(&mut running.0, WAIT_LIMIT)?.context("it goes on")?;
        assert_eq!(ended.code(), Some(130));
        wait_for_session(&http, &id, status, |session| session["status"] == status).await?;
        run_wharf(&host, &["kill", &id])?;
    }
    Ok(())
}

/// Returns the first line of a stream and keeps the stream open.
fn read_first_line(stream: Option<impl Read + Send + 'static>) -> Result<String> {
    let mut lines = BufReader::new(stream.context("not piped")?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    Ok(line)
}

#[tokio::test]
async fn closed_output_pipe_ends_the_command_without_an_error() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let mut verb = command_for_host(&host, &["run", "scripted", "think begun; tick 100000 1000"]);
    let mut running = ChildGuard(verb.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
    let mut line = String::new();
    let mut reader = BufReader::new(running.0.stdout.take().context("no stdout")?);
    reader.read_line(&mut line)?;
    assert_eq!(line, "[thought] begun\n");
    drop(reader);
    let id = newest_session(&http).await?["id"].as_str().context("no id")?.to_owned();
    run_wharf(&host, &["interrupt", &id])?;
    let status = processes::wait_exit(&mut running.0, WAIT_LIMIT)?.context("it goes on")?;
    let mut said = String::new();
    running.0.stderr.take().context("no stderr")?.read_to_string(&mut said)?;
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    wait_for_session(&http, &id, "its end", |session| session["status"] == "killed").await?;
    Ok(())
}

#[test]
fn agent_gets_path_and_the_variables_of_its_adapter_only() -> Result<()> {
    let mut options = scripted_host(&[])?;
    options
        .config
        .get_or_insert_default()
        .insert_str(0, "env_passthrough = [\"WANTED\"]\n");
    let host = options.start_host()?;
    for (name, passed) in [("WANTED", true), ("LC_WHARF_TEST", true), ("UNWANTED_BY_ALL", false)] {
        let mut verb = command_for_host(&host, &["run", "scripted", &format!("env {name}")]);
        let output = expect_output(verb.env(name, "its value").output()?, 0)?;
        assert_eq!(output.contains("its value"), passed, "{name}: {output}");
    }
    Ok(())
}
