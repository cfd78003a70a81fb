//! A text, a diff or a list of files over the whole screen.

use wharf_api::{ChangedFile, FileDiff};

/// A text over the whole screen.
#[derive(Debug, Default)]
pub(crate) struct ReaderText {
    pub(crate) title: String,
    /// The text, if it is not a document.
    pub(crate) lines: Vec<String>,
    /// Lines above the screen.
    pub(crate) scroll: usize,
    pub(crate) document: Option<ReaderDocument>,
}

/// Something to read that has pages: the files of a diff, the output of a command.
#[derive(Debug, Default)]
pub(crate) struct ReaderDocument {
    /// No other document has this number.
    pub(crate) number: u64,
    pub(crate) pages: Vec<ReaderPage>,
    /// The page on the screen.
    pub(crate) current: usize,
    /// Long lines are cut instead of broken.
    pub(crate) is_unwrapped: bool,
}

impl ReaderDocument {
    pub(crate) fn page(&self) -> Option<&ReaderPage> {
        self.pages.get(self.current)
    }

    pub(crate) fn page_mut(&mut self) -> Option<&mut ReaderPage> {
        self.pages.get_mut(self.current)
    }
}

#[derive(Debug)]
pub(crate) struct ReaderPage {
    pub(crate) title: String,
    pub(crate) body: PageBody,
    /// The text that is being read from the host.
    pub(crate) awaited: Option<TextSource>,
}

#[derive(Debug)]
pub(crate) enum PageBody {
    Diff(FileDiff),
    Text(String),
    Files(FileChoice),
}

/// Changed files, one of them selected.
#[derive(Debug)]
pub(crate) struct FileChoice {
    /// The session that changed them.
    pub(crate) session: String,
    pub(crate) files: Vec<ChangedFile>,
    pub(crate) selected: usize,
}

/// The address of a text of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextSource {
    pub(crate) session: String,
    pub(crate) row: String,
    /// `output`, `input`, or the number of a part.
    pub(crate) part: String,
}
