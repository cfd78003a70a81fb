//! The filter gives the same text however it is cut into pieces, and the text of the line view's
//! redaction.

use super::*;
use crate::redact::redact;
use crate::strip_control_characters;
use crate::text_rules::TextRules;

const TEXTS: [&str; 15] = [
    "sk-\u{1b}[31mant-api03-AbCdEfGhIjKlMnOp1234 end",
    "plain text with sky, gold, Amber, boats and a task-sk- prefix",
    "key sk-ant-api03-AbCdEfGhIjKlMnOp1234 end",
    "Authorization: Bearer abc.def-123_4567890\nghp_0123456789abcdefghijABCDEFGHIJ012345",
    "a -----BEGIN RSA PRIVATE KEY-----\nMIIEow\n\n-----END RSA PRIVATE KEY----- b\nafter",
    "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
    "\u{1b}[31;1mred\u{1b}[0m and \u{1b}]0;title\u{7}after \u{9b}2Jcleared",
    "\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\ end",
    "tab\tline\r\nnext « § · é 😀 done",
    "sk-a-long-name-of-a-package-in-words xoxb-1234567890-abcdef s",
    "\u{1b}",
    "--- a/file\n+++ b/file\n-----",
    "é sk-0123456789012345678901é",
    "sk-----BEGIN PRIVATE KEY-----\nAKIAIOS\n-----END PRIVATE KEY----- bearer of",
    "-----BEGIN PRIVATE KEY-----\nghp_01234\nsk-",
];

/// Filters a text in pieces of this size, and checks that nothing that was shown is taken back.
fn filter_in_pieces(text: &str, size: usize) -> String {
    let whole = TextRules::default().filter_text(text);
    let (mut filter, mut out) = (TextFilter::default(), String::new());
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(size) {
        filter.push(&piece.iter().collect::<String>(), &mut out);
        assert!(whole.starts_with(&out), "{out:?} is shown of {whole:?}");
        assert!(filter.held.len() < MAX_HELD_BYTES, "{} bytes are held", filter.held.len());
    }
    filter.finish(&mut out);
    out
}

#[test]
fn pieces_of_any_size_give_the_same_text() {
    for text in TEXTS {
        let whole = TextRules::default().filter_text(text);
        for size in 1..20 {
            assert_eq!(filter_in_pieces(text, size), whole, "{text:?} in pieces of {size}");
        }
    }
}

#[test]
fn filtered_text_is_the_text_of_the_line_view() {
    for text in TEXTS {
        let lines: Vec<String> = text.split('\n').map(strip_control_characters).collect();
        assert_eq!(TextRules::default().filter_text(text), redact(&lines.join("\n")), "{text:?}");
    }
}

#[test]
fn undecided_text_is_shown_when_too_much_is_held() {
    let (mut filter, mut out) = (TextFilter::default(), String::new());
    filter.push(&format!("sk-{}", "a".repeat(1_000)), &mut out);
    assert!(out.len() > 700, "{} bytes are shown", out.len());
}

#[test]
fn a_long_secret_stays_hidden_to_its_end() {
    let text = format!("sk-{}a1{} end", "b".repeat(20), "c".repeat(5_000));
    for size in [7, 100, 6_000] {
        assert_eq!(filter_in_pieces(&text, size), "sk-[redacted] end");
    }
}

#[test]
fn a_key_block_without_end_hides_a_bounded_number_of_lines() {
    let text = format!("-----BEGIN PRIVATE KEY-----\n{}", "text\n".repeat(1_000));
    assert_eq!(filter_in_pieces(&text, 50).matches("text").count(), 1_000 - MAX_KEY_LINES);
}

#[test]
fn last_word_of_ordinary_text_is_shown_at_once() {
    for text in [
        "to be",
        "it's",
        "A",
        "an AI",
        "at the wharf",
        "in Asia",
        "go",
        "x",
        "npm",
        "Bearer",
        "a bearer ",
    ] {
        let (mut filter, mut out) = (TextFilter::default(), String::new());
        filter.push(text, &mut out);
        assert_eq!(out, text);
    }
}

#[test]
fn undecided_rest_of_a_secret_and_a_dash_are_held_back() {
    for (text, shown) in [
        ("key ghp_0123456789", "key ghp_"),
        ("key sk-0123", "key sk"),
        ("Bearer abc", "Bearer "),
        ("well-", "well"),
        ("-----BEGIN PRIVATE KEY-----\nghp_", "[redacted]\n"),
    ] {
        let (mut filter, mut out) = (TextFilter::default(), String::new());
        filter.push(text, &mut out);
        assert_eq!(out, shown);
    }
}
