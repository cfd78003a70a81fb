//! Odd values in what an agent sends.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_json::{Json, Kind};
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::random::TestRandom;
use wharf_testkit::{WAIT_LIMIT, polling};

use super::cases::{Case, sample_cases};
use super::{able_client, list_marked_frames, logged_frames, mark_of};
use crate::mcp_client::Mcp;
use crate::rest::{output_lines, wait_until_idle};
use crate::transports::Transport;
use crate::{cwd, log, scripted_host};

/// The agent's own id of its session.
const AGENT_WORDS: &str = "the agents own";

/// Updates by their kind.
const UPDATE_SAMPLES: [(&str, &str); 14] = [
    ("user_message_chunk", r#""messageId":"u1","content":{"type":"text","text":"said\n"}"#),
    (
        "agent_message_chunk",
        r#""messageId":"m1","content":{"type":"text","text":"words\n","annotations":{"audience":["user"],"priority":1}}"#,
    ),
    (
        "agent_message_chunk",
        r#""content":{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"in a file"}}"#,
    ),
    ("agent_thought_chunk", r#""messageId":"h1","content":{"type":"text","text":"thought\n"}"#),
    (
        "tool_call",
        r#""toolCallId":"t1","title":"runs","kind":"execute","status":"failed","content":[{"type":"content","content":{"type":"text","text":"failed"}},{"type":"diff","path":"/a","oldText":"a","newText":"b"}],"locations":[{"path":"/a","line":1}],"rawInput":{"a":1},"rawOutput":{"b":[2]}"#,
    ),
    (
        "tool_call_update",
        r#""toolCallId":"t1","title":"ran","status":"completed","content":[{"type":"content","content":{"type":"text","text":"done"}}]"#,
    ),
    ("plan", r#""entries":[{"content":"first","priority":"high","status":"pending"}]"#),
    (
        "available_commands_update",
        r#""availableCommands":[{"name":"go","description":"goes","input":{"hint":"where"}}]"#,
    ),
    ("current_mode_update", r#""currentModeId":"auto""#),
    (
        "config_option_update",
        r#""configOptions":[{"id":"model","name":"Model","category":"model","type":"select","currentValue":"small","options":[{"value":"small","name":"small"}]}]"#,
    ),
    ("session_info_update", r#""title":"named","updatedAt":"2026-01-01T00:00:00Z""#),
    ("usage_update", r#""used":1,"size":2,"cost":{"amount":0.1,"currency":"EUR"}"#),
    ("notice", r#""level":"info","message":"noticed""#),
    ("from_the_future", r#""value":{"a":[1]}"#),
];

/// So many changes of each kind of update, and of each kind of request.
const UPDATES_OF_EACH: usize = 40;
const REQUESTS_OF_EACH: usize = 14;
/// So few that fewer than 100 of them are faults.
const UPDATES_OF_A_SESSION: usize = 300;
/// Faults are logged one by one up to 100 for each start of an agent, and requests wait in a
/// bounded lane.
const LINES_AT_ONCE: usize = 60;

fn update_messages() -> Vec<(&'static str, String)> {
    let message = |kind: &str, members: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{AGENT_WORDS}","update":{{"sessionUpdate":"{kind}",{members},"_meta":{{"y":1}}}},"_meta":{{"z":1}}}}}}"#
        )
    };
    let mut messages: Vec<_> = UPDATE_SAMPLES
        .iter()
        .map(|(kind, members)| (*kind, message(kind, members)))
        .collect();
    let note = format!(
        r#"{{"jsonrpc":"2.0","method":"_x/note","params":{{"sessionId":"{AGENT_WORDS}","a":[1],"_meta":{{"y":1}}}}}}"#
    );
    messages.push(("_x/note", note));
    messages
}

/// The line with its mark, as the agent writes it.
fn with_mark(case: &Case, number: usize) -> String {
    format!("{},\"mark\":{number}}}", case.text.strip_suffix('}').unwrap_or(&case.text))
}

/// A host whose agent records what it receives, and three clients of one session.
struct Stage {
    host: TestHost,
    record: tempfile::NamedTempFile,
    sender: TestClient,
    others: [TestClient; 2],
    session: String,
}

impl Stage {
    async fn open() -> Result<Self> {
        let record = tempfile::NamedTempFile::new()?;
        let path = record.path().to_str().context("not UTF-8")?;
        let host = scripted_host(&["--record", path, "--session-id", AGENT_WORDS])?.start_host()?;
        let (sender, session) = Self::begin_session(&host).await?;
        let others = [
            able_client(&host, Transport::WebSocket).await?,
            able_client(&host, Transport::Http).await?,
        ];
        for other in &others {
            other
                .call_method(
                    "session/attach",
                    json!({ "sessionId": session, "historyPolicy": "none" }),
                )
                .await?;
        }
        Ok(Self { host, record, sender, others, session })
    }

    async fn begin_session(host: &TestHost) -> Result<(TestClient, String)> {
        let sender = able_client(host, Transport::WebSocket).await?;
        let session = sender.new_session(&cwd(host)?).await?;
        Ok((sender, session))
    }

    /// Has the agent write these lines in one turn, and waits until every client has seen the
    /// turn's end.
    async fn agent_writes(&self, lines: &[String], number: usize) -> Result<()> {
        let path = self.host.directory().join("odd-lines");
        fs::write(&path, format!("{}\n", lines.join("\n")))?;
        let end = format!("end of {number}");
        self.sender
            .send_prompt(&self.session, &format!("rawfile {}; echo {end}", path.display()))
            .await?;
        for client in [&self.sender].into_iter().chain(&self.others) {
            client.expect_text(&end).await;
        }
        Ok(())
    }

    /// The frame as clients and the log are to have it, if its session can be read.
    fn expected_frame(&self, line: &str) -> String {
        let ours = format!(r#""sessionId":"{}""#, self.session);
        let frame = line.replacen(&format!(r#""sessionId":"{AGENT_WORDS}""#), &ours, 1);
        wrap_odd_meta(&frame).unwrap_or(frame)
    }
}

/// Returns the frame with room for an event id, if its `_meta` has none (rule 12.11).
fn wrap_odd_meta(frame: &str) -> Option<String> {
    let json = Json::parse(frame.as_bytes()).ok()?;
    let method = json.text_at(&["method"]).ok()??;
    if !["session/update", "session/request_permission", "elicitation/create"]
        .contains(&method.as_ref())
    {
        return None;
    }
    let params = json.member("params").ok()??;
    let metas: Vec<Kind> = params
        .members()
        .filter(|(name, _)| name == "_meta")
        .map(|(_, value)| value.kind())
        .collect();
    if matches!(metas[..], [] | [Kind::Object | Kind::Null]) {
        return None;
    }
    Some(
        wharf_json::wrap(json, &["params"], "_meta", "wharf.agentMeta")
            .ok()?
            .into_owned(),
    )
}

#[tokio::test]
async fn odd_updates_are_the_same_for_the_log_and_every_client() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    for (part, cases) in sample_cases(&update_messages(), UPDATES_OF_EACH, &mut dice)?
        .chunks(UPDATES_OF_A_SESSION)
        .enumerate()
    {
        check_updates(cases).await.with_context(|| format!("part {part}"))?;
    }
    Ok(())
}

async fn check_updates(cases: &[Case]) -> Result<()> {
    let stage = Stage::open().await?;
    let lines: Vec<String> =
        cases.iter().enumerate().map(|(number, case)| with_mark(case, number)).collect();
    for (number, batch) in lines.chunks(LINES_AT_ONCE).enumerate() {
        stage.agent_writes(batch, number).await?;
    }
    let logged: Vec<String> =
        logged_frames(&stage.host, &stage.session, "agent_updated", &["event", "frame"])?
            .into_iter()
            .filter(|raw| mark_of(raw).is_some())
            .collect();
    let by_mark: BTreeMap<String, &String> =
        logged.iter().filter_map(|raw| Some((mark_of(raw)?, raw))).collect();
    ensure!(by_mark.len() == logged.len(), "an update is in the log twice");
    let mut unseen = 0;
    for (number, (case, line)) in cases.iter().zip(&lines).enumerate() {
        match by_mark.get(&number.to_string()) {
            Some(raw) => {
                let expected = stage.expected_frame(line);
                // A null `error` or the like is the one thing that is left out.
                let is_plain = !matches!(case.path.as_str(), "/+");
                ensure!(
                    **raw == expected || !is_plain,
                    "{} {}: logged\n{raw}\nfor\n{expected}",
                    case.kind,
                    case.path
                );
            }
            // Notifications of another name are not kept.
            None if case.kind == "_x/note" || case.path == "/method" => {}
            None => unseen += 1,
        }
    }
    let faults = log::list_events(&stage.host, &stage.session, "agent_faulted")?.len();
    ensure!(unseen <= faults, "{unseen} updates are not in the log, which has {faults} faults");
    // Notifications that are no facts come past the log, so a later text may overtake them.
    let count_notes = || {
        list_marked_frames(&stage.sender)
            .into_iter()
            .filter(|raw| raw.contains("_x/note"))
            .count()
    };
    let sent = cases.iter().filter(|case| case.kind == "_x/note").count();
    let enough =
        polling::poll_until(WAIT_LIMIT, || Ok((2 * count_notes() >= sent).then_some(()))).await?;
    ensure!(enough.is_some(), "{} of {sent} extension notifications came through", count_notes());
    check_views(&stage, &logged).await
}

/// Every client has what the log has, in its order; the other views tell one text.
async fn check_views(stage: &Stage, logged: &[String]) -> Result<()> {
    // A client that asked for `prompt_received` is not shown the agent's echo of a prompt.
    let logged: Vec<String> = logged.iter().filter(|raw| is_shown_to_all(raw)).cloned().collect();
    let logged = logged.as_slice();
    let of_log = |client: &TestClient| -> Vec<String> {
        list_marked_frames(client)
            .into_iter()
            .filter(|raw| is_shown_to_all(raw))
            .collect()
    };
    for (who, client) in [
        ("the sender", &stage.sender),
        ("a watcher", &stage.others[0]),
        ("a watcher over HTTP", &stage.others[1]),
    ] {
        let shown = of_log(client);
        for (got, had) in shown.iter().zip(logged) {
            ensure!(got == had, "{who} was shown\n{got}\ninstead of\n{had}");
        }
        ensure!(shown.len() == logged.len(), "{who} was shown {} of {}", shown.len(), logged.len());
    }
    let late = able_client(&stage.host, Transport::WebSocket).await?;
    late.load_session(&stage.session, &cwd(&stage.host)?).await?;
    let mut rest = logged.iter();
    for raw in of_log(&late) {
        ensure!(
            rest.any(|had| *had == raw),
            "a late comer was shown what is not in the log, or not in its order:\n{raw}"
        );
    }
    let http = RestClient::new(&stage.host);
    wait_until_idle(&http, &stage.session).await?;
    let lines = output_lines(&http, &stage.session).await?;
    let newest = &lines[lines.len().saturating_sub(200)..];
    for mut mcp in Mcp::over_both(&stage.host)? {
        let told = mcp
            .call_tool("get_agent_session_output", json!({ "sessionId": stage.session }))
            .await?;
        ensure!(told["lines"] == json!(newest), "MCP tells {told} instead of {newest:?}");
    }
    let mut events = http.open_stream(&format!("/sessions/{}/stream", stage.session), None).await?;
    for line in newest {
        events
            .expect_line(line)
            .await
            .with_context(|| format!("SSE has no line {line:?}"))?;
    }
    check_texts(stage, logged, &lines).await
}

fn is_shown_to_all(raw: &str) -> bool {
    raw.contains("session/update") && !raw.contains(r#""user_message_chunk""#)
}

/// The texts of messages, as the log has them, are in the output and in the history.
async fn check_texts(stage: &Stage, logged: &[String], lines: &[String]) -> Result<()> {
    let late = able_client(&stage.host, Transport::WebSocket).await?;
    let attached = late
        .call_method(
            "session/attach",
            json!({ "sessionId": stage.session, "historyDelivery": "response" }),
        )
        .await?;
    let history = attached["history"].to_string();
    let whole = lines.join("\n");
    for raw in logged {
        let frame = Json::parse(raw.as_bytes())?;
        let Some(update) = frame.at(&["params", "update"])? else { continue };
        let is_message = update.is_object()
            && update.member("sessionUpdate")?.and_then(Json::text).as_deref()
                == Some("agent_message_chunk");
        let content = if is_message {
            update.seek(&["content"])?.filter(|content| content.is_object())
        } else {
            None
        };
        let Some(content) = content else { continue };
        let is_text =
            content.member("type").ok().flatten().and_then(Json::text).as_deref() == Some("text");
        let text = content.member("text").ok().flatten().and_then(Json::text).filter(|_| is_text);
        if let Some(text) = text.filter(|text| text.starts_with("words")) {
            ensure!(whole.contains(text.trim()), "the output lacks {text:?} of {raw}");
            ensure!(history.contains(text.trim()), "the history lacks {text:?} of {raw}");
        }
    }
    Ok(())
}

/// Requests of the agent by their method.
fn request_messages() -> Vec<(&'static str, String)> {
    let message = |method: &str, members: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"ID","method":"{method}","params":{{"sessionId":"{AGENT_WORDS}",{members},"_meta":{{"y":1}}}}}}"#
        )
    };
    [
        ("session/request_permission", r#""toolCall":{"toolCallId":"t1","title":"may I","status":"pending"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]"#),
        ("elicitation/create", r#""mode":"form","message":"which","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}"#),
        ("elicitation/create", r#""mode":"url","message":"look","elicitationId":"e1","url":"https://example.invalid/""#),
        ("fs/read_text_file", r#""path":"/none","line":1,"limit":2"#),
        ("fs/write_text_file", r#""path":"/none","content":"words""#),
        ("terminal/create", r#""command":"true","args":["a"],"env":[{"name":"A","value":"b"}],"cwd":"/","outputByteLimit":10"#),
        ("terminal/output", r#""terminalId":"none""#),
        ("terminal/wait_for_exit", r#""terminalId":"none""#),
        ("terminal/kill", r#""terminalId":"none""#),
        ("terminal/release", r#""terminalId":"none""#),
        ("_x/ask", r#""a":[1],"b":{"c":2}"#),
    ]
    .map(|(method, members)| (method, message(method, members)))
    .into()
}

/// An answer to any request of the agent.
fn any_answer(ask: &ReceivedFrame) -> Value {
    match ask.method() {
        "session/request_permission" => {
            json!({ "outcome": { "outcome": "selected", "optionId": "no" } })
        }
        "elicitation/create" => json!({ "action": "decline" }),
        "terminal/create" => json!({ "terminalId": "t" }),
        _ => json!({ "content": "words" }),
    }
}

#[tokio::test]
async fn odd_requests_of_agents_are_answered_once_and_shown_as_they_are() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = Stage::open().await?;
    stage.sender.respond_with(|ask| Some(Ok(any_answer(ask))));
    let cases = sample_cases(&request_messages(), REQUESTS_OF_EACH, &mut dice)?;
    let lines: Vec<String> = cases
        .iter()
        .enumerate()
        .map(|(number, case)| {
            with_mark(case, number).replacen(r#""id":"ID""#, &format!(r#""id":"q{number}""#), 1)
        })
        .collect();
    for (number, batch) in lines.chunks(20).enumerate() {
        stage.agent_writes(batch, number).await?;
        let asked = number * 20..number * 20 + batch.len();
        let answered = polling::poll_until(WAIT_LIMIT, || {
            let record = fs::read_to_string(stage.record.path())?;
            Ok(asked
                .clone()
                .all(|number| !is_awaited(&cases[number]) || count_answers(&record, number) == 1)
                .then_some(()))
        });
        if answered.await?.is_none() {
            let record = fs::read_to_string(stage.record.path())?;
            let wrong = asked.filter(|number| {
                is_awaited(&cases[*number]) && count_answers(&record, *number) != 1
            });
            let wrong: Vec<String> = wrong
                .map(|number| {
                    format!(
                        "{} answers to {} {}",
                        count_answers(&record, number),
                        cases[number].path,
                        lines[number].chars().take(700).collect::<String>()
                    )
                })
                .collect();
            anyhow::bail!("{}", wrong.join("\n"));
        }
    }
    // A client is asked in the agent's own words.
    for raw in list_marked_frames(&stage.sender) {
        let number: usize = mark_of(&raw).context("no mark")?.parse()?;
        let params = super::raw_at(&stage.expected_frame(&lines[number]), &["params"]);
        ensure!(
            super::raw_at(&raw, &["params"]) == params,
            "the client was asked\n{raw}\nfor\n{}",
            lines[number]
        );
    }
    check_asks(&stage, &lines)
}

/// The request has an id of its own, one that an answer can be told by.
fn is_awaited(case: &Case) -> bool {
    !case.path.starts_with("/id") && !case.path.starts_with("/method")
}

fn count_answers(record: &str, number: usize) -> usize {
    let id = format!(r#""id":"q{number}""#);
    record.lines().filter(|line| line.contains(&id)).count()
}

/// The log has the agent's words, and one end for each ask, which is the one that the agent was
/// told.
fn check_asks(stage: &Stage, lines: &[String]) -> Result<()> {
    let asked =
        logged_frames(&stage.host, &stage.session, "ask_opened", &["event", "ask", "frame"])?;
    ensure!(!asked.is_empty(), "no ask is in the log");
    for raw in &asked {
        let number: usize = mark_of(raw).context("no mark")?.parse()?;
        ensure!(
            *raw == stage.expected_frame(&lines[number]),
            "logged\n{raw}\nfor\n{}",
            lines[number]
        );
    }
    let resolved = log::list_events(&stage.host, &stage.session, "ask_resolved")?;
    ensure!(resolved.len() == asked.len(), "{} asks and {} ends", asked.len(), resolved.len());
    Ok(())
}
