//! The host's memory has a bound over all connections: for bytes on their way in and out, and for
//! histories.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use wharf_testkit::client::{Credentials, RawSocket, connect};
use wharf_testkit::cold_sessions::ColdSessions;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;
use wharf_testkit::polling;

use crate::metrics_page::MetricsPage;
use crate::raw_client::{self, RawClient};
use crate::{add_section, connect_client, cwd, http_client, open_session, rest, scripted_host};

const LARGE_BYTES: u64 = 30_000_000;
/// The limit allows for a debug build on a busy machine.
const READ_TIMEOUT: Duration = Duration::from_secs(120);

fn configure_limits(limits: &str) -> Result<HostOptions> {
    Ok(add_section(scripted_host(&[])?, &format!("[limits]\n{limits}")))
}

fn rss_kib(host: &TestHost) -> Result<u64> {
    host.rss_kib().context("the host has no memory")
}

/// Returns the host's highest memory while it answers many requests, which gives every connection's
/// task time to run.
async fn most_rss_kib(host: &TestHost) -> Result<u64> {
    let http = RestClient::new(host);
    let mut most = 0;
    for _ in 0..200 {
        ensure!(http.get("/sessions").await?.status == 200);
        most = most.max(rss_kib(host)?);
    }
    Ok(most)
}

/// Waits until the host's memory is at most 1.3 times what it was.
async fn expect_rss_back(host: &TestHost, before: u64) -> Result<()> {
    let limit = before * 13 / 10;
    let back = polling::poll_until(Duration::from_secs(60), || {
        let now = rss_kib(host)?;
        Ok((now <= limit).then_some(now))
    });
    let back = back.await?;
    println!("memory: {before} KiB before, {} KiB after", rss_kib(host)?);
    ensure!(
        back.is_some(),
        "{} KiB are in use a minute later, {before} KiB were before",
        rss_kib(host)?
    );
    Ok(())
}

async fn connect_socket(host: &TestHost) -> Result<RawSocket> {
    Ok(connect(&host.ws_url(), &Credentials::Bearer(host.token().to_owned())).await?.0)
}

/// Reads until the chunk with this number is complete.
async fn read_chunk(reader: &mut RawClient, wanted: u64) -> Result<()> {
    loop {
        let frame = reader
            .next_within(READ_TIMEOUT)
            .await?
            .context("the connection ended before the chunk")?;
        if let Some(index) = raw_client::index(&frame) {
            ensure!(
                index <= wanted && frame.len() as u64 > 1_000_000,
                "chunk {index}, {} bytes",
                frame.len()
            );
            if index == wanted {
                return Ok(());
            }
        }
    }
}

#[tokio::test]
async fn observers_that_do_not_read_share_the_bytes_of_a_large_update() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut reader = RawClient::open(&host).await?;
    let session = reader.new_session(&cwd(&host)?).await?;
    let mut observers = Vec::new();
    for number in 0..20 {
        let mut observer = if number % 2 == 0 {
            RawClient::open(&host).await?
        } else {
            RawClient::with_event_ids(&host).await?
        };
        observer.load_session(7, &session, &cwd(&host)?).await?;
        observer.answer(7).await?;
        observers.push(observer);
    }
    reader.send_prompt(2, &session, "echo warm").await?;
    reader.answer(2).await?;
    let before = rss_kib(&host)?;
    // The update is the last that happens in this session: no later event pushes it out of memory.
    reader.send_prompt(3, &session, &format!("burst 1 {LARGE_BYTES}; wait")).await?;
    read_chunk(&mut reader, 0).await?;
    let grown = most_rss_kib(&host).await?.saturating_sub(before);
    ensure!(grown < 250 << 10, "20 observers that do not read cost {grown} KiB");
    // The observers get the update when they read.
    for observer in observers.iter_mut().take(2) {
        read_chunk(observer, 0).await?;
    }
    drop((observers, reader));
    expect_rss_back(&host, before).await
}

