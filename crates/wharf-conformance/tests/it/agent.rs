//! An agent written with the SDK, behind Wharf.

use anyhow::{Context, Result};
use serde_json::json;
use wharf_testkit::client::TestClient;
use wharf_testkit::host::{HostOptions, TestHost};

fn with_sdk_agent() -> Result<TestHost> {
    sdk_agent_options().start_host()
}

fn sdk_agent_options() -> HostOptions {
    let agent = env!("CARGO_BIN_EXE_sdk-agent").to_owned();
    HostOptions::default()
        .with_agent("sdk", &[agent])
        .with_setting("default_agent", "sdk")
}

async fn connect(host: &TestHost) -> Result<TestClient> {
    let client = TestClient::connect(&host.ws_url(), host.token()).await?;
    let agent = client.initialize().await?;
    assert_eq!(agent["agentInfo"]["name"], "sdk-agent");
    Ok(client)
}

fn directory(host: &TestHost) -> Result<&str> {
    host.directory().to_str().context("the directory's name is not UTF-8")
}

#[tokio::test]
async fn an_agent_made_with_the_sdk_talks_to_two_clients() -> Result<()> {
    let host = with_sdk_agent()?;
    let first = connect(&host).await?;
    let session = first.new_session(directory(&host)?).await?;
    assert_eq!(first.send_prompt(&session, "one two three").await?["stopReason"], "end_turn");
    assert_eq!(first.chunk_texts(), ["one ", "two ", "three"]);

    let second = connect(&host).await?;
    second.load_session(&session, directory(&host)?).await?;
    assert_eq!(second.chunk_texts().concat(), "one two three");
    second.choose_option("yes");
    assert_eq!(first.send_prompt(&session, "ask").await?["stopReason"], "end_turn");
    first.expect_text("chosen: yes").await;

    let working = first.start_prompt(&session, "hang").await;
    second.expect_text("working").await;
    second.cancel_turn(&session).await;
    assert_eq!(working.wait_answer().await?["stopReason"], "cancelled");
    Ok(())
}

#[tokio::test]
async fn an_agent_made_with_the_sdk_reads_files_through_wharf() -> Result<()> {
    let host = sdk_agent_options().with_setting("serve_tools", "always").start_host()?;
    let path = host.directory().join("note.txt");
    std::fs::write(&path, "what the file says")?;
    let client = connect(&host).await?;
    let session = client.new_session(directory(&host)?).await?;
    client.send_prompt(&session, &format!("read {}", path.display())).await?;
    assert_eq!(client.chunk_texts(), ["what the file says"]);
    let missing = client.send_prompt(&session, &format!("read {}.missing", path.display())).await;
    assert!(missing.is_err(), "{missing:?}");
    Ok(())
}

#[tokio::test]
async fn an_agent_made_with_the_sdk_comes_back_after_a_restart() -> Result<()> {
    let mut host = with_sdk_agent()?;
    let client = connect(&host).await?;
    let session = client.new_session(directory(&host)?).await?;
    client.send_prompt(&session, "before").await?;
    host.restart()?;
    let client = connect(&host).await?;
    client.load_session(&session, directory(&host)?).await?;
    client.send_prompt(&session, "after").await?;
    assert_eq!(client.chunk_texts(), ["before", "after"]);
    let unknown = client
        .call_method("session/prompt", json!({ "sessionId": "sdk-1", "prompt": [] }))
        .await;
    assert!(unknown.is_err(), "the agent's own id is not a session of Wharf's");
    Ok(())
}
