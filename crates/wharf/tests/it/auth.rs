//! Agents that require a login: requests before there is a session (rule 3.2).

use anyhow::Result;
use serde_json::{Value, json};
use wharf_testkit::client::{ReceivedFrame, TestClient};

use crate::recording::Recording;
use crate::{
    connect_client, connect_client_with, connect_observer, cwd, expect_error, log, prompt_for_text,
    scripted_host, stop_reason,
};

async fn log_in(client: &TestClient) -> Result<Value> {
    Ok(client
        .call_method(
            "authenticate",
            json!({ "methodId": "token", "_meta": { "secret": "hush-hush" } }),
        )
        .await?)
}

#[tokio::test]
async fn auth_required_error_of_the_agent_reaches_the_client_unchanged() -> Result<()> {
    let host = scripted_host(&["--auth"])?.start_host()?;
    let client = connect_client(&host).await?;
    let introduced = client.received_frames();
    assert_eq!(
        introduced[0].body["result"]["authMethods"],
        json!([{ "id": "token", "name": "Token" }])
    );
    let new = json!({ "cwd": cwd(&host)?, "mcpServers": [] });
    for _ in 0..2 {
        let error = expect_error(client.call_method("session/new", new.clone()).await)?;
        assert_eq!(
            (error.code, error.message.as_str(), &error.data),
            (-32000, "Authentication required", &Value::Null)
        );
    }
    let listed = client.call_method("session/list", json!({})).await?;
    assert_eq!(listed["sessions"], json!([]), "such a session never was");
    assert_eq!(log::all_sessions(&host)?, [""; 0]);

    assert_eq!(log_in(&client).await?, json!({}));
    let session = client.new_session(&cwd(&host)?).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo in").await?, "in");
    Ok(())
}

#[tokio::test]
async fn login_covers_later_sessions_of_its_connection_only() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording
        .host_options(&["--auth"])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let first = connect_client(&host).await?;
    log_in(&first).await?;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let session = first.new_session(&cwd(&host)?).await?;
        assert_eq!(stop_reason(first.send_prompt(&session, "echo in").await)?, "end_turn");
        sessions.push(session);
    }
    let logins = recording
        .read_messages()?
        .into_iter()
        .filter(|message| message["method"] == "authenticate")
        .count();
    assert_eq!(logins, 3, "each agent once");
    let second = connect_client(&host).await?;
    let new = json!({ "cwd": cwd(&host)?, "mcpServers": [] });
    assert_eq!(expect_error(second.call_method("session/new", new).await)?.code, -32000);

    // A session that comes back is logged in again in the same way.
    host.restart()?;
    for session in &sessions {
        let third = connect_client(&host).await?;
        assert_eq!(prompt_for_text(&third, session, "echo back").await?, "back");
        assert_eq!(recording.read_methods()?, ["authenticate", "session/load", "session/prompt"]);
        assert!(
            !log::read_records(&host, session)?
                .iter()
                .any(|record| record.to_string().contains("hush-hush"))
        );
    }
    Ok(())
}

#[tokio::test]
async fn failed_login_reaches_the_client_and_is_not_repeated() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&["--error-on", "authenticate=-32055"])?.start_host()?;
    let client = connect_client(&host).await?;
    let error = expect_error(log_in(&client).await.map_err(|error| match error.downcast() {
        Ok(error) => error,
        Err(other) => panic!("{other}"),
    }))?;
    assert_eq!((error.code, error.message.as_str()), (-32055, "authenticate fails as told"));
    for _ in 0..2 {
        client.new_session(&cwd(&host)?).await?;
    }
    let logins = recording
        .read_messages()?
        .into_iter()
        .filter(|message| message["method"] == "authenticate")
        .count();
    assert_eq!(logins, 1);
    Ok(())
}

#[tokio::test]
async fn a_logout_reaches_every_agent_and_is_answered_once() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&["--auth"])?.start_host()?;
    let client = connect_client(&host).await?;
    log_in(&client).await?;
    let one = client.new_session(&cwd(&host)?).await?;
    let two = client.new_session(&cwd(&host)?).await?;
    client.call_method("logout", json!({})).await?;
    for session in [&one, &two] {
        // The agent has processed the logout once it has answered a later prompt.
        assert_eq!(prompt_for_text(&client, session, "echo still").await?, "still");
    }
    let logouts = recording
        .read_messages()?
        .into_iter()
        .filter(|message| message["method"] == "logout")
        .count();
    assert_eq!(logouts, 2, "each session's agent once; none is started for it");
    let new = json!({ "cwd": cwd(&host)?, "mcpServers": [] });
    assert_eq!(
        expect_error(client.call_method("session/new", new).await)?.code,
        -32000,
        "later agents are not logged in"
    );
    let frames = client.received_frames();
    let strays: Vec<&ReceivedFrame> = frames
        .iter()
        .filter(|frame| frame.method().is_empty() && !frame.id().is_i64())
        .collect();
    assert!(strays.is_empty(), "answers to nothing that was asked: {strays:?}");
    Ok(())
}

