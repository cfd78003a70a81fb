//! Commands of the focused ask. They act only there, and not in the first moment after a card has appeared.

use crate::api_call::answer_ask;
use crate::keymap::AskCommand;
use crate::model::{CallPurpose, PaneFocus, RowsLink, TuiState, only_option};

/// The lines by which the subject is scrolled.
const SCROLL_LINES: usize = 5;

impl TuiState {
    /// Ctrl-G: to the ask; in the ask to the next one.
    pub(super) fn focus_ask(&mut self) {
        if self.focus == PaneFocus::Ask {
            self.show_next_ask();
            return;
        }
        if self.open.as_ref().is_none_or(|open| open.dock.shown.is_none()) {
            self.tell("no question is open here");
            return;
        }
        self.wants_ask_focus = true;
        self.focus_wanted_ask();
    }

    /// Gives the focus to the ask that the person wanted to see, once the session's first page has come. An ask that comes
    /// later does not get it.
    pub(super) fn focus_wanted_ask(&mut self) {
        let Some(open) = &self.open else { return };
        if matches!(open.link, RowsLink::Opening { .. }) || !std::mem::take(&mut self.wants_ask_focus) {
            return;
        }
        if open.dock.shown.is_some() && !self.options.is_readonly {
            self.focus = PaneFocus::Ask;
        }
    }

    /// Keeps the dock at an open ask. An ask that arrives never takes the focus.
    pub(super) fn refresh_dock(&mut self) {
        let now = self.now.elapsed;
        let Some(open) = &mut self.open else { return };
        let mut dock = std::mem::take(&mut open.dock);
        dock.follow(&open.open_asks(), now);
        open.dock = dock;
        if self.focus == PaneFocus::Ask && open.dock.shown.is_none() {
            self.focus_session();
        }
        self.focus_wanted_ask();
    }

    pub(super) fn run_ask_command(&mut self, command: AskCommand) {
        let now = self.now.elapsed;
        let Some(open) = &mut self.open else { return };
        if !open.dock.takes_keys(now) {
            return;
        }
        let asks = open.open_asks();
        let Some((_, ask)) = open.dock.current(&asks) else { return };
        let options = ask.options.clone();
        let ask_id = ask.ask_id;
        let last = options.len().saturating_sub(1);
        let dock = &mut open.dock;
        let of_kind = |kind: &str| only_option(&options, kind).map(|option| option.option_id.clone());
        let chosen = match command {
            AskCommand::OptionDown => {
                dock.option = (dock.option + 1).min(last);
                None
            }
            AskCommand::OptionUp => {
                dock.option = dock.option.saturating_sub(1);
                None
            }
            AskCommand::ScrollDown => {
                dock.scroll += SCROLL_LINES;
                None
            }
            AskCommand::ScrollUp => {
                dock.scroll = dock.scroll.saturating_sub(SCROLL_LINES);
                None
            }
            AskCommand::NextAsk => {
                self.show_next_ask();
                return;
            }
            AskCommand::Choose => options.get(dock.option).map(|option| option.option_id.clone()),
            AskCommand::AllowOnce => of_kind("allow_once"),
            AskCommand::AllowAlways => of_kind("allow_always"),
            AskCommand::Deny => of_kind("reject_once"),
            AskCommand::Number(number) => {
                options.get(usize::from(number).saturating_sub(1)).map(|option| option.option_id.clone())
            }
        };
        if let Some(option) = chosen {
            self.answer_shown_ask(ask_id, &option);
        }
    }

    fn answer_shown_ask(&mut self, ask: u64, option: &str) {
        if !self.require_host() {
            return;
        }
        let Some(open) = &mut self.open else { return };
        if open.dock.answering == Some(ask) {
            return;
        }
        open.dock.answering = Some(ask);
        let session = open.id.clone();
        self.call(answer_ask(&session, ask, option), CallPurpose::AnswerAsk { session, ask });
    }

    fn show_next_ask(&mut self) {
        let now = self.now.elapsed;
        let Some(open) = &mut self.open else { return };
        let asks = open.open_asks();
        let place = open.dock.current(&asks).map_or(0, |(place, _)| place + 1);
        let next = asks.get(place).or_else(|| asks.first()).map(|ask| ask.ask_id);
        if next != open.dock.shown.map(|(ask, _)| ask) {
            open.dock.show(next, now);
        }
    }
}
