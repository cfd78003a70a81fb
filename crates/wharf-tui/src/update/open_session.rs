//! Opening a session, and the words with which the client leaves.

use wharf_api::{RowBody, SessionInfo};
use wharf_render::text::to_printable_lines;

use crate::effect::{DraftKey, TuiEffect};
use crate::model::{LeftDraft, OpenSession, PaneFocus, TuiState};
use crate::rows::join_parts;
use crate::session_words::is_killed_by_person;

/// The last lines of the answer that stay on the normal screen.
const MAX_FAREWELL_LINES: usize = 20;

impl TuiState {
    /// Opens a session and gives its composer the focus.
    pub(super) fn open_session(&mut self, id: &str) {
        self.list.selected = Some(id.to_owned());
        if self.open.as_ref().is_some_and(|open| open.id == id) {
            self.focus_session();
            return;
        }
        self.note_draft();
        if let Some(left) = self.open.take() {
            let text = left.unsent_text();
            let draft = LeftDraft::new(text, left.composing.chips);
            self.left_drafts.extend(draft.map(|draft| (left.id, draft)));
        }
        let stream = self.new_stream();
        let draft = self.drafts.text(&DraftKey::Session(id.to_owned()));
        let left = self.left_drafts.remove(id).filter(|left| left.is_of(draft));
        let text = left.as_ref().map_or(draft, |left| left.text.as_str());
        let mut open = OpenSession::new(id.to_owned(), stream, text, self.now.elapsed);
        open.composing.chips = left.map(|left| left.chips).unwrap_or_default();
        self.open = Some(open);
        self.layouts.borrow_mut().clear();
        self.focus_session();
        self.emit(TuiEffect::OpenRows { stream, session: id.to_owned() });
    }

    pub(super) fn close_session(&mut self) {
        self.open = None;
        self.focus = PaneFocus::List;
        self.emit(TuiEffect::CloseRows);
    }

    /// Gives the focus to the open session: to its composer, or to its transcript if nothing can be
    /// typed.
    pub(super) fn focus_session(&mut self) {
        self.focus = if self.can_compose() { PaneFocus::Composer } else { PaneFocus::Transcript };
    }

    /// Returns true if a prompt can be typed.
    pub(super) fn can_compose(&self) -> bool {
        let is_killed = self.open_info().is_some_and(is_killed_by_person);
        self.open.is_some() && !self.options.is_readonly && !is_killed
    }

    /// Returns the text for the normal screen: the last prompt and answer, and the way back.
    pub(super) fn describe_leaving(&self) -> String {
        let Some(open) = &self.open else { return "detached; the agents go on: wharf".to_owned() };
        let mut answer = None;
        let mut prompt = None;
        for (_, row) in open.rows.iter().rev() {
            if let RowBody::Prompt(asked) = &row.body {
                prompt = Some(join_parts(&asked.parts));
                break;
            }
            if let RowBody::Message(message) = &row.body {
                answer = answer.or_else(|| Some(join_parts(&message.parts)));
            }
        }
        let mut text =
            prompt.map(|prompt| format!("> {}\n", prompt.trim_end())).unwrap_or_default();
        if let Some(answer) = answer {
            let lines: Vec<&str> = answer.trim_end().lines().collect();
            let skipped = lines.len().saturating_sub(MAX_FAREWELL_LINES);
            text.push_str(&lines[skipped..].join("\n"));
            text.push('\n');
        }
        format!(
            "{}\ndetached; the session goes on: wharf attach {}",
            to_printable_lines(&text),
            name_in_shell(&open.id, self.open_info(), self.list.sessions())
        )
    }
}

/// Returns the name by which a verb takes the open session: its label, if no other session has it
/// and a shell takes it as it is, else the id.
fn name_in_shell<'a>(
    id: &'a str,
    open: Option<&'a SessionInfo>,
    mut known: impl Iterator<Item = &'a SessionInfo>,
) -> &'a str {
    let Some(label) = open.and_then(|session| session.label.as_deref()) else { return id };
    let is_word = label.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let is_plain = is_word && !label.is_empty() && label != "." && !label.starts_with('-');
    let is_shared = known.any(|other| other.id != id && other.label.as_deref() == Some(label));
    if is_plain && !is_shared { label } else { id }
}
