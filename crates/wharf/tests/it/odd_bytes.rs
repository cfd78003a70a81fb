//! The recipient gets the exact bytes of odd JSON from an agent or a client, except for ids (rule
//! 1.6): a property, tried on some thousand random frames.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;
use wharf_testkit::odd_json::{
    ID_MARK, OddJson, OddStyle, SESSION_MARK, extract_id, fill_template,
};
use wharf_testkit::random::TestRandom;
use wharf_testkit::{WAIT_LIMIT, polling};

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
    host: TestHost,
    client: TestClient,
    /// The session's id as JSON text.
    ours: String,
    session: String,
    folder: tempfile::TempDir,
}

impl ByteFixture {
    async fn open() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let record = folder.path().join("record");
        let flags = [
            "--record",
            record.to_str().context("not UTF-8")?,
            "--session-id",
            "the agent's \"own\"",
        ];
        let host = scripted_host(&flags)?.start_host()?;
        let (client, session) = open_session(&host).await?;
        crate::catch_up(&client).await;
        Ok(Self {
            host,
            client,
            ours: format!("\"{session}\""),
            session,
            folder,
        })
    }

    /// Returns the lines that the agent received.
    fn read_recorded(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.folder.path().join("record"))?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Ok(whole.split('\n').map(str::to_owned).collect())
    }

    /// Waits until the agent has received these lines one after the other.
    async fn wait_for_records(&self, lines: &[String]) -> Result<()> {
        let ends_so = || Ok(self.read_recorded()?.ends_with(lines).then_some(()));
        let found = polling::poll_until(WAIT_LIMIT, ends_so).await?;
        ensure!(
            found.is_some(),
            "the agent did not get\n{}\nbut\n{}",
            lines.join("\n"),
            self.read_recorded()?.join("\n")
        );
        Ok(())
    }

    /// Returns the frames received since `from`.
    fn frames_since(&self, from: usize) -> Vec<ReceivedFrame> {
        self.client.received_frames().into_iter().skip(from).collect()
    }
}

fn wild_style(dice: &mut TestRandom) -> OddJson<'_> {
    OddJson::new(dice, OddStyle { wild: true, breaks: false })
}

fn make_update(dice: &mut TestRandom) -> String {
    let tag = dice.pick_one(&UPDATE_TAGS);
    let mut odd = wild_style(dice);
    let body = odd.make_object(&[("sessionUpdate", format!("\"{tag}\""))]);
    odd.make_message("session/update", false, &[("update", body)])
}

/// Makes the agent write these lines in one turn, which continues until it is told.
async fn make_agent_write(
    stage: &ByteFixture,
    lines: &[String],
) -> Result<wharf_testkit::client::PendingCall> {
    let path = stage.folder.path().join("lines");
    fs::write(&path, format!("{}\n", lines.join("\n")))?;
    let script = format!("rawfile {}; echo written; wait", path.display());
    Ok(stage.client.start_prompt(&stage.session, &script).await)
}

