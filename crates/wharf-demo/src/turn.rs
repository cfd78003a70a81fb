//! One running prompt: a thread that writes updates, waits, and can be stopped at any moment.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::wire::{self, MessageWriter, RpcResult};

/// Locks a mutex even after another thread panicked: the state is plain data, and an agent should
/// go on.
pub fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of signals that may wait for a turn. A turn has a handful of open requests at most,
/// and a second cancel has no effect, so further signals are dropped.
const MAX_WAITING_SIGNALS: usize = 64;

/// A message from the reading thread to a running turn.
#[derive(Debug)]
pub enum PromptSignal {
    /// `session/cancel`.
    Cancel,
    /// `$/cancel_request` of the prompt itself.
    Withdraw,
    /// A newer prompt takes over.
    Supersede,
    /// The event that the turn waits for has happened.
    Go,
    /// The other side settled the request with this id.
    Answer { id: Value, answer: RpcResult },
    /// The input has ended.
    HangUp,
}

/// The reason why a turn ends before its script does.
#[derive(Debug)]
pub enum TurnStop {
    Cancelled,
    Withdrawn,
    Superseded,
    /// The script ended the turn with this stop reason.
    Ended(String),
    /// The script ended the turn with this error object.
    Refused(Value),
    /// The client is gone: no answer is sent.
    Gone,
}

/// The other side of the connection, with the requests that it has not answered yet.
#[derive(Debug)]
pub struct AgentPeer {
    output: MessageWriter,
    next_id: AtomicI64,
    waiting: Mutex<HashMap<String, SyncSender<PromptSignal>>>,
}

impl AgentPeer {
    pub fn new(output: MessageWriter) -> Self {
        Self {
            output,
            next_id: AtomicI64::new(1),
            waiting: Mutex::default(),
        }
    }

    pub fn output(&self) -> &MessageWriter {
        &self.output
    }

    /// Passes an answer to the turn that asked. An unexpected answer is dropped.
    pub fn pass_answer(&self, id: Value, answer: RpcResult) {
        if let Some(turn) = lock_mutex(&self.waiting).remove(&id.to_string()) {
            let _ = turn.try_send(PromptSignal::Answer { id, answer });
        }
    }
}

/// A running turn. Its methods fail with [`TurnStop`] as soon as the turn has to end.
#[derive(Debug)]
pub struct RunningTurn {
    pub session: String,
    /// True to keep working after a cancel, as badly behaved agents do.
    pub deaf: bool,
    /// The `usage` of the prompt's answer, if the turn reports one.
    pub usage: Option<Value>,
    peer: Arc<AgentPeer>,
    inbox: Receiver<PromptSignal>,
    sender: SyncSender<PromptSignal>,
    /// The number of signals that came before the turn waited for them.
    go_signals: u32,
    answered: Vec<(Value, RpcResult)>,
}

impl RunningTurn {
    /// Creates a turn; [`RunningTurn::sender`] makes it reachable.
    pub fn new(session: &str, peer: &Arc<AgentPeer>) -> Self {
        let (sender, inbox) = sync_channel(MAX_WAITING_SIGNALS);
        let session = session.to_owned();
        let peer = Arc::clone(peer);
        Self {
            session,
            deaf: false,
            usage: None,
            peer,
            inbox,
            sender,
            go_signals: 0,
            answered: Vec::new(),
        }
    }

    /// Returns the sender by which the reading thread reaches this turn; it uses `try_send`, so it
    /// never waits for a turn.
    pub fn sender(&self) -> SyncSender<PromptSignal> {
        self.sender.clone()
    }

    pub fn peer(&self) -> &Arc<AgentPeer> {
        &self.peer
    }

    /// Sends a `session/update` of this session.
    pub fn send_update(&self, update: &Value) -> Result<(), TurnStop> {
        self.send_message(&wire::update_frame(&self.session, update))
    }

    pub fn send_message(&self, message: &Value) -> Result<(), TurnStop> {
        self.peer.output.send_message(message).map_err(|_| TurnStop::Gone)
    }

    pub fn send_bytes(&self, bytes: &[u8]) -> Result<(), TurnStop> {
        self.peer.output.send_bytes(bytes).map_err(|_| TurnStop::Gone)
    }

    /// Checks without waiting whether the turn has to end.
    pub fn check_stop(&mut self) -> Result<(), TurnStop> {
        loop {
            match self.inbox.try_recv() {
                Ok(signal) => self.take_signal(signal)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(TurnStop::Gone),
            }
        }
    }

    /// Waits this long, or until the turn has to end.
    pub fn pause_for(&mut self, pause_for: Duration) -> Result<(), TurnStop> {
        self.pause_until(Instant::now() + pause_for)
    }

    pub fn pause_until(&mut self, resume_at: Instant) -> Result<(), TurnStop> {
        loop {
            let left = resume_at.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(left) {
                Ok(signal) => self.take_signal(signal)?,
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(TurnStop::Gone),
            }
        }
    }

