//! A property: legal JSON in any member of any message reaches every party unchanged. Odd values
//! are put into each member in turn, in both directions, through the real server; another ACP
//! client, REST, SSE, MCP, the history and the log are compared. The random choices are printed as
//! a seed.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_json::Json;
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::random::TestRandom;

use crate::mcp_client::Mcp;
use crate::rest::{output_lines, wait_until_idle};
use crate::{connect_client_with, log, open_session, scripted_host};

/// Returns a value that is legal JSON and that common parsers refuse or change.
fn odd_value(dice: &mut TestRandom) -> String {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    match dice.next_below(12) {
        0 => "1e400".to_owned(),
        1 => "-1E+9999".to_owned(),
        2 => "-0".to_owned(),
        3 => "1E+2".to_owned(),
        4 => "123456789012345678901234567890".to_owned(),
        5 => r#""\ud83d""#.to_owned(),
        6 => r#"{"\ud83d":"\ude00","n":1e400}"#.to_owned(),
        7 => deep(130),
        8 if dice.is_once_in(4) => deep(100_000),
        8 => deep(2_000),
        9 => r#"{"twice":1,"twice":1e400}"#.to_owned(),
        10 => "null".to_owned(),
        _ => r#"{"$serde_json::private::RawValue":"[","$serde_json::private::Number":"x"}"#
            .to_owned(),
    }
}

/// Keys that have no meaning in the protocol.
const ODD_KEYS: [&str; 5] = ["x", "\\ud83d", "\\u0078", "", "$serde_json::private::RawValue"];

/// Inserts an odd member at each `@` of the template, or at some of them.
fn fill_template(template: &str, dice: &mut TestRandom) -> String {
    let mut text = String::new();
    for piece in template.split_inclusive('@') {
        match piece.strip_suffix('@') {
            Some(before) => {
                text.push_str(before);
                if !dice.is_once_in(3) {
                    let key = dice.pick_one(&ODD_KEYS).to_owned();
                    text.push_str(&format!("\"{key}\":{},", odd_value(dice)));
                }
            }
            None => text.push_str(piece),
        }
    }
    text
}

/// Lines of the agent: each kind of update that a view shows, with a mark at every object.
const UPDATE_TEMPLATES: [&str; 6] = [
    r#"{@"sessionUpdate":"agent_message_chunk","messageId":"m@N","content":{@"type":"text","text":"text @N\n"}}"#,
    r#"{@"sessionUpdate":"agent_thought_chunk","messageId":"h@N","content":{@"type":"text","text":"thought @N"}}"#,
    r#"{@"sessionUpdate":"tool_call","toolCallId":"t@N","title":"title @N","status":"failed","content":[{@"type":"content","content":{@"type":"text","text":"failed @N"}}]}"#,
    r#"{@"sessionUpdate":"plan","entries":[{@"content":"plan @N","priority":"high","status":"pending"}]}"#,
    r#"{@"sessionUpdate":"session_info_update","title":"info @N"}"#,
    r#"{@"sessionUpdate":"from_the_future","_meta":{@"y":1}}"#,
];

const ODD_VALUE_ROUNDS: usize = 24;

struct MemberFixture {
    host: TestHost,
    sender: TestClient,
    watcher: TestClient,
    session: String,
}

impl MemberFixture {
    async fn open() -> Result<Self> {
        let host = scripted_host(&[])?.start_host()?;
        let (sender, session) = open_session(&host).await?;
        let watcher = connect_client_with(
            &host,
            json!({}),
            json!({ "wharf": { "multiClientUpdates": true } }),
        )
        .await?;
        watcher
            .call_method("session/attach", json!({ "sessionId": session, "historyPolicy": "none" }))
            .await?;
        Ok(Self { host, sender, watcher, session })
    }

    /// Makes the agent write these lines in one turn.
    async fn agent_writes(&self, lines: &[String]) -> Result<()> {
        let path = self.host.directory().join("odd-lines");
        fs::write(&path, format!("{}\n", lines.join("\n")))?;
        self.sender
            .send_prompt(&self.session, &format!("rawfile {}", path.display()))
            .await?;
        Ok(())
    }
}