#[tokio::test]
async fn event_streams_that_are_not_read_share_the_bytes_of_a_large_update() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut reader = RawClient::open(&host).await?;
    let session = reader.new_session(&cwd(&host)?).await?;
    let mut streams = Vec::new();
    for _ in 0..12 {
        let http = http_client::AcpHttpClient::open(&host).await?;
        let own = http.open_stream(None, None).await?;
        let mut events = http.open_stream(Some(&session), None).await?;
        http.send(
            7,
            "session/resume",
            json!({ "sessionId": session, "cwd": cwd(&host)?, "mcpServers": [] }),
        )
        .await?;
        events.answer(7).await?;
        streams.push((http, own, events));
    }
    reader.send_prompt(2, &session, "echo warm").await?;
    reader.answer(2).await?;
    let before = rss_kib(&host)?;
    reader.send_prompt(3, &session, &format!("burst 1 {LARGE_BYTES}")).await?;
    read_chunk(&mut reader, 0).await?;
    reader.answer(3).await?;
    let grown = most_rss_kib(&host).await?.saturating_sub(before);
    ensure!(grown < 200 << 10, "12 streams that nobody reads cost {grown} KiB");
    Ok(())
}

#[tokio::test]
async fn line_streams_that_are_not_read_share_one_bound() -> Result<()> {
    let limits = "frame = \"8MiB\"\nbody = \"8MiB\"\nbodies = \"8MiB\"\nbuffers = \"40MiB\"\nsilence = \"300ms\"";
    let host = configure_limits(limits)?.start_host()?;
    let (writer, session) = open_session(&host).await?;
    let http = RestClient::new(&host);
    let path = format!("/sessions/{session}/stream");
    let mut streams = Vec::new();
    for _ in 0..12 {
        streams.push(http.open_stream(&path, None).await?);
    }
    writer.send_prompt(&session, "echo warm").await?;
    // It would be a reader of the large update too, and perhaps the one that is closed.
    writer.close().await;
    let before = rss_kib(&host)?;
    // 7 MB in lines of 500 bytes.
    let line = "x".repeat(499);
    rest::send_prompt(&http, &session, &format!("sh yes {line} | head -n 14000; echo last line"))
        .await?;
    rest::wait_until_idle(&http, &session).await?;
    let grown = most_rss_kib(&host).await?.saturating_sub(before);
    println!("memory: 12 line streams that are not read cost {grown} KiB");
    ensure!(grown < 80 << 10, "12 line streams that are not read cost {grown} KiB");
    // A client that reads gets all of it: the streams that take nothing make room.
    let mut reading = http.open_stream(&path, None).await?;
    // A busy machine may be slow to make room, or may take this client too for one that does not
    // read.
    let whole = async {
        while reading.expect_line("last line").await.is_err() {
            reading = http.open_stream(&path, None).await?;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(READ_TIMEOUT, whole)
        .await
        .context("a stream that is read does not get its lines")??;
    assert!(
        MetricsPage::of(&http).await?.get("wharf_readers_closed_total")? > 0.0,
        "none was closed"
    );
    drop((streams, reading));
    expect_no_outbound_bytes(&host).await
}

/// Waits until no bytes are on their way out.
async fn expect_no_outbound_bytes(host: &TestHost) -> Result<()> {
    let http = RestClient::new(host);
    let quiet = async {
        while MetricsPage::of(&http).await?.get("wharf_buffer_bytes{direction=\"out\"}")? > 0.0 {}
        anyhow::Ok(())
    };
    tokio::time::timeout(READ_TIMEOUT, quiet)
        .await
        .context("bytes are counted that nobody waits for")?
}

#[tokio::test]
async fn unfinished_messages_count_toward_the_body_limit() -> Result<()> {
    let host = configure_limits("bodies = \"64MiB\"")?.start_host()?;
    let (working, session) = open_session(&host).await?;
    let before = rss_kib(&host)?;
    let part = "x".repeat(20_000_000);
    let mut unfinished = Vec::new();
    let mut refused = 0;
    for _ in 0..12 {
        let mut socket = connect_socket(&host).await?;
        let frame = Frame::message(part.clone().into_bytes(), OpCode::Data(Data::Text), false);
        // A ping does not end the message, and its answer shows that the host has read everything
        // before it.
        let sent = async {
            socket.send(Message::Frame(frame)).await?;
            socket.send(Message::Ping("read".into())).await
        };
        let sent = tokio::time::timeout(READ_TIMEOUT, sent)
            .await
            .context("the host does not read")?;
        let answer =
            tokio::time::timeout(READ_TIMEOUT, socket.next()).await.context("no answer")?;
        match (sent, answer) {
            (Ok(()), Some(Ok(Message::Pong(_)))) => unfinished.push(socket),
            _ => refused += 1,
        }
    }
    let grown = most_rss_kib(&host).await?.saturating_sub(before);
    ensure!(
        refused >= 8 && unfinished.len() >= 2,
        "{} are held, {refused} were refused",
        unfinished.len()
    );
    ensure!(grown < 200 << 10, "unfinished messages cost {grown} KiB");
    working.send_prompt(&session, "echo unharmed").await?;
    drop(unfinished);
    // A complete message of that size passes once there is room.
    let filling = json!({ "sessionId": session, "_meta": { "filling": part } });
    let passed = async {
        loop {
            let next = connect_client(&host).await?;
            if let Ok(Ok(status)) = tokio::time::timeout(
                READ_TIMEOUT,
                next.call_method("session/status", filling.clone()),
            )
            .await
            {
                return anyhow::Ok(status);
            }
        }
    };
    let status = tokio::time::timeout(READ_TIMEOUT, passed)
        .await
        .context("a large message does not pass")??;
    assert_eq!(status["status"], "live");
    Ok(())
}

#[tokio::test]
async fn readers_that_stop_at_different_updates_are_closed_when_the_buffers_are_used_up()
-> Result<()> {
    let limits = "frame = \"8MiB\"\nbody = \"8MiB\"\nbodies = \"8MiB\"\nbuffers = \"32MiB\"\nsilence = \"300ms\"";
    let host = configure_limits(limits)?.start_host()?;
    let mut writer = RawClient::open(&host).await?;
    let session = writer.new_session(&cwd(&host)?).await?;
    writer.send_prompt(2, &session, "burst 12 7000000").await?;
    read_chunk(&mut writer, 11).await?;
    writer.answer(2).await?;
    drop(writer);
    let before = rss_kib(&host)?;
    let mut stopped = Vec::new();
    for number in 0..12 {
        let mut reader = RawClient::open(&host).await?;
        reader.load_session(7, &session, &cwd(&host)?).await?;
        read_chunk(&mut reader, number).await?;
        stopped.push(reader);
    }
    let mut last = RawClient::open(&host).await?;
    last.load_session(7, &session, &cwd(&host)?).await?;
    read_chunk(&mut last, 11).await?;
    last.answer(7).await?;
    let grown = most_rss_kib(&host).await?.saturating_sub(before);
    ensure!(grown < 150 << 10, "12 readers that stopped cost {grown} KiB");
    let page = MetricsPage::of(&RestClient::new(&host)).await?;
    assert!(page.get("wharf_readers_closed_total")? > 0.0, "none was closed");
    let told = host
        .read_stderr()
        .lines()
        .any(|line| line.contains("WebSocket") && line.contains("takes nothing"));
    ensure!(told, "the log does not say why: {}", host.read_stderr());
    Ok(())
}

#[tokio::test]
async fn a_flood_of_attaches_costs_little_and_ends_with_its_connection() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (writer, session) = open_session(&host).await?;
    writer.send_prompt(&session, "burst 8000 200").await?;
    drop(writer);
    let before = rss_kib(&host)?;
    let mut flood = RawClient::open(&host).await?;
    for id in 0..600 {
        flood.send(10 + id, "session/attach", json!({ "sessionId": session })).await?;
    }
    flood.answer(10).await?;
    let most = most_rss_kib(&host).await?;
    drop(flood);
    let grown = most.max(most_rss_kib(&host).await?).saturating_sub(before);
    println!("memory: a flood of attaches costs {grown} KiB");
    ensure!(grown < 150 << 10, "a flood of attaches costs {grown} KiB");
    let http = RestClient::new(&host);
    let quiet = async {
        loop {
            let page = MetricsPage::of(&http).await?;
            if page.get("wharf_histories")? == 0.0
                && page.get("wharf_buffer_bytes{direction=\"out\"}")? == 0.0
            {
                return anyhow::Ok(());
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), quiet)
        .await
        .context("histories outlive their connection")??;
    expect_rss_back(&host, before).await
}

/// Twelve clients that each send most of a large message and never its end.
async fn flood_with_unfinished_messages(host: &TestHost) -> Result<()> {
    let part = "x".repeat(20_000_000);
    let mut unfinished = Vec::new();
    for _ in 0..12 {
        let mut socket = connect_socket(host).await?;
        let frame = Frame::message(part.clone().into_bytes(), OpCode::Data(Data::Text), false);
        let sent = async {
            socket.send(Message::Frame(frame)).await?;
            socket.send(Message::Ping("read".into())).await
        };
        // The host refuses messages that it has no room for.
        let _ = tokio::time::timeout(READ_TIMEOUT, sent)
            .await
            .context("the host does not read")?;
        let _ = tokio::time::timeout(READ_TIMEOUT, socket.next()).await.context("no answer")?;
        unfinished.push(socket);
    }
    Ok(())
}

/// Forty observers that do not read a large update.
async fn flood_with_observers(
    host: &TestHost,
    reader: &mut RawClient,
    session: &str,
) -> Result<()> {
    let mut observers = Vec::new();
    for _ in 0..40 {
        let mut observer = RawClient::open(host).await?;
        observer
            .send(7, "session/attach", json!({ "sessionId": session, "historyPolicy": "none" }))
            .await?;
        observer.answer(7).await?;
        observers.push(observer);
    }
    reader.send_prompt(3, session, &format!("burst 1 {LARGE_BYTES}")).await?;
    read_chunk(reader, 0).await?;
    reader.answer(3).await?;
    Ok(())
}

/// 600 attaches on one connection that closes once the first is answered.
async fn flood_with_attaches(host: &TestHost, session: &str) -> Result<()> {
    let mut flood = RawClient::open(host).await?;
    for id in 0..600 {
        flood.send(10 + id, "session/attach", json!({ "sessionId": session })).await?;
    }
    flood.answer(10).await?;
    Ok(())
}

/// The clients of a burst: far more than the host needs to look at its memory, and fewer than a
/// process may have files.
const MANY_CLIENTS: usize = 800;

async fn flood_with_connections(host: &TestHost, count: usize) -> Result<()> {
    let mut sockets = Vec::new();
    for _ in 0..count {
        let mut socket = connect_socket(host).await?;
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } });
        socket.send(Message::text(hello.to_string())).await?;
        socket.next().await.context("no answer")??;
        sockets.push(socket);
    }
    Ok(())
}

