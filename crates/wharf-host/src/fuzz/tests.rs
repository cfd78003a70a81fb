//! The same targets with the stable compiler: the committed corpus, then changes to it for a while.
//! Less than a fuzzer finds, and enough to see that one has broken a target.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use wharf_testkit::random::TestRandom;

/// Inputs are small; what takes more is another question.
const LONGEST: usize = 16 << 10;
/// Pieces of the formats, from which random inputs are made.
const PIECES: &[&str] = &[
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "true",
    "-0",
    "1e999",
    "18446744073709551616",
    "\n",
    "\r\n",
    "\t",
    "\u{0}",
    "\u{c}",
    "\u{1f}",
    "---\n",
    "- ",
    "  ",
    "&a ",
    "*a",
    "!!binary ",
    "~",
    "'",
    "#",
    "{value}",
    "\"id\":1",
    "\"sessionId\":\"s\"",
    "\"params\":{",
    "\"method\":\"x\"",
    "\"kind\":\"",
    "\"at\":",
    "\u{feff}",
    "é",
    "日本",
];

/// Shows the input that a target did not stand.
struct Shown<'a>(&'static str, &'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = self.1.escape_ascii();
            let _ = writeln!(std::io::stderr(), "target {}, input: b\"{text}\"", self.0);
        }
    }
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    // So that a seed makes the same choices everywhere.
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn place(dice: &mut TestRandom, end: usize) -> usize {
    usize::try_from(dice.next_below(end as u64 + 1)).unwrap()
}

fn changed(dice: &mut TestRandom, corpus: &[Vec<u8>]) -> Vec<u8> {
    let pick = |dice: &mut TestRandom| corpus[place(dice, corpus.len() - 1)].clone();
    let mut input = pick(dice);
    for _ in 0..=dice.next_below(6) {
        let (from, to) = (place(dice, input.len()), place(dice, input.len()));
        let (from, to) = (from.min(to), from.max(to));
        match dice.next_below(8) {
            0 => input.truncate(from),
            1 if from < input.len() => input[from] = u8::try_from(dice.next_below(256)).unwrap(),
            2 => drop(input.drain(from..to)),
            3 => {
                let piece = input[from..to].to_vec();
                input.splice(to..to, piece);
            }
            4 => {
                let other = pick(dice);
                let start = place(dice, other.len());
                input.splice(from..to, other[start..].to_vec());
            }
            5 => {
                let many = dice.pick_one(PIECES).repeat(place(dice, 200));
                input.splice(from..from, many.into_bytes());
            }
            _ => {
                let piece = dice.pick_one(PIECES).as_bytes().to_vec();
                input.splice(from..from, piece);
            }
        }
        input.truncate(LONGEST);
    }
    input
}

fn run(target: &'static str, body: fn(&[u8])) {
    let seconds = std::env::var("WHARF_FUZZ_SECONDS").map_or(2, |seconds| seconds.parse().unwrap());
    let corpus = corpus(target);
    assert!(corpus.len() >= 3, "there is next to nothing to begin with");
    for input in &corpus {
        let _shown = Shown(target, input);
        body(input);
    }
    let mut dice = TestRandom::from_environment().unwrap();
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut count = 0_u64;
    while Instant::now() < until {
        let input = changed(&mut dice, &corpus);
        let _shown = Shown(target, &input);
        body(&input);
        count += 1;
    }
    println!("fuzz {target}: {} inputs of the corpus and {count} random ones", corpus.len());
}

#[test]
fn any_frame_is_refused_or_keeps_its_ids() {
    run("envelope", super::envelope);
}

#[test]
fn scanner_reader_and_codec_accept_the_same_frames() {
    run("readers", super::readers);
}

#[test]
fn any_record_is_refused_or_read_as_it_was_written() {
    run("event", super::event);
}

#[test]
fn any_manifest_is_refused_with_a_reason_or_makes_commands() {
    run("manifest", super::manifest);
}

#[test]
fn any_registry_is_refused_or_read_as_it_was_written() {
    run("workspaces", super::workspaces);
}
