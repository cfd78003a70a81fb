//! Markdown as lines: blocks, styles, widths, and texts that grow.

use ratatui_core::style::Modifier;
use wharf_render::style::{ColourUse, Theme};

use super::*;
use crate::layout::{FailureDetail, RowContext, RowFold};

fn look(width: u16) -> RowLayoutOptions<'static> {
    const PLAIN: &RowContext = &RowContext {
        fold: RowFold::Shown,
        indent: 0,
        has_gap_after: false,
        is_first_unread: false,
        failure: FailureDetail::Reason,
    };
    let theme = Theme::new(ColourUse::Ansi);
    RowLayoutOptions {
        width,
        theme,
        is_toggled: false,
        context: PLAIN,
        live: None,
        time_zone: wharf_render::text::TimeZone::default(),
        agent: "claude",
        host_name: None,
        can_send: true,
    }
}

fn lay_out(text: &str, width: u16) -> Vec<String> {
    let layout = lay_out_markdown(text, &look(width), None);
    layout.lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect()
}

#[test]
fn lists_have_hanging_indents_and_keep_their_numbers() {
    let text = "Steps:\n- one two three four\n  1. nested item here\n  2. b\n- [x] done";
    let expected = [
        "Steps:",
        "",
        "• one two three",
        "  four",
        "  1. nested item",
        "     here",
        "  2. b",
        "• ☑ done",
    ];
    assert_eq!(lay_out(text, 17), expected);
    assert_eq!(lay_out("7. a\n8. b", 20), ["7. a", "8. b"]);
}

#[test]
fn blocks_are_divided_by_one_empty_line() {
    let text = "# Head\nText\n\n> quoted\n> more\n\n---\n\n```rust\nfn a() {}\n\nlast\n```\nend";
    let expected = [
        "Head",
        "",
        "Text",
        "",
        "▏ quoted",
        "▏ more",
        "",
        "──────────",
        "",
        "  rust",
        "  fn a() {",
        "  }",
        "",
        "  last",
        "",
        "end",
    ];
    assert_eq!(lay_out(text, 10), expected);
}

#[test]
fn links_show_their_target_once() {
    assert_eq!(
        lay_out("see [docs](https://a.b/c) and <https://a.b>", 60),
        ["see docs (https://a.b/c) and https://a.b"]
    );
    assert_eq!(lay_out("![a cat](cat.png)", 60), ["image: a cat (cat.png)"]);
    assert_eq!(lay_out("[one]\n\n[one]: https://a.b", 60), ["[one]", "", "[one]: https://a.b"]);
}

#[test]
fn styles_follow_the_marks() {
    let layout = lay_out_markdown("a **b** *c* `d`", &look(40), None);
    let spans = &layout.lines[0].spans;
    let style_of =
        |text: &str| spans.iter().find(|span| span.content.trim() == text).map(|span| span.style);
    assert!(style_of("b").is_some_and(|style| style.add_modifier.contains(Modifier::BOLD)));
    assert!(style_of("c").is_some_and(|style| style.add_modifier.contains(Modifier::ITALIC)));
    assert_eq!(style_of("`d`"), Some(look(40).theme.code));
}

#[test]
fn code_is_plain_until_its_fence_is_closed() {
    let style_of_code = |text: &str| {
        let layout = lay_out_markdown(text, &look(40), None);
        layout.lines.last().and_then(|line| line.spans.last()).map(|span| span.style)
    };
    let theme = look(40).theme;
    assert_eq!(style_of_code("```\nlet a;"), Some(theme.plain));
    assert_eq!(style_of_code("```\nlet a;\n```"), Some(theme.code));
}

