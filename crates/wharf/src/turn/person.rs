//! Puts asks to the person at the terminal, one at a time.

use std::collections::VecDeque;
use std::io::BufRead;

use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc::{Receiver, channel};

use crate::ask::{AnswerableAsk, AskChoice};
use crate::format::text::to_printable;
use crate::output;

#[derive(Debug, Default)]
pub(super) struct Person {
    /// The first one is on the screen.
    asks: VecDeque<AnswerableAsk>,
    lines: Option<Receiver<String>>,
}

impl Person {
    pub(super) fn is_present() -> bool {
        output::is_person_present()
    }

    pub(super) fn add_ask(&mut self, ask: AnswerableAsk) {
        self.asks.push_back(ask);
        if self.asks.len() == 1 {
            self.show_first_ask();
        }
    }

    /// Removes an ask that was answered elsewhere or withdrawn.
    pub(super) fn withdraw_ask(&mut self, id: &str) {
        let first = self.asks.front().is_some_and(|ask| ask.id() == id);
        self.asks.retain(|ask| ask.id() != id);
        if first {
            output::print_note("\n  answered elsewhere, or withdrawn");
            self.show_first_ask();
        }
    }

    pub(super) fn forget_asks(&mut self) {
        self.asks.clear();
    }

    /// Returns the next typed line. Waits for ever while no ask is on the screen.
    pub(super) async fn read_line(&mut self) -> String {
        match &mut self.lines {
            Some(lines) if !self.asks.is_empty() => match lines.recv().await {
                Some(line) => line,
                None => {
                    // Stdin is closed: no answer will come from here.
                    self.asks.clear();
                    std::future::pending().await
                }
            },
            Some(_) | None => std::future::pending().await,
        }
    }

    /// Returns the ask on the screen with the typed answer. Asks again if the line is not a valid answer.
    pub(super) fn handle_line(&mut self, line: &str) -> Option<(AnswerableAsk, AskChoice)> {
        let ask = self.asks.front()?;
        let typed = line.trim();
        let numbered =
            typed.parse::<usize>().ok().and_then(|number| ask.choices().into_iter().nth(number.checked_sub(1)?));
        let Ok(choice) = numbered.map_or_else(|| ask.find_choice(typed), Ok) else {
            output::print_question("  a number or a name, please: ");
            return None;
        };
        let ask = self.asks.pop_front()?;
        self.show_first_ask();
        Some((ask, choice))
    }

    /// Shows the first ask, if there is one. Lines that were typed before do not count as an answer.
    fn show_first_ask(&mut self) {
        let Some(ask) = self.asks.front() else { return };
        let _ = tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
        let lines = self.lines.get_or_insert_with(typed_lines);
        while lines.try_recv().is_ok() {}
        output::print_note(&format!("? {}", to_printable(ask.subject())));
        for (place, choice) in ask.choices().iter().enumerate() {
            output::print_note(&format!("  {}) {}", place + 1, to_printable(&choice.name)));
        }
        output::print_question("  your answer: ");
    }
}

/// Reads typed lines on a thread of its own, since reading a terminal blocks. The thread ends with the program.
fn typed_lines() -> Receiver<String> {
    let (sender, lines) = channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}