    /// Waits for the next [`PromptSignal::Go`], without a limit.
    pub fn wait_for_go(&mut self) -> Result<(), TurnStop> {
        while self.go_signals == 0 {
            self.take_next()?;
        }
        self.go_signals -= 1;
        Ok(())
    }

    /// Waits until the turn has to end.
    pub fn wait_for_stop(&mut self) -> TurnStop {
        loop {
            if let Err(stop) = self.wait_for_go() {
                return stop;
            }
        }
    }

    /// Sends a request with the next id and waits for its answer.
    pub fn send_request(&mut self, method: &str, params: Value) -> Result<RpcResult, TurnStop> {
        let id = json!(self.peer.next_id.fetch_add(1, Ordering::Relaxed));
        self.start_request(&id, method, params)?;
        self.wait_for_answer(&id)
    }

    /// Sends a request with a given id, without waiting.
    pub fn start_request(
        &mut self,
        id: &Value,
        method: &str,
        params: Value,
    ) -> Result<(), TurnStop> {
        lock_mutex(&self.peer.waiting).insert(id.to_string(), self.sender());
        self.send_message(&wire::request_frame(id, method, params))
    }

    /// Waits for the answer to a request that was opened before.
    pub fn wait_for_answer(&mut self, request: &Value) -> Result<RpcResult, TurnStop> {
        let mut answers = self.wait_for_answers(std::slice::from_ref(request))?;
        answers.pop().ok_or(TurnStop::Gone)
    }

    /// Waits for the answers to several requests in any order. Returns them in the order of the
    /// requests.
    pub fn wait_for_answers(&mut self, requests: &[Value]) -> Result<Vec<RpcResult>, TurnStop> {
        while !requests.iter().all(|request| self.answered.iter().any(|(id, _)| id == request)) {
            if let Err(stop) = self.take_next() {
                requests.iter().for_each(|request| self.abandon_request(request, &stop));
                return Err(stop);
            }
        }
        let place = |id: &Value| requests.iter().position(|request| request == id);
        let mut answers: Vec<_> =
            self.answered.extract_if(.., |(id, _)| place(id).is_some()).collect();
        answers.sort_by_key(|(id, _)| place(id));
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    /// Returns the answers that have come and were not waited for.
    pub fn take_answers(&mut self) -> Vec<(Value, RpcResult)> {
        std::mem::take(&mut self.answered)
    }

    /// Waits for the next answer to any open request.
    pub fn wait_for_any_answer(&mut self) -> Result<(Value, RpcResult), TurnStop> {
        while self.answered.is_empty() {
            self.take_next()?;
        }
        Ok(self.answered.remove(0))
    }

    /// Drops a request. After `session/cancel` the client settles it by itself; after any other end
    /// it is sent a withdrawal.
    fn abandon_request(&self, request: &Value, stop: &TurnStop) {
        let was_open = lock_mutex(&self.peer.waiting).remove(&request.to_string()).is_some();
        if was_open && !matches!(stop, TurnStop::Cancelled | TurnStop::Gone) {
            let _ = self.send_message(&wire::notification_frame(
                "$/cancel_request",
                json!({ "requestId": request }),
            ));
        }
    }

    /// Answers the prompt with the outcome of its script.
    pub fn answer_prompt(&self, id: &Value, outcome: Result<(), TurnStop>) {
        let reason = |reason: &str| {
            let mut result = json!({ "stopReason": reason });
            if let Some(usage) = &self.usage {
                result["usage"] = usage.clone();
            }
            wire::result_frame(id, result)
        };
        let message = match outcome {
            Ok(()) | Err(TurnStop::Superseded) => reason("end_turn"),
            Err(TurnStop::Cancelled) => reason("cancelled"),
            Err(TurnStop::Ended(why)) => reason(&why),
            Err(TurnStop::Withdrawn) => wire::error_frame(
                id,
                wire::error_object(wire::REQUEST_CANCELLED, "Request cancelled"),
            ),
            Err(TurnStop::Refused(fault)) => wire::error_frame(id, fault),
            Err(TurnStop::Gone) => return,
        };
        let _ = self.send_message(&message);
    }

    fn take_next(&mut self) -> Result<(), TurnStop> {
        let signal = self.inbox.recv().map_err(|_| TurnStop::Gone)?;
        self.take_signal(signal)
    }

    /// Keeps a signal for a later wait, or ends the turn.
    fn take_signal(&mut self, signal: PromptSignal) -> Result<(), TurnStop> {
        match signal {
            PromptSignal::Cancel | PromptSignal::Withdraw if self.deaf => {}
            PromptSignal::Cancel => return Err(TurnStop::Cancelled),
            PromptSignal::Withdraw => return Err(TurnStop::Withdrawn),
            PromptSignal::Supersede => return Err(TurnStop::Superseded),
            PromptSignal::HangUp => return Err(TurnStop::Gone),
            PromptSignal::Go => self.go_signals += 1,
            PromptSignal::Answer { id, answer } => self.answered.push((id, answer)),
        }
        Ok(())
    }
}
