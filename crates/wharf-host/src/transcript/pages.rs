//! Pages of rows: where they begin and end (rule 13.4).

use wharf_api::TranscriptRow;
use wharf_core::EventId;
use wharf_store::StoreError;
use wharf_transcript::RowKey;

use super::live::LiveState;
use super::row_cache::{NumberedRow, RowScan, ScannedRows, missing_row};

/// The most rows and bytes of a page.
pub const MAX_PAGE_ROWS: usize = 200;
const MAX_PAGE_BYTES: usize = 1024 * 1024;
/// A page begins with its turn if the turn has at most so many bytes, and rows in relation to those
/// that were asked for.
const MAX_ALIGNED_BYTES: usize = 512 * 1024;
const ALIGNED_TURN_FACTOR: usize = 2;
/// The prompts that are looked through for that of a turn: messages of a user within a turn are
/// prompts, too.
const MAX_HEAD_PROMPTS: usize = 16;

/// Where a page lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageAnchor {
    /// The newest rows.
    End,
    /// The oldest rows.
    Start,
    /// The rows before the one with this id.
    Before(String),
    /// The rows after the one with this id.
    After(String),
    /// The row with this id, or that holds this event, with rows on both sides.
    Around(String),
    /// Rows of a prompt's turn.
    Turn { prompt: String, place: TurnPlace },
}

/// Where in a turn a page lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnPlace {
    Start,
    End,
    /// The rows before the one with this id.
    Before(String),
    /// The rows after the one with this id.
    After(String),
}

#[derive(Clone, Debug)]
pub struct PageRequest {
    pub anchor: PageAnchor,
    pub limit: usize,
    /// Only rows of these kinds; empty for all.
    pub kinds: Vec<String>,
}

/// A page of rows, the oldest first.
#[derive(Clone, Debug)]
pub struct RowSlice {
    /// The last event that the rows cover; `None` for an empty log.
    pub as_of: Option<EventId>,
    pub rows: Vec<TranscriptRow>,
    /// The id of the first row, if there are older ones.
    pub before: Option<String>,
    /// The id of the last row, if there are newer ones.
    pub after: Option<String>,
    /// True if the first row is not the first of its turn.
    pub is_mid_turn: bool,
    /// The prompt of the turn that the page begins within.
    pub turn_head: Option<TranscriptRow>,
    pub open_asks: Vec<String>,
    pub plan: Option<String>,
}

/// A page that cannot be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownAnchor {
    Row,
    Turn,
}

/// The rows of a page, and the part of the transcript that was looked through for them.
struct Window {
    rows: Vec<NumberedRow>,
    first: u64,
    last: u64,
    /// The rows that can be reached from this page.
    bounds: (u64, u64),
}

impl LiveState {
    pub(super) fn page(
        &self,
        request: &PageRequest,
    ) -> Result<Result<RowSlice, UnknownAnchor>, StoreError> {
        let count = self.rows.count();
        let found = |number: Option<u64>| number.ok_or(UnknownAnchor::Row);
        let window = match &request.anchor {
            PageAnchor::End => self.window_before(count + 1, request.limit, request)?,
            PageAnchor::Start => self.window_after(0, request.limit, request)?,
            PageAnchor::Before(id) => match found(self.rows.find_id(id)?) {
                Ok(number) => self.window_before(number, request.limit, request)?,
                Err(unknown) => return Ok(Err(unknown)),
            },
            PageAnchor::After(id) => match found(self.rows.find_id(id)?) {
                Ok(number) => self.window_after(number, request.limit, request)?,
                Err(unknown) => return Ok(Err(unknown)),
            },
            PageAnchor::Around(id) => match found(self.find_containing(id)?) {
                Ok(number) => self.window_around(number, request)?,
                Err(unknown) => return Ok(Err(unknown)),
            },
            PageAnchor::Turn { prompt, place } => {
                match self.window_of_turn(prompt, place, request)? {
                    Ok(window) => window,
                    Err(unknown) => return Ok(Err(unknown)),
                }
            }
        };
        self.finish_page(window, request).map(Ok)
    }

    /// Returns the rows that came before a row, aligned to their turn if that is short.
    fn window_before(
        &self,
        before: u64,
        limit: usize,
        request: &PageRequest,
    ) -> Result<Window, StoreError> {
        let last = before.saturating_sub(1);
        let limit = limit.clamp(1, MAX_PAGE_ROWS);
        let scan = RowScan {
            first: 1,
            last,
            kinds: &request.kinds,
            newest_first: true,
            max_rows: limit,
            max_bytes: MAX_PAGE_BYTES,
        };
        let ScannedRows { mut rows, is_complete } = self.rows.scan_while(&scan, |_| true)?;
        rows.reverse();
        let first = rows.first().filter(|_| !is_complete).map_or(1, |row| row.number);
        let mut window = Window { rows, first, last, bounds: (1, self.rows.count()) };
        if request.kinds.is_empty() {
            self.align(&mut window, request.limit)?;
        }
        Ok(window)
    }

