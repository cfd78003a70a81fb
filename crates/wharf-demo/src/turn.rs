//! One running prompt: a thread that writes updates, waits, and can be stopped at any moment.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::wire::{self, Answer, Output};

/// Locks a mutex even after another thread panicked: the state is plain data, and an agent should go on.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of signals that may wait for a turn. A turn has a handful of open requests at most, and a second cancel
/// has no effect, so further signals are dropped.
const INBOX: usize = 64;

/// A message from the reading thread to a running turn.
#[derive(Debug)]
pub enum Signal {
    /// `session/cancel`.
    Cancel,
    /// `$/cancel_request` of the prompt itself.
    Withdraw,
    /// A newer prompt takes over.
    Supersede,
    /// The event that the turn was told to wait for has happened.
    Go,
    /// The other side settled the request with this id.
    Answer { id: Value, answer: Answer },
    /// The input has ended.
    HangUp,
}

/// The reason why a turn ends before its script does.
#[derive(Debug)]
pub enum Stop {
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
pub struct Peer {
    output: Output,
    next_id: AtomicI64,
    waiting: Mutex<HashMap<String, SyncSender<Signal>>>,
}

impl Peer {
    pub fn new(output: Output) -> Self {
        Self { output, next_id: AtomicI64::new(1), waiting: Mutex::default() }
    }

    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Passes an answer to the turn that asked. An unexpected answer is dropped.
    pub fn settle(&self, id: Value, answer: Answer) {
        if let Some(turn) = lock(&self.waiting).remove(&id.to_string()) {
            let _ = turn.try_send(Signal::Answer { id, answer });
        }
    }
}

/// A running turn. Its methods fail with [`Stop`] as soon as the turn has to end.
#[derive(Debug)]
pub struct Turn {
    pub session: String,
    /// True to keep working after a cancel, as badly behaved agents do.
    pub deaf: bool,
    peer: Arc<Peer>,
    inbox: Receiver<Signal>,
    sender: SyncSender<Signal>,
    /// The number of signals that came before the turn waited for them.
    go_signals: u32,
    answered: Vec<(Value, Answer)>,
}

impl Turn {
    /// Creates a turn; [`Turn::sender`] makes it reachable.
    pub fn new(session: &str, peer: &Arc<Peer>) -> Self {
        let (sender, inbox) = sync_channel(INBOX);
        let (session, peer) = (session.to_owned(), Arc::clone(peer));
        Self { session, deaf: false, peer, inbox, sender, go_signals: 0, answered: Vec::new() }
    }

    /// Returns the sender by which the reading thread reaches this turn; it uses `try_send`, so it never waits for a
    /// turn.
    pub fn sender(&self) -> SyncSender<Signal> {
        self.sender.clone()
    }

    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Sends a `session/update` of this session.
    pub fn update(&self, update: &Value) -> Result<(), Stop> {
        self.send(&wire::update(&self.session, update))
    }

    pub fn send(&self, message: &Value) -> Result<(), Stop> {
        self.peer.output.send(message).map_err(|_| Stop::Gone)
    }

    pub fn send_bytes(&self, bytes: &[u8]) -> Result<(), Stop> {
        self.peer.output.send_bytes(bytes).map_err(|_| Stop::Gone)
    }

    /// Checks without waiting whether the turn has to end.
    pub fn check(&mut self) -> Result<(), Stop> {
        loop {
            match self.inbox.try_recv() {
                Ok(signal) => self.take(signal)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(Stop::Gone),
            }
        }
    }

    /// Waits this long, or until the turn has to end.
    pub fn pause(&mut self, pause_for: Duration) -> Result<(), Stop> {
        self.pause_until(Instant::now() + pause_for)
    }

    pub fn pause_until(&mut self, resume_at: Instant) -> Result<(), Stop> {
        loop {
            let left = resume_at.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(left) {
                Ok(signal) => self.take(signal)?,
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(Stop::Gone),
            }
        }
    }

