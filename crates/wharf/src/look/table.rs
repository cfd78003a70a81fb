//! Tables: aligned under headings on a terminal, tab-separated without headings for a program.

use super::text::{cut, printable, width};
use super::{Screen, Style};

/// Between two columns of a terminal.
const GAP: usize = 2;
/// A last column narrower than this would say nothing.
const NARROWEST: usize = 12;

#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

/// A cell in no colour.
pub(crate) fn cell(text: impl AsRef<str>) -> Cell {
    styled(Style::Plain, text)
}

pub(crate) fn styled(style: Style, text: impl AsRef<str>) -> Cell {
    Cell { text: printable(text.as_ref()), style }
}

/// Rows under headings. The last column takes what is left of the line.
#[derive(Debug)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines for a terminal. A column in which nothing stands is left out.
    pub(crate) fn lines(&self, screen: Screen) -> Vec<String> {
        let widest =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(&cell.text)).max();
        let columns: Vec<(usize, usize)> = (0..self.headings.len())
            .filter_map(|column| widest(column).filter(|width| *width > 0).map(|width| (column, width)))
            .map(|(column, wide)| (column, wide.max(self.headings.get(column).map_or(0, |heading| heading.len()))))
            .collect();
        let headings: Vec<Cell> = self.headings.iter().map(|heading| styled(Style::Faint, heading)).collect();
        let rows = std::iter::once(&headings).chain(&self.rows);
        rows.map(|row| line(row, &columns, screen)).collect()
    }
}

fn line(row: &[Cell], columns: &[(usize, usize)], screen: Screen) -> String {
    let mut line = String::new();
    let mut used = 0;
    for (place, (column, wide)) in columns.iter().enumerate() {
        let Some(Cell { text, style }) = row.get(*column) else { continue };
        if place + 1 == columns.len() {
            let left = screen.width.saturating_sub(used).max(NARROWEST);
            line.push_str(&screen.paint(*style, &cut(text, left)));
        } else {
            line.push_str(&screen.paint(*style, text));
            line.extend(std::iter::repeat_n(' ', wide - width(text) + GAP));
            used += wide + GAP;
        }
    }
    line.trim_end().to_owned()
}

/// One line of a listing for a program. A tab or line break in a value becomes a blank, and other control characters are
/// left out: the program may well show it on a terminal.
pub(crate) fn tabbed<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    values.into_iter().map(printable).collect::<Vec<_>>().join("\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "STATE", "EMPTY", "TITLE"]);
        table.row([cell("a1"), styled(Style::Good, "idle"), cell(""), cell("first\tone")]);
        table.row([cell("日本"), styled(Style::Bad, "error"), cell(""), cell("x".repeat(100))]);
        table
    }

    #[test]
    fn columns_are_aligned_and_the_last_one_is_cut() {
        let lines = table().lines(Screen { width: 30, ..Screen::TERMINAL });
        assert_eq!(
            lines,
            ["ID    STATE  TITLE", "a1    idle   first one", &format!("日本  error  {}…", "x".repeat(16))]
        );
    }

    #[test]
    fn colour_takes_no_room() {
        let lines = table().lines(Screen { colour: true, width: 30, terminal: true });
        assert_eq!(lines[1], "a1    \x1b[32midle\x1b[0m   first one");
        assert!(lines[2].contains("\x1b[31merror\x1b[0m  xxx"), "{}", lines[2]);
    }

    #[test]
    fn a_program_gets_one_tab_between_values_and_none_inside() {
        assert_eq!(tabbed(["a", "", "b\tc\nd"]), "a\t\tb c d");
        assert_eq!(tabbed(["\x1b]0;mine\x07a\u{202e}b", "\x1b[2J\u{9b}1mc\0"]), "ab\t1mc");
    }
}