    /// Adds the earlier rows of the first row's turn, if the turn is short enough.
    fn align(&self, window: &mut Window, limit: usize) -> Result<(), StoreError> {
        let Some(turn) = window.rows.first().and_then(|first| first.row.turn.clone()) else {
            return Ok(());
        };
        let of_turn: Vec<&NumberedRow> = window
            .rows
            .iter()
            .take_while(|row| row.row.turn.as_ref() == Some(&turn))
            .collect();
        let turn_rows = of_turn.len();
        let turn_bytes = of_turn.iter().map(|row| row.bytes).sum::<usize>();
        let page_bytes: usize = window.rows.iter().map(|row| row.bytes).sum();
        let room_rows = (ALIGNED_TURN_FACTOR * limit)
            .saturating_sub(turn_rows)
            .min(MAX_PAGE_ROWS.saturating_sub(window.rows.len()));
        let room_bytes = MAX_ALIGNED_BYTES
            .saturating_sub(turn_bytes)
            .min(MAX_PAGE_BYTES.saturating_sub(page_bytes));
        // One more than there is room for tells whether the turn begins there.
        let scan = RowScan {
            first: 1,
            last: window.first - 1,
            kinds: &[],
            newest_first: true,
            max_rows: room_rows + 1,
            max_bytes: usize::MAX,
        };
        let mut earlier = Vec::new();
        let mut bytes = 0;
        let mut is_whole = true;
        for row in self.rows.scan_while(&scan, |row| row.row.turn.as_ref() == Some(&turn))?.rows {
            bytes += row.bytes;
            if earlier.len() >= room_rows || bytes > room_bytes {
                is_whole = false;
                break;
            }
            earlier.push(row);
        }
        if is_whole && !earlier.is_empty() {
            earlier.reverse();
            window.first = earlier[0].number;
            earlier.append(&mut window.rows);
            window.rows = earlier;
        }
        Ok(())
    }

    fn window_after(
        &self,
        after: u64,
        limit: usize,
        request: &PageRequest,
    ) -> Result<Window, StoreError> {
        let limit = limit.clamp(1, MAX_PAGE_ROWS);
        let scan = RowScan {
            first: after + 1,
            last: self.rows.count(),
            kinds: &request.kinds,
            newest_first: false,
            max_rows: limit,
            max_bytes: MAX_PAGE_BYTES,
        };
        let ScannedRows { rows, is_complete } = self.rows.scan_while(&scan, |_| true)?;
        let last = rows.last().filter(|_| !is_complete).map_or(self.rows.count(), |row| row.number);
        Ok(Window { rows, first: after + 1, last, bounds: (1, self.rows.count()) })
    }

    fn window_around(&self, number: u64, request: &PageRequest) -> Result<Window, StoreError> {
        let limit = request.limit.min(MAX_PAGE_ROWS);
        let mut window = self.window_before(number, limit / 2, request)?;
        let rest = MAX_PAGE_ROWS.saturating_sub(window.rows.len()).min(limit - limit / 2);
        let later = self.window_after(number.saturating_sub(1), rest.max(1), request)?;
        let mut bytes: usize = window.rows.iter().map(|row| row.bytes).sum();
        window.last = later.last;
        for row in later.rows {
            bytes += row.bytes;
            if bytes > MAX_PAGE_BYTES && row.number > number {
                window.last = row.number - 1;
                break;
            }
            window.rows.push(row);
        }
        Ok(window)
    }

    /// Returns rows of one turn. Rows of other turns may lie between them.
    fn window_of_turn(
        &self,
        prompt: &str,
        place: &TurnPlace,
        request: &PageRequest,
    ) -> Result<Result<Window, UnknownAnchor>, StoreError> {
        let Some(bounds) = self.turn_bounds(prompt)? else { return Ok(Err(UnknownAnchor::Turn)) };
        let (mut first, mut last) = bounds;
        if let TurnPlace::Before(id) | TurnPlace::After(id) = place {
            let Some(number) = self.rows.find_id(id)? else { return Ok(Err(UnknownAnchor::Row)) };
            match place {
                TurnPlace::Before(_) => last = last.min(number - 1),
                TurnPlace::After(_) | TurnPlace::Start | TurnPlace::End => {
                    first = first.max(number + 1)
                }
            }
        }
        let newest_first = matches!(place, TurnPlace::End | TurnPlace::Before(_));
        let limit = request.limit.min(MAX_PAGE_ROWS);
        let scan = RowScan {
            first,
            last,
            kinds: &request.kinds,
            newest_first,
            max_rows: limit,
            max_bytes: MAX_PAGE_BYTES,
        };
        let ScannedRows { mut rows, is_complete } = self.rows.scan_while(&scan, |_| true)?;
        if let Some(reached) = rows.last().map(|row| row.number).filter(|_| !is_complete) {
            if newest_first { first = reached } else { last = reached }
        }
        if newest_first {
            rows.reverse();
        }
        rows.retain(|row| row.row.turn.as_deref() == Some(prompt));
        Ok(Ok(Window { rows, first, last, bounds }))
    }