fn update_line(body: &str, outer: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update",{outer}"params":{{"sessionId":"$SESSION","update":{body}}}}}"#
    )
}

/// Returns the update of a frame as bytes.
fn extract_update(raw: &str) -> Option<String> {
    let frame = Json::parse(raw.as_bytes()).ok()?;
    Some(frame.at(&["params", "update"]).ok()??.raw().to_owned())
}

/// Returns the updates that a client received, of the kinds that the agent wrote.
fn shown_updates(client: &TestClient) -> Vec<String> {
    let made = ["user_message_chunk", "prompt_received", "turn_complete", "client_"];
    let frames = client
        .received_frames()
        .into_iter()
        .filter(|frame| frame.method() == "session/update");
    let updates = frames.filter_map(|frame| extract_update(&frame.raw));
    updates
        .filter(|update| !made.iter().any(|word| update.contains(word)))
        .collect()
}

#[tokio::test]
async fn odd_members_in_updates_of_an_agent_change_no_other_member() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = MemberFixture::open().await?;
    let (mut expected, mut lines, mut updates) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..ODD_VALUE_ROUNDS {
        for template in UPDATE_TEMPLATES {
            let template = template.replace("@N", &number.to_string());
            let body = fill_template(&template, &mut dice);
            let outer = fill_template("@", &mut dice);
            lines.push(update_line(&body, &outer));
            updates.push(body);
        }
        expected.extend([format!("text {number}"), format!("[thought] thought {number}")]);
        expected
            .extend([format!("[tool] title {number}"), format!("[tool-error] failed {number}")]);
    }
    expected.push("── turn-end (end_turn) ──".to_owned());
    stage.agent_writes(&lines).await?;

    // Every ACP client has the exact bytes.
    assert_eq!(shown_updates(&stage.sender), updates, "the sender");
    stage
        .watcher
        .expect_update("the end", |update| update["sessionUpdate"] == "turn_complete")
        .await;
    assert_eq!(shown_updates(&stage.watcher), updates, "the watcher");
    // The log has the exact bytes too.
    let logged = log::list_events(&stage.host, &stage.session, "agent_updated")?;
    let converted = |text: &String| Json::parse(text.as_bytes()).map(Json::to_value);
    let values = updates.iter().map(converted).collect::<Result<Vec<Value>, _>>()?;
    let logged: Vec<Value> = logged
        .into_iter()
        .map(|mut event| event["frame"]["params"]["update"].take())
        .collect();
    ensure!(
        logged.len() == values.len(),
        "{} of {} updates are in the log",
        logged.len(),
        values.len()
    );
    // The views show the content of the updates.
    let http = RestClient::new(&stage.host);
    wait_until_idle(&http, &stage.session).await?;
    assert_eq!(output_lines(&http, &stage.session).await?, expected, "REST");
    let mut events = http.open_stream(&format!("/sessions/{}/stream", stage.session), None).await?;
    for line in &expected {
        events
            .expect_line(line)
            .await
            .with_context(|| format!("SSE has no line {line:?}"))?;
    }
    for mut mcp in Mcp::over_both(&stage.host)? {
        let told = mcp
            .call_tool("get_agent_session_output", json!({ "sessionId": stage.session }))
            .await?;
        assert_eq!(told["lines"], json!(expected), "MCP");
    }
    check_history(&stage).await?;
    let listed = http.get(&format!("/sessions/{}", stage.session)).await?.expect(200)?;
    assert_eq!(listed["title"], format!("info {}", ODD_VALUE_ROUNDS - 1), "{listed}");
    Ok(())
}

