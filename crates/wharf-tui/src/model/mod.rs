//! The state of the client: data and questions about it. Changes are made in `update/`, pictures in
//! `view/`.

mod ask_dock;
mod ask_form;
mod calls;
mod composer_chips;
mod composing;
mod connection;
mod drafts;
mod host_watch;
mod last_lines;
mod list_order;
mod new_session;
mod notices;
mod open_session;
mod outbox;
mod overlay;
mod pick_list;
mod reader;
mod session_list;
mod state;
mod transcript_view;

pub(crate) use ask_dock::{
    ANSWER_GUARD, AskDock, FormAnswer, ResolvedAsk, form_answers, only_option, option_key,
};
pub(crate) use ask_form::{AskFormField, AskFormInput};
pub(crate) use calls::{
    AgainPrompt, CallPurpose, PendingCalls, ReadingPurpose, RowSearch, SavedQueueEdit, SentPrompt,
    TextUse, TriedTurn, UnansweredPrompts,
};
pub(crate) use composer_chips::{AttachedUpload, ComposerChips, LeftDraft, UploadState};
pub(crate) use composing::{Completion, CompletionItem, ComposingState, HistoryWalk, QueueEdit};
pub(crate) use connection::{HostLoss, HostPresence};
pub(crate) use drafts::DraftStore;
pub(crate) use host_watch::HostWatch;
pub(crate) use last_lines::NewestLines;
pub(crate) use list_order::{
    ListEntry, attention_mark, last_activity, needs_person, order_sessions,
};
pub(crate) use new_session::{NewSessionField, NewSessionForm, StartChoices};
pub(crate) use notices::SentNotices;
pub(crate) use open_session::{InterruptStep, OpenSession, RowsLink, TurnInterrupt};
pub(crate) use outbox::{OutgoingPrompt, PromptOutbox};
pub(crate) use overlay::{Overlay, Palette, RenameInput};
pub(crate) use pick_list::{PickAction, PickItem, PickList, PickSource};
pub(crate) use reader::{FileChoice, PageBody, ReaderDocument, ReaderPage, ReaderText, TextSource};
pub(crate) use session_list::SessionList;
pub(crate) use state::PaneFocus;
pub use state::{TuiOptions, TuiState};
pub(crate) use transcript_view::{FindQuery, ScrollAnchor, TranscriptFind, TranscriptView};
