//! What a session's task, its handles and its readers have in common.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::watch;
use wharf_core::{Millis, Seq, SessionId};
use wharf_store::{Log, LogId};

use super::tail::{Tail, TailBudget};
use crate::descriptor::Descriptor;
use crate::tools::Tools;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: SessionId,
    pub(crate) log_id: LogId,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) tail: Tail,
    /// The last event that everyone may see.
    pub(crate) head: watch::Sender<Seq>,
    /// Wharf's own files and terminals for the agent; none where they are forbidden.
    pub(crate) tools: Mutex<Option<Tools>>,
    /// The pid of the agent's shim, 0 for none.
    pub(crate) shim: AtomicU64,
    last_output: AtomicU64,
    descriptor: RwLock<Arc<Descriptor>>,
}

impl Shared {
    pub(crate) fn new(
        id: SessionId,
        log_id: LogId,
        log: Arc<dyn Log>,
        budget: Arc<TailBudget>,
        head: Seq,
        descriptor: Descriptor,
    ) -> Self {
        Self {
            id,
            log_id,
            log,
            tail: Tail::new(budget),
            head: watch::Sender::new(head),
            tools: Mutex::default(),
            shim: AtomicU64::new(0),
            last_output: AtomicU64::new(0),
            descriptor: RwLock::new(Arc::new(descriptor)),
        }
    }

    /// The roots of the process trees that belong to the agent: its own, and its terminals'.
    pub(crate) fn shims(&self) -> Vec<u32> {
        let own = u32::try_from(self.shim.load(Ordering::Relaxed)).ok().filter(|shim| *shim > 0);
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        own.into_iter().chain(tools.iter().flat_map(|tools| tools.terminals.shims())).collect()
    }

    /// The session's state in short, as of its last change; answered without waking the session (rule 5.2).
    pub(crate) fn descriptor(&self) -> Arc<Descriptor> {
        let kept = Arc::clone(&self.descriptor.read().unwrap_or_else(PoisonError::into_inner));
        let (head, output) = (self.head.borrow().0, self.last_output.load(Ordering::Relaxed));
        if head == kept.last_seq && output == 0 {
            return kept;
        }
        let mut fresh = Descriptor::clone(&kept);
        fresh.last_seq = head;
        if output > 0 {
            fresh.set_last_output(Millis(output));
        }
        Arc::new(fresh)
    }

    pub(crate) fn set_descriptor(&self, descriptor: Arc<Descriptor>) {
        *self.descriptor.write().unwrap_or_else(PoisonError::into_inner) = descriptor;
    }

    pub(crate) fn note_output(&self, at: Millis) {
        self.last_output.store(at.0, Ordering::Relaxed);
    }
}
