//! A turn from the shell in its formats: for a person at a terminal, and for scripts.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::http::RestClient;
use wharf_testkit::processes;

use crate::cli::{
    command_for_host, expect_output, run_failing_wharf, run_wharf, start_kept_session,
};
use crate::program::{shell_command, start_and_read_lines};
use crate::rest::{wait_for_session, wait_until_idle};
use crate::scripted_host;
use crate::terminal::TestTerminal;

fn parse_lines(output: &str) -> Result<Vec<Value>> {
    output
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

#[tokio::test]
async fn terminal_shows_progress_styles_tools_and_numbers_and_marks_the_end_as_seen() -> Result<()>
{
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let shown_file = host.directory().join("thinking-is-shown");
    let wait = format!("await {}", shown_file.display());
    let prompt = format!("think hm; plan; tool; usage 0.25 USD; {wait}; echo some **bold** words");
    let mut shown = TestTerminal::run_wharf(&host, &["run", "scripted", "--keep", &prompt])?;
    shown.expect("… starting scripted")?;
    shown.expect("\x1b[2m[thought] hm")?;
    shown.expect("Plan 0/1")?;
    shown.expect("▸ one step")?;
    shown.expect("●")?;
    shown.expect("a tool")?;
    shown.expect("\x1b[31m  -a")?;
    shown.expect("\x1b[32m  +b")?;
    shown.expect("… thinking")?;
    std::fs::write(shown_file, "")?;
    shown.expect("some \x1b[1mbold\x1b[0m words")?;
    shown.expect("0.25 USD · context 10 %")?;
    let (code, all) = shown.finish()?;
    assert_eq!(code, Some(0), "{all:?}");
    let sessions = http.get("/sessions").await?.expect(200)?;
    let attention = &sessions["sessions"][0]["attention"];
    assert_eq!(attention["state"], "quiet", "{attention}");
    // In a pipe nobody has seen it.
    let id = start_kept_session(&host, &[])?;
    run_wharf(&host, &["prompt", &id, "--wait", "echo unseen"])?;
    let session = wait_until_idle(&http, &id).await?;
    assert_eq!(session["attention"]["state"], "finished", "{session}");
    Ok(())
}

#[test]
fn text_is_the_whole_answer_and_nothing_else() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let output = run_wharf(
        &host,
        &["run", "scripted", "--text", "think hm; echo one; tool; echo \x1b[2Jtwo"],
    )?;
    assert_eq!(output, "one\n\ntwo\n");
    // A row holds only the beginning of a long message.
    let output = run_wharf(&host, &["run", "scripted", "--text", "stream 400 200"])?;
    let numbers: Vec<&str> = output.lines().filter_map(|line| line.split(' ').next()).collect();
    ensure!(
        numbers == (0..400).map(|n| n.to_string()).collect::<Vec<_>>(),
        "{} lines: {numbers:?}",
        numbers.len()
    );
    Ok(())
}

#[test]
fn json_is_one_object_and_a_stream_of_json_has_the_rows_and_the_end() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let output = run_wharf(&host, &["run", "scripted", "--json", "echo one; usage 0.25 USD"])?;
    let [object] = &parse_lines(&output)?[..] else { anyhow::bail!("{output}") };
    assert_eq!(
        (&object["text"], &object["stopReason"], &object["outcome"]),
        (&json!("one"), &json!("end_turn"), &json!("done"))
    );
    assert_eq!(object["usage"]["cost"]["amount"], 0.25, "{object}");
    assert_eq!(object["session"]["adapterSlug"], "scripted", "{object}");

    let failed = command_for_host(&host, &["run", "scripted", "--json", "stderr no credit; error"])
        .output()?;
    let object = &parse_lines(&expect_output(failed, 13)?)?[0];
    assert_eq!(
        (&object["outcome"], &object["stderr"]),
        (&json!("failed"), &json!("no credit")),
        "{object}"
    );

    let id = start_kept_session(&host, &[])?;
    let output = run_wharf(&host, &["prompt", &id, "--wait", "--stream-json", "echo one"])?;
    let events = parse_lines(&output)?;
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"page"), Some(&"end")), "{names:?}");
    assert!(output.contains(r#""kind":"message""#) && !names.contains(&"beat"), "{names:?}");
    assert_eq!(events[events.len() - 1]["data"]["text"], "one");
    Ok(())
}

#[tokio::test]
async fn ask_in_a_script_is_refused_or_ends_the_turn_as_the_option_says() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let output = run_wharf(&host, &["run", "scripted", "--text", "--on-ask", "reject", "ask"])?;
    assert_eq!(output, "chosen: reject_once\n");
    for format in [&["--text"][..], &[]] {
        let arguments = [&["run", "scripted", "--on-ask", "fail", "ask"], format].concat();
        let output = command_for_host(&host, &arguments).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(14), "{stderr}");
        assert!(
            stderr.contains("? May I?") && stderr.contains("The agent sent no details."),
            "{stderr}"
        );
    }
    let sessions = http.get("/sessions").await?.expect(200)?;
    let id = sessions["sessions"][0]["id"].as_str().context("no session")?;
    wait_for_session(&http, id, "its end", |session| session["endedAt"].is_string()).await?;
    run_failing_wharf(&host, &["run", "scripted", "--on-ask", "fail", "--allow", "ask"], 2)?;
    run_failing_wharf(&host, &["prompt", id, "--on-ask", "fail", "ask"], 2)?;
    Ok(())
}