#[tokio::test]
async fn frames_of_the_agent_reach_clients_byte_for_byte() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = ByteFixture::open().await?;
    let watching = join_session(&stage.host, &stage.session).await?;
    let mut all_updates = Vec::new();
    for batch in 0..BATCH_COUNT {
        let updates: Vec<String> = (0..FRAMES_PER_BATCH).map(|_| make_update(&mut dice)).collect();
        let notes: Vec<String> = (0..FRAMES_PER_BATCH / 2)
            .map(|_| wild_style(&mut dice).make_message("_x/note", false, &[]))
            .collect();
        let asks: Vec<String> = (0..FRAMES_PER_BATCH / 2)
            .map(|_| wild_style(&mut dice).make_message("_x/ask", true, &[]))
            .collect();
        let ids: Vec<String> = (0..FRAMES_PER_BATCH)
            .map(|number| wild_style(&mut dice).make_id(batch * FRAMES_PER_BATCH + number))
            .collect();
        let mut lines: Vec<String> = updates
            .iter()
            .chain(&notes)
            .map(|line| fill_template(line, "", AGENT_SESSION_JSON))
            .collect();
        lines.extend(
            asks.iter()
                .zip(&ids)
                .map(|(ask, id)| fill_template(ask, id, AGENT_SESSION_JSON)),
        );
        let from = stage.client.received_frames().len();
        let turn = make_agent_write(&stage, &lines).await?;
        stage.client.expect_text("written").await;
        let expected: Vec<String> =
            updates.iter().map(|line| fill_template(line, "", &stage.ours)).collect();
        all_updates.extend(expected);
        check_notes(&stage, from, &notes).await?;
        answer_asks(&stage, &mut dice, from, &asks, &ids).await?;
        stage
            .client
            .send_notification("_go", json!({ "sessionId": stage.session }))
            .await;
        turn.wait_answer().await?;
        watching.expect_text("written").await;
    }
    let loaded = join_session(&stage.host, &stage.session).await?;
    for (who, client) in
        [("the prompter", &stage.client), ("a watcher", &watching), ("a late comer", &loaded)]
    {
        let shown: Vec<String> = client
            .received_frames()
            .into_iter()
            .map(|frame| frame.raw)
            .filter(|raw| is_odd_update(raw))
            .collect();
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
async fn receive_frames(
    stage: &ByteFixture,
    from: usize,
    method: &str,
    count: usize,
) -> Result<Vec<String>> {
    let mark = format!("\"{method}\"");
    let found = polling::poll_until(WAIT_LIMIT, || {
        let frames = stage
            .frames_since(from)
            .into_iter()
            .map(|frame| frame.raw)
            .filter(|raw| raw.contains(&mark));
        let frames: Vec<String> = frames.collect();
        Ok((frames.len() >= count).then_some(frames))
    });
    let found = found.await?.with_context(|| format!("not {count} of {method}"))?;
    ensure!(found.len() == count, "{} of {method} instead of {count}", found.len());
    Ok(found)
}

async fn check_notes(stage: &ByteFixture, from: usize, notes: &[String]) -> Result<()> {
    let shown = receive_frames(stage, from, "_x/note", notes.len()).await?;
    let expected: Vec<String> =
        notes.iter().map(|note| fill_template(note, "", &stage.ours)).collect();
    ensure!(shown == expected, "{shown:#?} instead of {expected:#?}");
    Ok(())
}

/// Answers the agent's requests, which arrive under Wharf's ids, and checks that the answers reach
/// it under its own.
async fn answer_asks(
    stage: &ByteFixture,
    dice: &mut TestRandom,
    from: usize,
    asks: &[String],
    ids: &[String],
) -> Result<()> {
    let shown = receive_frames(stage, from, "_x/ask", asks.len()).await?;
    let mut answers = Vec::new();
    for ((ask, raw), theirs) in asks.iter().zip(&shown).zip(ids) {
        let id =
            extract_id(ask, &stage.ours, raw).with_context(|| format!("{raw}\nis not\n{ask}"))?;
        ensure!(id.parse::<u64>().is_ok(), "an id that is no number of ours: {id}");
        let answer = OddJson::new(dice, OddStyle { wild: true, breaks: true }).make_response();
        stage.client.send_raw(&fill_template(&answer, id, "")).await;
        answers.push(join_lines(&fill_template(&answer, theirs, "")));
    }
    stage.wait_for_records(&answers).await
}

fn join_lines(frame: &str) -> String {
    frame.replace(['\n', '\r'], " ")
}

#[tokio::test]
async fn requests_of_a_client_and_their_answers_pass_byte_for_byte() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = ByteFixture::open().await?;
    for number in 0..BATCH_COUNT * FRAMES_PER_BATCH {
        let style = OddStyle { wild: true, breaks: true };
        let params =
            OddJson::new(&mut dice, style).make_object(&[("sessionId", SESSION_MARK.to_owned())]);
        let outside = [
            ("jsonrpc", "\"2.0\""),
            ("id", ID_MARK),
            ("method", "\"_echo\""),
            ("params", params.as_str()),
        ];
        let outside: Vec<(&str, String)> =
            outside.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        let mut odd = OddJson::new(&mut dice, style);
        let (frame, id) = (odd.make_object(&outside), odd.make_id(number));
        let from = stage.client.received_frames().len();
        stage.client.send_raw(&fill_template(&frame, &id, &stage.ours)).await;
        let answer = stage.client.next_frame().await.raw;
        // The answer holds the params as the agent received them.
        let theirs = join_lines(&fill_template(&params, "", AGENT_SESSION_JSON));
        assert_eq!(
            answer,
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{theirs}}}"#),
            "{frame}"
        );
        assert_eq!(stage.client.received_frames().len(), from + 1);
        let line = stage.read_recorded()?.pop().context("nothing")?;
        let ours = extract_id(&join_lines(&frame), AGENT_SESSION_JSON, &line)
            .with_context(|| format!("{line}\nis not\n{frame}"))?;
        ensure!(ours.parse::<u64>().is_ok(), "an id that is no number of ours: {ours}");
    }
    Ok(())
}

