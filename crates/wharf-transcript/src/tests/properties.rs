//! Random logs: rows are the same however the log was read, and the changes lead from any earlier
//! state to the present one.

use std::collections::BTreeMap;

use serde_json::json;
use wharf_api::{RowBody, RowPart, TranscriptRow};
use wharf_core::{AskId, PromptEnd, PromptEvent, Seq, TurnLimit};

use super::{Transcript, prompt_id};
use crate::{Fold, MAX_ROW_BYTES, MemoryRows, RowChange, RowStore, list_file_changes};

/// A small generator of random numbers.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Returns the random seed that `WHARF_WALK_SEED` names, or the random seeds of every run.
pub(crate) fn read_seeds(ordinary: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let named = std::env::var("WHARF_WALK_SEED").ok().and_then(|seed| seed.parse().ok());
    named.map_or(ordinary, |seed: u64| seed..seed + 1)
}

const WORDS: [&str; 8] = [
    "the ",
    "sk-",
    "ant-0123456789abcdefghij ",
    "\n",
    "Bearer ",
    "abc.def-123_4567890 ",
    "\u{1b}[31m",
    "é😀 ",
];

/// The turns that a random log has open at most.
const MAX_OPEN_TURNS: usize = 3;

/// The prompts of a random log.
#[derive(Default)]
struct RandomPrompts {
    running: Vec<String>,
    /// The prompts that a crash put back into the queue.
    requeued: Vec<String>,
    /// The turns that have ended, one entry for each end.
    ended: Vec<String>,
}

/// Begins a turn, or cancels, ends or requeues any of the running ones.
fn add_random_turn(log: &mut Transcript, dice: &mut Dice, prompts: &mut RandomPrompts) {
    let step = dice.roll(6);
    if prompts.running.is_empty() || step < 2 && prompts.running.len() < MAX_OPEN_TURNS {
        if let Some(id) = prompts.requeued.pop() {
            log.add(PromptEvent::TurnStarted { prompt: prompt_id(&id), content: Seq(1) });
            prompts.running.push(id);
        } else {
            let id = format!("prm_{}", log.log.len());
            log.prompt(&id, &format!("prompt of {id}"));
            prompts.running.push(id);
        }
        return;
    }
    let place = dice.roll(prompts.running.len() as u64) as usize;
    let prompt = prompt_id(&prompts.running[place]);
    if step == 2 {
        let limit = (dice.roll(2) == 0).then_some(TurnLimit::Deadline);
        return log.add(PromptEvent::CancelRequested { prompt, by: None, limit, reason: None });
    }
    let id = prompts.running.remove(place);
    prompts.ended.push(id.clone());
    if step == 3 {
        prompts.requeued.push(id);
        return log.add(PromptEvent::Requeued { prompt });
    }
    let end = if dice.roll(2) == 0 { PromptEnd::AgentExited } else { PromptEnd::Cancelled };
    log.add(PromptEvent::Ended { prompt, end, failure: None });
}

/// Checks the newest end: it names the files that the rows of its turn say.
fn check_files_of_end(log: &Transcript) {
    let Some(RowBody::TurnEnd(end)) = log.rows().last().map(|row| &row.body) else { return };
    let turn = log.rows().last().and_then(|row| row.turn.as_deref());
    let is_head = |row: &TranscriptRow| {
        matches!(&row.body, RowBody::Prompt(prompt) if !prompt.by.agent)
            && row.turn.as_deref() == turn
    };
    let head = log.rows().iter().rposition(is_head).unwrap();
    let rows = log.rows()[head..].iter().filter(|row| row.turn.as_deref() == turn);
    let mut files: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for change in rows.flat_map(list_file_changes) {
        let (added, removed) = files.entry(change.path).or_default();
        (*added, *removed) = (*added + change.added, *removed + change.removed);
    }
    let named: BTreeMap<_, _> = end
        .files
        .iter()
        .map(|file| (file.path.clone(), (file.added, file.removed)))
        .collect();
    assert_eq!(named, files, "the end {} names other files", log.rows().last().unwrap().id);
}

/// Checks that each turn that is over has its end, each prompt its text, and each parent the
/// children that it counts.
fn check_turns_and_parents(log: &Transcript, prompts: &RandomPrompts) {
    let ends = log.rows().iter().filter(|row| row.body.kind() == "turn_end");
    let ends: Vec<_> = ends.map(|row| row.turn.clone().unwrap()).collect();
    assert_eq!(ends, prompts.ended);
    for row in log.rows() {
        if let RowBody::Prompt(prompt) = &row.body
            && !prompt.by.agent
        {
            assert_eq!(row.summary, format!("prompt of {}", row.turn.as_deref().unwrap()));
        }
        if let RowBody::Tool(tool) = &row.body {
            let children: Vec<_> = log
                .rows()
                .iter()
                .filter(|child| child.parent.as_ref() == Some(&row.id))
                .collect();
            let open = children.iter().filter(|child| child.open).count() as u64;
            let counted =
                tool.children.as_ref().map_or((0, 0), |counted| (counted.count, counted.open));
            assert_eq!(counted, (children.len() as u64, open), "children of {}", row.id);
        }
    }
}

