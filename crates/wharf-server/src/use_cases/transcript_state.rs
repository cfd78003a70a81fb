//! The session beside its rows: what a reader shows around the transcript (rules 13.4, 13.5).
//!
//! Settings, clients and live output cost a call to the session's task or a look at a terminal.
//! [`StateMarks`] tells whether they can have changed, for the price of a few loads.

use std::sync::Arc;

use wharf_api::{LiveOutput, QueueEntry, StateChange, TranscriptState};
use wharf_host::core::Seq;
use wharf_host::{Descriptor, RunningTerminal, SessionHandle, SessionTranscript};

use super::attention::AttentionView;
use super::clients::read_clients;
use super::faults::fault_from_failed_call;
use super::queue::to_queue_entries;
use super::settings::read_short_settings;
use crate::App;
use crate::fault::Fault;

/// The sources of a state as they were when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateMarks {
    settings_at: Seq,
    presence: u64,
    running: Vec<RunningTerminal>,
}

impl StateMarks {
    /// Reads the marks. Callers read them before the state that they stand for, so that they notice
    /// a change in between later.
    pub(crate) fn read(handle: &SessionHandle) -> Self {
        let settings_at = handle.settings_at();
        let presence = handle.presence();
        Self { settings_at, presence, running: handle.running_terminals() }
    }

    /// Returns true if a command runs, whose output may grow at any time.
    pub(crate) fn has_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns these marks with the older numbers of bytes if the same commands run, so that their
    /// growth is reported later.
    pub(crate) fn without_growth(self, known: &Self) -> Self {
        let names = |marks: &Self| -> Vec<String> {
            marks.running.iter().map(|run| run.terminal.clone()).collect()
        };
        if names(&self) == names(known) {
            Self { running: known.running.clone(), ..self }
        } else {
            self
        }
    }
}

/// A state that a reader has, and its sources as they were when it was read.
#[derive(Debug)]
pub(crate) struct MarkedState {
    pub(crate) state: TranscriptState,
    pub(crate) descriptor: Arc<Descriptor>,
    pub(crate) marks: StateMarks,
}

/// The parts of a state that the fold knows.
#[derive(Debug)]
pub(crate) struct FoldedState {
    pub(crate) asks: Vec<String>,
    pub(crate) plan: Option<String>,
}

/// Reads the state of a session. Parts that have not changed are taken from the state that the
/// reader has; so is the output of running commands unless `is_output_due`.
pub(crate) async fn read_state(
    app: &App,
    view: &AttentionView,
    transcript: &SessionTranscript,
    folded: FoldedState,
    known: Option<&MarkedState>,
    is_output_due: bool,
) -> Result<MarkedState, Fault> {
    let handle = transcript.handle();
    let descriptor = handle.descriptor();
    let mut marks = StateMarks::read(handle);
    if let Some(known) = known.filter(|_| !is_output_due) {
        marks = marks.without_growth(&known.marks);
    }
    let FoldedState { asks, plan } = folded;
    let had_queue = known.is_none_or(|known| !known.state.queue.is_empty());
    let queue = match descriptor.queued > 0 || had_queue {
        true => {
            let queue = read_queue(app, handle).await;
            or_last_known(handle, queue, known.map(|known| &known.state.queue))?
        }
        false => Vec::new(),
    };
    let settings = match known.filter(|known| known.marks.settings_at == marks.settings_at) {
        Some(known) => known.state.settings.clone(),
        None => {
            let settings = read_short_settings(app, handle).await;
            let settings = settings.map(|settings| Some(Box::new(settings)));
            or_last_known(handle, settings, known.map(|known| &known.state.settings))?
        }
    };
    let clients = match known.filter(|known| known.marks.presence == marks.presence) {
        Some(known) => known.state.clients.clone(),
        None => {
            let clients = read_clients(app, handle).await;
            or_last_known(handle, clients, known.map(|known| &known.state.clients))?
        }
    };
    let live = match known.filter(|known| known.marks.running == marks.running) {
        Some(known) => known.state.live.clone(),
        None => marks
            .running
            .iter()
            .filter_map(|running| to_live_output(transcript, running))
            .collect(),
    };
    let session = view.session_info(&descriptor);
    let state = TranscriptState { session, asks, plan, queue, settings, clients, live };
    Ok(MarkedState { state, descriptor, marks })
}

/// Returns the part that the reader has if the session's task has ended and answers no more: the
/// last rows have to go out although the host stops.
fn or_last_known<T: Clone>(
    handle: &SessionHandle,
    read: Result<T, Fault>,
    known: Option<&T>,
) -> Result<T, Fault> {
    match (read, known) {
        (Err(_), Some(known)) if handle.is_closed() => Ok(known.clone()),
        (read, _) => read,
    }
}

fn to_live_output(transcript: &SessionTranscript, running: &RunningTerminal) -> Option<LiveOutput> {
    let RunningTerminal { tool_call, terminal, bytes } = running;
    let text = transcript.live_text(terminal)?.to_string();
    Some(LiveOutput {
        tool_call_id: tool_call.clone(),
        terminal: terminal.clone(),
        text,
        bytes: *bytes,
    })
}

/// Returns the members that differ from those that the reader knows, all of them if it knows none;
/// `None` if none does. `is_session_new` says whether the description of the session has changed
/// for a person.
pub(crate) fn find_state_change(
    known: Option<&TranscriptState>,
    now: &TranscriptState,
    is_session_new: bool,
) -> Option<StateChange> {
    let changed = |differs: fn(&TranscriptState, &TranscriptState) -> bool| {
        known.is_none_or(|known| differs(known, now))
    };
    let change = StateChange {
        session: is_session_new.then(|| Box::new(now.session.clone())),
        asks: changed(|a, b| a.asks != b.asks).then(|| now.asks.clone()),
        plan: changed(|a, b| a.plan != b.plan).then(|| now.plan.clone()),
        queue: changed(|a, b| a.queue != b.queue).then(|| now.queue.clone()),
        settings: changed(|a, b| a.settings != b.settings).then(|| now.settings.clone()).flatten(),
        clients: changed(|a, b| a.clients != b.clients).then(|| now.clients.clone()),
        live: changed(|a, b| a.live != b.live).then(|| now.live.clone()),
    };
    (change != StateChange::default()).then_some(change)
}

/// Returns the prompts that wait.
pub(crate) async fn read_queue(
    app: &App,
    handle: &SessionHandle,
) -> Result<Vec<QueueEntry>, Fault> {
    let queue = handle
        .queue()
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    Ok(to_queue_entries(&queue))
}
