//! Styles Markdown for a terminal while it arrives. The styler never breaks or refills lines, and
//! never takes printed text back: it holds a span until its end has come, and prints the span as it
//! was written if the end does not come.

use wharf_render::style::{Screen, TextStyle};

/// The longest span that is held back while its end is missing. Emphasis in answers is a few words
/// long.
const MAX_HELD_BYTES: usize = 240;

/// Turns Markdown into styled text, piece by piece. Without colours the text stays as it is.
#[derive(Debug)]
pub(crate) struct MarkdownStyler {
    screen: Screen,
    /// Text of the current line that is not printed yet.
    held: String,
    /// The kind of the current line, once its beginning is decided.
    kind: Option<LineKind>,
    /// The fence of the code block that is open.
    fence: Option<String>,
    /// The last printed character of the line: an underscore within a word does not mark emphasis.
    previous: Option<char>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LineKind {
    Heading,
    /// A line within a code block.
    Code,
    FenceStart(String),
    FenceEnd,
    Text,
}

impl MarkdownStyler {
    pub(crate) fn new(screen: Screen) -> Self {
        Self {
            screen,
            held: String::new(),
            kind: None,
            fence: None,
            previous: None,
        }
    }

    /// Adds text and returns the part that can be printed.
    pub(crate) fn feed(&mut self, text: &str) -> String {
        if !self.screen.colour {
            return text.to_owned();
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some((end, after)) = rest.split_once('\n') {
            self.held.push_str(end);
            let line = std::mem::take(&mut self.held);
            out.push_str(&self.end_line(&line));
            out.push('\n');
            rest = after;
        }
        self.held.push_str(rest);
        out.push_str(&self.print_open_line());
        out
    }

    /// Returns the held text: nothing follows any more.
    pub(crate) fn finish(&mut self) -> String {
        let line = std::mem::take(&mut self.held);
        self.end_line(&line)
    }

    /// Prints the rest of a line that is complete.
    fn end_line(&mut self, rest: &str) -> String {
        let mut out = String::new();
        let mut rest = rest;
        let kind = self.kind.take().or_else(|| decide_line(rest, self.fence.as_deref(), true));
        let kind = match kind {
            Some(kind) => kind,
            None => LineKind::Text,
        };
        if self.previous.is_none() && kind == LineKind::Text {
            let (marker, after) = split_marker(rest);
            out.push_str(&marker);
            rest = after;
        }
        match kind {
            LineKind::Heading => {
                out.push_str(&self.screen.paint(TextStyle::Strong, heading_text(rest)))
            }
            LineKind::Code => out.push_str(&self.screen.paint(TextStyle::Code, rest)),
            LineKind::FenceStart(fence) => {
                self.fence = Some(fence);
                out.push_str(&self.screen.paint(TextStyle::Faint, rest));
            }
            LineKind::FenceEnd => {
                self.fence = None;
                out.push_str(&self.screen.paint(TextStyle::Faint, rest));
            }
            LineKind::Text => out.push_str(&self.style_spans(rest, true).0),
        }
        self.previous = None;
        out
    }

    /// Prints as much of a line as is decided, while more of it may come.
    fn print_open_line(&mut self) -> String {
        let mut out = String::new();
        if self.kind.is_none() {
            let Some(kind) = decide_line(&self.held, self.fence.as_deref(), false) else {
                return out;
            };
            if kind == LineKind::Text {
                let (marker, after) = split_marker(&self.held);
                let after = after.to_owned();
                self.previous = marker.chars().next_back();
                out.push_str(&marker);
                self.held = after;
            }
            self.kind = Some(kind);
        }
        match self.kind {
            Some(LineKind::Code) => {
                let piece = std::mem::take(&mut self.held);
                self.previous = piece.chars().next_back().or(self.previous);
                out.push_str(&self.screen.paint(TextStyle::Code, &piece));
            }
            Some(LineKind::Text) => {
                let held = std::mem::take(&mut self.held);
                let (piece, used) = self.style_spans(&held, false);
                out.push_str(&piece);
                self.previous = held[..used].chars().next_back().or(self.previous);
                self.held = held[used..].to_owned();
            }
            // Headings and fences are short: they are printed when they are complete.
            Some(LineKind::Heading | LineKind::FenceStart(_) | LineKind::FenceEnd) | None => {}
        }
        out
    }

    /// Styles code, bold and italic spans. Returns the styled text and the bytes that it stands
    /// for; the rest is held.
    fn style_spans(&self, text: &str, complete: bool) -> (String, usize) {
        let mut out = String::new();
        let mut at = 0;
        let mut previous = self.previous;
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            if !matches!(c, '`' | '*' | '_') {
                out.push(c);
                previous = Some(c);
                at += c.len_utf8();
                continue;
            }
            match find_span(rest, previous, complete) {
                Span::Styled { style, inner, length } => {
                    out.push_str(&self.paint_span(style, inner));
                    previous = rest[..length].chars().next_back();
                    at += length;
                }
                Span::Literal(length) => {
                    out.push_str(&rest[..length]);
                    previous = Some(c);
                    at += length;
                }
                Span::Undecided if rest.len() < MAX_HELD_BYTES => return (out, at),
                Span::Undecided => {
                    out.push(c);
                    previous = Some(c);
                    at += c.len_utf8();
                }
            }
        }
        (out, at)
    }

