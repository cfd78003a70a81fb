//! Prepares text from agents and hosts for a terminal: without control characters, with names for
//! invisible ones (rule 19.5), and with a known width.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use wharf_api::{InvisibleFinder, name_character};

/// Returns the text on one line without control characters, so that it cannot control the terminal.
/// Invisible characters are replaced by their names.
pub fn to_printable(text: &str) -> String {
    to_printable_after("", text)
}

/// Does the same for a text that goes on after another.
fn to_printable_after(before: &str, text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut finder = InvisibleFinder::after(before);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' => skip_sequence(&mut rest),
            '\t' | '\n' | '\r' => shown.push(' '),
            c if c.is_control() => {}
            c if finder.is_invisible(c) => shown.push_str(&name_character(c)),
            c => shown.push(c),
        }
    }
    shown
}

/// Returns the text in quotes for a message, without control characters and with names for
/// invisible ones.
pub fn quote(text: &str) -> String {
    format!("\"{}\"", to_printable(text))
}

/// Replaces invisible characters by their names; all others stay.
pub fn name_invisible(text: &str) -> Cow<'_, str> {
    let mut finder = InvisibleFinder::default();
    if !text.chars().any(|c| finder.is_invisible(c)) {
        return Cow::Borrowed(text);
    }
    let mut finder = InvisibleFinder::default();
    let show = |c| if finder.is_invisible(c) { name_character(c) } else { c.to_string() };
    Cow::Owned(text.chars().map(show).collect())
}

/// Returns a line without control characters; tabs stay.
pub fn to_printable_line(line: &str) -> String {
    line.split('\t').map(to_printable).collect::<Vec<_>>().join("\t")
}

/// Returns several lines without control characters; tabs and line breaks stay.
pub fn to_printable_lines(text: &str) -> String {
    to_printable_lines_after("", text)
}

/// Does the same for a text that goes on after another.
pub fn to_printable_lines_after(before: &str, text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = before;
    for piece in text.split_inclusive(['\n', '\t']) {
        let words = piece.trim_end_matches(['\n', '\t']);
        shown.push_str(&to_printable_after(before, words));
        shown.push_str(&piece[words.len()..]);
        before = "";
    }
    shown
}

/// Skips an escape sequence: `ESC [ … letter`, `ESC ] … BEL or ST`, or `ESC` and one character.
fn skip_sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        Some('[') => {
            while rest.peek().is_some_and(|c| matches!(c, ' '..='?')) {
                rest.next();
            }
            rest.next();
        }
        Some(']' | 'P' | '^' | '_' | 'X') => {
            while let Some(c) = rest.next() {
                if c == '\x07' || (c == '\x1b' && rest.next_if_eq(&'\\').is_some()) {
                    return;
                }
            }
        }
        Some(_) | None => {}
    }
}

/// Returns the number of columns that the character takes by itself.
pub fn char_columns(c: char) -> usize {
    c.width().unwrap_or_default()
}

/// Returns the number of columns that the text takes.
pub fn display_width(text: &str) -> usize {
    text.width()
}

/// Cuts the text to `limit` columns, with an ellipsis at the end if something was cut.
pub fn truncate_to_columns(text: &str, limit: usize) -> String {
    if display_width(text) <= limit {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut used = 0;
    for cluster in text.graphemes(true) {
        used += cluster.width();
        if used + 1 > limit {
            break;
        }
        shown.push_str(cluster);
    }
    if limit > 0 {
        shown.push('…');
    }
    shown
}

/// Returns a path with `~` for the home directory, cut at its beginning if it is too long.
pub fn shorten_path(path: &str, home: Option<&str>, limit: usize) -> String {
    let beneath = home.filter(|home| !home.is_empty()).and_then(|home| path.strip_prefix(home));
    let shown = match beneath {
        Some("") => "~".to_owned(),
        Some(rest) if rest.starts_with('/') => format!("~{rest}"),
        Some(_) | None => path.to_owned(),
    };
    let shown = to_printable(&shown);
    let long = display_width(&shown);
    if long <= limit {
        return shown;
    }
    let mut left = long + 1;
    let kept: String = shown
        .graphemes(true)
        .skip_while(|cluster| {
            let skip = left > limit;
            left -= if skip { cluster.width() } else { 0 };
            skip
        })
        .collect();
    format!("…{kept}")
}

/// Returns a number of bytes like `640K`, `84M` or `1.2G`.
pub fn format_size(bytes: u64) -> String {
    const M: u64 = 1 << 20;
    match bytes {
        0..M => format!("{}K", bytes >> 10),
        M..0x4000_0000 => format!("{}M", bytes >> 20),
        _ => format!("{}.{}G", bytes >> 30, ((bytes & 0x3fff_ffff) * 10) >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let told = [0, 655_360, 88_080_384, 1_288_490_189].map(format_size);
        assert_eq!(told, ["0K", "640K", "84M", "1.2G"]);
    }

    #[test]
    fn text_from_others_cannot_control_the_terminal() {
        assert_eq!(to_printable("a\x1b[31mred\x1b[0m b"), "ared b");
        assert_eq!(to_printable("a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c"), "abc");
        assert_eq!(
            to_printable("one\ntwo\tthree\r\u{9b}2J\u{7}\u{202e}"),
            "one two three 2J[U+202E]"
        );
        assert_eq!(to_printable_line("a\tb\x1b[2Jc"), "a\tbc");
        assert_eq!(to_printable("\x1b"), "");
    }

    #[test]
    fn invisible_characters_are_shown_by_their_names() {
        assert_eq!(to_printable("rm\u{200b} \u{ad}x\u{2060}"), "rm[U+200B] [U+00AD]x[U+2060]");
        assert_eq!(to_printable("a\u{e0041}\u{3164}\u{2800}"), "a[U+E0041][U+3164][U+2800]");
        let family = "👩\u{200d}👩\u{200d}👧";
        assert_eq!(
            to_printable_lines(&format!("{family}\n\t\u{200d}a")),
            format!("{family}\n\t[U+200D]a")
        );
        assert_eq!(to_printable_lines_after("👩", "\u{200d}👧"), "\u{200d}👧");
        assert_eq!(name_invisible("a\u{200b}\x1b"), "a[U+200B]\x1b");
    }

    #[test]
    fn widths_are_columns() {
        assert_eq!(
            (
                display_width("abc"),
                display_width("日本"),
                display_width("e\u{301}"),
                display_width("🚀")
            ),
            (3, 4, 1, 2)
        );
        assert_eq!(truncate_to_columns("abcdef", 4), "abc…");
        assert_eq!(truncate_to_columns("日本語", 4), "日…");
        assert_eq!(truncate_to_columns("abc", 3), "abc");
        assert_eq!(truncate_to_columns("abc", 0), "");
    }

    #[test]
    fn a_long_path_keeps_its_end() {
        assert_eq!(shorten_path("/home/ann/project", Some("/home/ann"), 30), "~/project");
        assert_eq!(shorten_path("/home/anna/project", Some("/home/ann"), 30), "/home/anna/project");
        assert_eq!(shorten_path("/home/ann", Some("/home/ann"), 30), "~");
        assert_eq!(shorten_path("/var/lib/something/deep", None, 10), "…hing/deep");
    }
}
