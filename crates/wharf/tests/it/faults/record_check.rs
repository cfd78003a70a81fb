//! Compares the records that clients received with the records that exist at the end.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{Context, Result};
use serde_json::Value;
use wharf_testkit::host::TestHost;

use crate::log;

/// The totals of a run. Its `Display` is the suite's summary line.
#[derive(Debug, Default)]
pub(super) struct RecordCheck {
    pub(super) rounds: u32,
    pub(super) acknowledged: usize,
    pub(super) lost: Vec<String>,
    pub(super) doubled: Vec<String>,
    pub(super) orphans: Vec<u32>,
}

impl std::fmt::Display for RecordCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rounds, acknowledged, lost, doubled, orphans } = self;
        let (lost, doubled, orphans) = (lost.len(), doubled.len(), orphans.len());
        write!(
            f,
            "faults: {rounds} rounds, {acknowledged} acknowledged, lost {lost}, doubled {doubled}, orphans {orphans}"
        )
    }
}

impl RecordCheck {
    /// Checks that every received record exists exactly once and unchanged in `there`.
    pub(super) fn compare_records(
        &mut self,
        told: &[(String, String)],
        there: &[(String, String)],
    ) {
        let mut kept: HashMap<&str, Vec<&str>> = HashMap::new();
        for (id, text) in there {
            kept.entry(id).or_default().push(text);
        }
        let mut seen = HashSet::new();
        for (id, text) in told {
            if !seen.insert(id) {
                self.doubled.push(format!("shown twice: {id} {text}"));
            }
            if !kept.get(&**id).is_some_and(|kept| kept.contains(&&**text)) {
                self.lost.push(format!("{id} {text}; there: {:?}", kept.get(&**id)));
            }
        }
        self.doubled.extend(
            kept.iter()
                .filter(|(_, texts)| texts.len() > 1)
                .map(|(id, _)| format!("kept twice: {id}")),
        );
        self.acknowledged += seen.len();
    }

    /// Checks that each of these exists once; `prompts` holds the number of occurrences.
    pub(super) fn check_once(
        &mut self,
        what: &str,
        wanted: impl Iterator<Item = String>,
        there: &BTreeMap<String, usize>,
    ) {
        for text in wanted {
            match there.get(&text) {
                None => self.lost.push(format!("{what}: {text}")),
                Some(1) => {}
                Some(times) => self.doubled.push(format!("{what}: {text}, {times} times")),
            }
            self.acknowledged += 1;
        }
    }

    /// Checks that a log has no gap, and that every prompt in it is accepted once and ends once.
    pub(super) fn check_log(
        &mut self,
        host: &TestHost,
        session: &str,
    ) -> Result<BTreeMap<String, usize>> {
        let records = log::read_records(host, session)?;
        for (place, record) in records.iter().enumerate() {
            if record["seq"] != place as u64 + 1 {
                self.lost
                    .push(format!("{session}: {} where {} belongs", record["seq"], place + 1));
            }
        }
        let mut ledger: BTreeMap<String, [usize; 3]> = BTreeMap::new();
        let mut texts = BTreeMap::new();
        for event in records.iter().map(|record| &record["event"]) {
            let step = match event["kind"].as_str().unwrap_or_default() {
                "prompt_accepted" => {
                    *texts
                        .entry(prompt_text(event).context("a prompt without text")?)
                        .or_default() += 1;
                    0
                }
                "turn_started" => 1,
                "prompt_ended" => 2,
                _ => continue,
            };
            let steps = ledger.entry(event["prompt"].to_string()).or_default();
            steps[step] += 1;
        }
        for (prompt, [accepted, started, ended]) in ledger {
            if accepted == 0 || ended == 0 {
                self.lost
                    .push(format!("{session} {prompt}: accepted {accepted}, ended {ended}"));
            }
            if accepted > 1 || started > 1 || ended > 1 {
                self.doubled.push(format!("{session} {prompt}: {accepted}, {started}, {ended}"));
            }
        }
        Ok(texts)
    }
}

/// Returns the text of a prompt's event or frame.
pub(super) fn prompt_text(event: &Value) -> Option<String> {
    let params = event.pointer("/frame/params").or_else(|| event.get("params"))?;
    Some(params["prompt"][0]["text"].as_str()?.to_owned())
}

#[test]
fn record_check_finds_missing_changed_and_duplicate_records() {
    let pair = |id: &str, text: &str| (id.to_owned(), text.to_owned());
    let there = [pair("1", "a"), pair("2", "b"), pair("3", "c"), pair("3", "c")];
    let mut tally = RecordCheck::default();
    tally.compare_records(
        &[pair("1", "a"), pair("2", "other"), pair("4", "d"), pair("1", "a")],
        &there,
    );
    assert_eq!((tally.acknowledged, tally.lost.len(), tally.doubled.len()), (3, 2, 2), "{tally:?}");
    let times = BTreeMap::from([("once".to_owned(), 1), ("twice".to_owned(), 2)]);
    let mut tally = RecordCheck::default();
    tally.check_once("prompt", ["once", "twice", "never"].map(str::to_owned).into_iter(), &times);
    assert_eq!((tally.acknowledged, tally.lost.len(), tally.doubled.len()), (3, 1, 1), "{tally:?}");
}