    /// Paints a span. Spans within it keep their own style, and the outer one goes on after them.
    fn paint_span(&self, style: TextStyle, inner: &str) -> String {
        if style == TextStyle::Code {
            return self.screen.paint(style, inner);
        }
        let plain = Self::new(self.screen);
        let inner = plain.style_spans(inner, true).0;
        let outer = self.screen.paint(style, "\0");
        let Some((begin, _)) = outer.split_once('\0') else { return inner };
        self.screen.paint(style, &inner.replace("\x1b[0m", &format!("\x1b[0m{begin}")))
    }
}

/// A mark of emphasis or code at the beginning of a text.
enum Span<'a> {
    Styled {
        style: TextStyle,
        inner: &'a str,
        length: usize,
    },
    /// These bytes are no mark.
    Literal(usize),
    /// The end may still come.
    Undecided,
}

fn find_span(rest: &str, previous: Option<char>, complete: bool) -> Span<'_> {
    let mark = rest.chars().next().unwrap_or_default();
    let run = rest.len() - rest.trim_start_matches(mark).len();
    if run == rest.len() && !complete {
        return Span::Undecided;
    }
    // A span is no longer than this, also if its end has come already: text looks the same however
    // it is cut.
    let after = first_bytes(&rest[run..], MAX_HELD_BYTES);
    if mark == '`' {
        let fence = &rest[..run];
        return match after.find(fence) {
            Some(end) if end > 0 => Span::Styled {
                style: TextStyle::Code,
                inner: &after[..end],
                length: run + end + run,
            },
            Some(_) => Span::Literal(run),
            None if complete => Span::Literal(run),
            None => Span::Undecided,
        };
    }
    let opens = after.chars().next().is_some_and(|c| !c.is_whitespace());
    let within_word = mark == '_' && previous.is_some_and(char::is_alphanumeric);
    if !opens || within_word || run > 2 {
        return Span::Literal(run);
    }
    let style = if run == 2 { TextStyle::Strong } else { TextStyle::Italic };
    match find_closing(after, &rest[..run], mark) {
        Some(end) => Span::Styled { style, inner: &after[..end], length: run + end + run },
        None if complete => Span::Literal(run),
        None => Span::Undecided,
    }
}

/// Returns at most so many bytes of the beginning of a text, whole characters.
fn first_bytes(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Returns where the closing mark begins: after a character other than a blank, and not within a
/// longer run of marks.
fn find_closing(text: &str, closing: &str, mark: char) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find(mark).map(|at| from + at) {
        let run = text[at..].len() - text[at..].trim_start_matches(mark).len();
        let before = text[..at].chars().next_back();
        let follows = text[at + run..].chars().next();
        let ends_word = mark != '_' || !follows.is_some_and(char::is_alphanumeric);
        if run == closing.len() && ends_word && before.is_some_and(|c| !c.is_whitespace()) {
            return Some(at);
        }
        from = at + run;
    }
    None
}

/// Returns the kind of the line, or `None` if more of it is needed to tell.
fn decide_line(line: &str, fence: Option<&str>, complete: bool) -> Option<LineKind> {
    let trimmed = line.trim_start();
    if let Some(fence) = fence {
        let ends =
            trimmed.starts_with(fence) && trimmed.trim_end().chars().all(|c| fence.contains(c));
        let could_end = fence.starts_with(trimmed.trim_end()) || ends;
        return match (complete, ends, could_end) {
            (true, true, _) => Some(LineKind::FenceEnd),
            (false, _, true) => None,
            (true, false, _) | (false, _, false) => Some(LineKind::Code),
        };
    }
    let first = trimmed.chars().next();
    match first {
        None => complete.then_some(LineKind::Text),
        Some(mark @ ('`' | '~')) => {
            let run = trimmed.len() - trimmed.trim_start_matches(mark).len();
            let is_fence = run >= 3 && !trimmed[run..].contains(mark);
            match (is_fence, complete) {
                (true, true) => Some(LineKind::FenceStart(trimmed[..run].to_owned())),
                (true, false) => None,
                (false, false) if run == trimmed.len() => None,
                (false, _) => Some(LineKind::Text),
            }
        }
        Some('#') => {
            let run = trimmed.len() - trimmed.trim_start_matches('#').len();
            let is_heading = run <= 6 && trimmed[run..].starts_with(' ');
            match (is_heading, complete) {
                (true, true) => Some(LineKind::Heading),
                (true, false) => None,
                (false, false) if run == trimmed.len() => None,
                (false, _) => Some(LineKind::Text),
            }
        }
        // The blank after its mark distinguishes a list item from emphasis and numbers.
        Some('-' | '*' | '+') if trimmed.len() == 1 && !complete => None,
        Some('0'..='9')
            if !complete && trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).len() < 2 =>
        {
            None
        }
        Some(_) => Some(LineKind::Text),
    }
}

