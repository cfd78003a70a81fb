//! Clients that send nothing or half a request, that reconnect in a loop, and that are very many.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wharf_testkit::client::{Credentials, RawSocket, TestClient, connect};
use wharf_testkit::host::TestHost;
use wharf_testkit::{WAIT_LIMIT, polling};

use super::control_client::ControlClient;
use crate::{add_section, connect_client, cwd, expect_error, scripted_host, start_from_shell};

const SILENT_CLIENTS: usize = 300;
const RECONNECT_COUNT: usize = 500;
const CONNECTION_COUNT: usize = 5_000;
/// A hundred handshakes at a time are enough to keep both sides busy.
const HANDSHAKES_AT_ONCE: usize = 100;

fn host_authority(host: &TestHost) -> String {
    host.url().trim_start_matches("http://").to_owned()
}

/// Returns the number of files and sockets that the host has open.
fn open_files(host: &TestHost) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/fd", host.pid()))?.count())
}

/// Waits until the host has closed the files and sockets that it had opened for clients.
async fn wait_for_open_files(host: &TestHost, before: usize) -> Result<()> {
    let back = polling::poll_until(WAIT_LIMIT, || {
        Ok(Some(()).filter(|()| open_files(host).is_ok_and(|now| now <= before + 8)))
    })
    .await?;
    back.with_context(|| {
        format!("{} files are open, {before} were", open_files(host).unwrap_or_default())
    })
}

/// Opens connections that send this beginning and then nothing.
async fn open_unfinished_connections(
    host: &TestHost,
    count: usize,
    beginning: &[u8],
) -> Result<Vec<TcpStream>> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(host_authority(host)).await?;
        stream.write_all(beginning).await?;
        streams.push(stream);
    }
    Ok(streams)
}

#[tokio::test]
async fn silent_and_half_sent_requests_block_no_other_client() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let witness = ControlClient::start(&host).await?;
    witness.run_turns(3).await?;
    let before = open_files(&host)?;
    let own =
        format!("Host: {}\r\nAuthorization: Bearer {}\r\n", host_authority(&host), host.token());
    let body = format!(
        "POST /sessions/agent HTTP/1.1\r\n{own}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    let upgrade = format!(
        "GET /acp HTTP/1.1\r\n{own}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    // The head of a text frame of 100 bytes, its mask, and four of the bytes.
    let half_a_frame = [upgrade.as_bytes(), b"\x81\xe4mask1234"].concat();
    let half_a_head = b"GET /sessions HTTP/1.1\r\nHost:".as_slice();
    let beginnings = [b"".as_slice(), b"GET /sess", half_a_head, body.as_bytes(), &half_a_frame];
    let mut held = Vec::new();
    for beginning in beginnings {
        held.extend(
            witness
                .works_during(open_unfinished_connections(
                    &host,
                    SILENT_CLIENTS / beginnings.len(),
                    beginning,
                ))
                .await?,
        );
    }
    witness.run_turns(20).await?;
    drop(held);
    wait_for_open_files(&host, before).await?;
    witness.run_turns(3).await?;
    Ok(())
}

#[tokio::test]
async fn connect_and_drop_loop_leaks_no_connections() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let witness = ControlClient::start(&host).await?;
    witness.run_turns(3).await?;
    let before = open_files(&host)?;
    let session = ControlClient::start(&host).await?;
    let come_and_go = async {
        for turn in 0..RECONNECT_COUNT {
            let client = TestClient::connect(&host.ws_url(), host.token()).await?;
            // Some clients leave before they have sent anything, others in the middle of an
            // attachment.
            if turn % 2 == 0 {
                let _ = client
                    .start_request("initialize", serde_json::json!({ "protocolVersion": 1 }))
                    .await;
                let _ = client
                    .start_request("session/attach", session.session_params(&cwd(&host)?))
                    .await;
            }
            client.close().await;
        }
        Ok(())
    };
    witness.works_during(come_and_go).await?;
    wait_for_open_files(&host, before + 16).await?;
    let listed = wharf_testkit::http::RestClient::new(&host)
        .get("/sessions")
        .await?
        .expect(200)?;
    let clients: Vec<_> = listed["sessions"]
        .as_array()
        .context("no list")?
        .iter()
        .map(|one| one["clients"].clone())
        .collect();
    assert_eq!(clients, [1, 1], "the two that have stayed");
    Ok(())
}

