//! The whole state, and small questions that every area asks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use wharf_api::SessionInfo;
use wharf_render::style::{ColourUse, Theme};
use wharf_render::text::TimeZone;

use super::{
    AskFormInput, DraftStore, HostPresence, HostWatch, LeftDraft, NewSessionForm, OpenSession,
    Overlay, PendingCalls, PromptOutbox, SessionList, StartChoices, UnansweredPrompts,
};
use crate::api_call::ApiCall;
use crate::effect::{DraftKey, TuiEffect};
use crate::input::{ScreenSize, StreamId};
use crate::keymap::{KeyPress, Keymap};
use crate::layout::LayoutCache;
use crate::model::CallPurpose;
use crate::moment::Moment;

/// How long a message stays in the status line.
const MESSAGE_TIME: Duration = Duration::from_secs(4);
/// In a terminal that does not report its focus, a key counts as attention for this time.
const KEY_ATTENTION_TIME: Duration = Duration::from_secs(60);

/// The surroundings of the client, which do not change.
#[derive(Clone, Debug, Default)]
pub struct TuiOptions {
    pub size: ScreenSize,
    /// The client only shows: no composer, no answers.
    pub is_readonly: bool,
    pub colours: ColourUse,
    /// A host that is gone may be started from here.
    pub may_start_host: bool,
    /// The person's home directory, shown as `~`.
    pub home: Option<String>,
    /// The directory in which the client was started; `None` if the host is on another machine.
    pub directory: Option<String>,
    /// The unsent texts of earlier clients.
    pub drafts: Vec<(DraftKey, String)>,
    /// A random text that makes the idempotency keys of this client unique.
    pub key_seed: String,
    pub time_zone: TimeZone,
}

/// The place that keys go to, below the overlays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PaneFocus {
    List,
    Transcript,
    Composer,
    Ask,
}

/// A sentence in the status line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatusMessage {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    pub(crate) until: Duration,
}

/// The state of the client.
#[derive(Debug)]
pub struct TuiState {
    pub(crate) options: TuiOptions,
    pub(crate) theme: Theme,
    pub(crate) keymap: Keymap,
    pub(crate) now: Moment,
    pub(crate) size: ScreenSize,
    /// The terminal's window has the focus, as far as it tells.
    pub(crate) has_terminal_focus: bool,
    /// The terminal has reported its focus at least once.
    pub(crate) is_focus_reported: bool,
    pub(crate) last_key_at: Duration,
    pub(crate) connection: HostPresence,
    pub(crate) host_watch: HostWatch,
    pub(crate) list: SessionList,
    pub(crate) is_list_hidden: bool,
    pub(crate) open: Option<OpenSession>,
    pub(crate) focus: PaneFocus,
    /// The person wants to answer: the next ask of the open session gets the focus.
    pub(crate) wants_ask_focus: bool,
    /// When the last card went away while it had the focus: a second tap of its key is not typed.
    pub(crate) ask_left_at: Option<Duration>,
    /// The overlays, the topmost last, which takes all keys.
    pub(crate) overlays: Vec<Overlay>,
    pub(crate) form: NewSessionForm,
    pub(crate) choices: StartChoices,
    pub(crate) drafts: DraftStore,
    /// The drafts with chips of sessions that were open before.
    pub(crate) left_drafts: BTreeMap<String, LeftDraft>,
    pub(crate) calls: PendingCalls,
    pub(crate) outbox: PromptOutbox,
    pub(crate) unanswered_prompts: UnansweredPrompts,
    /// The form whose answer is on its way. It comes back if the host does not take the answer.
    pub(crate) sent_form: Option<AskFormInput>,
    pub(crate) message: Option<StatusMessage>,
    /// The first key of a chord.
    pub(crate) chord: Option<KeyPress>,
    /// A second Ctrl-C until then detaches.
    pub(crate) detach_armed_until: Option<Duration>,
    pub(crate) title: String,
    /// The version of a host that differs from this client.
    pub(crate) other_host_version: Option<String>,
    /// How long the host waits for an interrupted agent before it ends the turn by force; `None` if
    /// it is not known or for ever.
    pub(crate) cancel_timeout: Option<Duration>,
    /// The laid-out rows. This is a cache: the picture does not depend on its content.
    pub(crate) layouts: RefCell<LayoutCache>,
    streams: u64,
    effects: Vec<TuiEffect>,
}