async fn check_history(stage: &MemberFixture) -> Result<()> {
    let late = crate::connect_client(&stage.host).await?;
    let attached = late
        .call_method("session/attach", json!({ "sessionId": stage.session }))
        .await?;
    let history = attached["history"].as_array().context("no history")?;
    for number in 0..ODD_VALUE_ROUNDS {
        let holds = |kind: &str, text: &str| {
            let words = format!("{text} {number}");
            history
                .iter()
                .any(|entry| entry["type"] == kind && entry.to_string().contains(&words))
        };
        ensure!(
            holds("agent_message", "text") && holds("agent_thought", "thought"),
            "round {number}: {history:?}"
        );
        ensure!(
            holds("tool_call", "title") && holds("tool_call", "failed"),
            "round {number}: {history:?}"
        );
    }
    ensure!(history.iter().any(|entry| entry["type"] == "plan"), "{history:?}");
    Ok(())
}

#[tokio::test]
async fn odd_members_in_prompts_change_no_other_member() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = MemberFixture::open().await?;
    for number in 0..ODD_VALUE_ROUNDS {
        let blocks = fill_template(
            &format!(r#"[{{@"type":"text","text":"echo said {number}"}}]"#),
            &mut dice,
        );
        let params = fill_template(
            &format!(
                r#"{{@"sessionId":"{}","prompt":{blocks},"_meta":{{@"y":1}}}}"#,
                stage.session
            ),
            &mut dice,
        );
        let outer = fill_template("@", &mut dice);
        let frame = format!(
            r#"{{"jsonrpc":"2.0",{outer}"id":"p{number}","method":"session/prompt","params":{params}}}"#
        );
        stage.sender.send_raw(&frame).await;
        let id = format!("p{number}");
        let answer = stage.sender.expect("the answer", |frame| *frame.id() == id.as_str()).await;
        assert_eq!(answer.body["result"]["stopReason"], "end_turn", "{frame}");
        let told = |update: &Value| update["sessionUpdate"] == "prompt_received";
        let received = stage.watcher.expect_update("the prompt", told).await;
        let text = &received.params()["update"]["prompt"][0]["text"];
        assert_eq!(*text, format!("echo said {number}"), "{frame}");
        stage.watcher.expect_text(&format!("said {number}")).await;
    }
    let late = crate::connect_client(&stage.host).await?;
    let attached = late
        .call_method("session/attach", json!({ "sessionId": stage.session }))
        .await?;
    let history = attached["history"].as_array().context("no history")?;
    let prompts: Vec<&Value> = history.iter().filter(|entry| entry["type"] == "prompt").collect();
    let texts: Vec<&str> = prompts
        .iter()
        .filter_map(|entry| entry["content"][0]["text"].as_str())
        .collect();
    assert_eq!(
        texts,
        (0..ODD_VALUE_ROUNDS)
            .map(|number| format!("echo said {number}"))
            .collect::<Vec<_>>()
    );
    Ok(())
}

#[tokio::test]
async fn odd_members_in_permissions_and_answers_change_no_other_member() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = MemberFixture::open().await?;
    let http = RestClient::new(&stage.host);
    for number in 0..ODD_VALUE_ROUNDS {
        let ask = fill_template(
            &format!(
                r#"{{"jsonrpc":"2.0",@"id":"a{number}","method":"session/request_permission","params":{{@"sessionId":"$SESSION","toolCall":{{@"toolCallId":"t{number}","title":"may {number}"}},"options":[{{@"optionId":"yes","name":"Yes","kind":"allow_once"}},{{@"optionId":"no","name":"No","kind":"reject_once"}}]}}}}"#
            ),
            &mut dice,
        );
        let path = stage.host.directory().join("odd-ask");
        fs::write(&path, format!("{ask}\n"))?;
        let running = stage
            .sender
            .start_prompt(&stage.session, &format!("rawfile {}; wait", path.display()))
            .await;
        let asked = stage.sender.expect_request("session/request_permission").await;
        let asks = http.get(&format!("/sessions/{}/asks", stage.session)).await?.expect(200)?;
        let open = &asks["asks"][0];
        assert_eq!(open["toolCall"]["title"], format!("may {number}"), "{ask}");
        let options: Vec<&Value> = open["options"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| &it["optionId"])
            .collect();
        assert_eq!(options, ["yes", "no"], "{ask}");
        let answer = fill_template(
            r#"{@"outcome":{@"outcome":"selected","optionId":"no"},"_meta":{@"y":1}}"#,
            &mut dice,
        );
        stage
            .sender
            .send_raw(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{answer}}}"#, asked.id()))
            .await;
        let told = |update: &Value| update["sessionUpdate"] == "permission_resolved";
        let resolved = stage.watcher.expect_update("its end", told).await;
        assert_eq!(resolved.params()["update"]["chosenOptionId"], "no", "{answer}");
        let logged = log::expect_event(&stage.host, &stage.session, "ask_resolved", |event| {
            event["ask"] == open["askId"]
        });
        let outcome = &logged.await?["outcome"];
        assert_eq!(
            (&outcome["how"], &outcome["option"]),
            (&json!("answered"), &json!("no")),
            "{answer}"
        );
        stage
            .sender
            .send_notification("_go", json!({ "sessionId": stage.session }))
            .await;
        running.wait_answer().await?;
    }
    Ok(())
}

