//! The asks that a person at the terminal is to answer, one at a time.

use std::collections::VecDeque;

use crate::ask::{AnswerableAsk, AskChoice};
use crate::format::Screen;

/// Open asks, of which the first is on the screen.
#[derive(Debug, Default)]
pub(crate) struct AskQueue {
    asks: VecDeque<AnswerableAsk>,
}

/// The meaning of a typed line for the ask on the screen.
#[derive(Debug)]
pub(crate) enum TypedAnswer {
    Chosen(Box<AnswerableAsk>, AskChoice),
    /// No answer that is offered.
    Unclear,
    /// No ask is open.
    NoAsk,
}

impl AskQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.asks.is_empty()
    }

    /// Adds an ask, or replaces the one with its id. Returns true if the ask on the screen has to be shown anew.
    pub(crate) fn put(&mut self, ask: AnswerableAsk) -> bool {
        match self.asks.iter().position(|known| known.id() == ask.id()) {
            Some(place) => {
                let Some(known) = self.asks.get_mut(place) else { return false };
                let changed = known.0.subject != ask.0.subject;
                *known = ask;
                changed && place == 0
            }
            None => {
                self.asks.push_back(ask);
                self.asks.len() == 1
            }
        }
    }

    /// Removes an ask that was answered elsewhere or withdrawn. Returns true if it was on the screen.
    pub(crate) fn withdraw(&mut self, id: u64) -> bool {
        let is_first = self.asks.front().is_some_and(|ask| ask.0.ask_id == id);
        self.asks.retain(|ask| ask.0.ask_id != id);
        is_first
    }

    pub(crate) fn forget_all(&mut self) {
        self.asks.clear();
    }

    /// Takes the typed line as the answer to the ask on the screen.
    pub(crate) fn take_answer(&mut self, line: &str) -> TypedAnswer {
        let Some(ask) = self.asks.front() else { return TypedAnswer::NoAsk };
        match ask.find_choice(line.trim()) {
            Ok(choice) => match self.asks.pop_front() {
                Some(ask) => TypedAnswer::Chosen(Box::new(ask), choice),
                None => TypedAnswer::NoAsk,
            },
            Err(_) => TypedAnswer::Unclear,
        }
    }

    /// Returns the ask on the screen as lines.
    pub(crate) fn first_lines(&self, screen: Screen) -> Option<Vec<String>> {
        self.asks.front().map(|ask| ask.to_lines(screen))
    }
}