async fn open_connections(host: &TestHost, count: usize) -> Result<Vec<RawSocket>> {
    let (url, credentials) = (host.ws_url(), Credentials::Bearer(host.token().to_owned()));
    let (mut sockets, mut under_way) = (Vec::new(), FuturesUnordered::new());
    for _ in 0..count {
        under_way.push(connect(&url, &credentials));
        if under_way.len() == HANDSHAKES_AT_ONCE {
            sockets.push(under_way.next().await.context("none")??.0);
        }
    }
    while let Some(connected) = under_way.next().await {
        sockets.push(connected?.0);
    }
    Ok(sockets)
}

#[tokio::test]
async fn five_thousand_connections_are_held_and_released() -> Result<()> {
    let host = add_section(
        scripted_host(&[])?,
        "[limits]\nconnections = 5100\nconnections_per_token = 5100",
    )
    .start_host()?;
    let witness = ControlClient::start(&host).await?;
    let before = open_files(&host)?;
    let mut most = Vec::new();
    for _ in 0..2 {
        let sockets = witness.works_during(open_connections(&host, CONNECTION_COUNT)).await?;
        ensure!(
            open_files(&host)? >= CONNECTION_COUNT,
            "only {} files are open",
            open_files(&host)?
        );
        witness.run_turns(20).await?;
        most.push(host.rss_kib().context("no memory")?);
        drop(sockets);
        wait_for_open_files(&host, before).await?;
    }
    println!("{CONNECTION_COUNT} connections: {most:?} KiB in the first and in the second round");
    // The second round uses the memory of the first again.
    ensure!(most[1] < most[0] + most[0] / 4, "memory grows from round to round: {most:?} KiB");
    witness.run_turns(3).await?;
    Ok(())
}

#[tokio::test]
async fn host_without_file_descriptors_goes_on_and_recovers() -> Result<()> {
    let (options, _folder) = start_from_shell(scripted_host(&[])?, "ulimit -n 96")?;
    let host = options.start_host()?;
    let witness = ControlClient::start(&host).await?;
    let other = connect_client(&host).await?;
    witness.run_turns(3).await?;
    let held = open_unfinished_connections(&host, 200, b"GET /sess").await?;
    let none_left = || Ok(Some(()).filter(|()| open_files(&host).is_ok_and(|files| files >= 95)));
    polling::poll_until(WAIT_LIMIT, none_left)
        .await?
        .context("there are files left")?;
    // The session that is already connected has all descriptors that it needs.
    witness.run_turns(10).await?;
    let error = expect_error(other.new_session(&cwd(&host)?).await)?;
    ensure!(error.message.contains("Too many open files"), "{error}");
    drop(held);
    let fresh = connect_again(&host).await?;
    let session = fresh.new_session(&cwd(&host)?).await?;
    fresh.send_prompt(&session, "echo again").await?;
    witness.run_turns(3).await?;
    Ok(())
}

/// Connects a new client as soon as the host accepts one.
async fn connect_again(host: &TestHost) -> Result<TestClient> {
    for _ in 0..10 {
        let mut stream = TcpStream::connect(host_authority(host)).await?;
        stream
            .write_all(
                format!(
                    "GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                    host_authority(host)
                )
                .as_bytes(),
            )
            .await?;
        let mut answer = String::new();
        let read =
            tokio::time::timeout(Duration::from_secs(5), stream.read_to_string(&mut answer)).await;
        if matches!(read, Ok(Ok(_))) && answer.contains("200 OK") {
            return connect_client(host).await;
        }
    }
    anyhow::bail!("the host takes no connections any more")
}
