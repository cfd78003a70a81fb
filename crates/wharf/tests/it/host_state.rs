//! The state directory while the host runs: deleted, swapped, unreadable, or written by a newer
//! version.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, processes};

use crate::{TREE_ENDS_WITHIN, expect_error, log, open_session, prompt_for_text, scripted_host};

#[tokio::test]
async fn host_takes_no_prompt_and_stops_when_its_state_directory_is_deleted() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let agent = crate::parse_pids(&prompt_for_text(&client, &session, "pid").await?);
    let http = RestClient::new(&host);
    fs::remove_dir_all(host.state_dir())?;
    // The host may have ended already.
    if let Ok(answer) = http
        .post(&format!("/sessions/{session}/prompt"), &json!({ "prompt": "echo lost" }))
        .await
    {
        assert!(answer.status >= 500, "a prompt was taken that nobody keeps: {answer:?}");
    }
    let status = host.wait_exit(WAIT_LIMIT)?;
    assert_eq!(status.code(), Some(1));
    assert!(
        host.read_stderr().contains("was deleted, moved or replaced"),
        "{}",
        host.read_stderr()
    );
    processes::wait_gone(&agent, TREE_ENDS_WITHIN)
        .map_err(|left| anyhow::anyhow!("left: {left:?}"))?;
    Ok(())
}

#[tokio::test]
async fn host_leaves_the_socket_of_its_successor() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let (moved, socket) = (host.directory().join("moved"), host.socket_path());
    fs::rename(host.state_dir(), &moved)?;
    fs::create_dir(host.state_dir())?;
    let _other = std::os::unix::net::UnixListener::bind(&socket)?;
    assert_eq!(host.wait_exit(WAIT_LIMIT)?.code(), Some(1));
    assert!(socket.exists(), "another host's socket was deleted");
    assert!(moved.join("workspaces").exists());
    Ok(())
}

/// Creates two sessions with different output and ends them.
async fn create_two_sessions(host: &TestHost) -> Result<[String; 2]> {
    let (client, first) = open_session(host).await?;
    client.send_prompt(&first, "echo one").await?;
    let (client, second) = open_session(host).await?;
    client.send_prompt(&second, "echo two and more").await?;
    Ok([first, second])
}

async fn is_unreadable(http: &RestClient, session: &str) -> Result<()> {
    for path in ["", "/events", "/output"] {
        let fault = http.get(&format!("/sessions/{session}{path}")).await?.status_and_code();
        assert_eq!(fault, (503, "unreadable_session".to_owned()), "{path}");
    }
    let fault = http
        .post(&format!("/sessions/{session}/prompt"), &json!({ "prompt": "echo x" }))
        .await?
        .status_and_code();
    assert_eq!(fault, (503, "unreadable_session".to_owned()));
    Ok(())
}

#[tokio::test]
async fn swapped_logs_are_not_served_under_the_wrong_id() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let [first, second] = create_two_sessions(&host).await?;
    host.kill()?;
    let folders = [&first, &second].map(|session| log::session_dir(&host, session).join("log"));
    let aside = host.directory().join("aside");
    fs::rename(&folders[0], &aside)?;
    fs::rename(&folders[1], &folders[0])?;
    fs::rename(&aside, &folders[1])?;
    host.restart()?;
    let http = RestClient::new(&host);
    is_unreadable(&http, &first).await?;
    is_unreadable(&http, &second).await?;
    ensure!(
        host.read_stderr().contains(&format!("the log is that of session {second}")),
        "{}",
        host.read_stderr()
    );
    Ok(())
}

/// Rewrites the first line of a log as a newer version would write it.
fn make_newer(segment: &Path) -> Result<()> {
    let text = String::from_utf8(fs::read(segment)?)?;
    let (header, rest) = text.split_once('\n').context("no header")?;
    let payload = header
        .split_once(' ')
        .context("no checksum")?
        .1
        .replace("\"wharf_log\":1", "\"wharf_log\":99");
    fs::write(segment, format!("{:08x} {payload}\n{rest}", crc32(payload.as_bytes())))?;
    Ok(())
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}

fn first_segment(host: &TestHost, session: &str) -> PathBuf {
    log::session_dir(host, session).join("log").join(format!("{:020}.log", 1))
}

