//! The state that a session's task, its handles and its readers share.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Instant;

use tokio::sync::watch;
use wharf_core::{Millis, Seq, Session, SessionId};
use wharf_store::{Log, LogId};

use super::live_output::ShownTerminals;
use super::pages::Pages;
use super::tail::{Tail, TailBudget};
use crate::agent::adoption::MAX_PAUSE;
use crate::agent_services::FilesAndTerminals;
use crate::attention::AttentionSource;
use crate::descriptor::{Descriptor, Resources};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: SessionId,
    pub(crate) log_id: LogId,
    /// The span of all lines of the host's log that belong to the session.
    pub(crate) span: tracing::Span,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) tail: Tail,
    pub(crate) pages: Pages,
    /// The ids and texts of the session's attention.
    pub(crate) attention: AttentionSource,
    /// The last event that is shown to readers.
    pub(crate) head: watch::Sender<Seq>,
    /// Wharf's own files and terminals for the agent; `None` if they are forbidden.
    pub(crate) tools: Mutex<Option<FilesAndTerminals>>,
    /// The pid of the agent's keeper, 0 for none.
    keeper: AtomicU64,
    /// The keeper of an earlier host's agent runs and does not answer.
    is_keeper_silent: AtomicBool,
    /// True once the session's task ends because the host stops; its log stays.
    is_stopped: AtomicBool,
    last_output: AtomicU64,
    descriptor: RwLock<Arc<Descriptor>>,
    rest: Mutex<Rest>,
    asks: AtomicU64,
    /// The positions of the readers that follow the session.
    readers: Mutex<Vec<Weak<AtomicU64>>>,
    /// The terminals that tool calls show.
    pub(crate) shown_terminals: ShownTerminals,
    /// The last event that may have changed the agent's settings or commands, as far as this host
    /// has seen it happen.
    settings_at: AtomicU64,
    /// Rises whenever a client may have come or gone.
    presence: AtomicU64,
    resources: Mutex<Option<Resources>>,
    /// The lost events that the host's log names already.
    lost: Mutex<BTreeSet<Seq>>,
}

/// The facts that decide whether the session may be put to sleep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    /// Since when the agent is idle; `None` while it works.
    pub(crate) since: Option<Millis>,
    /// The same, with no controller attached.
    pub(crate) unattended_since: Option<Millis>,
    /// Since when there is neither a client nor work.
    pub(crate) alone_since: Option<Millis>,
    /// When the first turn since the agent's start began: processes that are younger are the
    /// agent's work.
    pub(crate) first_turn_at: Option<Instant>,
    /// The next host would know when that was.
    is_first_turn_noted: bool,
    /// True if the session could be brought back.
    pub(crate) comes_back: bool,
    /// How long the agent's manifest lets it be idle.
    pub(crate) for_at_most: Option<Millis>,
}

