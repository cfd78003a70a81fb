//! Requests of an agent to its client: files, terminals, forms, links and extensions reach the
//! party that serves them, or Wharf itself (rules 3.7 to 3.11).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::{HostOptions, TestHost};

use crate::recording::Recording;
use crate::{
    connect_client, connect_client_with, cwd, expect_error, join_session, log, open_session,
    prompt_for_text, scripted_host, stop_reason,
};

/// Connects a client with these capabilities and creates a session.
async fn open_session_with(host: &TestHost, capabilities: Value) -> Result<(TestClient, String)> {
    let client = connect_client_with(host, capabilities, json!({})).await?;
    let session = client.new_session(&cwd(host)?).await?;
    Ok((client, session))
}

fn agent_requests_seen(client: &TestClient) -> Vec<String> {
    let frames = client.received_frames();
    frames
        .iter()
        .filter(|frame| frame.is_request())
        .map(|frame| frame.method().to_owned())
        .collect()
}

fn file_path(host: &TestHost, name: &str) -> Result<String> {
    Ok(host.directory().join(name).to_str().context("not UTF-8")?.to_owned())
}

fn without_tools(mut options: HostOptions) -> HostOptions {
    options
        .config
        .get_or_insert_default()
        .insert_str(0, "serve_tools = \"never\"\n");
    options
}

#[tokio::test]
async fn files_are_read_and_written_by_the_client_that_says_it_can() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let can = json!({ "fs": { "readTextFile": true, "writeTextFile": true } });
    let (server, session) = open_session_with(&host, can).await?;
    let other = join_session(&host, &session).await?;
    // The last client to load serves; it has no capability, so the first client serves again.
    server.load_session(&session, &cwd(&host)?).await?;
    server.respond_with(|ask| {
        Some(match ask.method() {
            "fs/read_text_file" => Ok(json!({ "content": "from the editor's buffer" })),
            _ => Err(json!({ "code": -32099, "message": "read-only", "data": { "why": [1.50] } })),
        })
    });
    let said = prompt_for_text(&other, &session, "fs read /no/such/place").await?;
    assert_eq!(
        said, r#"answered: {"content":"from the editor's buffer"}"#,
        "whatever the path is: it is the client's"
    );
    let said = prompt_for_text(&other, &session, "fs write /x text").await?;
    assert!(
        said.starts_with("failed:") && said.contains("-32099") && said.contains("read-only"),
        "{said}"
    );
    let asked = server.received_frames();
    let asked: Vec<&ReceivedFrame> = asked.iter().filter(|frame| frame.is_request()).collect();
    assert_eq!(asked[0].params(), &json!({ "sessionId": session, "path": "/no/such/place" }));
    assert_eq!(agent_requests_seen(&other), [""; 0], "never broadcast");
    assert!(log::list_events(&host, &session, "ask_opened")?.is_empty(), "no fact either");
    Ok(())
}

#[tokio::test]
async fn files_are_read_and_written_by_wharf_where_no_client_does() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let file = file_path(&host, "notes.txt")?;
    assert_eq!(
        prompt_for_text(&client, &session, &format!("fs write {file} first line")).await?,
        "answered: {}"
    );
    assert_eq!(std::fs::read_to_string(&file)?, "first line");
    let said = prompt_for_text(&client, &session, &format!("fs read {file}")).await?;
    assert_eq!(said, r#"answered: {"content":"first line"}"#);
    let said =
        prompt_for_text(&client, &session, &format!("fs read {}", file_path(&host, "missing")?))
            .await?;
    assert!(said.contains("-32002") && said.contains("does not exist"), "{said}");
    assert_eq!(agent_requests_seen(&client), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_client_serves_what_it_can_and_wharf_the_rest() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) =
        open_session_with(&host, json!({ "fs": { "readTextFile": true } })).await?;
    client.respond_with(|_| Some(Ok(json!({ "content": "unsaved" }))));
    let file = file_path(&host, "notes.txt")?;
    assert_eq!(
        prompt_for_text(&client, &session, &format!("fs write {file} saved")).await?,
        "answered: {}"
    );
    assert_eq!(std::fs::read_to_string(&file)?, "saved");
    assert_eq!(
        prompt_for_text(&client, &session, &format!("fs read {file}")).await?,
        r#"answered: {"content":"unsaved"}"#
    );
    assert_eq!(agent_requests_seen(&client), ["fs/read_text_file"]);
    Ok(())
}

