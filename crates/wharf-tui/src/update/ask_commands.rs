//! Commands of the focused ask. They act only there, and not in the first moment after a card has
//! appeared.

use serde_json::{Map, Value};
use wharf_api::{RowAsk, TurnPhase};
use wharf_render::text::to_printable;

use crate::api_call::{answer_ask, answer_form};
use crate::effect::TuiEffect;
use crate::keymap::AskCommand;
use crate::model::{
    AskFormInput, CallPurpose, FormAnswer, Overlay, PaneFocus, ReaderText, RowsLink, TuiState,
    form_answers, only_option, option_key,
};
use crate::view::{dock_scroll_limit, whole_subject};

/// The lines by which the subject is scrolled.
const SCROLL_LINES: usize = 5;

impl TuiState {
    /// Ctrl-G: to the ask; in the ask to the next one.
    pub(super) fn focus_ask(&mut self) {
        if self.focus == PaneFocus::Ask {
            self.show_next_ask();
            return;
        }
        if self.options.is_readonly {
            self.tell("an observer does not answer");
            return;
        }
        let has_card = self.open.as_ref().is_some_and(|open| open.dock.shown.is_some());
        if !has_card && !self.is_ask_expected() {
            self.tell("no question is open here");
            return;
        }
        self.wants_ask_focus = true;
        self.focus_wanted_ask();
    }

    /// Returns true if the open session waits for an answer. The row of the ask may come after
    /// that.
    fn is_ask_expected(&self) -> bool {
        self.open_info().is_some_and(|info| info.turn == TurnPhase::AwaitingInput)
    }

    /// Gives the focus to the ask that the person wanted to see, once its row has come. Any key
    /// before that ends the wish.
    pub(super) fn focus_wanted_ask(&mut self) {
        let Some(open) = &self.open else { return };
        if matches!(open.link, RowsLink::Opening { .. }) || !self.wants_ask_focus {
            return;
        }
        let has_card = open.dock.shown.is_some();
        if has_card && !self.options.is_readonly {
            self.focus = PaneFocus::Ask;
        }
        self.wants_ask_focus = !has_card && self.is_ask_expected();
    }

    /// Keeps the dock at an open ask. An ask that arrives never takes the focus.
    pub(super) fn refresh_dock(&mut self) {
        let now = self.now.elapsed;
        let Some(open) = &mut self.open else { return };
        let mut dock = std::mem::take(&mut open.dock);
        dock.drop_expired(now);
        let asks = open.open_asks();
        let lost = dock.shown.map(|(ask, _)| ask).filter(|_| dock.current(&asks).is_none());
        if let Some(ask) = lost
            .filter(|ask| dock.answering != Some(*ask))
            .and_then(|ask| open.find_ask(ask))
        {
            dock.note_resolved(ask, now);
        }
        dock.follow(&asks, now);
        open.dock = dock;
        if self.focus == PaneFocus::Ask && !open.dock.has_card() {
            self.ask_left_at = Some(now);
            self.focus_session();
        }
        self.focus_wanted_ask();
    }

    pub(super) fn run_ask_command(&mut self, command: AskCommand) {
        let now = self.now.elapsed;
        let limit = dock_scroll_limit(self);
        let Some(open) = &mut self.open else { return };
        if !open.dock.takes_keys(now) {
            return;
        }
        let asks = open.open_asks();
        let Some((_, ask)) = open.dock.current(&asks) else { return };
        let ask = ask.clone();
        let options =
            if ask.options.is_empty() { form_answers(&ask).len() } else { ask.options.len() };
        let last = options.saturating_sub(1);
        let dock = &mut open.dock;
        match command {
            AskCommand::OptionDown => dock.option = (dock.option + 1).min(last),
            AskCommand::OptionUp => dock.option = dock.option.saturating_sub(1),
            AskCommand::ScrollDown => dock.scroll = (dock.scroll + SCROLL_LINES).min(limit),
            AskCommand::ScrollUp => {
                dock.scroll = dock.scroll.min(limit).saturating_sub(SCROLL_LINES)
            }
            AskCommand::NextAsk => self.show_next_ask(),
            AskCommand::ShowWhole => self.open_subject(&ask),
            AskCommand::CopySubject => {
                let subject = &ask.subject;
                let link = ask.form.as_ref().and_then(|form| form.url.as_deref()).map(to_printable);
                let text =
                    subject.command.clone().or(link).unwrap_or_else(|| subject.paths.join("\n"));
                if text.is_empty() {
                    self.tell("nothing to copy: the question has no command and no path");
                } else {
                    self.emit(TuiEffect::Copy(text));
                }
            }
            AskCommand::Choose
            | AskCommand::AllowOnce
            | AskCommand::AllowAlways
            | AskCommand::Deny
            | AskCommand::Number(_) => self.answer_by_key(&ask, command),
        }
    }