#[tokio::test]
async fn request_without_a_session_goes_to_the_agent_of_the_connection() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let client = connect_client(&host).await?;
    let raw = r#"{"jsonrpc":"2.0","id":"\u00e9","method":"_echo","params":{"a": 1.50, "b":[ ]}}"#;
    client.send_raw(raw).await;
    let answer = client.expect("the answer", |frame| frame.id() == "\u{e9}").await;
    assert_eq!(answer.raw, r#"{"jsonrpc":"2.0","id":"\u00e9","result":{"a": 1.50, "b":[ ]}}"#);
    let error = expect_error(client.call_method("no/such", json!({})).await)?;
    assert_eq!(error.code, -32601);
    let session = client.new_session(&cwd(&host)?).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo on").await?, "on");
    // The same holds once the connection's agent has a session.
    assert_eq!(client.call_method("_echo", json!({ "x": 1 })).await?, json!({ "x": 1 }));
    Ok(())
}

#[tokio::test]
async fn observer_cannot_log_in_or_out() -> Result<()> {
    let host = scripted_host(&["--auth"])?.start_host()?;
    let observer = connect_observer(&host).await?;
    for method in ["authenticate", "logout", "_echo"] {
        let error =
            expect_error(observer.call_method(method, json!({ "methodId": "token" })).await)?;
        assert_eq!(error.code, -32011, "{method}: {error}");
    }
    Ok(())
}

const TERMINAL_AUTH_CAPABILITY: &str = r#"{ "auth": { "terminal": true } }"#;

#[tokio::test]
async fn a_login_in_a_terminal_is_offered_by_the_bridge_alone() -> Result<()> {
    let host = scripted_host(&["--auth", "--terminal-auth"])?.start_host()?;
    let token = json!({ "id": "token", "name": "Token" });
    let able: Value = serde_json::from_str(TERMINAL_AUTH_CAPABILITY)?;
    let hello = json!({ "protocolVersion": 1, "clientCapabilities": able });
    let mut editor = crate::bridge::start_editor(&host, &[])?;
    let told = editor.call_method("initialize", hello.clone())?;
    let terminal = json!({
        "id": "tty", "name": "Terminal", "type": "terminal", "env": { "COLOR": "red" },
        "args": ["--in-terminal", "--keep-env", "COLOR", "--", "--exit-on-start", "7"],
    });
    assert_eq!(told["authMethods"], json!([token, terminal]));

    let client = connect_client_with(&host, able, json!({})).await?;
    let told = client.received_frames().remove(0).body["result"].take();
    assert_eq!(told["authMethods"], json!([token]), "it cannot run the agent");
    let mut unable = crate::bridge::start_editor(&host, &[])?;
    let told = unable
        .call_method("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }))?;
    assert_eq!(told["authMethods"], json!([token]), "it has not said that it can");

    // The command that the editor is told to run exits with the agent's code.
    let args: Vec<&str> = terminal["args"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut login = crate::program::wharf_command(&["acp", "--config"]);
    let status = login.arg(host.directory().join("config.toml")).args(args).status()?;
    assert_eq!(status.code(), Some(7));
    Ok(())
}

#[test]
fn in_a_terminal_the_agent_gets_its_arguments_and_its_environment() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("config.toml");
    let script = r#"echo "$@ COLOR=$COLOR SHAPE=$SHAPE""#;
    let text = format!(
        "[agents.x]\ncommand = [\"sh\", \"-c\", '{script}', \"agent\"]\nenv = {{ COLOR = \"blue\", SHAPE = \"round\" }}\n"
    );
    std::fs::write(&config, text)?;
    let mut login = crate::program::wharf_command(&["acp", "--agent", "x", "--config"]);
    login
        .arg(&config)
        .args(["--in-terminal", "--keep-env", "COLOR", "--", "login", "--now"]);
    let output = login.env("COLOR", "red").env("SHAPE", "flat").output()?;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "login --now COLOR=red SHAPE=round\n");
    Ok(())
}