fn heading_text(line: &str) -> &str {
    line.trim_start().trim_start_matches('#').trim()
}

/// Splits the mark of a list item off, which is shown as a dot.
fn split_marker(line: &str) -> (String, &str) {
    let indent = line.len() - line.trim_start().len();
    let (blank, rest) = line.split_at(indent);
    match ["- ", "* ", "+ "].iter().find_map(|mark| rest.strip_prefix(mark)) {
        Some(after) => (format!("{blank}• "), after),
        None => (blank.to_owned(), rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLOUR: Screen = Screen { terminal: true, colour: true, width: 80 };

    fn style_in_pieces(text: &str, size: usize) -> String {
        let mut styler = MarkdownStyler::new(COLOUR);
        let chars: Vec<char> = text.chars().collect();
        let mut out: String = chars
            .chunks(size)
            .map(|piece| styler.feed(&piece.iter().collect::<String>()))
            .collect();
        out.push_str(&styler.finish());
        // Code is painted piece by piece; the joints do not matter.
        out.replace("\x1b[0m\x1b[36m", "")
    }

    #[test]
    fn styles_are_the_same_however_the_text_is_cut() {
        for (text, styled) in [
            ("plain words", "plain words"),
            ("# Head line\ntext", "\x1b[1mHead line\x1b[0m\ntext"),
            ("a **bold one** and *it*", "a \x1b[1mbold one\x1b[0m and \x1b[3mit\x1b[0m"),
            ("use `a*b*c` now", "use \x1b[36ma*b*c\x1b[0m now"),
            ("- one\n* two\n1. three", "• one\n• two\n1. three"),
            ("**`x` y**", "\x1b[1m\x1b[36mx\x1b[0m\x1b[1m y\x1b[0m"),
            (
                "```rust\nlet a = *b;\n```\n*i*",
                "\x1b[2m```rust\x1b[0m\n\x1b[36mlet a = *b;\x1b[0m\n\x1b[2m```\x1b[0m\n\x1b[3mi\x1b[0m",
            ),
            ("~~~\n``\n~~~", "\x1b[2m~~~\x1b[0m\n\x1b[36m``\x1b[0m\n\x1b[2m~~~\x1b[0m"),
        ] {
            for size in 1..=text.len() {
                assert_eq!(style_in_pieces(text, size), styled, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn marks_without_an_end_stay_in_the_text() {
        for text in [
            "2 * 3 * 4",
            "a ** b",
            "src/**/*.rs is",
            "snake_case_name",
            "`open",
            "**open",
            "#hash",
            "-5",
            "7",
            "``",
        ] {
            for size in 1..=text.len() {
                assert_eq!(style_in_pieces(text, size), text, "in pieces of {size}");
            }
        }
        let long = format!("**{}", "word ".repeat(100));
        assert_eq!(
            MarkdownStyler::new(COLOUR).feed(&long),
            long,
            "a long span is not held for ever"
        );
    }

    #[test]
    fn long_spans_are_plain_however_the_text_is_cut() {
        for mark in ["*", "**", "_", "`", "``"] {
            let text = format!("a {mark}{}end{mark} b", "word ".repeat(100));
            for size in [1, 7, text.len()] {
                assert_eq!(style_in_pieces(&text, size), text, "{mark} in pieces of {size}");
            }
        }
    }

    #[test]
    fn words_are_printed_as_they_come_and_plain_text_without_colours() {
        let mut styler = MarkdownStyler::new(COLOUR);
        assert_eq!(
            (styler.feed("some wo"), styler.feed("rds **b")),
            ("some wo".to_owned(), "rds ".to_owned())
        );
        let mut plain = MarkdownStyler::new(Screen::TERMINAL);
        assert_eq!(plain.feed("# **a**"), "# **a**");
    }
}