#[tokio::test]
async fn prompts_and_notifications_of_clients_reach_the_agent_byte_for_byte() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = ByteFixture::open().await?;
    for number in 0..BATCH_COUNT * FRAMES_PER_BATCH / 4 {
        let note = OddJson::new(&mut dice, OddStyle { wild: true, breaks: true }).make_message(
            "_x/none",
            false,
            &[],
        );
        stage.client.send_raw(&fill_template(&note, "", &stage.ours)).await;
        // The agent itself has to parse a prompt.
        let mut odd = OddJson::new(&mut dice, OddStyle { wild: false, breaks: true });
        let block = odd.make_object(&[
            ("type", "\"text\"".to_owned()),
            ("text", "\"echo \\u00e9\\/\"".to_owned()),
        ]);
        let meta = odd.make_object(&[]);
        let prompt = odd.make_message(
            "session/prompt",
            true,
            &[("prompt", format!("[ {block}]")), ("_meta", meta)],
        );
        let id = odd.make_id(number);
        stage.client.send_raw(&fill_template(&prompt, &id, &stage.ours)).await;
        let answers =
            |frame: &ReceivedFrame| frame.raw.contains("stopReason") && frame.method().is_empty();
        let answer = stage.client.expect("the answer", answers).await;
        ensure!(answer.raw.contains(&format!("\"id\":{id},")), "{} to {id}", answer.raw);
        let lines = stage.read_recorded()?;
        let [.., noted, prompted] = lines.as_slice() else { anyhow::bail!("{lines:?}") };
        assert_eq!(*noted, join_lines(&fill_template(&note, "", AGENT_SESSION_JSON)));
        let ours = extract_id(&join_lines(&prompt), AGENT_SESSION_JSON, prompted)
            .with_context(|| format!("{prompted}\nis not\n{prompt}"))?;
        ensure!(ours.parse::<u64>().is_ok(), "an id that is no number of ours: {ours}");
    }
    Ok(())
}

/// Checks that the host can read everything again that it wrote to its own log.
#[tokio::test]
async fn odd_bytes_survive_a_restart() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let mut stage = ByteFixture::open().await?;
    let updates: Vec<String> = (0..FRAMES_PER_BATCH).map(|_| make_update(&mut dice)).collect();
    let lines: Vec<String> =
        updates.iter().map(|line| fill_template(line, "", AGENT_SESSION_JSON)).collect();
    let _cut = make_agent_write(&stage, &lines).await?;
    stage.client.expect_text("written").await;
    stage.host.restart()?;
    let loaded = join_session(&stage.host, &stage.session).await?;
    let shown: Vec<String> = loaded
        .received_frames()
        .into_iter()
        .map(|frame| frame.raw)
        .filter(|raw| is_odd_update(raw))
        .collect();
    assert_eq!(
        shown,
        updates
            .iter()
            .map(|line| fill_template(line, "", &stage.ours))
            .collect::<Vec<_>>()
    );
    Ok(())
}
