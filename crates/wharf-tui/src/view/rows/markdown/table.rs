//! Tables: in columns if they fit, with wrapped cells if they almost fit, and row by row on a
//! narrow screen.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use wharf_render::style::Theme;
use wharf_render::text::{display_width, wrap_spans};

/// The text between two columns.
const DIVIDER: &str = " │ ";
/// A column is not made narrower than this to let the table fit.
const MIN_COLUMN_WIDTH: usize = 6;

/// The pieces of a cell.
type CellPieces = Vec<(Style, String)>;

/// The cells of a table, the head being the first row.
#[derive(Debug, Default)]
pub(super) struct TableText {
    pub(super) rows: Vec<Vec<CellPieces>>,
}

pub(super) fn table_lines(table: &TableText, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    match fit_widths(table, columns) {
        Some(widths) => column_lines(table, &widths, theme),
        None => record_lines(table, columns, theme),
    }
}

fn cell_width(cell: &CellPieces) -> usize {
    cell.iter().map(|(_, text)| display_width(text)).sum()
}

/// Returns the widths of the columns; `None` if they do not fit side by side.
fn fit_widths(table: &TableText, columns: usize) -> Option<Vec<usize>> {
    let count = table.rows.iter().map(Vec::len).max()?;
    let mut widths = vec![1; count];
    for row in &table.rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell_width(cell));
        }
    }
    let dividers = display_width(DIVIDER) * count.saturating_sub(1);
    let room = columns.checked_sub(dividers)?;
    while widths.iter().sum::<usize>() > room {
        let widest = widths.iter_mut().max()?;
        if *widest <= MIN_COLUMN_WIDTH {
            return None;
        }
        *widest -= 1;
    }
    Some(widths)
}

fn column_lines(table: &TableText, widths: &[usize], theme: Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (number, row) in table.rows.iter().enumerate() {
        let empty = CellPieces::new();
        let cells: Vec<Vec<Line<'static>>> = (0..widths.len())
            .map(|at| {
                wrap_spans(row.get(at).unwrap_or(&empty), widths.get(at).copied().unwrap_or(1))
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        for at in 0..height {
            lines.push(join_cells(&cells, at, widths, number == 0, theme));
        }
        if number == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            lines.push(Line::styled(rules.join("─┼─"), theme.faint));
        }
    }
    lines
}

/// Joins one line of each cell.
fn join_cells(
    cells: &[Vec<Line<'static>>],
    at: usize,
    widths: &[usize],
    is_head: bool,
    theme: Theme,
) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if number > 0 {
            spans.push(Span::styled(DIVIDER, theme.faint));
        }
        let mut used = 0;
        for span in cell.get(at).into_iter().flat_map(|line| &line.spans) {
            used += display_width(&span.content);
            let span = span.clone();
            spans.push(if is_head { span.patch_style(theme.strong) } else { span });
        }
        if number + 1 < cells.len() {
            spans.push(Span::raw(" ".repeat(width.saturating_sub(used))));
        }
    }
    Line::from(spans)
}

/// Writes each row as lines of `head: cell`, with an empty line between rows.
fn record_lines(table: &TableText, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let Some((head, rows)) = table.rows.split_first() else { return Vec::new() };
    let mut lines = Vec::new();
    for row in rows {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        for (at, cell) in row.iter().enumerate() {
            let name: String =
                head.get(at).into_iter().flatten().map(|(_, text)| text.as_str()).collect();
            let mut pieces = vec![(theme.strong, format!("{name}: "))];
            pieces.extend(cell.iter().cloned());
            lines.extend(wrap_spans(&pieces, columns));
        }
    }
    lines
}
