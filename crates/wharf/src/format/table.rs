//! Tables: aligned under headings on a terminal, tab-separated without headings for a program.

use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{display_width, to_printable, truncate_to_columns};

/// The spaces between two columns on a terminal.
pub(crate) const COLUMN_GAP: usize = 2;
/// Before a note below a row.
const NOTE_INDENT: &str = "    ";
/// The smallest width of the last column; a narrower column would not show anything useful.
const MIN_LAST_COLUMN: usize = 12;

#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: TextStyle,
}

/// Creates a cell without colour.
pub(crate) fn plain_cell(text: impl AsRef<str>) -> Cell {
    styled_cell(TextStyle::Plain, text)
}

pub(crate) fn styled_cell(style: TextStyle, text: impl AsRef<str>) -> Cell {
    Cell { text: to_printable(text.as_ref()), style }
}

/// Rows under headings. The last column takes the rest of the line.
#[derive(Debug)]
pub(crate) struct TextTable {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    /// Lines below rows, each with the number of rows above it.
    notes: Vec<(usize, Cell)>,
}

impl TextTable {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a line of its own below the last row. It is never cut, so that a command in it can be
    /// copied.
    pub(crate) fn add_note(&mut self, style: TextStyle, text: impl AsRef<str>) {
        self.notes.push((self.rows.len(), styled_cell(style, text)));
    }

    /// Returns the lines for a terminal. A column without any text is left out.
    pub(crate) fn to_lines(&self, screen: Screen) -> Vec<String> {
        let widest = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| display_width(&cell.text))
                .max()
        };
        let columns: Vec<(usize, usize)> = (0..self.headings.len())
            .filter_map(|column| {
                widest(column).filter(|width| *width > 0).map(|width| (column, width))
            })
            .map(|(column, wide)| {
                (column, wide.max(self.headings.get(column).map_or(0, |heading| heading.len())))
            })
            .collect();
        let headings: Vec<Cell> = self
            .headings
            .iter()
            .map(|heading| styled_cell(TextStyle::Faint, heading))
            .collect();
        let rows = std::iter::once(&headings).chain(&self.rows).enumerate();
        rows.flat_map(|(count, row)| {
            let notes = self.notes.iter().filter(move |(below, _)| *below == count);
            let notes = notes.map(move |(_, note)| {
                format!("{NOTE_INDENT}{}", screen.paint(note.style, &note.text))
            });
            std::iter::once(format_row(row, &columns, screen)).chain(notes)
        })
        .collect()
    }
}

fn format_row(row: &[Cell], columns: &[(usize, usize)], screen: Screen) -> String {
    let mut line = String::new();
    let mut used = 0;
    for (place, (column, wide)) in columns.iter().enumerate() {
        let Some(Cell { text, style }) = row.get(*column) else { continue };
        if place + 1 == columns.len() {
            let left = screen.width.saturating_sub(used).max(MIN_LAST_COLUMN);
            line.push_str(&screen.paint(*style, &truncate_to_columns(text, left)));
        } else {
            line.push_str(&screen.paint(*style, text));
            line.extend(std::iter::repeat_n(' ', wide - display_width(text) + COLUMN_GAP));
            used += wide + COLUMN_GAP;
        }
    }
    line.trim_end().to_owned()
}

/// Returns one line of a list for a program. A tab or line break in a value becomes a blank, and
/// other control characters are removed, since the program may show the line on a terminal.
pub(crate) fn join_with_tabs<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    values.into_iter().map(to_printable).collect::<Vec<_>>().join("\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let mut table = TextTable::new(&["ID", "STATE", "EMPTY", "TITLE"]);
        table.add_row([
            plain_cell("a1"),
            styled_cell(TextStyle::Good, "idle"),
            plain_cell(""),
            plain_cell("first\tone"),
        ]);
        table.add_row([
            plain_cell("日本"),
            styled_cell(TextStyle::Bad, "error"),
            plain_cell(""),
            plain_cell("x".repeat(100)),
        ]);
        table
    }

    #[test]
    fn columns_are_aligned_and_the_last_one_is_cut() {
        let lines = table().to_lines(Screen { width: 30, ..Screen::TERMINAL });
        assert_eq!(
            lines,
            [
                "ID    STATE  TITLE",
                "a1    idle   first one",
                &format!("日本  error  {}…", "x".repeat(16))
            ]
        );
    }

    #[test]
    fn colour_takes_no_room() {
        let lines = table().to_lines(Screen { colour: true, width: 30, terminal: true });
        assert_eq!(lines[1], "a1    \x1b[32midle\x1b[0m   first one");
        assert!(lines[2].contains("\x1b[31merror\x1b[0m  xxx"), "{}", lines[2]);
    }

    #[test]
    fn notes_stand_below_their_row_and_are_whole() {
        let mut table = TextTable::new(&["ID", "WHAT"]);
        table.add_row([plain_cell("a"), plain_cell("one")]);
        table.add_note(TextStyle::Plain, "x".repeat(40));
        table.add_row([plain_cell("b"), plain_cell("two")]);
        let lines = table.to_lines(Screen { width: 20, ..Screen::TERMINAL });
        assert_eq!(lines, ["ID  WHAT", "a   one", &format!("    {}", "x".repeat(40)), "b   two"]);
    }

    #[test]
    fn a_program_gets_one_tab_between_values_and_none_inside() {
        assert_eq!(join_with_tabs(["a", "", "b\tc\nd"]), "a\t\tb c d");
        assert_eq!(
            join_with_tabs(["\x1b]0;mine\x07a\u{202e}b", "\x1b[2J\u{9b}1mc\0"]),
            "a[U+202E]b\t1mc"
        );
    }
}
