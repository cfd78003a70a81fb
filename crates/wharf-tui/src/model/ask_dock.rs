//! The ask that is in view below the transcript, and the option that is selected.

use std::time::Duration;

use wharf_api::{AskOption, RowAsk};

/// Keys do nothing for so long after a card has appeared, so that a key that was on its way does not answer it.
pub(crate) const ANSWER_GUARD: Duration = Duration::from_millis(400);

#[derive(Clone, Debug, Default)]
pub(crate) struct AskDock {
    /// The ask in view, and since when it is.
    pub(crate) shown: Option<(u64, Duration)>,
    pub(crate) option: usize,
    /// Lines of the subject above the screen.
    pub(crate) scroll: usize,
    /// The ask whose answer is on its way.
    pub(crate) answering: Option<u64>,
}

impl AskDock {
    /// Returns the ask in view and its place among the open ones.
    pub(crate) fn current<'a>(&self, asks: &[&'a RowAsk]) -> Option<(usize, &'a RowAsk)> {
        let (shown, _) = self.shown?;
        asks.iter().copied().enumerate().find(|(_, ask)| ask.ask_id == shown)
    }

    /// Keeps the ask in view, or takes the oldest open one if it is gone.
    pub(crate) fn follow(&mut self, asks: &[&RowAsk], now: Duration) {
        if self.current(asks).is_none() {
            self.show(asks.first().map(|ask| ask.ask_id), now);
        }
    }

    pub(crate) fn show(&mut self, ask: Option<u64>, now: Duration) {
        *self = Self { shown: ask.map(|ask| (ask, now)), answering: self.answering, ..Self::default() };
    }

    /// Returns true if keys act on the card already.
    pub(crate) fn takes_keys(&self, now: Duration) -> bool {
        self.shown.is_some_and(|(_, since)| now >= since + ANSWER_GUARD)
    }
}

/// Returns the option of this kind if there is exactly one: only then a letter means it.
pub(crate) fn only_option<'a>(options: &'a [AskOption], kind: &str) -> Option<&'a AskOption> {
    let mut of_kind = options.iter().filter(|option| option.kind == kind);
    of_kind.next().filter(|_| of_kind.next().is_none())
}
