//! The rows of a session for a model: in one line each, or whole, and never more than a model can
//! use.

use serde_json::{Map, Value};
use wharf_api::mcp::{LinesOutput, OutputFormat, OutputInput, RowLine};
use wharf_api::{ErrorCode, RowQuery, TranscriptRow};

use super::wait;
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

/// The most characters of all rows of an answer.
const MAX_ROWS_CHARS: usize = 25_000;

/// Refuses arguments that only rows take.
pub(super) fn refuse_row_arguments(input: &OutputInput) -> Result<(), Fault> {
    let takes_turn = input.format == Some(OutputFormat::Changes);
    let given = [
        ("turn", input.turn.is_some() && !takes_turn),
        ("kinds", input.kinds.is_some()),
        ("whole", input.whole.is_some()),
        ("before", input.before.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((name, _)) => {
            let detail = format!("{name}: this format does not take it; set format to \"rows\"");
            Err(Fault::new(ErrorCode::INVALID_PARAMS, detail).with_legacy_code("invalid_arguments"))
        }
    }
}

/// Reads rows, and returns them with the text that a model reads.
pub(super) async fn read_rows(
    app: &App,
    caller: &Caller,
    input: OutputInput,
) -> Result<(LinesOutput, String), Fault> {
    let OutputInput { session_id, last_n, turn, kinds, whole, before, .. } = input;
    let query = RowQuery { before, turn, limit: last_n, kinds, ..RowQuery::default() };
    let page = use_cases::read_rows_from_end(app, caller, &session_id, &query).await?;
    let session = use_cases::get_session(app, caller, &session_id)?;
    let asks = wait::list_open_asks(app, caller, &session).await?;
    let mut before = page.before;
    let lines = page.rows.iter().map(|row| to_row_line(row, whole.unwrap_or(false))).collect();
    let (rows, left_out) = keep_newest_rows(lines);
    if left_out > 0 {
        // The next page ends where this answer begins.
        before = rows.first().map(|first| use_cases::to_cursor(&first.id));
    }
    let text = rows.iter().map(show_row).collect::<Vec<_>>().join("\n");
    let output = LinesOutput {
        session_id,
        lines: Vec::new(),
        rows: Some(rows),
        changes: None,
        before,
        truncated: left_out > 0,
        status: session.status,
        turn: session.turn,
        asks,
    };
    Ok((output, text))
}

fn to_row_line(row: &TranscriptRow, is_whole: bool) -> RowLine {
    let whole = || match serde_json::to_value(row) {
        Ok(Value::Object(members)) => members,
        Ok(_) | Err(_) => Map::new(),
    };
    RowLine {
        id: row.id.clone(),
        kind: row.body.kind().to_owned(),
        summary: row.summary.clone(),
        turn: row.turn.clone(),
        open: row.open,
        row: is_whole.then(whole),
    }
}

fn show_row(line: &RowLine) -> String {
    match &line.row {
        None => format!("[{}] {} {}", line.id, line.kind, line.summary),
        Some(row) => Value::Object(row.clone()).to_string(),
    }
}

/// Keeps the newest rows that fit into an answer, at least one. A row that is too large alone is
/// kept in one line. Also returns how many were left out.
fn keep_newest_rows(mut rows: Vec<RowLine>) -> (Vec<RowLine>, usize) {
    let mut room = MAX_ROWS_CHARS;
    let size = |row: &RowLine| serde_json::to_string(row).map_or(0, |text| text.chars().count());
    let mut kept = 0;
    for row in rows.iter_mut().rev() {
        if size(row) > room && kept == 0 {
            row.row = None;
        }
        let chars = size(row);
        if chars > room {
            break;
        }
        room -= chars;
        kept += 1;
    }
    let left_out = rows.len() - kept;
    rows.drain(..left_out);
    (rows, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: usize, chars: usize) -> RowLine {
        let row = Map::from_iter([("text".to_owned(), Value::String("x".repeat(chars)))]);
        let id = format!("1-{n}");
        let kind = "message".to_owned();
        RowLine {
            id,
            kind,
            summary: "short".to_owned(),
            turn: None,
            open: false,
            row: Some(row),
        }
    }

    #[test]
    fn answer_holds_the_newest_rows_that_fit() {
        let (kept, left_out) = keep_newest_rows((0..100).map(|n| row(n, 1_000)).collect());
        assert_eq!(
            (kept.len() + left_out, kept.last().map(|row| row.id.as_str())),
            (100, Some("1-99"))
        );
        let chars: usize =
            kept.iter().map(|row| serde_json::to_string(row).unwrap().chars().count()).sum();
        assert!((20_000..=MAX_ROWS_CHARS).contains(&chars), "{chars}");
    }

    #[test]
    fn row_that_is_too_large_alone_is_kept_in_one_line() {
        let (kept, left_out) = keep_newest_rows(vec![row(1, 10), row(2, 50_000)]);
        assert_eq!((left_out, kept.len(), &kept[1].row), (0, 2, &None));
    }
}