impl TuiState {
    pub fn new(mut options: TuiOptions, now: Moment) -> Self {
        let drafts = DraftStore::new(std::mem::take(&mut options.drafts));
        let form =
            NewSessionForm::new(options.directory.clone(), drafts.text(&DraftKey::NewSession));
        Self {
            theme: Theme::new(options.colours),
            keymap: Keymap::new(),
            now,
            size: options.size,
            has_terminal_focus: true,
            is_focus_reported: false,
            last_key_at: now.elapsed,
            connection: HostPresence::Connecting { since: now.elapsed },
            host_watch: HostWatch::default(),
            list: SessionList::default(),
            is_list_hidden: false,
            open: None,
            focus: PaneFocus::List,
            wants_ask_focus: false,
            ask_left_at: None,
            overlays: Vec::new(),
            form,
            choices: StartChoices::default(),
            drafts,
            left_drafts: BTreeMap::new(),
            calls: PendingCalls::default(),
            outbox: PromptOutbox::default(),
            unanswered_prompts: UnansweredPrompts::default(),
            sent_form: None,
            message: None,
            chord: None,
            detach_armed_until: None,
            title: String::new(),
            other_host_version: None,
            cancel_timeout: None,
            layouts: RefCell::new(LayoutCache::default()),
            streams: 0,
            effects: Vec::new(),
            options,
        }
    }

    /// Returns true while the host has not answered something that the person wants done.
    pub fn has_unanswered_changes(&self) -> bool {
        self.calls.changes().next().is_some() || !self.outbox.is_empty()
    }

    /// Adds an effect to those that `update` returns.
    pub(crate) fn emit(&mut self, effect: TuiEffect) {
        self.effects.push(effect);
    }

    pub(crate) fn take_effects(&mut self) -> Vec<TuiEffect> {
        std::mem::take(&mut self.effects)
    }

    /// Sends a request; its answer is handled by its purpose.
    pub(crate) fn call(&mut self, call: ApiCall, purpose: CallPurpose) {
        let id = self.calls.begin(purpose);
        self.emit(TuiEffect::Call { id, call });
    }

    /// Returns a key that no other request has.
    pub(crate) fn new_idempotency_key(&mut self) -> String {
        format!("{}-{}", self.options.key_seed, self.calls.next_number())
    }

    pub(crate) fn new_stream(&mut self) -> StreamId {
        self.streams += 1;
        StreamId(self.streams)
    }

    pub(crate) fn tell(&mut self, text: impl Into<String>) {
        self.set_message(text.into(), false);
    }

    pub(crate) fn tell_error(&mut self, text: impl Into<String>) {
        self.set_message(text.into(), true);
    }

    fn set_message(&mut self, text: String, is_error: bool) {
        self.message =
            Some(StatusMessage { text, is_error, until: self.now.elapsed + MESSAGE_TIME });
    }

    /// Returns the open session as the newest event describes it.
    pub(crate) fn open_info(&self) -> Option<&SessionInfo> {
        let open = self.open.as_ref()?;
        let from_rows = open.rows.state().map(|state| &state.session);
        from_rows.or_else(|| self.list.get(&open.id))
    }

    /// Returns true if a person seems to be in front of the terminal: it has the focus, and either
    /// it reports its focus or the person has pressed a key recently.
    pub(crate) fn is_attended(&self) -> bool {
        let has_typed = self.now.elapsed.saturating_sub(self.last_key_at) < KEY_ATTENTION_TIME;
        self.has_terminal_focus && (self.is_focus_reported || has_typed)
    }
}
