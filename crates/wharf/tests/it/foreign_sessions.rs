//! An agent speaks for its own session only: a request that names another session, or that names
//! none where one is needed, is refused and reaches no client.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::{connect_client_with, cwd, log, prompt_for_text, scripted_host};

/// Requests of an agent; `@` stands for their session.
const AGENT_REQUESTS: [(&str, &str); 12] = [
    (
        "session/request_permission",
        r#"@"toolCall":{"toolCallId":"t"},"options":[{"optionId":"yes","name":"Yes"}]"#,
    ),
    (
        "elicitation/create",
        r#"@"mode":"form","message":"which","requestedSchema":{"type":"object"}"#,
    ),
    (
        "elicitation/create",
        r#"@"mode":"url","message":"look","elicitationId":"e","url":"https://example.invalid/""#,
    ),
    ("fs/read_text_file", r#"@"path":"/none""#),
    ("fs/write_text_file", r#"@"path":"/none","content":"words""#),
    ("terminal/create", r#"@"command":"true""#),
    ("terminal/output", r#"@"terminalId":"none""#),
    ("terminal/wait_for_exit", r#"@"terminalId":"none""#),
    ("terminal/kill", r#"@"terminalId":"none""#),
    ("terminal/release", r#"@"terminalId":"none""#),
    ("_x/ask", r#"@"a":1"#),
    ("session/of_the_future", r#"@"a":1"#),
];

/// Has the agent make these requests, and returns what it is told on each. The client must be asked
/// nothing.
async fn answers_to(requests: &[(&str, &str)], session_member: &str) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("record");
    let host = scripted_host(&["--record", record.to_str().context("not UTF-8")?])?.start_host()?;
    let abilities = json!({
        "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true, "elicitation": { "form": {}, "url": {} },
    });
    let client = connect_client_with(&host, abilities, json!({})).await?;
    let session = client.new_session(&cwd(&host)?).await?;
    let line = |(number, (method, members)): (usize, &(&str, &str))| {
        let members = members.replace('@', session_member);
        format!(
            r#"{{"jsonrpc":"2.0","id":"q{number}","method":"{method}","params":{{{members}}}}}"#
        )
    };
    let lines: Vec<String> = requests.iter().enumerate().map(line).collect();
    let path = host.directory().join("lines");
    fs::write(&path, format!("{}\n", lines.join("\n")))?;
    assert_eq!(
        prompt_for_text(&client, &session, &format!("rawfile {}; echo on", path.display())).await?,
        "on"
    );
    let mut answers = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let id = format!("q{number}");
        let answer = polling::poll_until(WAIT_LIMIT, || {
            let text = fs::read_to_string(&record)?;
            let frames = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            Ok({ frames }.find(|frame| frame["id"] == id.as_str()))
        });
        answers
            .push(answer.await?.with_context(|| format!("the agent was told nothing on {line}"))?);
    }
    let asked = client
        .received_frames()
        .into_iter()
        .find(|frame| !frame.method().is_empty() && !frame.id().is_null());
    ensure!(
        asked.is_none(),
        "the client was asked {}",
        asked.map(|frame| frame.raw).unwrap_or_default()
    );
    let faults = log::list_events(&host, &session, "agent_faulted")?.len();
    ensure!(
        faults == requests.len(),
        "the log has {faults} faults for {} requests",
        requests.len()
    );
    Ok(answers)
}

#[tokio::test]
async fn requests_of_an_agent_for_another_session_are_refused_for_every_method() -> Result<()> {
    for answer in answers_to(&AGENT_REQUESTS, r#""sessionId":"not its own","#).await? {
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    Ok(())
}

#[tokio::test]
async fn permissions_and_forms_without_a_usable_session_are_refused() -> Result<()> {
    for member in ["", r#""sessionId":null,"#, r#""sessionId":1e400,"#] {
        for answer in answers_to(&AGENT_REQUESTS[..2], member)
            .await
            .with_context(|| format!("with {member:?}"))?
        {
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
    }
    Ok(())
}
