//! Pictures of transcripts.

use serde_json::{Value, json};
use wharf_tui::StreamId;

use crate::frames::check_frame;
use crate::scene::{Scene, page, row, session, text_row};

const MARKDOWN: &str = "## Result\n\nThe parser kept **one line too few**: `lines()` strips the last newline, \
    so that *every* caller saw less. 日本語のテキスト and 👩‍👩‍👧 stay in line.\n\n\
    1. Read `src/parser.rs`, then the tests beside it, then the [notes](https://example.org/notes)\n\
    2. Fix it\n   - in the parser\n   - in the docs\n\n\
    > The newline belongs to the line before it.\n\n\
    ```rust\nfn last_line(input: &str) -> Option<&str> {\n    input.rsplit('\\n').next()\n}\n```\n\n\
    | file | change |\n|---|---|\n| src/parser.rs | the last line is kept |\n| tests/parser.rs | one test more |\n";

/// Opens a session with these rows and gives its transcript the focus.
pub(crate) fn open_transcript(width: u16, height: u16, rows: &[Value]) -> (Scene, StreamId) {
    let mut scene = Scene::connected(width, height);
    let about = session("sess_a", "Fix the parser", json!({}));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(about, rows, &[]));
    scene.press("tab");
    scene.take_effects();
    (scene, stream)
}

pub(crate) fn prompt_row(seq: u64, text: &str) -> Value {
    row(
        seq,
        "prompt",
        text,
        json!({ "by": { "name": "zed" }, "acceptedAt": null, "parts": [{ "type": "text", "text": text }] }),
    )
}

#[test]
fn markdown_is_laid_out_for_reading() {
    let rows = [prompt_row(2, "What was wrong?"), text_row(3, "message", MARKDOWN)];
    check_frame(&open_transcript(80, 34, &rows).0, "markdown_80x34");
    check_frame(&open_transcript(44, 44, &rows).0, "markdown_44x44");
}
