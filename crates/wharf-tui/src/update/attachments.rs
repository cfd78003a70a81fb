//! Attachments: long pasted texts, and files whose paths are pasted or dropped.

use wharf_api::UploadInfo;

use crate::effect::TuiEffect;
use crate::input::CallId;
use crate::model::{CallPurpose, PaneFocus, TuiState};

/// A pasted text with more lines or bytes becomes a chip.
const MAX_INLINE_LINES: usize = 8;
const MAX_INLINE_BYTES: usize = 1_000;
/// Files with these names are sent along; other paths stay text, which the agent can read itself.
const UPLOADED_EXTENSIONS: &[&str] = &["png", "jpg", "jpeg", "gif", "webp", "pdf"];

impl TuiState {
    pub(super) fn handle_paste(&mut self, text: &str) {
        // Terminals send carriage returns for the line breaks of a pasted text.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let is_in_transcript = self.overlays.is_empty() && self.focus == PaneFocus::Transcript;
        if is_in_transcript && !self.is_find_typed() && self.can_compose() {
            self.focus = PaneFocus::Composer;
        }
        let is_composer = self.overlays.is_empty() && self.focus == PaneFocus::Composer;
        if is_composer && let Some(path) = find_uploaded_path(&text) {
            self.attach_file(path);
            return;
        }
        let is_long = text.lines().count() > MAX_INLINE_LINES || text.len() > MAX_INLINE_BYTES;
        let inserted = match &mut self.open {
            Some(open) if is_composer && is_long => open.composing.chips.add_paste(&text),
            // The filter of the list and the text to find have one line.
            Some(_) | None if self.overlays.is_empty() && !is_composer => {
                text.trim_end().replace('\n', " ")
            }
            Some(_) | None => text,
        };
        if let Some(field) = self.focused_field() {
            field.insert(&inserted);
            self.after_edit();
        }
    }

    /// Has the shell send a file to the host, and puts its chip into the text.
    fn attach_file(&mut self, path: String) {
        let Some(session) =
            self.open.as_ref().map(|open| open.id.clone()).filter(|_| self.require_host())
        else {
            return;
        };
        let id = self.calls.begin(CallPurpose::Upload { session: session.clone() });
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        if let Some(open) = &mut self.open {
            let chip = open.composing.chips.add_upload(path.clone(), id);
            open.composer.insert(&chip);
        }
        self.emit(TuiEffect::UploadFile { id, session, path, name });
        self.after_edit();
    }

    /// Notes that the host keeps a file.
    pub(super) fn finish_upload(&mut self, call: CallId, kept: &UploadInfo) {
        let open = self.open.as_mut().map(|open| &mut open.composing.chips);
        for chips in open
            .into_iter()
            .chain(self.left_drafts.values_mut().map(|left| &mut left.chips))
        {
            chips.finish_upload(call, &kept.id);
        }
    }

    /// Puts the path in the place of the chip of a file that the host did not take.
    pub(super) fn fail_upload(&mut self, call: CallId, reason: &str) {
        // The draft of a session that was left has the path already.
        let left = self.left_drafts.values_mut().find_map(|left| {
            let upload = left.chips.take_failed_upload(call)?;
            left.text = left.text.replace(&upload.chip, &upload.path);
            Some(upload)
        });
        let open = self.open.as_mut().and_then(|open| {
            let upload = open.composing.chips.take_failed_upload(call)?;
            let text = open.composer.text().replace(&upload.chip, &upload.path);
            open.composer.set_text(&text);
            Some(upload)
        });
        if let Some(upload) = left.or(open) {
            self.note_draft();
            self.tell_error(format!("{} not attached: {reason}", upload.chip));
        }
    }
}

/// Returns the path of a file that is sent along, if the pasted text is nothing else. Terminals
/// quote the paths of dropped files or write a backslash before blanks.
fn find_uploaded_path(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.strip_prefix("file://").unwrap_or(text);
    let unquoted = ['\'', '"']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    let path = unquoted.map_or_else(|| text.replace("\\ ", " "), str::to_owned);
    let extension = path.rsplit('.').next().unwrap_or_default().to_lowercase();
    let is_path = (path.starts_with('/') || path.starts_with("~/")) && !path.contains('\n');
    (is_path && UPLOADED_EXTENSIONS.contains(&extension.as_str())).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::find_uploaded_path;

    #[test]
    fn pasted_paths_of_images_are_found() {
        let found = |text: &str| find_uploaded_path(text);
        assert_eq!(found("/tmp/a.png\n").as_deref(), Some("/tmp/a.png"));
        assert_eq!(found("'/tmp/my shot.PNG'").as_deref(), Some("/tmp/my shot.PNG"));
        assert_eq!(found("/tmp/my\\ shot.png").as_deref(), Some("/tmp/my shot.png"));
        assert_eq!(found("file:///tmp/a.pdf").as_deref(), Some("/tmp/a.pdf"));
        assert_eq!(found("/tmp/a.rs"), None);
        assert_eq!(found("look at /tmp/a.png"), None);
    }
}