impl Shared {
    pub(crate) fn new(
        id: SessionId,
        log_id: LogId,
        log: Arc<dyn Log>,
        budget: Arc<TailBudget>,
        head: Seq,
        (descriptor, attention): (Descriptor, AttentionSource),
    ) -> Self {
        // It has no parent: the client that opens a session is not the only one to use it. Of the
        // level error, so that no filter lets a line through without it.
        let span = tracing::error_span!(parent: None, "session", %id);
        Self {
            id,
            span,
            log_id,
            log,
            tail: Tail::new(budget),
            pages: Pages::default(),
            attention,
            head: watch::Sender::new(head),
            tools: Mutex::default(),
            keeper: AtomicU64::new(0),
            is_keeper_silent: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            last_output: AtomicU64::new(0),
            descriptor: RwLock::new(Arc::new(descriptor)),
            rest: Mutex::default(),
            asks: AtomicU64::new(0),
            readers: Mutex::default(),
            shown_terminals: ShownTerminals::default(),
            settings_at: AtomicU64::new(0),
            presence: AtomicU64::new(0),
            resources: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    /// Sets the pid of the agent's keeper, 0 if it is gone, and drops the measurements of the last
    /// one.
    pub(crate) fn set_keeper(&self, pid: u32) {
        self.keeper.store(pid.into(), Ordering::Relaxed);
        let mut rest = self.lock_rest();
        (rest.first_turn_at, rest.is_first_turn_noted) = (None, false);
        drop(rest);
        self.set_resources(None);
    }

    /// Notes whether the session waits for the keeper of an earlier host's agent.
    pub(crate) fn note_silent_keeper(&self, is_silent: bool) {
        self.is_keeper_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Notes that the session's task ends because the host stops: readers still get its last
    /// events. With `false` the log is about to be deleted, and they get nothing any more.
    pub(crate) fn note_stop(&self, stays: bool) {
        self.is_stopped.store(stays, Ordering::Release);
    }

    /// Returns true if the session's task ends, or has ended, only because the host stops.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Returns what a person should know of the session while its keeper does not answer.
    pub(crate) fn describe_silence(&self) -> Option<String> {
        let keeper = self.keeper.load(Ordering::Relaxed);
        self.is_keeper_silent.load(Ordering::Relaxed).then(|| {
            if keeper == 0 {
                let pause = MAX_PAUSE.as_secs();
                return format!(
                    "the output of the agent, which has ended without a host, cannot be read; the host tries again, later every {pause} s"
                );
            }
            format!(
                "the keeper of the agent (pid {keeper}) does not answer since the host was restarted; it is asked again every second"
            )
        })
    }

    /// Restores when the first turn of an agent that was taken over began.
    pub(crate) fn restore_first_turn(&self, at: Option<Instant>) {
        let mut rest = self.lock_rest();
        (rest.first_turn_at, rest.is_first_turn_noted) = (at, at.is_some());
    }

    /// Returns true for the first turn since the agent's start, once.
    pub(crate) fn take_first_turn_news(&self) -> bool {
        !std::mem::replace(&mut self.lock_rest().is_first_turn_noted, true)
    }

    /// Returns the roots of the process trees that belong to the agent: its own, and its
    /// terminals'.
    pub(crate) fn keepers(&self) -> Vec<u32> {
        let own = u32::try_from(self.keeper.load(Ordering::Relaxed))
            .ok()
            .filter(|keeper| *keeper > 0);
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        own.into_iter()
            .chain(tools.iter().flat_map(|tools| tools.terminals.keeper_pids()))
            .collect()
    }

    /// Returns the session's state in short, as of its last change, without waking the session
    /// (rule 5.2).
    pub(crate) fn descriptor(&self) -> Arc<Descriptor> {
        let kept = Arc::clone(&self.descriptor.read().unwrap_or_else(PoisonError::into_inner));
        let head = self.head.borrow().0;
        let output = self.last_output.load(Ordering::Relaxed);
        let resources = self.resources().filter(|_| kept.status.is_alive());
        if head == kept.last_seq && output == 0 && resources.is_none() {
            return kept;
        }
        let mut fresh = Descriptor::clone(&kept);
        fresh.resources = resources;
        fresh.last_seq = head;
        if output > 0 {
            fresh.set_last_output(Millis(output));
        }
        Arc::new(fresh)
    }

    pub(crate) fn set_descriptor(&self, descriptor: Arc<Descriptor>) {
        *self.descriptor.write().unwrap_or_else(PoisonError::into_inner) = descriptor;
    }

    pub(crate) fn rest(&self) -> Rest {
        *self.lock_rest()
    }

    fn lock_rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes since when the agent is idle, since when it is idle without a controller, and since
    /// when the session has neither a client nor work.
    pub(crate) fn note_rest(&self, session: &Session, now: Millis) {
        let state = session.state();
        let mut rest = self.lock_rest();
        rest.since = state.is_idle().then(|| rest.since.unwrap_or(now));
        let is_unattended = rest.since.is_some() && !session.has_controller();
        rest.unattended_since = is_unattended.then(|| rest.unattended_since.unwrap_or(now));
        rest.alone_since = session.alone_since();
        if !state.turns.is_empty() {
            rest.first_turn_at.get_or_insert_with(Instant::now);
        }
        rest.comes_back = state.way_back().is_some();
        drop(rest);
        self.asks.store(state.asks.len() as u64, Ordering::Relaxed);
    }

    /// Returns true if the log has lost events.
    pub(crate) fn has_losses(&self) -> bool {
        !self.lost.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns true if these lost events were not noted before.
    pub(crate) fn note_lost(&self, last: Seq) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).insert(last)
    }

    /// Returns the number of open asks.
    pub(crate) fn asks(&self) -> u64 {
        self.asks.load(Ordering::Relaxed)
    }

    /// Returns true if the agent is paused because the log cannot be written.
    pub(crate) fn is_paused(&self) -> bool {
        self.descriptor().paused.is_some()
    }

    /// Returns the place where a new reader notes its position; it is forgotten with the reader.
    pub(crate) fn add_reader(&self, at: Seq) -> Arc<AtomicU64> {
        let place = Arc::new(AtomicU64::new(at.0));
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(&place));
        place
    }

    /// Returns the number of readers, and by how many events the slowest is behind.
    pub(crate) fn lag(&self) -> (u64, u64) {
        let mut count = 0;
        let mut lag = 0;
        let head = self.head.borrow().0;
        for reader in self.readers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if let Some(place) = reader.upgrade() {
                count += 1;
                lag = lag.max(head.saturating_sub(place.load(Ordering::Relaxed)));
            }
        }
        (count, lag)
    }

    pub(crate) fn rest_for_at_most(&self, limit: Option<Millis>) {
        self.lock_rest().for_at_most = limit;
    }

    pub(crate) fn resources(&self) -> Option<Resources> {
        *self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the measurements before these.
    pub(crate) fn set_resources(&self, resources: Option<Resources>) -> Option<Resources> {
        std::mem::replace(
            &mut *self.resources.lock().unwrap_or_else(PoisonError::into_inner),
            resources,
        )
    }

    pub(crate) fn note_settings(&self, at: Seq) {
        self.settings_at.store(at.0, Ordering::Relaxed);
    }

    pub(crate) fn settings_at(&self) -> Seq {
        Seq(self.settings_at.load(Ordering::Relaxed))
    }

    pub(crate) fn note_presence(&self) {
        self.presence.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn presence(&self) -> u64 {
        self.presence.load(Ordering::Relaxed)
    }

    pub(crate) fn note_output(&self, at: Millis) {
        self.last_output.store(at.0, Ordering::Relaxed);
    }
}
