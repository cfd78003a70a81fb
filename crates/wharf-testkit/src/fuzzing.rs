//! Runs the targets of `fuzz/` with the stable compiler: the committed corpus, then changes to it
//! for a while. Less than a fuzzer finds, and enough to see that one has broken a target.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::random::TestRandom;

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
struct ShownInput<'a> {
    target: &'static str,
    input: &'a [u8],
}

impl Drop for ShownInput<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = self.input.escape_ascii();
            let _ = writeln!(std::io::stderr(), "target {}, input: b\"{text}\"", self.target);
        }
    }
}

/// Runs a target with its corpus, and with random changes of it for two seconds, or for
/// `WHARF_FUZZ_SECONDS`.
#[expect(clippy::print_stderr, reason = "the count belongs to the output of the test")]
pub fn run_fuzz_target(target: &'static str, body: fn(&[u8])) -> Result<()> {
    let seconds = match std::env::var("WHARF_FUZZ_SECONDS") {
        Ok(seconds) => seconds.parse().context("reading WHARF_FUZZ_SECONDS")?,
        Err(_) => 2,
    };
    let corpus = read_corpus(target)?;
    ensure!(corpus.len() >= 3, "there is next to nothing to begin with");
    for input in &corpus {
        let _shown = ShownInput { target, input };
        body(input);
    }
    let mut dice = TestRandom::from_environment()?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut count = 0_u64;
    while Instant::now() < until {
        let input = change_input(&mut dice, &corpus);
        let _shown = ShownInput { target, input: &input };
        body(&input);
        count += 1;
    }
    eprintln!("fuzz {target}: {} inputs of the corpus and {count} random ones", corpus.len());
    Ok(())
}

fn read_corpus(target: &str) -> Result<Vec<Vec<u8>>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&dir).with_context(|| format!("listing {}", dir.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    // So that a seed makes the same choices everywhere.
    paths.sort();
    Ok(paths.iter().map(fs::read).collect::<std::io::Result<_>>()?)
}

/// Returns a place in an input of this length, its end included.
fn pick_place(dice: &mut TestRandom, length: usize) -> usize {
    usize::try_from(dice.next_below(length as u64 + 1)).unwrap_or(length)
}

fn pick_input(dice: &mut TestRandom, corpus: &[Vec<u8>]) -> Vec<u8> {
    let at = pick_place(dice, corpus.len() - 1);
    corpus[at].clone()
}

fn change_input(dice: &mut TestRandom, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = pick_input(dice, corpus);
    for _ in 0..=dice.next_below(6) {
        let one = pick_place(dice, input.len());
        let other = pick_place(dice, input.len());
        let from = one.min(other);
        let to = one.max(other);
        match dice.next_below(8) {
            0 => input.truncate(from),
            1 if from < input.len() => input[from] = dice.next_number() as u8,
            2 => drop(input.drain(from..to)),
            3 => {
                let piece = input[from..to].to_vec();
                input.splice(to..to, piece);
            }
            4 => {
                let other = pick_input(dice, corpus);
                let start = pick_place(dice, other.len());
                input.splice(from..to, other[start..].to_vec());
            }
            5 => {
                let many = dice.pick_one(PIECES).repeat(pick_place(dice, 200));
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
