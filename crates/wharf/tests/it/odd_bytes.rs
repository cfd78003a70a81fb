//! The recipient gets the exact bytes of odd JSON from an agent or a client, except for ids (rule 1.6): a property,
//! tried on some thousand random frames.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::client::{Client, Frame};
use wharf_testkit::dice::Dice;
use wharf_testkit::host::Host;
use wharf_testkit::odd::{ID, Odd, SESSION, Style, filled, id_in};
use wharf_testkit::{PATIENCE, look};

use crate::{join_session, open_session, scripted_host};

/// The agent's own session id, as JSON text.
const AGENT_SESSION_JSON: &str = r#""the agent's \"own\"""#;
/// The number of frames per batch. Frames that bypass the log have a bounded buffer to the client.
const FRAMES_PER_BATCH: u64 = 60;
const BATCH_COUNT: u64 = 12;

const UPDATE_TAGS: [&str; 7] = [
    "agent_message_chunk",
    "agent_thought_chunk",
    "plan",
    "tool_call",
    "tool_call_update",
    "usage_update",
    "from_the_future",
];

struct ByteFixture {
    host: Host,
    client: Client,
    /// The session's id as JSON text.
    ours: String,
    session: String,
    folder: tempfile::TempDir,
}

impl ByteFixture {
    async fn open() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let record = folder.path().join("record");
        let flags = ["--record", record.to_str().context("not UTF-8")?, "--session-id", "the agent's \"own\""];
        let host = scripted_host(&flags)?.start()?;
        let (client, session) = open_session(&host).await?;
        crate::catch_up(&client).await;
        Ok(Self { host, client, ours: format!("\"{session}\""), session, folder })
    }

    /// Returns the lines that the agent received.
    fn recorded(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.folder.path().join("record"))?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Ok(whole.split('\n').map(str::to_owned).collect())
    }

    /// Waits until the agent has received these lines one after the other.
    async fn records(&self, lines: &[String]) -> Result<()> {
        let ends_so = || Ok(self.recorded()?.ends_with(lines).then_some(()));
        let found = look::until(PATIENCE, ends_so).await?;
        ensure!(found.is_some(), "the agent did not get\n{}\nbut\n{}", lines.join("\n"), self.recorded()?.join("\n"));
        Ok(())
    }

    /// Returns the frames received since `from`.
    fn since(&self, from: usize) -> Vec<Frame> {
        self.client.transcript().into_iter().skip(from).collect()
    }
}

fn wild_style(dice: &mut Dice) -> Odd<'_> {
    Odd::new(dice, Style { wild: true, breaks: false })
}

fn make_update(dice: &mut Dice) -> String {
    let tag = dice.one_of(&UPDATE_TAGS);
    let mut odd = wild_style(dice);
    let body = odd.object(&[("sessionUpdate", format!("\"{tag}\""))]);
    odd.message("session/update", false, &[("update", body)])
}

/// Makes the agent write these lines in one turn, which continues until it is told.
async fn make_agent_write(stage: &ByteFixture, lines: &[String]) -> Result<wharf_testkit::client::Call> {
    let path = stage.folder.path().join("lines");
    fs::write(&path, format!("{}\n", lines.join("\n")))?;
    let script = format!("rawfile {}; echo written; wait", path.display());
    Ok(stage.client.start_prompt(&stage.session, &script).await)
}