#[test]
fn tables_are_columns_wrapped_cells_or_records_by_width() {
    let text = "| name | meaning |\n|---|---|\n| a | the first letter |\n| bc | x |";
    assert_eq!(
        lay_out(text, 40),
        ["name │ meaning", "─────┼─────────────────", "a    │ the first letter", "bc   │ x"]
    );
    assert_eq!(
        lay_out(text, 17),
        ["name │ meaning", "─────┼───────────", "a    │ the first", "     │ letter", "bc   │ x"]
    );
    assert_eq!(
        lay_out(text, 9),
        ["name: a", "meaning:", "the first", "letter", "", "name: bc", "meaning:", "x"]
    );
}

#[test]
fn control_characters_stay_out_also_as_entities() {
    for line in
        lay_out("a\u{1b}[31mb &#27;[2J &#x9b;c\n\n```\n\u{1b}]0;t\u{7}x\n```\n\n[l](\u{1b}x)", 40)
    {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

#[test]
fn growing_text_gives_the_same_lines_as_the_whole_and_lays_out_its_end_only() {
    let text = "# Head\n\nSome *words* here.\n\n- a\n- b\n\n12 more\n\n```rust\nfn a() {}\n\nb\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend 日本";
    let look = look(30);
    let mut grown = None;
    for (at, _) in text.char_indices().chain([(text.len(), ' ')]) {
        let layout = lay_out_markdown(&text[..at], &look, grown.take());
        let fresh = lay_out_markdown(&text[..at], &look, None);
        assert_eq!(layout.lines, fresh.lines, "after {at} bytes");
        grown = Some(layout);
    }
    assert!(grown.is_some_and(|layout| {
        layout.settled.is_some_and(|settled| text[settled.text.len()..] == *"end 日本")
    }));
}

#[test]
fn lines_are_never_wider_than_the_screen() {
    let text = "> > - 日本語のとても長い文 and [a link](https://example.org/a/very/long/path/without/end)\n\n\
        ```\na very long line of code that does not fit\n```\n\n| a | b |\n|---|---|\n| long cell text | x |";
    for width in 20..60 {
        for line in lay_out(text, width) {
            assert!(
                wharf_render::text::display_width(&line) <= usize::from(width),
                "{width}: {line:?}"
            );
        }
    }
}

/// Marks, traps and words, of which random texts are made.
const PIECES: &[&str] = &[
    "\n",
    "\n\n",
    "- ",
    "1. ",
    "12",
    "  ",
    "    ",
    "> ",
    "```",
    "~~~",
    "`",
    "*",
    "**",
    "_",
    "# ",
    "| a | b |\n|---|---|\n",
    "| ",
    "[l](",
    ")",
    "[r]: x",
    "<b>",
    "<!--",
    "-->",
    "&#27;",
    "&amp;",
    "\u{1b}[2J",
    "\u{9b}",
    "\u{202e}",
    "\t",
    "\r",
    "日本語",
    "👩‍👩‍👧",
    "e\u{301}",
    "\u{200d}",
    "word",
    "a longer piece of text",
    "---",
    "\\",
];

/// Returns pseudo-random numbers from a seed.
fn random_numbers(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |limit| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % u64::try_from(limit).unwrap()).unwrap()
    }
}

#[test]
fn random_text_is_inert_fits_and_may_grow_in_any_steps() {
    for seed in 1..60_u64 {
        let mut pick = random_numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let look = look(20 + u16::try_from(pick(60)).unwrap());
        let mut text = String::new();
        let mut grown = None;
        for _ in 0..40 {
            text.push_str(PIECES[pick(PIECES.len())]);
            let layout = lay_out_markdown(&text, &look, grown.take());
            let fresh = lay_out_markdown(&text, &look, None);
            assert_eq!(layout.lines, fresh.lines, "seed {seed}: {text:?}");
            for line in &layout.lines {
                let line = line.to_string();
                assert!(!line.chars().any(char::is_control), "seed {seed}: {line:?} of {text:?}");
                let columns = wharf_render::text::display_width(line.trim_end());
                assert!(columns <= usize::from(look.width), "seed {seed}: {line:?} of {text:?}");
            }
            grown = Some(layout);
        }
    }
}
