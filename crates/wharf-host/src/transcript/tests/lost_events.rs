//! Rows of logs whose events are lost after the rows were made, and come back.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::json;
use wharf_api::TranscriptRow;
use wharf_core::{Description, Sender, Seq, SessionId};

use super::cold_directory::{ColdDirectory, read_rows};
use crate::transcript::catch_up::{catch_up, list_behind};

/// Damages the first line with this text.
fn damage_line(segment: &Path, text: &str) {
    let log = fs::read_to_string(segment).unwrap();
    let at = log.find(text).unwrap();
    let line_start = log[..at].rfind('\n').unwrap() + 1;
    let mut bytes = log.into_bytes();
    bytes[line_start] ^= 1;
    fs::write(segment, bytes).unwrap();
}

fn lost_notices(rows: &[TranscriptRow]) -> usize {
    rows.iter()
        .filter(|row| row.summary.contains("of the log cannot be read"))
        .count()
}

#[tokio::test]
async fn rows_are_made_again_when_an_event_before_their_checkpoint_is_lost_or_comes_back() {
    let cold = ColdDirectory::new(0);
    let whole = cold.read_rows().await;
    let segment = cold.segment();
    let log = fs::read(&segment).unwrap();
    damage_line(&segment, "agent_message_chunk");
    let damaged = cold.read_rows().await;
    cold.delete_rows();
    assert_eq!(damaged, cold.read_rows().await, "the deletion of transcript.db changes the rows");
    assert_eq!((lost_notices(&whole), lost_notices(&damaged)), (0, 1));
    fs::write(&segment, log).unwrap();
    assert_eq!(cold.read_rows().await, whole, "the rows of the mended log");
}

#[tokio::test]
async fn loss_before_the_snapshot_reaches_the_rows_once_a_reader_meets_it() {
    let cold = ColdDirectory::new(10_100);
    let host = cold.start_host().await;
    let handle = host.open(&cold.session).await.unwrap();
    let by: Sender = serde_json::from_value(json!({ "client": "client" })).unwrap();
    // The session takes a snapshot then.
    handle
        .describe(Description { by, title: None, label: None, archived: Some(true) })
        .await
        .unwrap();
    read_rows(&host, &handle).await;
    host.shut_down().await;
    drop((handle, host));
    damage_line(&cold.segment(), r#""kind":"prompt_ended""#);
    let host = cold.start_host().await;
    let handle = host.open(&cold.session).await.unwrap();
    assert_eq!(
        lost_notices(&read_rows(&host, &handle).await),
        0,
        "the host reads the log from its snapshot on"
    );
    handle.cursor(Seq::ZERO).next().await.unwrap();
    assert_eq!(lost_notices(&read_rows(&host, &handle).await), 1);
    host.shut_down().await;
}

#[tokio::test]
async fn background_compares_the_rows_of_an_open_session_with_lost_events_once() {
    let cold = ColdDirectory::new(0);
    let host = cold.start_host().await;
    assert!(catch_up(&host, &cold.session).await);
    host.shut_down().await;
    drop(host);
    damage_line(&cold.segment(), "agent_message_chunk");
    let host = cold.start_host().await;
    let is_listed = async |checked: HashSet<SessionId>| {
        let behind = list_behind(host.inner(), &HashMap::new(), &checked).await;
        behind.iter().any(|(id, _)| *id == cold.session)
    };
    assert!(!is_listed(HashSet::new()).await, "its log was not read yet");
    let handle = host.open(&cold.session).await.unwrap();
    assert!(is_listed(HashSet::new()).await);
    assert!(!is_listed(HashSet::from([cold.session.clone()])).await);
    drop(handle);
    host.shut_down().await;
}
