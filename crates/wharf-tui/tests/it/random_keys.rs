//! Random keys on a client whose agent is hostile: no panic, no control character in a frame, and
//! the state stays drawable.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use wharf_tui::keymap::{KeyCode, KeyPress, all_bindings};
use wharf_tui::{ApiFailure, ScreenSize, StreamInput, TuiEffect, TuiInput, view};

use crate::scene::{Scene, ask_row, page, session, text_row};

const KEYS: u64 = 10_000;

/// SplitMix64.
struct SeededNumbers(u64);

impl SeededNumbers {
    /// Takes the random seed of `WHARF_WALK_SEED`, or a new one, and prints it.
    fn from_environment() -> Self {
        let given = std::env::var("WHARF_WALK_SEED").ok().map(|seed| seed.parse().unwrap());
        let seed = given.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let _ = writeln!(std::io::stderr(), "WHARF_WALK_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

/// Returns every key of the table and some that type.
fn list_keys() -> Vec<KeyPress> {
    let bound = all_bindings()
        .flat_map(|binding| binding.keys.iter())
        .flat_map(|keys| keys.split(' '));
    let typed = ['x', '日', '\u{301}', '\u{202e}', '👍', '/', '@', '9']
        .map(|c| KeyPress::plain(KeyCode::Char(c)));
    bound.filter_map(KeyPress::parse).chain(typed).collect()
}

fn hostile_texts() -> Vec<String> {
    vec![
        "\x1b[2J\x1b]0;owned\x07\u{9b}31m\u{90}q\u{9c}\r\x08\0".to_owned(),
        "\u{202e}evil\u{2066}\u{2069}\u{200f}".to_owned(),
        "e\u{301}\u{301}\u{301} 👩\u{200d}👩\u{200d}👧 \u{fdfd}\u{3000}".repeat(50),
        "x".repeat(4_000),
        "\n".repeat(300),
        "| a | b\n|---|\n```rust\n\tfn \x1b[31m\n# ``` **bold `code\n> > > - [ ] 1. <b>".to_owned(),
        "\t\t\u{a0}\u{200b}\u{feff}".to_owned(),
        String::new(),
    ]
}

fn send_hostile_row(scene: &mut Scene, stream: wharf_tui::StreamId, numbers: &mut SeededNumbers) {
    let seq = 10 + numbers.below(40) as u64;
    let text = numbers.pick(&hostile_texts());
    let row = match numbers.below(4) {
        0 => text_row(seq, "message", &text),
        1 => text_row(seq, "thought", &text),
        2 => text_row(seq, "prompt", &text),
        _ => ask_row(seq, &text),
    };
    let asks: Vec<&str> =
        if row["kind"] == "ask" { vec![row["id"].as_str().unwrap()] } else { Vec::new() };
    let about = session(
        "sess_a",
        &text,
        json!({ "turn": numbers.pick(&["idle", "running", "awaiting_input"]) }),
    );
    let mut page = page(about.clone(), std::slice::from_ref(&row), &asks);
    page["state"]["queue"] =
        json!([{ "promptId": "p", "position": 0, "text": text, "sender": text }]);
    page["state"]["settings"] = json!({ "id": "a", "options": [], "commands": [{ "name": text }],
        "modes": { "current": "a", "all": [{ "id": "a", "name": text }, { "id": "b", "name": "b" }] } });
    scene.list(&[about, session("sess_b", "Two", json!({ "forkable": true }))]);
    let Ok(event) = wharf_api::RowStreamEvent::read("page", page) else { return };
    scene.feed(TuiInput::Rows { stream, input: StreamInput::Event(event) });
}

/// Answers calls as a host of ill will does: not at all, with a refusal, or with an answer to
/// something else.
fn answer_badly(scene: &mut Scene, stream: &mut wharf_tui::StreamId, numbers: &mut SeededNumbers) {
    for effect in scene.take_effects() {
        match effect {
            TuiEffect::OpenRows { stream: opened, .. } => *stream = opened,
            TuiEffect::Call { id, .. } => match numbers.below(3) {
                0 => scene
                    .answer(id, &numbers.pick(&[json!({}), json!([]), json!("x"), Value::Null])),
                1 => {
                    let failure = ApiFailure { code: None, text: numbers.pick(&hostile_texts()) };
                    scene.feed(TuiInput::Answer { call: id, answer: Err(failure) });
                }
                _ => {}
            },
            _ => {}
        }
    }
}

#[test]
fn ten_thousand_random_keys_with_hostile_rows_do_not_panic() {
    let mut numbers = SeededNumbers::from_environment();
    let keys = list_keys();
    let mut scene = Scene::connected(80, 24);
    scene.list(&[session("sess_a", "One", json!({})), session("sess_b", "Two", json!({}))]);
    scene.press("enter");
    let mut stream = scene.opened_stream();
    for round in 0..KEYS {
        scene.feed(TuiInput::Key(numbers.pick(&keys)));
        match numbers.below(20) {
            0 | 1 => send_hostile_row(&mut scene, stream, &mut numbers),
            // Pastes add up in the composer: short ones keep the test fast.
            2 => scene
                .feed(TuiInput::Paste(numbers.pick(&hostile_texts()).chars().take(40).collect())),
            3 => {
                let (width, height) = (numbers.below(130) as u16, numbers.below(45) as u16);
                scene.feed(TuiInput::Resized(ScreenSize { width, height }));
            }
            4 => scene.feed(TuiInput::TerminalFocus(numbers.below(2) == 0)),
            5 => {
                let lost =
                    StreamInput::Lost { reason: numbers.pick(&hostile_texts()), retry_in: None };
                scene.feed(TuiInput::List(lost));
                scene.feed(TuiInput::List(StreamInput::Connected));
            }
            6 => scene.wait(Duration::from_millis(700)),
            _ => {}
        }
        answer_badly(&mut scene, &mut stream, &mut numbers);
        if round % 4 == 0 {
            let frame = view(&scene.state);
            let is_clean = |symbol: &str| {
                !symbol.chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c))
            };
            assert!(
                frame.buffer.content().iter().all(|cell| is_clean(cell.symbol())),
                "round {round}"
            );
        }
    }
}