/// Adds a random event.
fn add_random(
    log: &mut Transcript,
    dice: &mut Dice,
    asks: &mut Vec<AskId>,
    prompts: &mut RandomPrompts,
) {
    let word = WORDS[dice.roll(8) as usize];
    let call = format!("call-{}", dice.roll(4));
    match dice.roll(18) {
        0 => {
            add_random_turn(log, dice, prompts);
            check_files_of_end(log);
        }
        14 => {
            let status = ["in_progress", "completed", "completed", "failed"][dice.roll(4) as usize];
            let diff = json!([{ "type": "diff", "path": format!("/w/blog/{}", dice.roll(3)), "oldText": "a\n", "newText": word }]);
            log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": format!("call-{}", dice.roll(3)), "status": status,
                "content": diff, "parentToolCallId": format!("call-{}", dice.roll(4)) }));
        }
        1 | 2 => log.think(word),
        3 => log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": call, "title": word, "kind": "execute" })),
        4 | 5 => {
            let status = ["in_progress", "completed", "failed"][dice.roll(3) as usize];
            let content = json!([{ "type": "content", "content": { "type": "text", "text": word.repeat(dice.roll(2_000) as usize) } }]);
            log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "status": status, "content": content }));
        }
        6 => asks.push(log.ask(&json!({ "toolCallId": call, "rawInput": { "command": word } }))),
        7 if !asks.is_empty() => {
            let ask = asks.swap_remove(dice.roll(asks.len() as u64) as usize);
            log.answer(ask);
        }
        8 => log.update(json!({ "sessionUpdate": "plan", "entries": [{ "content": word, "status": "pending" }] })),
        9 => log.update(json!({ "sessionUpdate": "usage_update", "used": dice.roll(100), "size": 100 })),
        10 => log.say(&word.repeat(dice.roll(3_000) as usize)),
        11 => {
            let data = word.repeat(dice.roll(300) as usize);
            log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "kind": "execute",
                "_meta": { "terminal_output_delta": { "data": data } } }));
        }
        12 if dice.roll(4) == 0 => {
            let text = json!({ "type": "text", "text": word.repeat(dice.roll(500) as usize) });
            log.update(match dice.roll(3) {
                0 => json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": call,
                    "content": { "type": "content", "content": text } }),
                1 => json!({ "sessionUpdate": "agent_message", "messageId": "m1", "content": [text] }),
                _ => json!({ "sessionUpdate": "user_message_chunk", "content": text }),
            });
        }
        13 => {
            let diff = json!({ "type": "diff", "path": word, "oldText": word, "newText": word.repeat(dice.roll(500) as usize) });
            log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "content": [diff] }));
        }
        _ => log.say(word),
    }
}

/// Applies changes as a reader of the stream does: an append only if the revision is the one that
/// it was made for.
fn follow(seen: &mut Vec<TranscriptRow>, changes: &[RowChange], now: &mut MemoryRows, at: u64) {
    for change in changes {
        let index = change.number().0 as usize - 1;
        let current = now.row_mut(change.number()).unwrap().clone();
        match change {
            RowChange::Append { from, part, text, is_tail, .. } if seen[index].rev == *from => {
                let parts = match &mut seen[index].body {
                    RowBody::Message(body) | RowBody::Thought(body) => &mut body.parts,
                    RowBody::Prompt(prompt) => &mut prompt.parts,
                    other @ (RowBody::Tool(_)
                    | RowBody::Plan(_)
                    | RowBody::Ask(_)
                    | RowBody::Notice(_)
                    | RowBody::TurnEnd(_)
                    | RowBody::Unknown) => panic!("a {} does not grow", other.kind()),
                };
                let RowPart::Text(shown) = &mut parts[*part] else { panic!("no text grows") };
                match &mut shown.cut {
                    Some(cut) if *is_tail => cut.tail.get_or_insert_default().push_str(text),
                    cut => {
                        assert_eq!(
                            (cut.is_some(), *is_tail),
                            (false, false),
                            "a text that is cut grows at its end"
                        );
                        shown.text.push_str(text);
                    }
                }
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
    for seed in read_seeds(1..30) {
        let mut dice = Dice::new(seed);
        let (mut log, mut asks, mut prompts) =
            (Transcript::started(), Vec::new(), RandomPrompts::default());
        let (mut seen, mut followed) = (log.rows().to_vec(), log.changes.len());
        let (mut checkpoint, mut kept, mut kept_at) = (Fold::default(), MemoryRows::default(), 0);
        for _ in 0..120 {
            add_random(&mut log, &mut dice, &mut asks, &mut prompts);
            let at = log.log.last().unwrap().0.seq.0;
            // Several events may have been added; each change is followed with the rows of its own
            // event.
            if log.log.len() - kept_at > 0 && dice.roll(10) == 0 {
                checkpoint =
                    serde_json::from_str(&serde_json::to_string(&log.fold).unwrap()).unwrap();
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
        check_turns_and_parents(&log, &prompts);
        let mut changes = Vec::new();
        for (id, at, event) in &log.log[kept_at..] {
            checkpoint.apply(*id, *at, event, &mut kept, &mut changes);
        }
        assert_eq!(
            (&kept, &checkpoint),
            (&log.rows, &log.fold),
            "seed {seed}: a checkpoint leads elsewhere"
        );
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