#[tokio::test]
async fn terminals_are_the_clients_where_it_has_them_and_else_wharfs() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session_with(&host, json!({ "terminal": true })).await?;
    client.respond_with(|ask| {
        Some(Ok(match ask.method() {
            "terminal/create" => json!({ "terminalId": "term-7" }),
            "terminal/wait_for_exit" => json!({ "exitCode": 7 }),
            "terminal/output" => json!({ "output": "in the editor", "truncated": false }),
            _ => json!({}),
        }))
    });
    let said = prompt_for_text(&client, &session, "terminal echo hello").await?;
    assert!(said.contains("in the editor") && said.contains(r#""exitCode":7"#), "{said}");
    let methods =
        ["terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"];
    assert_eq!(agent_requests_seen(&client), methods);

    let (client, session) = open_session(&host).await?;
    let said = prompt_for_text(&client, &session, "terminal echo \"hello from $(pwd)\"").await?;
    assert!(
        said.contains(&format!("hello from {}", cwd(&host)?)) && said.contains(r#""exitCode":0"#),
        "{said}"
    );
    assert_eq!(agent_requests_seen(&client), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_server_that_vanishes_is_an_error_to_the_agent_and_wharf_takes_over() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let can = json!({ "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true });
    let (server, session) = open_session_with(&host, can).await?;
    let other = join_session(&host, &session).await?;
    server.load_session(&session, &cwd(&host)?).await?;
    let file = file_path(&host, "notes.txt")?;
    std::fs::write(&file, "on disk")?;
    let running = other.start_prompt(&session, &format!("fs read {file}; fs read {file}")).await;
    server.expect_request("fs/read_text_file").await;
    server.close().await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    let texts = other.chunk_texts();
    assert!(texts[0].starts_with("failed:") && texts[0].contains("went away"), "{texts:?}");
    assert_eq!(texts[1], r#"answered: {"content":"on disk"}"#);
    Ok(())
}

#[tokio::test]
async fn client_that_loaded_last_serves_the_agent() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let can = json!({ "fs": { "readTextFile": true } });
    let (first, session) = open_session_with(&host, can.clone()).await?;
    let second = connect_client_with(&host, can, json!({})).await?;
    for (client, content) in [(&first, "first"), (&second, "second")] {
        client.respond_with(move |_| Some(Ok(json!({ "content": content }))));
    }
    assert_eq!(
        prompt_for_text(&first, &session, "fs read /x").await?,
        r#"answered: {"content":"first"}"#
    );
    // Only new, load and resume make a client serve, not an attach or a prompt.
    second.call_method("session/attach", json!({ "sessionId": session })).await?;
    second.send_prompt(&session, "fs read /x").await?;
    assert_eq!(second.chunk_texts(), [r#"answered: {"content":"first"}"#]);
    for _ in 0..2 {
        first.expect_text(r#"answered: {"content":"first"}"#).await;
    }
    second
        .call_method(
            "session/resume",
            json!({ "sessionId": session, "cwd": cwd(&host)?, "mcpServers": [] }),
        )
        .await?;
    assert_eq!(
        prompt_for_text(&first, &session, "fs read /x").await?,
        r#"answered: {"content":"second"}"#
    );
    Ok(())
}

#[tokio::test]
async fn agent_gets_an_error_and_no_capability_when_serving_is_off() -> Result<()> {
    let recording = Recording::new()?;
    let host = without_tools(recording.host_options(&[])?).start_host()?;
    let (client, session) = open_session(&host).await?;
    let file = file_path(&host, "notes.txt")?;
    std::fs::write(&file, "on disk")?;
    for prompt in
        [format!("fs read {file}"), format!("fs write {file} x"), "terminal true".to_owned()]
    {
        let said = prompt_for_text(&client, &session, &prompt).await?;
        assert!(said.starts_with("failed:") && said.contains("-32601"), "{prompt}: {said}");
    }
    assert_eq!(std::fs::read_to_string(&file)?, "on disk");
    let hello = recording.read_messages()?.into_iter().next().context("no initialize")?;
    let told = &hello["params"]["clientCapabilities"];
    assert_eq!((&told["fs"]["readTextFile"], &told["terminal"]), (&json!(false), &json!(false)));
    Ok(())
}

const ELICITATION_CAPABILITIES: &str = r#"{ "elicitation": { "form": {}, "url": {} } }"#;

async fn connect_with_elicitation(host: &TestHost, session: &str) -> Result<TestClient> {
    let client =
        connect_client_with(host, serde_json::from_str(ELICITATION_CAPABILITIES)?, json!({}))
            .await?;
    client.load_session(session, &cwd(host)?).await?;
    Ok(client)
}

#[tokio::test]
async fn elicitation_form_goes_to_capable_clients_and_the_first_answer_wins() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (plain, session) = open_session(&host).await?;
    let (one, two) = (
        connect_with_elicitation(&host, &session).await?,
        connect_with_elicitation(&host, &session).await?,
    );
    let answers = [
        (json!({ "action": "accept", "content": { "colour": "blue" } }), r#""action":"accept""#),
        (json!({ "action": "decline" }), r#""action":"decline""#),
    ];
    for (answer, word) in answers {
        let running = plain.start_prompt(&session, "elicit").await;
        let (to_one, to_two) = (
            one.expect_request("elicitation/create").await,
            two.expect_request("elicitation/create").await,
        );
        assert_eq!(to_one.params(), to_two.params());
        assert_eq!(to_one.params()["sessionId"], session.as_str());
        two.send_result(to_two.id(), answer).await;
        let withdrawn = one.expect_notification("$/cancel_request").await;
        assert_eq!(&withdrawn.params()["requestId"], to_one.id());
        assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
        let said = plain.chunk_texts().pop().context("nothing said")?;
        assert!(said.starts_with("answered:") && said.contains(word), "{said}");
    }
    assert_eq!(agent_requests_seen(&plain), [""; 0], "it did not say that it can");
    Ok(())
}

#[tokio::test]
async fn elicitation_form_is_cancelled_when_all_clients_cancel_or_none_is_capable() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (plain, session) = open_session(&host).await?;
    let cancelled = r#"answered: {"action":"cancel"}"#;
    assert_eq!(prompt_for_text(&plain, &session, "elicit").await?, cancelled, "nobody can");
    let (one, two) = (
        connect_with_elicitation(&host, &session).await?,
        connect_with_elicitation(&host, &session).await?,
    );
    let running = plain.start_prompt(&session, "elicit").await;
    let to_one = one.expect_request("elicitation/create").await;
    one.send_result(to_one.id(), json!({ "action": "cancel" })).await;
    let to_two = two.expect_request("elicitation/create").await;
    two.send_result(to_two.id(), json!({ "action": "cancel" })).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(plain.chunk_texts().last().map(String::as_str), Some(cancelled));
    // The last capable client leaves.
    let running = plain.start_prompt(&session, "elicit").await;
    one.expect_request("elicitation/create").await;
    one.close().await;
    two.expect_request("elicitation/create").await;
    two.close().await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(plain.chunk_texts().last().map(String::as_str), Some(cancelled));
    Ok(())
}

#[tokio::test]
async fn elicitation_link_goes_only_to_the_sender_of_the_prompt() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (plain, session) = open_session(&host).await?;
    let (one, two) = (
        connect_with_elicitation(&host, &session).await?,
        connect_with_elicitation(&host, &session).await?,
    );
    one.respond_with(|_| Some(Ok(json!({ "action": "accept" }))));
    assert_eq!(
        prompt_for_text(&one, &session, "elicit-url").await?,
        r#"answered: {"action":"accept"}"#
    );
    assert_eq!(agent_requests_seen(&one), ["elicitation/create"]);
    plain.expect_text(r#"answered: {"action":"accept"}"#).await;
    // The sender of the prompt cannot open links, and no other client may open this one.
    assert_eq!(
        prompt_for_text(&plain, &session, "elicit-url").await?,
        r#"answered: {"action":"cancel"}"#
    );
    for client in [&plain, &two] {
        assert_eq!(agent_requests_seen(client), [""; 0]);
    }
    Ok(())
}

#[tokio::test]
async fn extension_methods_pass_in_both_directions() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    second.respond_with(|ask| match ask.method() {
        "_vendor/ask" => Some(Ok(json!({ "told": ask.params()["x"] }))),
        _ => Some(Err(json!({ "code": -32601, "message": "what?" }))),
    });
    let said = prompt_for_text(&second, &session, r#"ext _vendor/ask {"x": "y"}"#).await?;
    assert_eq!(said, r#"answered: {"told":"y"}"#);
    let said = prompt_for_text(&second, &session, r#"ext _vendor/other {"x": "y"}"#).await?;
    assert!(said.starts_with("failed:") && said.contains("what?"), "{said}");
    second.send_prompt(&session, r#"extnote _vendor/note {"z": [1, 2.50]}"#).await?;
    let note = second.expect_notification("_vendor/note").await;
    assert_eq!(note.params(), &json!({ "z": [1, 2.5] }));
    assert!(
        !first
            .received_frames()
            .iter()
            .any(|frame| frame.method().starts_with("_vendor")),
        "the other's affair"
    );

    // From client to agent, byte for byte.
    let raw = |id: &str, method: &str| {
        format!(
            r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{{"n": 1.50,"sessionId":"{session}", "deep":[[{{}}]]}}}}"#
        )
    };
    first.send_raw(&raw(r#""id":"\u0041",  "#, "_echo")).await;
    let answer = first.expect("the echo", |frame| frame.id() == "A").await;
    assert!(
        answer.raw.contains(r#""id":"\u0041""#) && answer.raw.contains(r#""n": 1.50,"#),
        "{}",
        answer.raw
    );
    assert!(answer.raw.contains(r#" "deep":[[{}]]}"#), "{}", answer.raw);
    second.send_raw(&raw("", "_note")).await;
    let noted = second.expect_notification("_noted").await;
    assert!(noted.raw.contains(r#""n": 1.50,"#), "{}", noted.raw);
    assert_eq!(noted.params()["sessionId"], session.as_str(), "under the id that the client knows");
    Ok(())
}

#[tokio::test]
async fn change_of_mode_or_option_is_sent_to_all_clients() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    first
        .call_method("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))
        .await?;
    let update = second
        .expect_update("the mode", |update| update["sessionUpdate"] == "current_mode_update")
        .await;
    assert_eq!(update.params()["update"]["currentModeId"], "auto");
    let set = json!({ "sessionId": session, "configId": "model", "value": "large" });
    let answer = second.call_method("session/set_config_option", set).await?;
    let update = first
        .expect_update("the option", |update| update["sessionUpdate"] == "config_option_update")
        .await;
    assert_eq!(update.params()["update"]["configOptions"], answer["configOptions"]);
    let said = prompt_for_text(&first, &session, "mode").await?;
    assert!(said.starts_with("mode=auto model=large"), "{said}");
    // Setting the current value again sends no update.
    first
        .call_method("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))
        .await?;
    assert_eq!(log::list_events(&host, &session, "agent_updated")?.len(), 3);
    // A new client gets the current values.
    let third = connect_client(&host).await?;
    let loaded = third.load_session(&session, &cwd(&host)?).await?;
    assert_eq!(loaded["modes"]["currentModeId"], "auto");
    assert_eq!(loaded["configOptions"][0]["currentValue"], "large");
    Ok(())
}

#[tokio::test]
async fn a_refusal_of_the_agent_passes_and_changes_nothing() -> Result<()> {
    let host = scripted_host(&["--fixed-mode"])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let error = expect_error(
        first
            .call_method("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))
            .await,
    )?;
    assert_eq!((error.code, error.message.as_str()), (-32602, "nothing can be set"));
    assert!(log::list_events(&host, &session, "agent_updated")?.is_empty());
    Ok(())
}

#[tokio::test]
async fn requests_reach_the_agent_in_the_order_in_which_they_were_sent() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    for round in 0..60 {
        let mode = if round % 2 == 0 { "auto" } else { "ask" };
        // The client does not wait for the answer: the prompt is meant to run in that mode.
        let setting = client
            .start_request("session/set_mode", json!({ "sessionId": session, "modeId": mode }))
            .await;
        let said = prompt_for_text(&client, &session, "mode").await?;
        assert!(said.starts_with(&format!("mode={mode} ")), "round {round}: {said}");
        setting.wait_answer().await?;
    }
    Ok(())
}

#[tokio::test]
async fn many_requests_at_once_reach_the_agent_in_their_order() -> Result<()> {
    const REQUEST_COUNT: usize = 300;
    let recording = Recording::new()?;
    let host = recording.host_options(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let mut calls = Vec::new();
    for number in 0..REQUEST_COUNT {
        let method = if number % 3 == 0 { "session/set_mode" } else { "_echo" };
        let mode = format!("mode-{number}");
        calls.push(
            client
                .start_request(
                    method,
                    json!({ "sessionId": session, "modeId": mode, "number": number }),
                )
                .await,
        );
    }
    for call in calls {
        call.wait_answer().await?;
    }
    let numbers: Vec<u64> = recording
        .since_start()?
        .iter()
        .filter_map(|message| message["params"]["number"].as_u64())
        .collect();
    assert!(numbers.into_iter().eq(0..REQUEST_COUNT as u64));
    Ok(())
}

#[tokio::test]
async fn forwarded_request_can_be_cancelled() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&["--hang-on", "_slow"])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let slow = client.start_request("_slow", json!({ "sessionId": session })).await;
    let sent = recording.expect("_slow", |message| message["method"] == "_slow").await?;
    client
        .send_notification("$/cancel_request", json!({ "requestId": slow.id }))
        .await;
    let cancel = recording
        .expect("$/cancel_request", |message| message["method"] == "$/cancel_request")
        .await?;
    assert_eq!(cancel["params"]["requestId"], sent["id"], "under the id that the agent knows");
    // The agent has to answer the request. If it has crashed, Wharf answers.
    let _ = client.send_prompt(&session, "crash").await;
    let error = expect_error(slow.wait_answer().await)?;
    assert_eq!(error.code, -32603, "{error}");
    Ok(())
}

#[tokio::test]
async fn request_is_answered_when_its_client_detaches_meanwhile() -> Result<()> {
    let host = scripted_host(&["--delay", "session/set_mode=200"])?.start_host()?;
    let (_first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let setting = second
        .start_request("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))
        .await;
    second.call_method("session/detach", json!({ "sessionId": session })).await?;
    assert_eq!(setting.wait_answer().await?, json!({}));
    Ok(())
}

#[tokio::test]
async fn request_is_answered_when_its_client_attaches_again_meanwhile() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    for round in 0..60 {
        let mode = if round % 2 == 0 { "auto" } else { "ask" };
        let setting = client
            .start_request("session/set_mode", json!({ "sessionId": session, "modeId": mode }))
            .await;
        let attach = json!({ "sessionId": session, "historyPolicy": "none" });
        client.call_method("session/attach", attach).await?;
        assert_eq!(setting.wait_answer().await?, json!({}));
    }
    Ok(())
}
