//! Makes an agent's text harmless for terminals: removes escape sequences, and control characters
//! except the tab.

/// Returns the line without escape sequences and control characters.
pub fn strip_control_characters(line: &str) -> String {
    if !line.chars().any(|c| c != '\t' && c.is_control()) {
        return line.to_owned();
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\u{1b}' => rest = skip_escape(rest),
            // The one-character spelling of `ESC [`.
            '\u{9b}' => rest = skip_csi(rest),
            '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Returns the rest after the sequence that an ESC began. A sequence without an end removes no
/// text.
fn skip_escape(rest: &str) -> &str {
    match rest.chars().next() {
        Some('[') => skip_csi(&rest[1..]),
        Some(']' | 'P' | '^' | '_' | 'X') => skip_string(&rest[1..]),
        Some(c @ ('(' | ')' | '*' | '+' | '#' | '%')) => {
            let rest = &rest[c.len_utf8()..];
            rest.strip_prefix(|c: char| c.is_ascii_graphic()).unwrap_or(rest)
        }
        Some(c) if c.is_ascii_graphic() => &rest[1..],
        Some(_) | None => rest,
    }
}

fn skip_csi(rest: &str) -> &str {
    let parameters = rest.bytes().take_while(|byte| (0x20..=0x3f).contains(byte)).count();
    match rest.as_bytes().get(parameters) {
        Some(0x40..=0x7e) => &rest[parameters + 1..],
        Some(_) | None => &rest[parameters..],
    }
}

/// Returns the rest after a control string (a title, a link), which ends with BEL or ST.
fn skip_string(rest: &str) -> &str {
    let end = rest.find(['\u{7}', '\u{9c}', '\u{1b}']);
    match end.map(|end| &rest[end..]) {
        Some(tail) => tail
            .strip_prefix("\u{1b}\\")
            .or_else(|| tail.strip_prefix(['\u{7}', '\u{9c}']))
            .unwrap_or(tail),
        None => rest,
    }
}

/// Returns the length of the control character or escape sequence with which the text begins, 0 if
/// it begins with neither, and `None` if the text ends within the sequence.
pub(crate) fn escape_length(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let rest = &text[first.len_utf8()..];
    let ends_open = match (first, rest.chars().next()) {
        ('\u{1b}', None) => true,
        ('\u{1b}', Some('[')) => is_open_csi(&rest[1..]),
        ('\u{1b}', Some(']' | 'P' | '^' | '_' | 'X')) => is_open_string(&rest[1..]),
        ('\u{1b}', Some('(' | ')' | '*' | '+' | '#' | '%')) => rest.len() == 1,
        ('\u{9b}', _) => is_open_csi(rest),
        _ => false,
    };
    (!ends_open).then(|| forced_escape_length(text))
}

/// Like [`escape_length`], for a text that will not go on.
pub(crate) fn forced_escape_length(text: &str) -> usize {
    let Some(first) = text.chars().next() else { return 0 };
    let rest = &text[first.len_utf8()..];
    match first {
        '\u{1b}' => text.len() - skip_escape(rest).len(),
        '\u{9b}' => text.len() - skip_csi(rest).len(),
        '\n' | '\t' => 0,
        c if c.is_control() => c.len_utf8(),
        _ => 0,
    }
}

fn is_open_csi(rest: &str) -> bool {
    rest.bytes().all(|byte| (0x20..=0x3f).contains(&byte))
}

/// Returns true if a control string has no end yet. An ESC at the end may be the first half of its
/// end.
fn is_open_string(rest: &str) -> bool {
    match rest.find(['\u{7}', '\u{9c}', '\u{1b}']) {
        None => true,
        Some(end) => &rest[end..] == "\u{1b}",
    }
}

/// Returns the text as one line of at most `longest` bytes: white space becomes single spaces.
pub fn join_lines(text: &str, longest: usize) -> String {
    let joined: Vec<&str> = text.split_whitespace().collect();
    let mut line = joined.join(" ");
    if line.len() > longest {
        line.truncate(line.floor_char_boundary(longest));
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_gets_through() {
        for (dirty, tidy) in [
            ("plain\ttext é", "plain\ttext é"),
            ("\u{1b}[31;1mred\u{1b}[0m", "red"),
            ("\u{9b}2Jcleared", "cleared"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]never ended", "never ended"),
            ("a\rb\u{8}c\u{0}", "abc"),
            ("\u{1b}(Bcharset\u{1b}c", "charset"),
            ("\u{1b}[", ""),
            ("\u{1b}", ""),
            ("\u{1b}é", "é"),
        ] {
            assert_eq!(strip_control_characters(dirty), tidy, "{dirty:?}");
        }
    }
}