async fn flood_with_streams(host: &TestHost, count: usize) -> Result<()> {
    let http = RestClient::new(host);
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = http.open_stream("/sessions/stream", None).await?;
        stream.next().await?;
        streams.push(stream);
    }
    Ok(())
}

#[tokio::test]
async fn host_gives_memory_back_after_many_connections() -> Result<()> {
    let host = configure_limits("connections_per_token = 1000")?.start_host()?;
    // The host creates a few things for its first clients and keeps them.
    flood_with_connections(&host, 4).await?;
    flood_with_streams(&host, 4).await?;
    let before = rss_kib(&host)?;
    flood_with_connections(&host, MANY_CLIENTS).await?;
    println!("memory: {before} KiB before, {} KiB after many connections", rss_kib(&host)?);
    expect_rss_back(&host, before).await?;
    flood_with_streams(&host, MANY_CLIENTS).await?;
    println!("memory: {} KiB after many streams", rss_kib(&host)?);
    expect_rss_back(&host, before).await
}

#[tokio::test]
async fn host_gives_memory_back_after_floods() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    println!("memory: {} KiB at the start", rss_kib(&host)?);
    let mut reader = RawClient::open(&host).await?;
    let session = reader.new_session(&cwd(&host)?).await?;
    reader.send_prompt(2, &session, "echo warm").await?;
    reader.answer(2).await?;
    let before = rss_kib(&host)?;
    flood_with_unfinished_messages(&host).await?;
    println!("memory: {} KiB after unfinished messages", rss_kib(&host)?);
    flood_with_observers(&host, &mut reader, &session).await?;
    println!("memory: {} KiB after observers", rss_kib(&host)?);
    flood_with_attaches(&host, &session).await?;
    println!("memory: {} KiB after attaches", rss_kib(&host)?);
    drop(reader);
    expect_rss_back(&host, before).await
}

/// As many as a debug build writes and reads in some seconds.
const MANY_SESSIONS: usize = 2_000;
/// Streams that each begin with the list of all sessions. They are too few to count as many
/// connections.
const LISTING_STREAMS: usize = 24;

#[tokio::test]
async fn host_gives_memory_back_after_many_sessions_are_listed() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    ensure!(host.terminate()?.success());
    let directory = host.directory().to_owned();
    let cold = ColdSessions {
        count: MANY_SESSIONS,
        agent: "scripted",
        cwd: &directory,
        events: 0,
        waiting: None,
    };
    cold.write_to(&host.state_dir())?;
    // The first start reads all logs, the second one knows the sessions from the index.
    host.restart()?;
    host.restart()?;
    let http = RestClient::new(&host);
    ensure!(http.get("/sessions?limit=1").await?.status == 200);
    let before = rss_kib(&host)?;
    flood_with_streams(&host, LISTING_STREAMS).await?;
    println!(
        "memory: {before} KiB before, {} KiB after {MANY_SESSIONS} sessions were listed",
        rss_kib(&host)?
    );
    expect_rss_back(&host, before).await
}
