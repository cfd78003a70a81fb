//! Event ids in frames, for clients that ask for them (rule 1.5).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;

use crate::{connect_client_with, cwd, join_session, log, open_session, scripted_host};

async fn connect_with_event_ids(host: &TestHost) -> Result<TestClient> {
    connect_client_with(host, json!({}), json!({ "wharf": { "eventIds": true } })).await
}

fn event_id(frame: &ReceivedFrame) -> Option<String> {
    frame.params()["_meta"]["wharf"]["eventId"].as_str().map(str::to_owned)
}

/// Returns the frame without the event id.
fn without_id(frame: &ReceivedFrame) -> String {
    let added =
        format!(r#""_meta":{{"wharf":{{"eventId":"{}"}}}},"#, event_id(frame).unwrap_or_default());
    frame.raw.replace(&added, "")
}

fn from_log(client: &TestClient) -> Vec<ReceivedFrame> {
    client
        .received_frames()
        .into_iter()
        .filter(|frame| frame.update().is_some() || frame.is_request())
        .collect()
}

#[tokio::test]
async fn frames_from_the_log_carry_their_event_id() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (prompter, session) = open_session(&host).await?;
    let (with_ids, plain) =
        (connect_with_event_ids(&host).await?, join_session(&host, &session).await?);
    with_ids.load_session(&session, &cwd(&host)?).await?;
    prompter.choose_option("allow_once");
    prompter
        .send_prompt(&session, "echo one; tool; ask; title T; unknown-update; echo end")
        .await?;
    with_ids.expect_text("end").await;
    plain.expect_text("end").await;

    let records = log::read_records(&host, &session)?;
    let frames = from_log(&with_ids);
    assert_eq!(frames.len(), 8);
    for frame in &frames {
        let id = event_id(frame).with_context(|| format!("no id in {}", frame.raw))?;
        let (epoch, seq) = id.split_once('-').context("not an id")?;
        let record = records
            .iter()
            .find(|record| record["seq"] == json!(seq.parse::<u64>().unwrap_or_default()));
        let record = record.context("no such event")?;
        assert_eq!(record["epoch"].to_string(), epoch);
        // The frame carries the same content as the event.
        let (said, told) = (&record["event"]["frame"]["params"], frame.params());
        if !said.is_null() && frame.update().is_some() && record["event"]["kind"] == "agent_updated"
        {
            assert_eq!(said["update"], told["update"]);
        }
    }
    // The frames are otherwise unchanged; requests have ids of their own on every connection.
    let updates = |frames: &[ReceivedFrame]| -> Vec<String> {
        frames.iter().filter(|frame| frame.update().is_some()).map(without_id).collect()
    };
    assert_eq!(updates(&frames), updates(&from_log(&plain)));
    assert!(from_log(&plain).iter().all(|frame| event_id(frame).is_none()));

    // A replay carries the same event ids.
    let again = connect_with_event_ids(&host).await?;
    again.load_session(&session, &cwd(&host)?).await?;
    let of_updates = |client: &TestClient| -> Vec<Option<String>> {
        from_log(client)
            .iter()
            .filter(|frame| frame.update().is_some())
            .map(event_id)
            .collect()
    };
    assert_eq!(of_updates(&again), of_updates(&with_ids));
    Ok(())
}

#[tokio::test]
async fn restart_raises_the_epoch_and_sequence_numbers_continue() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo one").await?;
    host.restart()?;
    let second = connect_with_event_ids(&host).await?;
    second.load_session(&session, &cwd(&host)?).await?;
    second.send_prompt(&session, "echo two").await?;
    let ids: Vec<(u64, u64)> = from_log(&second)
        .iter()
        .filter(|frame| frame.chunk_text().is_some())
        .filter_map(event_id)
        .filter_map(|id| {
            id.split_once('-')
                .and_then(|(epoch, seq)| Some((epoch.parse().ok()?, seq.parse().ok()?)))
        })
        .collect();
    let [(before, one), (after, two)] = ids[..] else { anyhow::bail!("{ids:?}") };
    assert!(before < after && one < two, "{ids:?}");
    Ok(())
}