#[tokio::test]
async fn log_of_a_newer_version_is_unreadable_and_can_be_forgotten() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let [newer, other] = create_two_sessions(&host).await?;
    host.kill()?;
    make_newer(&first_segment(&host, &newer))?;
    host.restart()?;
    let http = RestClient::new(&host);
    is_unreadable(&http, &newer).await?;
    http.get(&format!("/sessions/{other}")).await?.expect(200)?;
    ensure!(host.read_stderr().contains("was written in format 99"), "{}", host.read_stderr());
    let observer = crate::rest::caller_with_role(&host, "observer")?;
    assert_eq!(observer.delete(&format!("/sessions/{newer}")).await?.status_and_code().0, 403);
    http.delete(&format!("/sessions/{newer}")).await?.expect(200)?;
    assert!(!log::session_dir(&host, &newer).exists());
    assert_eq!(
        http.get(&format!("/sessions/{newer}")).await?.status_and_code(),
        (404, "unknown_session".to_owned())
    );
    Ok(())
}

#[tokio::test]
async fn every_join_of_an_unreadable_session_is_refused_as_unreadable() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let [newer, _] = create_two_sessions(&host).await?;
    host.kill()?;
    make_newer(&first_segment(&host, &newer))?;
    host.restart()?;
    let (client, _) = open_session(&host).await?;
    for method in ["session/load", "session/resume", "session/attach"] {
        let params = json!({ "sessionId": newer, "cwd": host.directory(), "mcpServers": [] });
        let refusal = expect_error(client.call_method(method, params).await)?;
        let reason = refusal.data["reason"].as_str().unwrap_or_default();
        assert_eq!((refusal.code, reason), (-32603, "unreadable_session"), "{method}: {refusal}");
    }
    Ok(())
}

#[tokio::test]
async fn host_is_not_ready_while_its_state_cannot_be_read() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let (workspaces, aside) = (host.state_dir().join("workspaces"), host.directory().join("aside"));
    fs::rename(&workspaces, &aside)?;
    assert_eq!(http.get("/readyz").await?.status_and_code(), (503, "storage_failed".to_owned()));
    assert_eq!(http.get("/healthz").await?.status, 200);
    fs::rename(&aside, &workspaces)?;
    let ready = async {
        while http.get("/readyz").await?.status != 200 {}
        anyhow::Ok(())
    };
    tokio::time::timeout(WAIT_LIMIT, ready)
        .await
        .context("it is never ready again")?
}

#[tokio::test]
async fn host_is_not_ready_while_its_state_cannot_be_listed_or_written() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let wait_for = async |expected: u16| {
        let told = async {
            loop {
                let answer = http.get("/readyz").await?;
                if answer.status == expected {
                    return anyhow::Ok(answer);
                }
            }
        };
        tokio::time::timeout(WAIT_LIMIT, told)
            .await
            .with_context(|| format!("/readyz never says {expected}"))?
    };
    // A file in place of the directory of all logs.
    let (workspaces, aside) = (host.state_dir().join("workspaces"), host.directory().join("aside"));
    fs::rename(&workspaces, &aside)?;
    fs::write(&workspaces, "")?;
    assert_eq!(wait_for(503).await?.status_and_code(), (503, "storage_failed".to_owned()));
    fs::remove_file(&workspaces)?;
    fs::rename(&aside, &workspaces)?;
    wait_for(200).await?;
    // A directory in place of the file that is written to see whether files can be written.
    let probe = host.state_dir().join("probe");
    fs::create_dir(&probe)?;
    assert_eq!(wait_for(503).await?.status_and_code(), (503, "storage_failed".to_owned()));
    ensure!(
        host.read_stderr().contains("the state directory cannot be used"),
        "{}",
        host.read_stderr()
    );
    fs::remove_dir(&probe)?;
    wait_for(200).await?;
    Ok(())
}

#[tokio::test]
async fn client_is_told_that_the_log_failed_when_its_connection_is_closed_for_it() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let (other, elsewhere) = open_session(&host).await?;
    // The log goes on in its open file; the next one cannot be made.
    fs::rename(log::session_dir(&host, &session).join("log"), host.directory().join("aside"))?;
    let _prompt = client.start_prompt(&session, "burst 4 30000000").await;
    assert_eq!(
        client.wait_closed().await,
        "closed 1011 the log of an attached session cannot be written; load it again"
    );
    assert_eq!(prompt_for_text(&other, &elsewhere, "echo unharmed").await?, "unharmed");
    Ok(())
}
