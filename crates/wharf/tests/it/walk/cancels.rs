//! Checks against the log that every cancel ended the prompts that its sender could mean.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use serde_json::Value;

/// For this long after the end of its own turn, a client's cancel cannot mean another client's turn
/// on the same connection.
const CROSSING_MILLIS: u64 = 1_000;

/// The number of cancelled turns.
#[derive(Debug, Default)]
pub(super) struct CancelledTurns {
    own: usize,
    others: usize,
}

/// The prompts of a session while the log is read.
#[derive(Default)]
struct PromptHistory<'a> {
    senders: BTreeMap<&'a str, &'a Value>,
    waiting: BTreeSet<&'a str>,
    running: BTreeSet<&'a str>,
    /// The time at which the last turn of each connection ended.
    ended_at: BTreeMap<&'a str, u64>,
}

/// Checks each cancel of the log.
pub(super) fn check_cancels(records: &[Value]) -> Result<CancelledTurns> {
    let (mut prompts, mut tally) = (PromptHistory::default(), CancelledTurns::default());
    for event in records.iter().map(|record| &record["event"]) {
        let prompt = event["prompt"].as_str().unwrap_or_default();
        match event["kind"].as_str().unwrap_or_default() {
            "prompt_accepted" => {
                prompts.senders.insert(prompt, &event["sender"]);
                prompts.waiting.insert(prompt);
            }
            "turn_started" => prompts.start_turn(prompt),
            "prompt_requeued" => prompts.requeue_prompt(prompt),
            "prompt_ended" => prompts.end_prompt(prompt, event["at"].as_u64().unwrap_or_default()),
            "cancel_requested" if event["by"].is_object() => {
                prompts.check_cancel(prompt, event, &mut tally)?
            }
            _ => {}
        }
    }
    Ok(tally)
}

impl<'a> PromptHistory<'a> {
    fn start_turn(&mut self, prompt: &'a str) {
        self.waiting.remove(prompt);
        self.running.insert(prompt);
    }

    fn requeue_prompt(&mut self, prompt: &'a str) {
        self.running.remove(prompt);
        self.waiting.insert(prompt);
    }

    fn end_prompt(&mut self, prompt: &'a str, at: u64) {
        self.waiting.remove(prompt);
        if self.running.remove(prompt)
            && let Some(connection) =
                self.senders.get(prompt).and_then(|sender| sender["client"].as_str())
        {
            self.ended_at.insert(connection, at);
        }
    }

    fn check_cancel(&self, prompt: &str, event: &Value, tally: &mut CancelledTurns) -> Result<()> {
        let by = &event["by"];
        let is_own = |prompt: &str| {
            self.senders
                .get(prompt)
                .is_some_and(|sender| client_identity(sender) == client_identity(by))
        };
        if is_own(prompt) {
            tally.own += 1;
            return Ok(());
        }
        tally.others += 1;
        let own = self.waiting.iter().chain(&self.running).find(|prompt| is_own(prompt));
        ensure!(own.is_none(), "{by} cancelled {prompt} of another and had {own:?} of its own");
        let at = event["at"].as_u64().unwrap_or_default();
        let ended = by["client"].as_str().and_then(|connection| self.ended_at.get(connection));
        let crossed = ended.is_some_and(|ended| at < ended + CROSSING_MILLIS);
        ensure!(
            !crossed,
            "{by} cancelled {prompt} of another right after its own turn ended: {ended:?}, {at}"
        );
        Ok(())
    }
}

/// Returns the pair that identifies a client.
fn client_identity(sender: &Value) -> (&Value, &str) {
    let ids = [&sender["chosen"], &sender["peer"]["id"], &sender["client"]];
    (&sender["token"], ids.into_iter().find_map(Value::as_str).unwrap_or_default())
}