#[tokio::test]
async fn odd_members_in_other_requests_change_no_other_member() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let host = scripted_host(&["--resume"])?.start_host()?;
    for number in 0..ODD_VALUE_ROUNDS / 4 {
        let client = TestClient::connect(&host.ws_url(), host.token()).await?;
        let cwd = json!(crate::cwd(&host)?);
        let hello = r#"{@"protocolVersion":1,"clientInfo":{@"name":"odd","version":"1"},"clientCapabilities":{@"fs":{@"readTextFile":false}},"_meta":{@"wharf":{@"multiClientUpdates":true}}}"#;
        send_request(&client, "initialize", &fill_template(hello, &mut dice)).await?;
        let new = format!(r#"{{@"cwd":{cwd},"mcpServers":[],"_meta":{{@"wharf":{{@"z":1}}}}}}"#);
        let opened = send_request(&client, "session/new", &fill_template(&new, &mut dice)).await?;
        let session = opened["sessionId"].as_str().context("no id")?.to_owned();
        let named = |rest: &str| {
            format!(r#"{{@"sessionId":"{session}",{rest}"_meta":{{@"wharf":{{@"z":1}}}}}}"#)
        };
        send_request(
            &client,
            "session/set_mode",
            &fill_template(&named(r#""modeId":"auto","#), &mut dice),
        )
        .await?;
        for method in ["session/load", "session/resume"] {
            let params = named(&format!(r#""cwd":{cwd},"mcpServers":[],"#));
            let joined = send_request(&client, method, &fill_template(&params, &mut dice)).await?;
            assert_eq!(joined["modes"]["currentModeId"], "auto", "{method}");
        }
        let status =
            send_request(&client, "session/status", &fill_template(&named(""), &mut dice)).await?;
        assert_eq!(status["status"], "live");
        let attached = send_request(
            &client,
            "session/attach",
            &fill_template(&named(r#""historyPolicy":"none","#), &mut dice),
        )
        .await?;
        assert_eq!(attached["historyPolicy"], "none");
        let all = fill_template(r#"{@"_meta":{@"wharf":{@"all":true}}}"#, &mut dice);
        let listed = send_request(&client, "session/list", &all).await?;
        assert_eq!(
            listed["sessions"].as_array().map(Vec::len),
            Some(1),
            "round {number}: {listed}"
        );
        send_request(&client, "session/delete", &fill_template(&named(""), &mut dice)).await?;
    }
    Ok(())
}

/// Sends a request with these params unchanged.
async fn send_request(client: &TestClient, method: &str, params: &str) -> Result<Value> {
    let number = client.received_frames().len();
    let id = format!("odd-{method}-{number}");
    client
        .send_raw(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#
        ))
        .await;
    let mut answer = client.expect("the answer", |frame| *frame.id() == id.as_str()).await;
    ensure!(answer.body.get("error").is_none(), "{method} {params}: {}", answer.raw);
    Ok(answer.body["result"].take())
}
