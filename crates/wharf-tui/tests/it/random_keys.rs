//! Random keys against a session of a hostile agent: nothing panics, and every frame can be drawn.

use std::time::Duration;

use serde_json::{Value, json};
use wharf_tui::keymap::{KeyPress, all_bindings};
use wharf_tui::{ScreenSize, StreamId, TuiEffect, TuiInput};

use crate::scene::{Scene, ask_row, page, session, text_row};

const STEPS: u64 = 1_200;
const HOSTILE: &[&str] =
    &["\u{1b}[2J\u{1b}]0;x\u{7}", "e\u{301}\u{302}👩‍👩‍👧", "日本語\t\r\n\u{202e}", "", "\u{0}\u{7f}\u{9b}31m"];

/// A generator whose sequence depends on its seed alone.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }
}

fn hostile_page(seq: u64, about: Value) -> Value {
    let rows = [text_row(3, "message", HOSTILE[1]), ask_row(seq, HOSTILE[2])];
    let mut page = page(about, &rows, &[&format!("1-{seq}")]);
    page["state"]["queue"] = json!([{ "promptId": "p", "position": 0, "text": HOSTILE[0], "sender": HOSTILE[2] }]);
    page["state"]["settings"] = json!({ "id": "a", "options": [], "commands": [{ "name": HOSTILE[1] }],
        "modes": { "current": "a", "all": [{ "id": "a", "name": HOSTILE[0] }, { "id": "b", "name": "b" }] } });
    page
}

fn play_host(scene: &mut Scene, stream: &mut StreamId, numbers: &mut RandomNumbers, seq: u64) {
    let about = session("sess_a", HOSTILE[numbers.below(HOSTILE.len())], json!({ "turn": "running" }));
    match numbers.below(4) {
        0 => scene.rows(*stream, "row", ask_row(seq, HOSTILE[numbers.below(HOSTILE.len())])),
        1 => scene.rows(*stream, "state", json!({ "asks": [format!("1-{seq}")], "queue": [] })),
        2 => scene.rows(*stream, "page", hostile_page(seq, about)),
        _ => scene.list(&[about, session("sess_b", "b", json!({ "forkable": true }))]),
    }
    for effect in scene.take_effects() {
        match effect {
            TuiEffect::OpenRows { stream: opened, .. } => *stream = opened,
            TuiEffect::Call { id, .. } if numbers.below(2) == 0 => scene.answer(id, &json!({})),
            _ => {}
        }
    }
}

fn walk(seed: u64) {
    let mut numbers = RandomNumbers(seed);
    let mut scene = Scene::connected(80, 24);
    scene.list(&[session("sess_a", "a", json!({})), session("sess_b", "b", json!({}))]);
    scene.press("enter");
    let mut stream = scene.opened_stream();
    let keys: Vec<KeyPress> = all_bindings()
        .flat_map(|binding| binding.keys.iter().flat_map(|keys| keys.split(' ')))
        .chain(["/", "@", "a", "é", "日", "\\", "1"])
        .filter_map(KeyPress::parse)
        .collect();
    for step in 0..STEPS {
        match numbers.below(12) {
            0 => play_host(&mut scene, &mut stream, &mut numbers, 20 + step),
            1 => scene.feed(TuiInput::Paste(HOSTILE[numbers.below(HOSTILE.len())].repeat(numbers.below(40)))),
            2 => scene.wait(Duration::from_millis(u64::try_from(numbers.below(3_000)).unwrap())),
            3 => {
                let side = |number: usize| u16::try_from(number).unwrap();
                let size = ScreenSize { width: side(numbers.below(130)), height: side(numbers.below(45)) };
                scene.feed(TuiInput::Resized(size));
            }
            _ => scene.feed(TuiInput::Key(keys[numbers.below(keys.len())])),
        }
        scene.text();
    }
}

#[test]
fn random_keys_and_hostile_text_never_panic() {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    let given = std::env::var("WHARF_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or(u64::from(clock) | 1);
    println!("WHARF_SEED={seed}");
    walk(seed);
    walk(seed.wrapping_mul(0x9e37_79b9) | 1);
}
