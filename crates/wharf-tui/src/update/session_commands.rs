//! Commands about one session: rename, archive, mute, kill, resume, fork, log in.

use wharf_api::{SessionInfo, SessionPatch};

use crate::api_call::{change_session, fork_session, mute_session, resume_session};
use crate::composer::TextBuffer;
use crate::effect::TuiEffect;
use crate::model::{CallPurpose, Overlay, PaneFocus, PickAction, PickList, RenameInput, TuiState};
use crate::session_words::display_name;

impl TuiState {
    /// Returns the session that is meant: in the list the selected one, elsewhere the open one.
    fn selected_session(&mut self) -> Option<SessionInfo> {
        let found = match (self.focus, &self.open) {
            (PaneFocus::Transcript | PaneFocus::Composer | PaneFocus::Ask, Some(_)) => {
                self.open_info()
            }
            (PaneFocus::List, _) | (_, None) => {
                self.list.selected.as_deref().and_then(|id| self.list.get(id))
            }
        };
        let found = found.cloned();
        if found.is_none() {
            self.tell("no session is selected");
        }
        found
    }

    /// Returns the selected session if this client may change it and the host can be called.
    fn session_to_change(&mut self) -> Option<SessionInfo> {
        if self.options.is_readonly {
            self.tell("an observer changes no session");
            return None;
        }
        let session = self.selected_session()?;
        self.require_host().then_some(session)
    }

    pub(super) fn open_rename(&mut self) {
        let Some(session) = self.session_to_change() else { return };
        let title = TextBuffer::with_text(display_name(&session).unwrap_or_default());
        self.overlays.push(Overlay::Rename(RenameInput { session: session.id, title }));
    }

    pub(super) fn submit_rename(&mut self) {
        if !self.require_host() {
            return;
        }
        let Some(Overlay::Rename(input)) = self.overlays.pop() else { return };
        // A title is one line, also if several were pasted.
        let title = input.title.text().split_whitespace().collect::<Vec<_>>().join(" ");
        let title = Some(title).filter(|title| !title.is_empty());
        let patch = SessionPatch { title: Some(title), ..SessionPatch::default() };
        self.call(
            change_session(&input.session, &patch),
            CallPurpose::Change { failed: "not renamed" },
        );
    }

    pub(super) fn toggle_archive(&mut self) {
        let Some(session) = self.session_to_change() else { return };
        let patch = SessionPatch { archived: Some(!session.archived), ..SessionPatch::default() };
        self.call(
            change_session(&session.id, &patch),
            CallPurpose::Change { failed: "not archived" },
        );
        self.tell(if session.archived {
            "out of the archive"
        } else {
            "archived · x again brings it back"
        });
    }

    pub(super) fn toggle_mute(&mut self) {
        let Some(session) = self.session_to_change() else { return };
        let is_muted = session.attention.as_ref().is_some_and(|attention| attention.muted);
        self.call(
            mute_session(&session.id, !is_muted),
            CallPurpose::Change { failed: "not muted" },
        );
        self.tell(if is_muted { "notifies again" } else { "muted: it does not notify" });
    }

    /// Asks before a session is killed.
    pub(super) fn ask_to_kill(&mut self) {
        let Some(session) = self.session_to_change() else { return };
        if !session.status.is_alive() {
            self.tell("its agent does not run");
            return;
        }
        let name = display_name(&session).unwrap_or(&session.adapter_slug);
        let question =
            format!("Kill “{}”? Its history stays", wharf_render::text::to_printable(name));
        let list =
            PickList::confirm(&question, "Yes, end its agent", PickAction::KillSession(session.id));
        self.overlays.push(Overlay::PickList(list));
    }

    pub(super) fn resume_selected(&mut self) {
        let Some(session) = self.session_to_change() else { return };
        if session.status.is_alive() {
            self.tell("its agent runs already");
            return;
        }
        self.call(resume_session(&session.id), CallPurpose::Change { failed: "not resumed" });
        self.tell("resuming…");
    }

    pub(super) fn fork_selected(&mut self) {
        let Some(session) = self.session_to_change() else { return };
        if !session.forkable {
            self.tell("this session cannot be copied now");
            return;
        }
        let key = self.new_idempotency_key();
        let since = self.now.elapsed;
        self.call(fork_session(&session.id, &key), CallPurpose::Fork { since });
        self.tell("copying…");
    }

    pub(super) fn copy_session_id(&mut self) {
        if let Some(session) = self.selected_session() {
            self.emit(TuiEffect::Copy(session.id));
        }
    }

    /// Runs the login of the agent in this terminal: of the form's agent, or of the open session's.
    pub(super) fn log_in(&mut self) {
        let in_form = matches!(self.overlays.last(), Some(Overlay::NewSession));
        let adapter = if in_form {
            self.form.chosen_agent(&self.choices).map(|agent| agent.slug.clone())
        } else {
            self.open_info().map(|info| info.adapter_slug.clone())
        };
        match adapter.filter(|_| !self.options.is_readonly) {
            Some(adapter) => self.emit(TuiEffect::RunLogin { adapter }),
            None => self.tell("no session is open"),
        }
    }
}