    /// Answers the ask if the key means one of its options.
    fn answer_by_key(&mut self, ask: &RowAsk, command: AskCommand) {
        if ask.options.is_empty() {
            self.answer_form_by_key(ask, command);
            return;
        }
        let options = &ask.options;
        let selected = self.open.as_ref().map_or(0, |open| open.dock.option);
        let chosen = match command {
            AskCommand::Choose => options.get(selected),
            AskCommand::AllowOnce => only_option(options, "allow_once"),
            AskCommand::AllowAlways => only_option(options, "allow_always"),
            AskCommand::Deny => only_option(options, "reject_once"),
            AskCommand::Number(number) => {
                let place = usize::from(number).saturating_sub(1);
                // An option with a letter has no number: an answer is only given by the key that is
                // shown.
                options
                    .get(place)
                    .filter(|_| option_key(options, place) == char::from_digit(number.into(), 10))
            }
            AskCommand::OptionDown
            | AskCommand::OptionUp
            | AskCommand::NextAsk
            | AskCommand::ScrollDown
            | AskCommand::ScrollUp
            | AskCommand::ShowWhole
            | AskCommand::CopySubject => None,
        };
        if let Some(option) = chosen {
            self.answer_shown_ask(ask.ask_id, &option.option_id, option.kind.starts_with("reject"));
        }
    }

    /// Answers a question that has a form or a link instead of options.
    fn answer_form_by_key(&mut self, ask: &RowAsk, command: AskCommand) {
        let answers = form_answers(ask);
        let selected = self.open.as_ref().map_or(0, |open| open.dock.option);
        let key = match command {
            AskCommand::AllowOnce => Some('a'),
            AskCommand::Deny => Some('d'),
            AskCommand::Number(number) => char::from_digit(number.into(), 10),
            AskCommand::Choose => answers.get(selected).map(|(key, _)| *key),
            AskCommand::AllowAlways
            | AskCommand::OptionDown
            | AskCommand::OptionUp
            | AskCommand::NextAsk
            | AskCommand::ScrollDown
            | AskCommand::ScrollUp
            | AskCommand::ShowWhole
            | AskCommand::CopySubject => None,
        };
        let chosen = answers
            .iter()
            .find(|(of_answer, _)| Some(*of_answer) == key)
            .map(|(_, answer)| *answer);
        match chosen {
            Some(FormAnswer::CopyLink) => self.copy_link(ask),
            Some(FormAnswer::FillIn) => self.open_ask_form(ask),
            Some(FormAnswer::AcceptLink) => {
                self.send_shown_form(ask.ask_id, Some(Value::Object(Map::new())))
            }
            Some(FormAnswer::Decline) => self.send_shown_form(ask.ask_id, None),
            None => {}
        }
    }

    fn copy_link(&mut self, ask: &RowAsk) {
        if let Some(link) = ask.form.as_ref().and_then(|form| form.url.as_deref()) {
            self.emit(TuiEffect::Copy(to_printable(link)));
        }
    }

    fn send_shown_form(&mut self, ask: u64, content: Option<Value>) {
        let Some(session) = self.open.as_ref().map(|open| open.id.clone()) else { return };
        if self.require_host() {
            self.send_form_answer(session, ask, content);
        }
    }

    fn answer_shown_ask(&mut self, ask: u64, option: &str, is_rejection: bool) {
        if !self.require_host() {
            return;
        }
        let Some(open) = &mut self.open else { return };
        if open.dock.answering == Some(ask) {
            return;
        }
        open.dock.answering = Some(ask);
        let session = open.id.clone();
        let is_last = open.open_asks().len() == 1;
        self.call(answer_ask(&session, ask, option), CallPurpose::AnswerAsk { session, ask });
        if is_rejection && is_last {
            self.ask_left_at = Some(self.now.elapsed);
            self.focus_session();
            self.tell("denied · tell the agent what to do instead");
        }
    }

    /// Sends the content of a form, or refuses to fill it in.
    pub(super) fn send_form_answer(&mut self, session: String, ask: u64, content: Option<Value>) {
        if let Some(open) = self.open.as_mut().filter(|open| open.id == session) {
            if open.dock.answering == Some(ask) {
                return;
            }
            open.dock.answering = Some(ask);
        }
        self.call(answer_form(&session, ask, content), CallPurpose::AnswerAsk { session, ask });
    }

    fn open_ask_form(&mut self, ask: &RowAsk) {
        let Some(open) = &self.open else { return };
        let form = ask.form.as_ref();
        let schema = form.and_then(|form| form.schema.as_ref());
        if schema.is_none() {
            self.tell_error(
                "this form is too large for the terminal; answer it with: wharf answer",
            );
            return;
        }
        let input = AskFormInput::new(
            (open.id.clone(), ask.ask_id),
            ask.subject.title.clone(),
            schema,
            self.now.elapsed,
        );
        self.overlays.push(Overlay::AskForm(input));
    }

    fn open_subject(&mut self, ask: &RowAsk) {
        let lines = whole_subject(self, ask);
        self.overlays.push(Overlay::Reader(ReaderText {
            title: ask.subject.title.clone(),
            lines,
            ..ReaderText::default()
        }));
    }

    fn show_next_ask(&mut self) {
        let now = self.now.elapsed;
        let Some(open) = &mut self.open else { return };
        let asks = open.open_asks();
        let place = open.dock.current(&asks).map_or(0, |(place, _)| place + 1);
        let next = asks.get(place).or_else(|| asks.first()).copied();
        if next.map(|ask| ask.ask_id) != open.dock.shown.map(|(ask, _)| ask) {
            let mut dock = open.dock.clone();
            dock.show(next, now);
            open.dock = dock;
        }
    }
}
