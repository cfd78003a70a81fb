//! Commands that act wherever the focus is.

use std::time::Duration;

use crate::api_call::interrupt_turn;
use crate::effect::TuiEffect;
use crate::keymap::{GlobalCommand, KeyScope, all_bindings};
use crate::model::{
    CallPurpose, HostLoss, HostPresence, InterruptStep, Overlay, Palette, PaneFocus, ReaderText,
    TuiState, TurnInterrupt,
};

/// A second Ctrl-C within this time detaches.
const DETACH_WINDOW: Duration = Duration::from_secs(2);
/// A second Esc within this time interrupts.
const INTERRUPT_WINDOW: Duration = Duration::from_secs(3);

impl TuiState {
    pub(super) fn run_global_command(&mut self, command: GlobalCommand) {
        match command {
            GlobalCommand::OpenPalette => self.overlays.push(Overlay::Palette(Palette::default())),
            GlobalCommand::NextWaiting => self.open_next_waiting(),
            GlobalCommand::FocusAsk => self.focus_ask(),
            GlobalCommand::ToggleList => self.toggle_list(),
            GlobalCommand::NewSession => self.open_form(),
            GlobalCommand::SearchAll => self.open_search(),
            GlobalCommand::OpenSettings => self.open_settings(),
            GlobalCommand::ResumeSession => self.resume_selected(),
            GlobalCommand::LogIn => self.log_in(),
            GlobalCommand::TryAgain => self.try_again(),
            GlobalCommand::StartHost => self.start_host(),
            GlobalCommand::OpenHelp => self.overlays.push(Overlay::Reader(help_text())),
            GlobalCommand::Redraw => self.emit(TuiEffect::Redraw),
            GlobalCommand::Suspend => self.emit(TuiEffect::Suspend),
            GlobalCommand::ClearOrDetach => self.clear_or_detach(),
            GlobalCommand::StepBack => self.step_back(),
            GlobalCommand::Detach => self.detach(),
        }
    }

    fn open_next_waiting(&mut self) {
        let current = self.open.as_ref().map(|open| open.id.as_str());
        match self.list.next_waiting(current).map(str::to_owned) {
            Some(id) => self.open_session(&id),
            None => self.tell("no other session needs you"),
        }
    }

    fn toggle_list(&mut self) {
        match self.focus {
            PaneFocus::List if self.open.is_some() => {
                self.is_list_hidden = true;
                self.focus_session();
            }
            PaneFocus::List => {}
            PaneFocus::Transcript | PaneFocus::Composer | PaneFocus::Ask => {
                self.is_list_hidden = false;
                self.focus = PaneFocus::List;
            }
        }
    }

    /// Ctrl-C never ends an agent: it clears the text, and twice it leaves the client.
    fn clear_or_detach(&mut self) {
        if let Some(field) = self.focused_field().filter(|field| !field.is_empty()) {
            let cleared = field.clear();
            self.after_edit();
            if let Some(open) = &mut self.open {
                open.composing.forget_pastes_beside(&[&cleared, open.composer.text()]);
            }
            self.tell("cleared · Ctrl-Y brings it back");
            return;
        }
        if self.detach_armed_until.is_some_and(|until| self.now.elapsed < until) {
            self.detach();
            return;
        }
        self.detach_armed_until = Some(self.now.elapsed + DETACH_WINDOW);
        self.tell("Ctrl-C again to detach · the agents go on");
    }

    /// Esc: one step back; with nothing to step back from it interrupts at the second press.
    fn step_back(&mut self) {
        if self.overlays.pop().is_some() {
            self.note_draft();
            return;
        }
        if self.focus == PaneFocus::Composer && (self.close_completion() || self.leave_queue_edit())
        {
            return;
        }
        match self.focus {
            PaneFocus::List if self.list.filter.is_some() => {
                self.list.filter = None;
                self.list.sort();
            }
            PaneFocus::List if self.open.is_some() => self.focus_session(),
            PaneFocus::List => {}
            PaneFocus::Transcript if self.is_finding() => self.close_find(),
            PaneFocus::Transcript | PaneFocus::Ask if self.can_compose() => {
                self.focus = PaneFocus::Composer
            }
            PaneFocus::Transcript | PaneFocus::Ask => self.focus = PaneFocus::List,
            PaneFocus::Composer => self.step_towards_interrupt(),
        }
    }

    fn step_towards_interrupt(&mut self) {
        let now = self.now.elapsed;
        let Some(open) = &mut self.open else { return };
        if !open.is_turn_running() {
            open.interrupt = TurnInterrupt::default();
            self.focus = PaneFocus::List;
            return;
        }
        let session = open.id.clone();
        let turn = open.newest_turn().map(str::to_owned);
        // The step of the interrupt stands where the message was.
        self.message = None;
        let force = match open.interrupt.step {
            InterruptStep::Armed { until } if now < until => false,
            InterruptStep::Asked { .. } => true,
            InterruptStep::Armed { .. } | InterruptStep::Idle => {
                open.interrupt = TurnInterrupt {
                    step: InterruptStep::Armed { until: now + INTERRUPT_WINDOW },
                    turn,
                };
                return;
            }
        };
        if !self.require_host() {
            return;
        }
        if let Some(open) = &mut self.open {
            open.interrupt = TurnInterrupt { step: InterruptStep::Asked { since: now }, turn };
        }
        self.call(interrupt_turn(&session, force), CallPurpose::Interrupt { session });
    }

    /// Leaves the client. Everything goes on, and unsent texts are kept.
    pub(super) fn detach(&mut self) {
        self.save_drafts(None);
        self.emit(TuiEffect::Leave { text: self.describe_leaving() });
    }

    /// Returns true if the client can call the host; otherwise tells the person why it cannot.
    pub(super) fn require_host(&mut self) -> bool {
        let is_connected = self.connection.is_connected();
        if !is_connected {
            let is_stopped =
                matches!(self.connection, HostPresence::Lost { loss: HostLoss::Stopped, .. });
            self.tell_error(if is_stopped && self.options.may_start_host {
                "not done: the host was stopped · Ctrl-X S starts it again"
            } else if self.is_host_silent() {
                "not done: the host does not answer"
            } else {
                "not done: the host is not reachable"
            });
        }
        is_connected
    }
}

/// Returns all keys as a text, place by place.
fn help_text() -> ReaderText {
    const PLACES: &[(KeyScope, &str)] = &[
        (KeyScope::Everywhere, "Everywhere"),
        (KeyScope::Composer, "Composer"),
        (KeyScope::TextField, "Text fields"),
        (KeyScope::Transcript, "Transcript"),
        (KeyScope::List, "Sessions"),
        (KeyScope::Ask, "Questions of an agent"),
        (KeyScope::Form, "New session"),
        (KeyScope::Menu, "Choices"),
        (KeyScope::Reader, "This page"),
    ];
    let mut lines = Vec::new();
    for (scope, name) in PLACES {
        lines.push((*name).to_owned());
        for binding in
            all_bindings().filter(|binding| binding.scope == *scope && !binding.keys.is_empty())
        {
            lines.push(format!("  {:<24} {}", binding.key_labels().join(", "), binding.title));
        }
        lines.push(String::new());
    }
    ReaderText { title: "Keys".to_owned(), lines, ..ReaderText::default() }
}
