//! A session's past for an amux client: the frames themselves as `{method, params}` (rule 9.2), as
//! an observer would have got them.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use wharf_host::core::{Ask, Event, PromptEvent, Seq};
use wharf_host::{Cursor, Entry};
use wharf_json::Json;

use super::frames::Frames;
use crate::acp::past::{NotInline, entry_at};
use crate::acp::view::{Shown, View};

/// Returns the raw history from the cursor to `head`, as `view` shows it, if it stays under `limit`
/// bytes.
pub(super) async fn read_frames(
    mut cursor: Cursor,
    head: Seq,
    limit: usize,
    mut view: View,
    name: &Arc<str>,
) -> Result<Vec<Value>, NotInline> {
    view.extend(Box::new(Frames::new(Arc::clone(name), &[])));
    let mut entries = Vec::new();
    let mut bytes = 0;
    while cursor.position() < head {
        let batch = cursor.next().await.map_err(|_| NotInline)?;
        for entry in batch.entries().iter().filter(|entry| entry.seq <= head) {
            for frame in show_entry(&mut view, &cursor, entry).await {
                bytes += frame.len();
                entries.extend(raw(&frame));
            }
        }
        if bytes > limit {
            return Err(NotInline);
        }
    }
    Ok(entries)
}

async fn show_entry(view: &mut View, cursor: &Cursor, entry: &Entry) -> Vec<Bytes> {
    match view.show(entry) {
        Shown::Nothing => Vec::new(),
        Shown::Frame(frame) => vec![frame],
        Shown::Frames(frames) => frames,
        Shown::Prompt { content } => {
            let found = entry_at(cursor, content).await;
            let Some((frame, sender)) =
                found.as_ref().and_then(|found| found.event.prompt_content())
            else {
                return Vec::new();
            };
            let mut frames = view.turn_started(entry, frame, sender);
            frames.extend(view.prompt(frame, sender, entry.seq));
            frames
        }
    }
}

/// Returns the open asks.
pub(super) fn list_pending(asks: &[Ask]) -> Vec<Value> {
    asks.iter().filter_map(|ask| raw(ask.frame.bytes())).collect()
}

fn raw(frame: &[u8]) -> Option<Value> {
    let frame = Json::parse(frame).ok()?;
    let method = frame.text_at(&["method"]).ok()??;
    let params = frame.member("params").ok()??;
    Some(json!({ "method": method, "params": params.to_value() }))
}

/// Returns the event before the last so many turns.
pub(super) async fn find_before_last(mut cursor: Cursor, head: Seq, turns: usize) -> Seq {
    let mut begins = std::collections::VecDeque::new();
    while cursor.position() < head {
        let Ok(batch) = cursor.next().await else { break };
        for entry in batch.entries().iter().filter(|entry| entry.seq <= head) {
            if let Event::Prompt(PromptEvent::TurnStarted { .. }) = &entry.event {
                begins.push_back(entry.seq);
                if begins.len() > turns {
                    begins.pop_front();
                }
            }
        }
    }
    // With fewer turns than that, all of it.
    if begins.len() < turns { Seq::ZERO } else { begins.front().map_or(head, |seq| Seq(seq.0 - 1)) }
}