#[tokio::test]
async fn frames_of_the_agent_reach_clients_byte_for_byte() -> Result<()> {
    let mut dice = Dice::thrown()?;
    let stage = ByteFixture::open().await?;
    let watching = join_session(&stage.host, &stage.session).await?;
    let mut all_updates = Vec::new();
    for batch in 0..BATCH_COUNT {
        let updates: Vec<String> = (0..FRAMES_PER_BATCH).map(|_| make_update(&mut dice)).collect();
        let notes: Vec<String> =
            (0..FRAMES_PER_BATCH / 2).map(|_| wild_style(&mut dice).message("_x/note", false, &[])).collect();
        let asks: Vec<String> =
            (0..FRAMES_PER_BATCH / 2).map(|_| wild_style(&mut dice).message("_x/ask", true, &[])).collect();
        let ids: Vec<String> =
            (0..FRAMES_PER_BATCH).map(|number| wild_style(&mut dice).id(batch * FRAMES_PER_BATCH + number)).collect();
        let mut lines: Vec<String> =
            updates.iter().chain(&notes).map(|line| filled(line, "", AGENT_SESSION_JSON)).collect();
        lines.extend(asks.iter().zip(&ids).map(|(ask, id)| filled(ask, id, AGENT_SESSION_JSON)));
        let from = stage.client.transcript().len();
        let turn = make_agent_write(&stage, &lines).await?;
        stage.client.expect_text("written").await;
        let expected: Vec<String> = updates.iter().map(|line| filled(line, "", &stage.ours)).collect();
        all_updates.extend(expected);
        check_notes(&stage, from, &notes).await?;
        answer_asks(&stage, &mut dice, from, &asks, &ids).await?;
        stage.client.notify("_go", json!({ "sessionId": stage.session })).await;
        turn.answer().await?;
        watching.expect_text("written").await;
    }
    let loaded = join_session(&stage.host, &stage.session).await?;
    for (who, client) in [("the prompter", &stage.client), ("a watcher", &watching), ("a late comer", &loaded)] {
        let shown: Vec<String> =
            client.transcript().into_iter().map(|frame| frame.raw).filter(|raw| is_odd_update(raw)).collect();
        for (got, sent) in shown.iter().zip(&all_updates) {
            assert_eq!(got, sent, "{who}");
        }
        assert_eq!(shown.len(), all_updates.len(), "{who}");
    }
    Ok(())
}

/// Returns true for an update that neither Wharf nor the script made.
fn is_odd_update(raw: &str) -> bool {
    let plain = ["\"written\"", "user_message_chunk", "_x/note", "_x/ask", "\"result\":"];
    raw.contains("session/update") && !plain.iter().any(|part| raw.contains(part))
}

/// Waits for this many frames of the method and returns them unchanged.
async fn receive_frames(stage: &ByteFixture, from: usize, method: &str, count: usize) -> Result<Vec<String>> {
    let mark = format!("\"{method}\"");
    let found = look::until(PATIENCE, || {
        let frames = stage.since(from).into_iter().map(|frame| frame.raw).filter(|raw| raw.contains(&mark));
        let frames: Vec<String> = frames.collect();
        Ok((frames.len() >= count).then_some(frames))
    });
    let found = found.await?.with_context(|| format!("not {count} of {method}"))?;
    ensure!(found.len() == count, "{} of {method} instead of {count}", found.len());
    Ok(found)
}

async fn check_notes(stage: &ByteFixture, from: usize, notes: &[String]) -> Result<()> {
    let shown = receive_frames(stage, from, "_x/note", notes.len()).await?;
    let expected: Vec<String> = notes.iter().map(|note| filled(note, "", &stage.ours)).collect();
    ensure!(shown == expected, "{shown:#?} instead of {expected:#?}");
    Ok(())
}

/// Answers the agent's requests, which arrive under Wharf's ids, and checks that the answers reach it under its own.
async fn answer_asks(stage: &ByteFixture, dice: &mut Dice, from: usize, asks: &[String], ids: &[String]) -> Result<()> {
    let shown = receive_frames(stage, from, "_x/ask", asks.len()).await?;
    let mut answers = Vec::new();
    for ((ask, raw), theirs) in asks.iter().zip(&shown).zip(ids) {
        let id = id_in(ask, &stage.ours, raw).with_context(|| format!("{raw}\nis not\n{ask}"))?;
        ensure!(id.parse::<u64>().is_ok(), "an id that is no number of ours: {id}");
        let answer = Odd::new(dice, Style { wild: true, breaks: true }).response();
        stage.client.send_raw(&filled(&answer, id, "")).await;
        answers.push(join_lines(&filled(&answer, theirs, "")));
    }
    stage.records(&answers).await
}

fn join_lines(frame: &str) -> String {
    frame.replace(['\n', '\r'], " ")
}

