//! Chips: short names in the text of a composer that stand for long pasted texts and for attached
//! files.

use crate::input::CallId;

#[derive(Debug, Default)]
pub(crate) struct ComposerChips {
    pastes: Vec<PastedText>,
    /// The texts that were pasted so far: no two chips have the same number.
    paste_count: usize,
    /// Files that go with the prompt.
    uploads: Vec<AttachedUpload>,
}

/// An unsent text with its chips, of a session that another one took the place of.
#[derive(Debug)]
pub(crate) struct LeftDraft {
    pub(crate) text: String,
    pub(crate) chips: ComposerChips,
}

impl LeftDraft {
    /// Keeps a text if it has chips.
    pub(crate) fn new(text: String, mut chips: ComposerChips) -> Option<Self> {
        chips.forget_pastes_beside(&[&text]);
        chips.forget_uploads_beside(&text);
        (!chips.is_empty()).then_some(Self { text, chips })
    }

    /// Returns true if the draft is still this text, with what its chips stand for.
    pub(crate) fn is_of(&self, draft: &str) -> bool {
        self.chips.expand_all(&self.text) == draft
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PastedText {
    chip: String,
    text: String,
}

/// A file that is sent to the host, or is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachedUpload {
    pub(crate) chip: String,
    pub(crate) path: String,
    pub(crate) state: UploadState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UploadState {
    Sending(CallId),
    /// The host keeps it under this id.
    Kept(String),
}

impl ComposerChips {
    pub(crate) fn is_empty(&self) -> bool {
        self.pastes.is_empty() && self.uploads.is_empty()
    }

    /// Returns the text with pasted texts in the place of their chips.
    pub(crate) fn expand_pastes(&self, text: &str) -> String {
        let mut expanded = text.to_owned();
        for paste in &self.pastes {
            if expanded.contains(&paste.chip) {
                expanded = expanded.replace(&paste.chip, &paste.text);
            }
        }
        expanded
    }

    /// Returns the text with pasted texts and the paths of files in the place of their chips.
    pub(crate) fn expand_all(&self, text: &str) -> String {
        let mut expanded = self.expand_pastes(text);
        for upload in &self.uploads {
            expanded = expanded.replace(&upload.chip, &upload.path);
        }
        expanded
    }

    /// Keeps a long text and returns its chip.
    pub(crate) fn add_paste(&mut self, text: &str) -> String {
        self.paste_count += 1;
        let chip = format!("[pasted {} lines #{}]", text.lines().count(), self.paste_count);
        self.pastes.push(PastedText { chip: chip.clone(), text: text.to_owned() });
        chip
    }

    /// Forgets the pasted texts that none of these texts names.
    pub(crate) fn forget_pastes_beside(&mut self, texts: &[&str]) {
        self.pastes.retain(|paste| texts.iter().any(|text| text.contains(&paste.chip)));
    }

    /// Forgets the files that the text does not name.
    pub(crate) fn forget_uploads_beside(&mut self, text: &str) {
        self.uploads.retain(|upload| text.contains(&upload.chip));
    }

    /// Keeps a file that the call is sending to the host, and returns its chip.
    pub(crate) fn add_upload(&mut self, path: String, call: CallId) -> String {
        let name = path.rsplit('/').next().unwrap_or(&path);
        let mut chip = format!("[{name}]");
        if self.uploads.iter().any(|upload| upload.chip == chip) {
            chip = format!("[{name} #{}]", self.uploads.len() + 1);
        }
        self.uploads.push(AttachedUpload {
            chip: chip.clone(),
            path,
            state: UploadState::Sending(call),
        });
        chip
    }

    /// Notes that the host keeps the file that the call has sent.
    pub(crate) fn finish_upload(&mut self, call: CallId, kept_id: &str) {
        for upload in self
            .uploads
            .iter_mut()
            .filter(|upload| upload.state == UploadState::Sending(call))
        {
            upload.state = UploadState::Kept(kept_id.to_owned());
        }
    }

    /// Removes the file that the host did not take.
    pub(crate) fn take_failed_upload(&mut self, call: CallId) -> Option<AttachedUpload> {
        let place = self
            .uploads
            .iter()
            .position(|upload| upload.state == UploadState::Sending(call))?;
        Some(self.uploads.remove(place))
    }

    /// Returns the files whose chips are in the text.
    pub(crate) fn attached(&self, text: &str) -> Vec<&AttachedUpload> {
        self.uploads.iter().filter(|upload| text.contains(&upload.chip)).collect()
    }
}
