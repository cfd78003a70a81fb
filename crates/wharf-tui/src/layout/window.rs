//! The lines that fit the screen. Only rows in view are laid out, however many there are.

use wharf_api::TranscriptRow;

use crate::model::ScrollAnchor;
use crate::rows::{RowPlace, RowSet};

/// The visible lines of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VisibleRow {
    pub(crate) place: RowPlace,
    /// The first visible line of the row.
    pub(crate) first_line: usize,
    pub(crate) lines: usize,
}

/// Returns the rows that are in view, the oldest first. `count_lines` tells how many lines a row
/// has.
pub(crate) fn find_visible(
    rows: &RowSet,
    anchor: ScrollAnchor,
    height: usize,
    mut count_lines: impl FnMut(RowPlace, &TranscriptRow) -> usize,
) -> Vec<VisibleRow> {
    if let ScrollAnchor::At { place, line } = anchor {
        let visible = fill_down(rows, place, line, height, &mut count_lines);
        if visible.iter().map(|row| row.lines).sum::<usize>() >= height {
            return visible;
        }
        // The end is in view: the screen is filled from there.
    }
    fill_up(rows, height, &mut count_lines)
}

fn fill_down(
    rows: &RowSet,
    place: RowPlace,
    line: usize,
    height: usize,
    count_lines: &mut impl FnMut(RowPlace, &TranscriptRow) -> usize,
) -> Vec<VisibleRow> {
    let mut visible = Vec::new();
    let mut first_line = line;
    let mut free = height;
    for (place, row) in rows.iter_from(place) {
        if free == 0 {
            break;
        }
        let lines = count_lines(place, row).saturating_sub(first_line).min(free);
        if lines > 0 {
            visible.push(VisibleRow { place, first_line, lines });
        }
        free -= lines;
        first_line = 0;
    }
    visible
}

fn fill_up(
    rows: &RowSet,
    height: usize,
    count_lines: &mut impl FnMut(RowPlace, &TranscriptRow) -> usize,
) -> Vec<VisibleRow> {
    let mut visible = Vec::new();
    let mut free = height;
    for (place, row) in rows.iter().rev() {
        if free == 0 {
            break;
        }
        let all = count_lines(place, row);
        let lines = all.min(free);
        if lines > 0 {
            visible.push(VisibleRow { place, first_line: all - lines, lines });
        }
        free -= lines;
    }
    visible.reverse();
    visible
}

/// Returns the anchor after scrolling by so many lines, downwards if positive. At the end it
/// follows the newest line.
pub(crate) fn scroll_anchor(
    rows: &RowSet,
    anchor: ScrollAnchor,
    height: usize,
    by: isize,
    mut count_lines: impl FnMut(RowPlace, &TranscriptRow) -> usize,
) -> ScrollAnchor {
    let visible = find_visible(rows, anchor, height, &mut count_lines);
    let Some(top) = visible.first() else { return ScrollAnchor::End };
    let mut place = top.place;
    let mut line = top.first_line;
    if by < 0 {
        let mut left = by.unsigned_abs();
        let mut above = rows.iter_before(place);
        while left > line {
            left -= line;
            let Some((before, row)) = above.next() else {
                return ScrollAnchor::At { place, line: 0 };
            };
            (place, line) = (before, count_lines(before, row));
        }
        return ScrollAnchor::At { place, line: line - left };
    }
    let mut left = by.unsigned_abs();
    for (next, row) in rows.iter_from(top.place) {
        let lines = count_lines(next, row);
        let from = if next == top.place { line } else { 0 };
        if from + left < lines {
            (place, line) = (next, from + left);
            break;
        }
        left -= lines.saturating_sub(from);
        (place, line) = (next, lines.saturating_sub(1));
    }
    let below = fill_down(rows, place, line, height + 1, &mut count_lines);
    if below.iter().map(|row| row.lines).sum::<usize>() <= height {
        return ScrollAnchor::End;
    }
    ScrollAnchor::At { place, line }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wharf_api::RowStreamEvent;

    use super::*;

    /// Ten rows of three lines each, at the places 1 to 10.
    fn ten_rows() -> RowSet {
        let rows: Vec<_> = (1..=10)
            .map(|seq| {
                json!({ "id": format!("1-{seq}"), "rev": seq, "at": "", "changedAt": "", "turn": null, "parent": null,
                    "open": false, "summary": "", "kind": "message", "parts": [] })
            })
            .collect();
        let page = json!({ "fold": 4, "session": "s", "asOf": "1-9", "rows": rows, "before": null, "after": null,
            "midTurn": false, "turnHead": null });
        let mut set = RowSet::new(100);
        set.apply(RowStreamEvent::read("page", page).unwrap());
        set
    }

    fn at(seq: u64, line: usize) -> ScrollAnchor {
        ScrollAnchor::At { place: RowPlace::of_id(&format!("1-{seq}")), line }
    }

    fn scroll(from: ScrollAnchor, by: isize) -> ScrollAnchor {
        scroll_anchor(&ten_rows(), from, 5, by, |_, _| 3)
    }

    #[test]
    fn end_shows_the_newest_lines_and_an_anchor_the_lines_below_it() {
        let seen = |anchor| -> Vec<(usize, usize)> {
            find_visible(&ten_rows(), anchor, 5, |_, _| 3)
                .iter()
                .map(|row| (row.first_line, row.lines))
                .collect()
        };
        assert_eq!(seen(ScrollAnchor::End), [(1, 2), (0, 3)]);
        assert_eq!(seen(at(2, 1)), [(1, 2), (0, 3)]);
        assert_eq!(seen(at(10, 0)), [(1, 2), (0, 3)], "the screen is filled");
    }

    #[test]
    fn scrolling_stops_at_the_oldest_line_and_follows_at_the_newest() {
        assert_eq!(scroll(ScrollAnchor::End, -1), at(9, 0));
        assert_eq!(scroll(at(2, 1), -2), at(1, 2));
        assert_eq!(scroll(at(2, 1), -99), at(1, 0));
        assert_eq!(scroll(at(1, 0), 4), at(2, 1));
        assert_eq!(scroll(at(8, 0), 4), ScrollAnchor::End);
        assert_eq!(scroll(at(1, 0), 99), ScrollAnchor::End);
    }
}
