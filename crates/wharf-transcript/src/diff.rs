//! Diffs of files, computed from the texts before and after.

use similar::{ChangeTag, TextDiff};
use wharf_api::{DiffHunk, FileChange, FileDiff, RowCut};

use crate::limits::{DIFF_CONTEXT_LINES, MAX_DIFF_LINE_BYTES, MAX_DIFFED_BYTES, MAX_DIFFED_LINES};
use crate::text_rules::TextRules;

/// The texts of a file before and after a change.
pub(crate) struct FileTexts<'a> {
    /// The path as rows show it.
    pub(crate) path: String,
    /// `None` if the file is new.
    pub(crate) old: Option<&'a str>,
    pub(crate) new: &'a str,
}

/// Computes the diff, with at most `room` bytes of lines.
pub(crate) fn compute_diff(file: &FileTexts<'_>, room: usize, texts: &TextRules) -> FileDiff {
    let old = file.old.unwrap_or_default();
    let change = match (file.old, file.new) {
        (None, _) => FileChange::Create,
        (Some(_), "") => FileChange::Delete,
        (Some(_), _) => FileChange::Modify,
    };
    // The agent may have sent only the fragment that it replaces; a new file is always whole.
    let numbered = change == FileChange::Create;
    let mut diff = FileDiff {
        path: file.path.clone(),
        change,
        added: 0,
        removed: 0,
        numbered,
        hunks: Vec::new(),
        cut: None,
    };
    let (removed, added) = count_differing_lines(old, file.new);
    if old.len() + file.new.len() > MAX_DIFFED_BYTES || removed + added > MAX_DIFFED_LINES {
        (diff.removed, diff.added) = (removed as u64, added as u64);
        diff.cut = Some(RowCut {
            bytes: (old.len() + file.new.len()) as u64,
            missing_lines: None,
            tail: None,
            whole: None,
        });
        return diff;
    }
    fill_hunks(&mut diff, &TextDiff::from_lines(old, file.new), room, texts);
    diff
}

/// Returns true if the counts of a diff are those of its lines. Texts that are too large to be
/// compared line by line are only counted between their common beginning and end. A new file has
/// nothing to be compared with.
pub(crate) fn has_exact_counts(diff: &FileDiff) -> bool {
    let lines = diff.added.saturating_add(diff.removed);
    let compared_bytes = diff.cut.as_ref().map_or(0, |cut| cut.bytes);
    diff.change == FileChange::Create
        || (lines <= MAX_DIFFED_LINES as u64 && compared_bytes <= MAX_DIFFED_BYTES as u64)
}

/// Counts the lines between the common beginning and the common end of two texts.
fn count_differing_lines(old: &str, new: &str) -> (usize, usize) {
    let same_start = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count();
    let removed = old.lines().count() - same_start;
    let added = new.lines().count() - same_start;
    let same_end = old
        .lines()
        .rev()
        .zip(new.lines().rev())
        .take_while(|(old, new)| old == new)
        .count();
    let same_end = same_end.min(removed).min(added);
    (removed - same_end, added - same_end)
}

fn fill_hunks(
    diff: &mut FileDiff,
    changes: &TextDiff<'_, '_, str>,
    room: usize,
    texts: &TextRules,
) {
    let mut shown = 0;
    let mut whole = 0;
    // Each text is redacted as a whole: a hunk may begin inside a private key.
    let [old, new] = [
        texts.filter_lines(changes.iter_old_slices()),
        texts.filter_lines(changes.iter_new_slices()),
    ];
    for group in changes.grouped_ops(DIFF_CONTEXT_LINES) {
        let mut lines = Vec::new();
        for change in group.iter().flat_map(|op| changes.iter_changes(op)) {
            let (sign, line) = match change.tag() {
                ChangeTag::Equal => (' ', change.new_index().and_then(|index| new.get(index))),
                ChangeTag::Delete => {
                    diff.removed += 1;
                    ('-', change.old_index().and_then(|index| old.get(index)))
                }
                ChangeTag::Insert => {
                    diff.added += 1;
                    ('+', change.new_index().and_then(|index| new.get(index)))
                }
            };
            lines.push(show_line(sign, line.map_or("", String::as_str)));
        }
        let bytes: usize = lines.iter().map(|line| line.len() + 4).sum();
        whole += bytes;
        if shown + bytes > room || diff.cut.is_some() {
            diff.cut = Some(RowCut::default());
            continue;
        }
        shown += bytes;
        diff.hunks.push(DiffHunk { old: None, new: None, lines });
        if diff.numbered
            && let (Some(hunk), Some(first), Some(last)) =
                (diff.hunks.last_mut(), group.first(), group.last())
        {
            let range = |start: usize, end: usize| {
                [start as u64 + u64::from(end > start), (end - start) as u64]
            };
            hunk.old = Some(range(first.old_range().start, last.old_range().end));
            hunk.new = Some(range(first.new_range().start, last.new_range().end));
        }
    }
    if let Some(cut) = &mut diff.cut {
        cut.bytes = whole as u64;
    }
}

/// Cuts a line that is ready to be shown.
fn show_line(sign: char, line: &str) -> String {
    let end = line.floor_char_boundary(MAX_DIFF_LINE_BYTES);
    let more = if end < line.len() { "…" } else { "" };
    format!("{sign}{}{more}", &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: Option<&str>, new: &str) -> FileDiff {
        compute_diff(
            &FileTexts { path: "a.txt".to_owned(), old, new },
            8_192,
            &TextRules::default(),
        )
    }

    #[test]
    fn a_fragment_has_no_line_numbers() {
        let diff = diff(Some("Hello!\n"), "Hello, harbour!\n");
        let hunk = DiffHunk {
            old: None,
            new: None,
            lines: vec!["-Hello!".into(), "+Hello, harbour!".into()],
        };
        assert_eq!(
            (diff.change, diff.added, diff.removed, diff.numbered),
            (FileChange::Modify, 1, 1, false)
        );
        assert_eq!(diff.hunks, [hunk]);
    }

    #[test]
    fn a_new_file_is_numbered() {
        let diff = diff(None, "a\nb\n");
        assert_eq!((diff.change, diff.added, diff.numbered), (FileChange::Create, 2, true));
        assert_eq!((diff.hunks[0].old, diff.hunks[0].new), (Some([0, 0]), Some([1, 2])));
    }

    #[test]
    fn hunks_beyond_the_room_are_counted_and_left_out() {
        let old: String = (0..2_000).map(|n| format!("line {n}\n")).collect();
        let new: String = (0..2_000)
            .map(|n| format!("line {n}{}\n", if n % 20 == 0 { "!" } else { "" }))
            .collect();
        let diff = diff(Some(&old), &new);
        assert_eq!((diff.added, diff.removed), (100, 100));
        let shown: usize = diff.hunks.iter().flat_map(|hunk| &hunk.lines).map(String::len).sum();
        assert!(
            shown <= 8_192 && diff.cut.is_some_and(|cut| cut.bytes > 8_192),
            "{shown} bytes are shown"
        );
    }

    #[test]
    fn secrets_in_diffs_are_redacted() {
        let key = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n";
        let lines = diff(None, key).hunks.remove(0).lines;
        assert_eq!(lines, ["+[redacted]", "+[redacted]", "+[redacted]"]);
    }
}