    fn finish_page(&self, window: Window, request: &PageRequest) -> Result<RowSlice, StoreError> {
        let Window { rows, first, last, bounds } = window;
        let is_mid_turn = match rows.first() {
            Some(row) if request.kinds.is_empty() => self.is_mid_turn(row)?,
            Some(_) | None => false,
        };
        let turn_head = match rows.first().filter(|_| is_mid_turn) {
            Some(row) => self.turn_head(row)?,
            None => None,
        };
        // Cursors name the rows at the ends of the part that was looked through.
        let is_within = bounds.0 <= first && first <= last && last <= bounds.1;
        let before = if is_within && first > bounds.0 { Some(self.row_id(first)?) } else { None };
        let after = if is_within && last < bounds.1 { Some(self.row_id(last)?) } else { None };
        let open_asks = self.fold.open_asks().into_iter().map(|number| self.row_id(number.0));
        Ok(RowSlice {
            as_of: self.fold.position(),
            before,
            after,
            is_mid_turn,
            turn_head,
            open_asks: open_asks.collect::<Result<_, _>>()?,
            plan: self.fold.plan().map(|number| self.row_id(number.0)).transpose()?,
            rows: rows.into_iter().map(|row| row.row).collect(),
        })
    }

    fn is_mid_turn(&self, row: &NumberedRow) -> Result<bool, StoreError> {
        let Some(turn) = row.row.turn.clone().filter(|_| row.number > 1) else { return Ok(false) };
        if let Some(first) = self
            .rows
            .find_key(&RowKey::Turn { prompt: turn })?
            .filter(|first| *first <= row.number)
        {
            return Ok(first < row.number);
        }
        // The turn has been repeated; this is a row of an earlier attempt.
        let earlier = self.rows.row(row.number - 1)?.ok_or_else(|| missing_row(row.number - 1))?;
        Ok(earlier.turn == row.row.turn)
    }

    /// Returns the newest prompt of the row's turn before the row.
    fn turn_head(&self, row: &NumberedRow) -> Result<Option<TranscriptRow>, StoreError> {
        let kinds = ["prompt".to_owned()];
        let scan = RowScan {
            first: 1,
            last: row.number - 1,
            kinds: &kinds,
            newest_first: true,
            max_rows: MAX_HEAD_PROMPTS,
            max_bytes: usize::MAX,
        };
        let mut prompts = self.rows.scan(&scan)?.into_iter().map(|prompt| prompt.row);
        Ok(prompts.find(|prompt| prompt.turn == row.row.turn))
    }

    /// Returns the first and the last row of a prompt's turn; of a running turn the last row there
    /// is.
    pub(super) fn turn_bounds(&self, prompt: &str) -> Result<Option<(u64, u64)>, StoreError> {
        let Some(first) = self.rows.find_key(&RowKey::Turn { prompt: prompt.to_owned() })? else {
            return Ok(None);
        };
        Ok(Some((first, self.turn_end(first, prompt)?.unwrap_or(self.rows.count()))))
    }

    /// Returns the number of the row that ends the turn which begins with the row `first`.
    pub(super) fn turn_end(&self, first: u64, prompt: &str) -> Result<Option<u64>, StoreError> {
        let kinds = ["turn_end".to_owned()];
        let mut from = first;
        loop {
            let scan = RowScan {
                first: from,
                last: self.rows.count(),
                kinds: &kinds,
                newest_first: false,
                max_rows: 8,
                max_bytes: usize::MAX,
            };
            let ends = self.rows.scan(&scan)?;
            if let Some(end) = ends.iter().find(|end| end.row.turn.as_deref() == Some(prompt)) {
                return Ok(Some(end.number));
            }
            match ends.last() {
                Some(last) => from = last.number + 1,
                None => return Ok(None),
            }
        }
    }

    /// Returns the number of the row with this id. For the id of another event it is the last row
    /// that was there at the event.
    pub(super) fn find_containing(&self, id: &str) -> Result<Option<u64>, StoreError> {
        if let Some(number) = self.rows.find_id(id)? {
            return Ok(Some(number));
        }
        let Some(event) = id.split('.').next().and_then(|id| id.parse::<EventId>().ok()) else {
            return Ok(None);
        };
        if self.fold.position().is_none_or(|last| event.seq > last.seq) {
            return Ok(None);
        }
        self.rows.find_created_by(event.seq.0)
    }

    pub(super) fn row_id(&self, number: u64) -> Result<String, StoreError> {
        Ok(self.rows.row(number)?.ok_or_else(|| missing_row(number))?.id)
    }
}
