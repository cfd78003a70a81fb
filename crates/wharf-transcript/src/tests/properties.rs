//! Random logs: rows are the same however the log was read, and the changes lead from any earlier state to the present one.

use serde_json::json;
use wharf_api::{RowBody, RowPart, TranscriptRow};
use wharf_core::{AskId, PromptEnd, PromptEvent};

use super::{Transcript, prompt_id};
use crate::{Fold, MAX_ROW_BYTES, MemoryRows, RowChange, RowStore};

/// A small generator of random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

const WORDS: [&str; 8] =
    ["the ", "sk-", "ant-0123456789abcdefghij ", "\n", "Bearer ", "abc.def-123_4567890 ", "\u{1b}[31m", "é😀 "];

/// Adds a random event.
fn add_random(log: &mut Transcript, dice: &mut Dice, asks: &mut Vec<AskId>, turn: &mut Option<String>) {
    let word = WORDS[dice.roll(8) as usize];
    let call = format!("call-{}", dice.roll(4));
    match (dice.roll(16), turn.clone()) {
        (0, None) => {
            let id = format!("prm_{}", log.log.len());
            log.prompt(&id, word);
            *turn = Some(id);
        }
        (0, Some(id)) => {
            let end = if dice.roll(2) == 0 { PromptEnd::AgentExited } else { PromptEnd::Cancelled };
            log.add(PromptEvent::Ended { prompt: prompt_id(&id), end, failure: None });
            *turn = None;
        }
        (1 | 2, _) => log.think(word),
        (3, _) => {
            log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": call, "title": word, "kind": "execute" }))
        }
        (4 | 5, _) => {
            let status = ["in_progress", "completed", "failed"][dice.roll(3) as usize];
            let content = json!([{ "type": "content", "content": { "type": "text", "text": word.repeat(dice.roll(2_000) as usize) } }]);
            log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "status": status, "content": content }));
        }
        (6, _) => asks.push(log.ask(&json!({ "toolCallId": call, "rawInput": { "command": word } }))),
        (7, _) if !asks.is_empty() => {
            let ask = asks.swap_remove(dice.roll(asks.len() as u64) as usize);
            log.answer(ask);
        }
        (8, _) => log.update(json!({ "sessionUpdate": "plan", "entries": [{ "content": word, "status": "pending" }] })),
        (9, _) => log.update(json!({ "sessionUpdate": "usage_update", "used": dice.roll(100), "size": 100 })),
        (10, _) => log.say(&word.repeat(dice.roll(3_000) as usize)),
        _ => log.say(word),
    }
}

/// Applies changes as a reader of the stream does: an append only if the revision is the one that it was made for.
fn follow(seen: &mut Vec<TranscriptRow>, changes: &[RowChange], now: &mut MemoryRows, at: u64) {
    for change in changes {
        let index = change.number().0 as usize - 1;
        let current = now.row_mut(change.number()).unwrap().clone();
        match change {
            RowChange::Append { from, part, text, .. } if seen[index].rev == *from => {
                let (RowBody::Message(body) | RowBody::Thought(body)) = &mut seen[index].body else {
                    panic!("only messages and thoughts grow");
                };
                let parts = &mut body.parts;
                let RowPart::Text(shown) = &mut parts[*part] else { panic!("no text grows") };
                shown.text.push_str(text);
                (seen[index].rev, seen[index].changed_at) = (at, current.changed_at);
            }
            RowChange::Append { .. } => panic!("a change was lost"),
            RowChange::Row { from, .. } => {
                assert_eq!(*from, seen.get(index).map_or(0, |row| row.rev));
                if index == seen.len() { seen.push(current) } else { seen[index] = current }
            }
        }
    }
}

#[test]
fn rows_are_the_same_live_from_a_checkpoint_and_by_their_changes() {
    let seeds =
        std::env::var("WHARF_WALK_SEED").ok().and_then(|seed| seed.parse().ok()).map_or(1..30, |seed| seed..seed + 1);
    for seed in seeds {
        let mut dice = Dice(seed);
        let (mut log, mut asks, mut turn) = (Transcript::started(), Vec::new(), None);
        let (mut seen, mut followed) = (log.rows().to_vec(), log.changes.len());
        let (mut checkpoint, mut kept, mut kept_at) = (Fold::default(), MemoryRows::default(), 0);
        for _ in 0..120 {
            add_random(&mut log, &mut dice, &mut asks, &mut turn);
            let at = log.log.last().unwrap().0.seq.0;
            // Several events may have been added; each change is followed with the rows of its own event.
            if log.log.len() - kept_at > 0 && dice.roll(10) == 0 {
                checkpoint = serde_json::from_str(&serde_json::to_string(&log.fold).unwrap()).unwrap();
                (kept, kept_at) = (log.rows.clone(), log.log.len());
            }
            let changes = log.changes[followed..].to_vec();
            follow(&mut seen, &changes, &mut log.rows, at);
            followed = log.changes.len();
        }
        for row in log.rows() {
            assert!(serde_json::to_vec(row).unwrap().len() <= MAX_ROW_BYTES, "seed {seed}");
        }
        assert_eq!(seen, log.rows(), "seed {seed}: the changes lead elsewhere");
        let mut changes = Vec::new();
        for (id, at, event) in &log.log[kept_at..] {
            checkpoint.apply(*id, *at, event, &mut kept, &mut changes);
        }
        assert_eq!((&kept, &checkpoint), (&log.rows, &log.fold), "seed {seed}: a checkpoint leads elsewhere");
        let (mut afresh, mut rows) = (Fold::default(), MemoryRows::default());
        for (id, at, event) in &log.log {
            afresh.apply(*id, *at, event, &mut rows, &mut changes);
        }
        assert_eq!((&rows, &afresh), (&log.rows, &log.fold), "seed {seed}: the fold is not pure");
        for row in log.rows() {
            let text = serde_json::to_string(row).unwrap();
            assert!(
                !text.contains("sk-ant-0123"),
                "seed {seed}: a secret is shown in {} of {}",
                row.summary,
                row.body.kind()
            );
        }
    }
}
