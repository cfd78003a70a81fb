//! Reads the rows of a session, page by page, however many there are.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;
use wharf_api::TranscriptRow;
use wharf_host::parse_timestamp;
use wharf_render::style::Screen;

use crate::client::{HostCall, HostClient, complete_texts, query_part, url_path};
use crate::transcript::{RowLook, render_row};

/// How rows are shown whose lines are only counted.
const COUNTED_LOOK: RowLook = RowLook {
    screen: Screen { terminal: false, colour: false, width: 80 },
    times: false,
};
/// The most rows that the host gives at once.
const MAX_PAGE_ROWS: usize = 200;

/// The rows that are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct RowSelection {
    /// The id of the prompt whose turn is wanted.
    pub(super) turn: Option<String>,
    /// Only rows that came at or after this time, in milliseconds since 1970.
    pub(super) since: Option<u64>,
    /// Only what the agent says.
    pub(super) messages_only: bool,
}

impl RowSelection {
    /// Returns true if the row is wanted.
    pub(super) fn includes(&self, row: &TranscriptRow) -> bool {
        let is_message = matches!(row.body, wharf_api::RowBody::Message(_));
        self.is_recent(row) && (is_message || !self.messages_only)
    }

    fn is_recent(&self, row: &TranscriptRow) -> bool {
        self.since
            .is_none_or(|since| parse_timestamp(&row.at).is_none_or(|at| at.0 >= since))
    }
}

/// How much of the end of a session is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowReadLimit {
    Lines(usize),
    Rows(usize),
}

impl RowReadLimit {
    fn is_reached(self, lines: usize, rows: usize) -> bool {
        match self {
            Self::Lines(wanted) => lines >= wanted,
            Self::Rows(wanted) => rows >= wanted,
        }
    }
}

/// A row, and its JSON text as the host wrote it.
#[derive(Clone, Debug)]
pub(super) struct ReadRow {
    pub(super) row: TranscriptRow,
    pub(super) json: Box<RawValue>,
}

#[derive(Debug, Deserialize)]
struct RawRowPage {
    rows: Vec<Box<RawValue>>,
    before: Option<String>,
    after: Option<String>,
}

/// Returns the selected rows, the oldest first. With `before`, the id of a row, only older rows.
/// With `limit`, no more pages are read than it takes.
pub(super) async fn read_rows(
    client: &HostClient,
    session: &str,
    selection: &RowSelection,
    before: Option<&str>,
    limit: Option<RowReadLimit>,
) -> anyhow::Result<Vec<ReadRow>> {
    let mut pages = match &selection.turn {
        Some(turn) => PageReader::of_turn(client, session, turn),
        None => PageReader::from_newest(client, session, before),
    };
    let mut rows: VecDeque<ReadRow> = VecDeque::new();
    let mut line_count = 0;
    while let Some(mut page) = pages.next_page().await? {
        let is_old = page.last().is_some_and(|read| !selection.is_recent(&read.row));
        if let Some(end) =
            before.and_then(|before| page.iter().position(|read| read.row.id == before))
        {
            page.truncate(end);
        }
        page.retain(|read| selection.includes(&read.row));
        for read in &mut page {
            complete_texts(client, session, &mut read.row).await?;
            line_count += render_row(&read.row, COUNTED_LOOK).len();
        }
        if selection.turn.is_some() {
            rows.extend(page);
        } else {
            page.into_iter().rev().for_each(|read| rows.push_front(read));
            if is_old || limit.is_some_and(|limit| limit.is_reached(line_count, rows.len())) {
                break;
            }
        }
    }
    Ok(rows.into())
}

/// Reads pages of rows: of a turn forwards, of a session backwards.
#[derive(Debug)]
struct PageReader<'a> {
    client: &'a HostClient,
    path: String,
    /// The turn, as a part of every query.
    turn: String,
    /// The position of the next page as a part of the query; `None` after the last page.
    position: Option<String>,
}

impl<'a> PageReader<'a> {
    fn of_turn(client: &'a HostClient, session: &str, turn: &str) -> Self {
        let turn = query_part("turn", Some(turn));
        Self {
            client,
            path: url_path(&["sessions", session, "rows"]),
            turn,
            position: Some(String::new()),
        }
    }

    fn from_newest(client: &'a HostClient, session: &str, before: Option<&str>) -> Self {
        let position = Some(query_part("around", before));
        Self {
            client,
            path: url_path(&["sessions", session, "rows"]),
            turn: String::new(),
            position,
        }
    }

    async fn next_page(&mut self) -> anyhow::Result<Option<Vec<ReadRow>>> {
        let Some(position) = self.position.take() else { return Ok(None) };
        let path = &self.path;
        let turn = &self.turn;
        let call = HostCall::get(format!("{path}?limit={MAX_PAGE_ROWS}{turn}{position}"));
        let page: RawRowPage = self.client.fetch_json_across_restart(&call).await?;
        let next =
            if self.turn.is_empty() { ("before", page.before) } else { ("after", page.after) };
        self.position = next.1.map(|cursor| query_part(next.0, Some(&cursor)));
        let read = |json: Box<RawValue>| {
            let row = wharf_json::read_own(json.get().as_bytes())?;
            Ok(ReadRow { row, json })
        };
        page.rows.into_iter().map(read).collect::<anyhow::Result<_>>().map(Some)
    }
}