#[tokio::test]
async fn turn_that_takes_too_long_is_cancelled_with_a_code_of_its_own() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &[])?;
    let output =
        command_for_host(&host, &["prompt", &id, "--wait", "--timeout", "1s", "echo begun; hang"])
            .output()?;
    assert!(expect_output(output, 15)?.starts_with("begun\n"));
    wait_until_idle(&http, &id).await?;
    // A prompt that waits is taken back; the turn of the other client goes on.
    run_wharf(&host, &["prompt", &id, "hang"])?;
    let output = command_for_host(
        &host,
        &["prompt", &id, "--queue", "--wait", "--text", "--timeout", "1s", "echo x"],
    );
    let output = { output }.output()?;
    assert_eq!(expect_output(output, 15)?, "");
    let session = http.get(&format!("/sessions/{id}")).await?.expect(200)?;
    assert_eq!((&session["turn"], &session["queued"]), (&json!("running"), &json!(0)), "{session}");
    Ok(())
}

#[tokio::test]
async fn run_goes_on_with_the_newest_session_of_the_directory() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    run_failing_wharf(&host, &["run", "-c", "echo x"], 4)?;
    run_wharf(&host, &["run", "scripted", "--text", "echo first"])?;
    let id = http.get("/sessions").await?.expect(200)?["sessions"][0]["id"]
        .as_str()
        .context("no id")?
        .to_owned();
    wait_for_session(&http, &id, "its end", |session| session["endedAt"].is_string()).await?;
    assert_eq!(run_wharf(&host, &["run", "-c", "--text", "echo", "second"])?, "second\n");
    assert_eq!(run_wharf(&host, &["run", "-c", "scripted", "--text", "echo third"])?, "third\n");
    let sessions = http.get("/sessions").await?.expect(200)?;
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(1), "{sessions}");
    wait_for_session(&http, &id, "its end", |session| session["endedAt"].is_string()).await?;
    // A session that runs is left running.
    let kept = start_kept_session(&host, &[])?;
    assert_eq!(run_wharf(&host, &["run", "-c", "--text", "echo fourth"])?, "fourth\n");
    let session = wait_until_idle(&http, &kept).await?;
    assert_eq!(session["status"], "running");
    Ok(())
}

#[test]
fn start_without_a_prompt_fails_with_the_reason_of_the_agent() -> Result<()> {
    let command = ["sh", "-c", "echo 'no key: set FOO' >&2; exit 3"].map(str::to_owned);
    let mut options =
        scripted_host(&["--delay", "session/new=300"])?.with_agent("failing", &command);
    options.config.get_or_insert_default().insert_str(0, "start_retries = []\n");
    let host = options.start_host()?;
    let said = run_failing_wharf(&host, &["run", "failing", "--keep"], 13)?;
    assert!(said.contains("exited with code 3") && said.contains("no key: set FOO"), "{said}");
    let id = start_kept_session(&host, &[])?;
    let shown: Value = serde_json::from_str(&run_wharf(&host, &["show", &id, "--json"])?)?;
    assert_eq!(shown["status"], "running", "it waits until the agent has started");
    Ok(())
}

#[tokio::test]
async fn ctrl_d_at_a_question_leaves_it_to_others_and_later_answers_count() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let mut shown = TestTerminal::run_wharf(&host, &["run", "scripted", "--keep", "ask; ask"])?;
    shown.expect("your answer: ")?;
    shown.press("\x04")?;
    shown.expect("answer with: wharf answer ")?;
    let sessions = http.get("/sessions").await?.expect(200)?;
    let id = sessions["sessions"][0]["id"].as_str().context("no id")?;
    let asks = http.get(&format!("/sessions/{id}/asks")).await?.expect(200)?;
    let ask = asks["asks"][0]["askId"].as_u64().context("no ask")?;
    http.post(&format!("/sessions/{id}/asks/{ask}"), &json!({ "optionId": "reject_once" }))
        .await?
        .expect(200)?;
    shown.expect("chosen: reject_once")?;
    shown.expect("your answer: ")?;
    shown.press("y\r")?;
    shown.expect("chosen: allow_once")?;
    let (code, all) = shown.finish()?;
    assert_eq!(code, Some(0), "{all:?}");
    Ok(())
}

#[test]
fn run_under_nohup_stays_when_its_terminal_is_closed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let closed = host.directory().join("closed");
    let prompt = format!("echo begun; await {}; echo after", closed.display());
    let plain = command_for_host(&host, &["run", "scripted", "--stream-json", &prompt]);
    let mut command = shell_command("trap '' HUP; exec \"$@\"");
    command
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(host.directory());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut run = start_and_read_lines(command)?;
    run.find(|line| line.contains("begun") && line.contains(r#""kind":"message""#))?;
    processes::send_sighup(run.guard.0.id());
    std::fs::write(closed, "")?;
    let rest = run.read_rest()?;
    assert!(rest.iter().any(|line| line.contains("after")), "{rest:#?}");
    assert_eq!(run.code()?, Some(0));
    Ok(())
}
