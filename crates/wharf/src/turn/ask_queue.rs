//! The asks that a person at the terminal is to answer, one at a time.

use std::collections::VecDeque;

use wharf_render::style::Screen;

use crate::ask::{AnswerableAsk, AskChoice, AskQuestion, FormFilling, FormStep};

/// Open asks, of which the first is on the screen.
#[derive(Debug, Default)]
pub(crate) struct AskQueue {
    asks: VecDeque<QueuedAsk>,
}

#[derive(Debug)]
struct QueuedAsk {
    ask: AnswerableAsk,
    /// The fields of a form that are filled in so far.
    filling: Option<FormFilling>,
}

/// The meaning of a typed line for the ask on the screen.
#[derive(Debug)]
pub(crate) enum TypedAnswer {
    Chosen(Box<AnswerableAsk>, AskChoice),
    /// The ask stays on the screen: this is to be asked next.
    Question(AskQuestion),
    /// No ask is open.
    NoAsk,
}

impl QueuedAsk {
    fn new(ask: AnswerableAsk) -> Self {
        Self { filling: ask.form().map(FormFilling::new), ask }
    }
}

impl AskQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.asks.is_empty()
    }

    /// Adds an ask, or replaces the ask with its id. Returns true if the first ask is new or has
    /// changed, so that the client has to show it.
    pub(crate) fn put(&mut self, ask: AnswerableAsk) -> bool {
        match self.asks.iter().position(|known| known.ask.id() == ask.id()) {
            Some(place) => {
                let Some(known) = self.asks.get_mut(place) else { return false };
                let changed = known.ask.0.subject != ask.0.subject;
                if changed {
                    *known = QueuedAsk::new(ask);
                }
                changed && place == 0
            }
            None => {
                self.asks.push_back(QueuedAsk::new(ask));
                self.asks.len() == 1
            }
        }
    }

    /// Removes an ask that was answered elsewhere or withdrawn. Returns true if it was on the
    /// screen.
    pub(crate) fn withdraw(&mut self, id: u64) -> bool {
        let is_first = self.asks.front().is_some_and(|queued| queued.ask.0.ask_id == id);
        self.asks.retain(|queued| queued.ask.0.ask_id != id);
        is_first
    }

    pub(crate) fn forget_all(&mut self) {
        self.asks.clear();
    }

    /// Removes all asks and returns them, the one on the screen first.
    pub(crate) fn take_all(&mut self) -> Vec<AnswerableAsk> {
        self.asks.drain(..).map(|queued| queued.ask).collect()
    }

    /// Takes the typed line as the answer to the ask on the screen, or to one field of it.
    pub(crate) fn take_answer(&mut self, line: &str) -> TypedAnswer {
        let Some(QueuedAsk { ask, filling }) = self.asks.front_mut() else {
            return TypedAnswer::NoAsk;
        };
        let choice = match filling.as_mut().map(|filling| filling.take_line(line)) {
            Some(FormStep::Ask(question)) => return TypedAnswer::Question(question),
            Some(FormStep::Filled(content)) => AnswerableAsk::acceptance(content),
            Some(FormStep::Declined) => ask.refusal_choice(),
            None => match ask.find_typed_choice(line.trim()) {
                Ok(choice) => choice,
                Err(_) => {
                    let prompt = "  a number or a name, please: ".to_owned();
                    return TypedAnswer::Question(AskQuestion { lines: Vec::new(), prompt });
                }
            },
        };
        self.answer_first(choice)
    }

    /// Declines the ask on the screen if it is a form: the person has pressed Ctrl-D.
    pub(crate) fn decline_form(&mut self) -> TypedAnswer {
        match self.asks.front() {
            Some(QueuedAsk { ask, filling: Some(_) }) => {
                let choice = ask.refusal_choice();
                self.answer_first(choice)
            }
            Some(_) | None => TypedAnswer::NoAsk,
        }
    }

    fn answer_first(&mut self, choice: AskChoice) -> TypedAnswer {
        match self.asks.pop_front() {
            Some(QueuedAsk { ask, .. }) => TypedAnswer::Chosen(Box::new(ask), choice),
            None => TypedAnswer::NoAsk,
        }
    }

    /// Returns the question of the ask on the screen.
    pub(crate) fn first_question(&self, screen: Screen) -> Option<AskQuestion> {
        let QueuedAsk { ask, filling } = self.asks.front()?;
        Some(match filling {
            Some(filling) => ask.form_question(filling, screen),
            None => ask.choice_question(screen),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Some agents count their options from 0, while the question shows them from 1.
    #[test]
    fn typed_number_is_the_place_that_is_shown_whatever_the_ids_are() {
        let option = |id: &str, name: &str| json!({ "optionId": id, "name": name, "kind": "" });
        let options =
            [option("0", "Allow"), option("1", "Allow and remember"), option("2", "Reject")];
        let ask = json!({ "askId": 7, "kind": "permission", "options": options, "params": {} });
        for (line, chosen) in
            [("1", Some("0")), ("2", Some("1")), (" 3 ", Some("2")), ("0", None), ("4", None)]
        {
            let mut queue = AskQueue::default();
            queue.put(AnswerableAsk(serde_json::from_value(ask.clone()).unwrap()));
            let answer = match queue.take_answer(line) {
                TypedAnswer::Chosen(_, choice) => Some(choice.id),
                TypedAnswer::Question(_) | TypedAnswer::NoAsk => None,
            };
            assert_eq!(answer.as_deref(), chosen, "{line:?}");
        }
    }
}
