//! The lines of a typed text on the screen, and the cell of its cursor.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;
use wharf_render::text::name_invisible;

/// A typed text, broken into lines of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EditorLines {
    pub(crate) lines: Vec<String>,
    /// The line and the column of the cursor.
    pub(crate) cursor: (usize, usize),
}

/// Breaks a text into lines of at most `width` columns.
pub(crate) fn lay_out_editor(text: &str, cursor: usize, width: usize) -> EditorLines {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut column = 0;
    let mut place = None;
    for (at, cluster) in text.grapheme_indices(true) {
        let is_break = cluster == "\n" || cluster == "\r\n";
        let shown = show_cluster(cluster);
        let columns = shown.width();
        if !is_break && column + columns > width {
            lines.push(String::new());
            column = 0;
        }
        if at == cursor {
            place = Some((lines.len() - 1, column));
        }
        if is_break {
            lines.push(String::new());
            column = 0;
        } else if let Some(line) = lines.last_mut() {
            line.push_str(&shown);
            column += columns;
        }
    }
    let end = (lines.len() - 1, column);
    let cursor = match place.unwrap_or(end) {
        // The cursor stands after a full line: at the beginning of the next one.
        (line, column) if column >= width => {
            if line + 1 == lines.len() {
                lines.push(String::new());
            }
            (line + 1, 0)
        }
        place => place,
    };
    EditorLines { lines, cursor }
}

/// Returns the cluster as it is shown: control characters as blanks, invisible ones by their names
/// (rule 19.5).
fn show_cluster(cluster: &str) -> Cow<'_, str> {
    if cluster.chars().any(char::is_control) { Cow::Borrowed(" ") } else { name_invisible(cluster) }
}

/// Returns the place of the cursor one line of the screen above or below; `None` at the first or
/// the last line.
pub(crate) fn move_by_line(text: &str, cursor: usize, width: usize, is_up: bool) -> Option<usize> {
    let cells = find_cells(text, width.max(1));
    let (_, line, column) = *cells.iter().find(|(place, ..)| *place >= cursor)?;
    let wanted = if is_up { line.checked_sub(1)? } else { line + 1 };
    let in_line = || cells.iter().filter(|(_, at_line, _)| *at_line == wanted);
    let left_of = in_line().rfind(|(.., at_column)| *at_column <= column);
    left_of.or_else(|| in_line().next()).map(|(place, ..)| *place)
}

/// Returns for every place of the cursor its line and its column, as `lay_out_editor` breaks the
/// text.
fn find_cells(text: &str, width: usize) -> Vec<(usize, usize, usize)> {
    let mut cells = Vec::new();
    let mut line = 0;
    let mut column = 0;
    let clusters = text.grapheme_indices(true).map(|(at, cluster)| (at, Some(cluster)));
    for (at, cluster) in clusters.chain([(text.len(), None)]) {
        let is_break = matches!(cluster, Some("\n" | "\r\n"));
        let columns = cluster.map_or(0, |cluster| show_cluster(cluster).width());
        if !is_break && column + columns > width {
            (line, column) = (line + 1, 0);
        }
        // The cursor stands after a full line at the beginning of the next one.
        cells.push(if column >= width { (at, line + 1, 0) } else { (at, line, column) });
        (line, column) = if is_break { (line + 1, 0) } else { (line, column + columns) };
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_breaks_at_the_width_and_the_cursor_has_a_cell() {
        let laid = lay_out_editor("abcde\nf", 7, 3);
        assert_eq!(
            (laid.lines, laid.cursor),
            (vec!["abc".to_owned(), "de".to_owned(), "f".to_owned()], (2, 1))
        );
        let full = lay_out_editor("abc", 3, 3);
        assert_eq!((full.lines.len(), full.cursor), (2, (1, 0)));
        assert_eq!(lay_out_editor("", 0, 3).cursor, (0, 0));
        assert_eq!(lay_out_editor("日本", 3, 3).cursor, (1, 0));
        assert_eq!(lay_out_editor("a\x1bb", 2, 9).lines, ["a b"]);
        assert_eq!(lay_out_editor("a\u{200b}b", 4, 20).lines, ["a[U+200B]b"]);
    }

    #[test]
    fn cursor_moves_by_lines_of_the_screen() {
        assert_eq!(move_by_line("abcdef", 5, 4, true), Some(1));
        assert_eq!(move_by_line("abcdef", 1, 4, false), Some(5));
        assert_eq!(move_by_line("abcdef", 1, 4, true), None);
        assert_eq!(move_by_line("abcdef", 5, 4, false), None);
        assert_eq!(move_by_line("a\n日本語", 1, 9, false), Some(2), "a place between characters");
        assert_eq!(move_by_line("abc\n\nd", 3, 9, false), Some(4));
    }
}