    /// Waits for the next [`Signal::Go`], without a limit.
    pub fn wait_for_go(&mut self) -> Result<(), Stop> {
        while self.go_signals == 0 {
            self.take_next()?;
        }
        self.go_signals -= 1;
        Ok(())
    }

    /// Waits until the turn has to end.
    pub fn hang(&mut self) -> Stop {
        loop {
            if let Err(stop) = self.wait_for_go() {
                return stop;
            }
        }
    }

    /// Sends a request with the next id and waits for its answer.
    pub fn ask(&mut self, method: &str, params: Value) -> Result<Answer, Stop> {
        let id = json!(self.peer.next_id.fetch_add(1, Ordering::Relaxed));
        self.open(&id, method, params)?;
        self.answer(&id)
    }

    /// Sends a request with a given id, without waiting.
    pub fn open(&mut self, id: &Value, method: &str, params: Value) -> Result<(), Stop> {
        lock(&self.peer.waiting).insert(id.to_string(), self.sender());
        self.send(&wire::request(id, method, params))
    }

    /// Waits for the answer to a request that was opened before.
    pub fn answer(&mut self, request: &Value) -> Result<Answer, Stop> {
        let mut answers = self.answers(std::slice::from_ref(request))?;
        answers.pop().ok_or(Stop::Gone)
    }

    /// Waits for the answers to several requests in any order. Returns them in the order of the requests.
    pub fn answers(&mut self, requests: &[Value]) -> Result<Vec<Answer>, Stop> {
        while !requests.iter().all(|request| self.answered.iter().any(|(id, _)| id == request)) {
            if let Err(stop) = self.take_next() {
                requests.iter().for_each(|request| self.abandon(request, &stop));
                return Err(stop);
            }
        }
        let place = |id: &Value| requests.iter().position(|request| request == id);
        let mut answers: Vec<_> = self.answered.extract_if(.., |(id, _)| place(id).is_some()).collect();
        answers.sort_by_key(|(id, _)| place(id));
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    /// Drops a request. After `session/cancel` the client settles it by itself; after any other end it is sent a
    /// withdrawal.
    fn abandon(&self, request: &Value, stop: &Stop) {
        let was_open = lock(&self.peer.waiting).remove(&request.to_string()).is_some();
        if was_open && !matches!(stop, Stop::Cancelled | Stop::Gone) {
            let _ = self.send(&wire::notification("$/cancel_request", json!({ "requestId": request })));
        }
    }

    /// Answers the prompt with the outcome of its script.
    pub fn finish(&self, id: &Value, outcome: Result<(), Stop>) {
        let reason = |reason: &str| wire::response(id, json!({ "stopReason": reason }));
        let message = match outcome {
            Ok(()) | Err(Stop::Superseded) => reason("end_turn"),
            Err(Stop::Cancelled) => reason("cancelled"),
            Err(Stop::Ended(why)) => reason(&why),
            Err(Stop::Withdrawn) => wire::error(id, wire::fault(wire::REQUEST_CANCELLED, "Request cancelled")),
            Err(Stop::Refused(fault)) => wire::error(id, fault),
            Err(Stop::Gone) => return,
        };
        let _ = self.send(&message);
    }

    fn take_next(&mut self) -> Result<(), Stop> {
        let signal = self.inbox.recv().map_err(|_| Stop::Gone)?;
        self.take(signal)
    }

    /// Keeps a signal for a later wait, or ends the turn.
    fn take(&mut self, signal: Signal) -> Result<(), Stop> {
        match signal {
            Signal::Cancel | Signal::Withdraw if self.deaf => {}
            Signal::Cancel => return Err(Stop::Cancelled),
            Signal::Withdraw => return Err(Stop::Withdrawn),
            Signal::Supersede => return Err(Stop::Superseded),
            Signal::HangUp => return Err(Stop::Gone),
            Signal::Go => self.go_signals += 1,
            Signal::Answer { id, answer } => self.answered.push((id, answer)),
        }
        Ok(())
    }
}