#[tokio::test]
async fn requests_of_a_client_and_their_answers_pass_byte_for_byte() -> Result<()> {
    let mut dice = Dice::thrown()?;
    let stage = ByteFixture::open().await?;
    for number in 0..BATCH_COUNT * FRAMES_PER_BATCH {
        let style = Style { wild: true, breaks: true };
        let params = Odd::new(&mut dice, style).object(&[("sessionId", SESSION.to_owned())]);
        let outside = [("jsonrpc", "\"2.0\""), ("id", ID), ("method", "\"_echo\""), ("params", params.as_str())];
        let outside: Vec<(&str, String)> = outside.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        let mut odd = Odd::new(&mut dice, style);
        let (frame, id) = (odd.object(&outside), odd.id(number));
        let from = stage.client.transcript().len();
        stage.client.send_raw(&filled(&frame, &id, &stage.ours)).await;
        let answer = stage.client.next_frame().await.raw;
        // The answer holds the params as the agent received them.
        let theirs = join_lines(&filled(&params, "", AGENT_SESSION_JSON));
        assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{theirs}}}"#), "{frame}");
        assert_eq!(stage.client.transcript().len(), from + 1);
        let line = stage.recorded()?.pop().context("nothing")?;
        let ours = id_in(&join_lines(&frame), AGENT_SESSION_JSON, &line)
            .with_context(|| format!("{line}\nis not\n{frame}"))?;
        ensure!(ours.parse::<u64>().is_ok(), "an id that is no number of ours: {ours}");
    }
    Ok(())
}

#[tokio::test]
async fn prompts_and_notifications_of_clients_reach_the_agent_byte_for_byte() -> Result<()> {
    let mut dice = Dice::thrown()?;
    let stage = ByteFixture::open().await?;
    for number in 0..BATCH_COUNT * FRAMES_PER_BATCH / 4 {
        let note = Odd::new(&mut dice, Style { wild: true, breaks: true }).message("_x/none", false, &[]);
        stage.client.send_raw(&filled(&note, "", &stage.ours)).await;
        // The agent itself has to parse a prompt.
        let mut odd = Odd::new(&mut dice, Style { wild: false, breaks: true });
        let block = odd.object(&[("type", "\"text\"".to_owned()), ("text", "\"echo \\u00e9\\/\"".to_owned())]);
        let meta = odd.object(&[]);
        let prompt = odd.message("session/prompt", true, &[("prompt", format!("[ {block}]")), ("_meta", meta)]);
        let id = odd.id(number);
        stage.client.send_raw(&filled(&prompt, &id, &stage.ours)).await;
        let answers = |frame: &Frame| frame.raw.contains("stopReason") && frame.method().is_empty();
        let answer = stage.client.expect("the answer", answers).await;
        ensure!(answer.raw.contains(&format!("\"id\":{id},")), "{} to {id}", answer.raw);
        let lines = stage.recorded()?;
        let [.., noted, prompted] = lines.as_slice() else { anyhow::bail!("{lines:?}") };
        assert_eq!(*noted, join_lines(&filled(&note, "", AGENT_SESSION_JSON)));
        let ours = id_in(&join_lines(&prompt), AGENT_SESSION_JSON, prompted)
            .with_context(|| format!("{prompted}\nis not\n{prompt}"))?;
        ensure!(ours.parse::<u64>().is_ok(), "an id that is no number of ours: {ours}");
    }
    Ok(())
}

/// Checks that the host can read everything again that it wrote to its own log.
#[tokio::test]
async fn odd_bytes_survive_a_restart() -> Result<()> {
    let mut dice = Dice::thrown()?;
    let mut stage = ByteFixture::open().await?;
    let updates: Vec<String> = (0..FRAMES_PER_BATCH).map(|_| make_update(&mut dice)).collect();
    let lines: Vec<String> = updates.iter().map(|line| filled(line, "", AGENT_SESSION_JSON)).collect();
    let _cut = make_agent_write(&stage, &lines).await?;
    stage.client.expect_text("written").await;
    stage.host.restart()?;
    let loaded = join_session(&stage.host, &stage.session).await?;
    let shown: Vec<String> =
        loaded.transcript().into_iter().map(|frame| frame.raw).filter(|raw| is_odd_update(raw)).collect();
    assert_eq!(shown, updates.iter().map(|line| filled(line, "", &stage.ours)).collect::<Vec<_>>());
    Ok(())
}
