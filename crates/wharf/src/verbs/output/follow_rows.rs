//! `wharf output -f`: the rows as they change, past restarts of the host and sleeps of the agent,
//! until the session ends.

use std::collections::HashSet;

use wharf_api::{RowPage, SessionInfo, TranscriptRow};

use super::aip_lines::is_going_on;
use super::history::{RowSelection, read_rows};
use super::row_printer::RowPrinter;
use crate::client::{HostCall, HostClient, TranscriptStream, TranscriptUpdate, url_path};
use crate::exit::Exit;

/// Follows the rows of one session.
struct RowFollower<'a> {
    client: &'a HostClient,
    session: &'a str,
    selection: &'a RowSelection,
    printer: RowPrinter,
    /// The rows that were handed to the printer.
    seen: HashSet<String>,
}

/// Prints the last `lines` lines of the session, then new rows, until the session ends or the
/// reader is gone.
pub(super) async fn follow_rows(
    client: &HostClient,
    session: &SessionInfo,
    selection: &RowSelection,
    printer: RowPrinter,
    lines: Option<usize>,
) -> anyhow::Result<Exit> {
    let mut follower = RowFollower {
        client,
        session: &session.id,
        selection,
        printer,
        seen: HashSet::new(),
    };
    let mut stream = TranscriptStream::open(client, &session.id, false);
    while let Some(update) = stream.next().await? {
        let goes_on = match update {
            TranscriptUpdate::FirstPage { rows, .. } => {
                follower.print_first_page(rows, lines).await?
            }
            TranscriptUpdate::Row(row) => follower.print_row(&row),
            TranscriptUpdate::State(state) => {
                is_going_on(&state.session) || follower.print_missing().await?
            }
            TranscriptUpdate::Event(_)
            | TranscriptUpdate::HostAway
            | TranscriptUpdate::HostBack => true,
            TranscriptUpdate::Gone => false,
        };
        if !goes_on {
            break;
        }
    }
    follower.printer.end_line();
    Ok(Exit::Ok)
}

impl RowFollower<'_> {
    /// Prints the newest page and the rows before it. Returns false if the reader is gone.
    async fn print_first_page(
        &mut self,
        page: Vec<TranscriptRow>,
        lines: Option<usize>,
    ) -> anyhow::Result<bool> {
        let limit = self.printer.read_limit(lines);
        let older = match page.first() {
            Some(first) => {
                read_rows(self.client, self.session, self.selection, Some(&first.id), limit).await?
            }
            None => Vec::new(),
        };
        let older = older.into_iter().map(|read| read.row);
        let rows: Vec<TranscriptRow> = older
            .chain(page.into_iter().filter(|row| self.selection.includes(row)))
            .collect();
        self.seen.extend(rows.iter().map(|row| row.id.clone()));
        Ok(self.printer.print_history(&rows, lines))
    }

    fn print_row(&mut self, row: &TranscriptRow) -> bool {
        self.seen.insert(row.id.clone());
        !self.selection.includes(row) || self.printer.print_row(row)
    }

    /// Prints rows that the stream has not brought yet: the session is over. Returns false.
    async fn print_missing(&mut self) -> anyhow::Result<bool> {
        let call = HostCall::get(url_path(&["sessions", self.session, "rows"]));
        let page: RowPage = self.client.fetch_json_across_restart(&call).await?;
        let known =
            page.rows.iter().position(|row| self.seen.contains(&row.id)).unwrap_or_default();
        for row in page.rows.iter().skip(known) {
            self.print_row(row);
        }
        Ok(false)
    }
}