#[tokio::test]
async fn event_id_is_added_to_the_agents_own_meta() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = connect_with_event_ids(&host).await?;
    second.load_session(&session, &cwd(&host)?).await?;
    let line = r#"raw {"jsonrpc":"2.0","method":"session/update","params":{"_meta":{"mine": 1.50},"sessionId":"$SESSION","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}"#;
    first.send_prompt(&session, line).await?;
    let frame = second.expect_text("x").await;
    let meta: &Value = &frame.params()["_meta"];
    assert!(meta["wharf"]["eventId"].is_string() && meta["mine"] == 1.5, "{}", frame.raw);
    assert!(frame.raw.contains(r#""mine": 1.50"#), "{}", frame.raw);
    Ok(())
}

#[tokio::test]
async fn frames_whose_meta_is_no_object_or_stands_twice_carry_their_event_id() -> Result<()> {
    let host = scripted_host(&["--add-to", r#"session/new="_meta":[1.50]"#])?.start_host()?;
    let first = connect_with_event_ids(&host).await?;
    let opened = first
        .call_method("session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))
        .await?;
    let session = opened["sessionId"].as_str().context("no id")?.to_owned();
    assert!(answer_event_id(&opened).is_some(), "{opened}");
    assert_eq!(opened["_meta"]["wharf.agentMeta"], json!([1.5]), "{opened}");
    let plain = join_session(&host, &session).await?;
    for (number, (meta, kept)) in [
        (r#""_meta":"word","#, r#""word""#),
        (r#""_meta": 1.50 ,"#, "1.50"),
        (r#""\u005fmeta":["a", {}],"#, r#"["a", {}]"#),
        (r#""_meta":{"a":1.50},"_meta":null,"#, r#"[{"a":1.50},null]"#),
        (
            r#""_meta":{"wharf":{"eventId":"9-9"}},"x":1e400,"_meta":{"b":1},"#,
            r#"[{"wharf":{"eventId":"9-9"}},{"b":1}]"#,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("text {number}");
        let line = format!(
            r#"raw {{"jsonrpc":"2.0","method":"session/update","params":{{{meta}"sessionId":"$SESSION","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        );
        first.send_prompt(&session, &line).await?;
        let frame = first.expect_text(&text).await;
        assert!(event_id(&frame).is_some_and(|id| id != "9-9"), "{}", frame.raw);
        let claimed = format!(r#""wharf.agentMeta":{kept}"#);
        assert!(frame.raw.contains(&claimed), "{claimed} is not in {}", frame.raw);
        // A client without event ids sees the same frame but for the id.
        let shown = plain.expect_text(&text).await;
        assert!(shown.raw.contains(&format!(r#""_meta":{{{claimed}}}"#)), "{}", shown.raw);
        assert_eq!(shown.raw.contains("1e400"), meta.contains("1e400"), "{}", shown.raw);
    }
    Ok(())
}

/// Returns the event id that an answer carries.
fn answer_event_id(answer: &Value) -> Option<&str> {
    answer["_meta"]["wharf"]["eventId"].as_str()
}

#[tokio::test]
async fn attach_and_load_answers_carry_the_last_replayed_event_id() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let first = connect_with_event_ids(&host).await?;
    let at = json!({ "cwd": cwd(&host)?, "mcpServers": [] });
    let opened = first.call_method("session/new", at.clone()).await?;
    let session = opened["sessionId"].as_str().context("no id")?.to_owned();
    let started = log::read_records(&host, &session)?
        .into_iter()
        .find(|record| record["event"]["kind"] == "agent_started");
    let started = started.context("not started")?;
    assert_eq!(
        answer_event_id(&opened),
        Some(&*format!("{}-{}", started["epoch"], started["seq"]))
    );
    first.send_prompt(&session, "echo one").await?;

    let head = log::read_records(&host, &session)?.pop().context("nothing in the log")?;
    let head = format!("{}-{}", head["epoch"], head["seq"]);
    let second = connect_with_event_ids(&host).await?;
    let mut join = at;
    join["sessionId"] = session.as_str().into();
    for (method, more) in [
        ("session/load", json!({})),
        ("session/resume", json!({})),
        ("session/attach", json!({})),
        ("session/attach", json!({ "historyPolicy": "none" })),
        ("session/attach", json!({ "historyPolicy": "after_event", "afterEventId": head })),
    ] {
        let mut params = join.clone();
        params
            .as_object_mut()
            .context("no object")?
            .extend(more.as_object().context("no object")?.clone());
        let answer = second.call_method(method, params).await?;
        assert_eq!(answer_event_id(&answer), Some(&*head), "{method} {more}: {answer}");
    }
    // A replay from the beginning has no event before it.
    let stream = json!({ "sessionId": session, "historyDelivery": "stream" });
    assert_eq!(answer_event_id(&second.call_method("session/attach", stream).await?), None);
    let plain = crate::connect_client(&host).await?;
    assert_eq!(
        answer_event_id(&plain.call_method("session/load", join).await?),
        None,
        "not asked for"
    );
    Ok(())
}
