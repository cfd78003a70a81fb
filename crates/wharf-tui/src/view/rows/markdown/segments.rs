//! Cuts markdown into segments that are laid out on their own.
//!
//! A text that grows at its end changes its last segment only: the segments before it never change.
//! So a message that streams is laid out again from its last paragraph, and the picture is the same
//! as that of the whole text.

/// The first segment of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FirstSegment<'a> {
    pub(super) text: &'a str,
    /// The bytes of the segment with the blank lines after it.
    pub(super) bytes: usize,
    /// More text may still belong to it.
    pub(super) is_last: bool,
    /// A fence of code was opened and not closed.
    pub(super) is_fence_open: bool,
}

/// Returns the first segment: up to a blank line after which no list and no fence goes on. Returns
/// `None` if there is only white space.
pub(super) fn first_segment(text: &str) -> Option<FirstSegment<'_>> {
    let mut fence: Option<Fence> = None;
    let mut at = 0;
    let mut end = 0;
    let mut start = None;
    let mut is_list = false;
    let mut has_gap = false;
    for line in text.split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        match (start, fence) {
            (None, _) if is_blank => {}
            (None, _) => {
                start = Some(at);
                is_list = begins_list_item(line);
                fence = Fence::opened_by(line);
            }
            (Some(_), Some(open)) => {
                if open.is_closed_by(line) {
                    fence = None;
                }
            }
            (Some(_), None) if is_blank => has_gap = true,
            (Some(start), None) => {
                if has_gap && !(is_list && (is_indented(line) || begins_list_item(line))) {
                    return Some(FirstSegment {
                        text: &text[start..end],
                        bytes: at,
                        is_last: false,
                        is_fence_open: false,
                    });
                }
                has_gap = false;
                fence = Fence::opened_by(line);
            }
        }
        at += line.len();
        if !is_blank {
            end = at;
        }
    }
    let start = start?;
    Some(FirstSegment {
        text: &text[start..end],
        bytes: text.len(),
        is_last: true,
        is_fence_open: fence.is_some(),
    })
}

/// The line that opens a block of code.
#[derive(Clone, Copy, Debug)]
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn opened_by(line: &str) -> Option<Self> {
        let rest = strip_list_marker(line.trim_start()).trim_start();
        let mark = rest.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = rest.chars().take_while(|c| *c == mark).count();
        let has_mark_in_info = mark == '`' && rest[length..].contains('`');
        (length >= 3 && !has_mark_in_info).then_some(Self { mark, length })
    }

    fn is_closed_by(self, line: &str) -> bool {
        let line = line.trim();
        line.chars().all(|c| c == self.mark) && line.chars().count() >= self.length
    }
}

fn is_indented(line: &str) -> bool {
    line.starts_with("  ") || line.starts_with('\t')
}

/// Returns true if a list item begins, or may begin once the line is complete.
fn begins_list_item(line: &str) -> bool {
    let may_begin = !line.ends_with('\n') && line.trim().bytes().all(|byte| byte.is_ascii_digit());
    let line = line.trim_start();
    may_begin || strip_list_marker(line).len() < line.len()
}

/// Returns the line without the mark of a list item at its beginning.
fn strip_list_marker(line: &str) -> &str {
    let rest = match line.strip_prefix(['-', '*', '+']) {
        Some(rest) => rest,
        None => {
            let digits = line.bytes().take_while(u8::is_ascii_digit).count();
            match line[digits..].strip_prefix(['.', ')']) {
                Some(rest) if (1..=9).contains(&digits) => rest,
                Some(_) | None => return line,
            }
        }
    };
    if rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r']) { rest } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        let mut rest = text;
        let mut segments = Vec::new();
        while let Some(segment) = first_segment(rest) {
            segments.push(segment.text.trim_end());
            rest = &rest[segment.bytes..];
        }
        segments
    }

    #[test]
    fn blank_lines_divide_paragraphs_but_neither_lists_nor_fences() {
        assert_eq!(cut("a\nb\n\n\nc"), ["a\nb", "c"]);
        assert_eq!(cut("- a\n\n  more\n\n- b\n\nend"), ["- a\n\n  more\n\n- b", "end"]);
        assert_eq!(cut("```\na\n\nb\n```\n\nend"), ["```\na\n\nb\n```", "end"]);
        assert_eq!(
            cut("1. ~~~\n   a\n\n   b\n   ~~~\n\nend"),
            ["1. ~~~\n   a\n\n   b\n   ~~~", "end"]
        );
        assert_eq!(cut("  \n"), [""; 0]);
    }

    #[test]
    fn open_fence_is_told() {
        assert!(
            first_segment("```rust\nfn")
                .is_some_and(|segment| segment.is_fence_open && segment.is_last)
        );
        assert!(first_segment("```rust\nfn\n```").is_some_and(|segment| !segment.is_fence_open));
        assert!(first_segment("a ``` b").is_some_and(|segment| !segment.is_fence_open));
    }

    #[test]
    fn segments_before_the_last_one_stay_when_the_text_grows() {
        let text = "intro\n\n- a\n- b\n\n  c\n\n```\nx\n\ny\n```\ntail\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> q\n\n- a\n\n12. b\n\nend";
        let whole = cut(text);
        for (at, _) in text.char_indices() {
            let part = cut(&text[..at]);
            let stable = part.len().saturating_sub(1);
            assert_eq!(part[..stable], whole[..stable], "after {at} bytes");
        }
    }
}
