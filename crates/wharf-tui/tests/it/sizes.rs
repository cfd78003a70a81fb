//! Every size of the screen gives a picture.

use serde_json::json;
use wharf_tui::{ScreenSize, TuiInput, view};

use crate::scene::{Scene, ask_row, page, session, text_row};

#[test]
fn no_size_of_the_screen_is_too_small_to_draw() {
    let mut scene = Scene::connected(80, 24);
    let about = session("sess_a", "Fix the parser", json!({ "turn": "running" }));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    let rows = [text_row(3, "message", "hello 日本 👩‍👩‍👧"), ask_row(14, "rm -rf build")];
    scene.rows(stream, "page", page(about, &rows, &["1-14"]));
    for keys in
        ["tab", "ctrl-t", "ctrl-t", "ctrl-g", "ctrl-p", "esc", "esc", "ctrl-t", "n", "esc", "?"]
    {
        scene.press(keys);
        for width in 0..40 {
            for height in 0..16 {
                scene.feed(TuiInput::Resized(ScreenSize { width, height }));
                let frame = view(&scene.state);
                assert_eq!(
                    (frame.buffer.area().width, frame.buffer.area().height),
                    (width, height)
                );
                let is_inside =
                    |cursor: ratatui_core::layout::Position| cursor.x < width && cursor.y < height;
                assert!(
                    frame.cursor.is_none_or(is_inside),
                    "{keys}: {:?} at {width}x{height}",
                    frame.cursor
                );
            }
        }
    }
}
