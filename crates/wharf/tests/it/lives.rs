//! Deaths, kills and deletes: a person's decision holds, and the queue survives its agent (rules 12.5, 12.7, 12.16).

use anyhow::{Result, ensure};
use serde_json::json;
use wharf_testkit::cold::Cold;
use wharf_testkit::host::{Host, HostOptions};
use wharf_testkit::http::Http;

use crate::{log, open, refused, scripted, section, told};

/// A host that stands still, with this many cold sessions in each of which a prompt waits.
fn cold(options: HostOptions, count: usize) -> Result<(Host, Vec<String>)> {
    let mut host = options.start()?;
    ensure!(host.terminate()?.success(), "the host did not stop in order");
    let directory = host.directory().to_owned();
    let cold = Cold { count, agent: "scripted", cwd: &directory, waiting: Some("echo waited") };
    let sessions = cold.make(&host.state_dir())?;
    Ok((host, sessions))
}

#[tokio::test]
async fn kill_of_a_session_that_waits_to_be_brought_back_keeps_it_dead() -> Result<()> {
    let options = section(scripted(&["--slow-start", "700"])?, "[limits]\nstarts = 1");
    let (mut host, sessions) = cold(options, 3)?;
    let [first, doomed, last] = sessions.as_slice() else { anyhow::bail!("{sessions:?}") };
    host.restart()?;
    let http = Http::new(&host);
    // One comes back at a time: the second waits for the first, the third for the second.
    log::expect(&host, first, "agent_starting", |event| event["start"] == 2).await?;
    http.poke(&format!("/sessions/{doomed}/kill")).await?.expect(200)?;
    log::expect(&host, last, "prompt_ended", |event| event["prompt"] == "waiting").await?;

    let starts = log::events(&host, doomed, "agent_starting")?;
    let known = http.get(&format!("/sessions/{doomed}")).await?.expect(200)?;
    assert_eq!((starts.len(), &known["status"], &known["endReason"]), (1, &json!("killed"), &json!("user")), "{known}");
    Ok(())
}

#[tokio::test]
async fn close_of_a_session_that_waits_to_be_brought_back_keeps_it_closed() -> Result<()> {
    let options = section(scripted(&["--slow-start", "700"])?, "[limits]\nstarts = 1");
    let (mut host, sessions) = cold(options, 4)?;
    let [first, _, doomed, last] = sessions.as_slice() else { anyhow::bail!("{sessions:?}") };
    host.restart()?;
    log::expect(&host, first, "agent_starting", |event| event["start"] == 2).await?;
    // Its own agent starts as soon as the first session's has, before the other sessions'.
    let client = crate::client_of(&host, "demo").await?;
    client.initialize().await?;
    client.request("session/close", json!({ "sessionId": doomed })).await?;
    log::expect(&host, last, "prompt_ended", |event| event["prompt"] == "waiting").await?;
    assert_eq!(log::events(&host, doomed, "agent_starting")?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn request_for_the_agent_of_a_killed_session_does_not_bring_it_back() -> Result<()> {
    let host = scripted(&[])?.start()?;
    let (client, session) = open(&host).await?;
    told(&client, &session, "echo before").await?;
    let http = Http::new(&host);
    http.poke(&format!("/sessions/{session}/kill")).await?.expect(200)?;
    let error = refused(client.request("session/set_mode", json!({ "sessionId": session, "modeId": "code" })).await)?;
    assert_eq!(error.data["reason"], "killed", "{error}");
    let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
    assert_eq!((&known["status"], &known["endReason"]), (&json!("killed"), &json!("user")), "{known}");
    Ok(())
}
