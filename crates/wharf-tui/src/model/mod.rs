//! The state of the client: data and questions about it. Changes are made in `update/`, pictures in `view/`.

mod ask_dock;
mod calls;
mod connection;
mod drafts;
mod list_order;
mod new_session;
mod open_session;
mod overlay;
mod reader;
mod session_list;
mod state;
mod transcript_view;

pub(crate) use ask_dock::{AskDock, only_option};
pub(crate) use calls::{CallPurpose, PendingCalls, ReadingPurpose, RowSearch, TextUse};
pub(crate) use connection::HostConnection;
pub(crate) use drafts::DraftStore;
pub(crate) use list_order::{ListEntry, attention_mark, last_activity, needs_person, order_sessions};
pub(crate) use new_session::{FormField, NewSessionForm, StartChoices};
pub(crate) use open_session::{InterruptStep, OpenSession, RowsLink};
pub(crate) use overlay::{Overlay, Palette};
pub(crate) use reader::{FileChoice, PageBody, ReaderDocument, ReaderPage, ReaderText, TextSource};
pub(crate) use session_list::SessionList;
pub(crate) use state::PaneFocus;
pub use state::{TuiOptions, TuiState};
pub(crate) use transcript_view::{FindQuery, ScrollAnchor, TranscriptFind, TranscriptView};
