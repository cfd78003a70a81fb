//! One budget for the bytes that are on their way between the host and its clients, over all
//! connections.
//!
//! The budget refuses inbound bytes when it has no room for them. Outbound bytes wait for room,
//! first come first served, and a waiting reader holds none of them. While it has no room, the
//! budget closes holders that have stalled (taken or sent nothing) for too long, the longest
//! stalled first. Each direction always has room for one message of the maximal size.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use wharf_config::Limits;

use crate::metrics::Counter;

/// How often the budget looks for stalled holders while it has no room.
const RELIEF_INTERVAL: Duration = Duration::from_millis(250);
/// How long a holder may stall if `limits.silence` says nothing.
const DEFAULT_STALL_LIMIT: Duration = Duration::from_secs(30);

/// Bytes in use, with a bound for each direction and for both together.
#[derive(Debug)]
pub struct ByteBudget {
    total_limit: usize,
    inbound_limit: usize,
    outbound_limit: usize,
    stall_limit: Duration,
    in_use: Mutex<InUse>,
    /// Told when bytes come back.
    freed: Notify,
    /// Held by the reader whose turn it is: the lock is fair.
    turn: tokio::sync::Mutex<()>,
    waiting: AtomicUsize,
    is_relieving: AtomicBool,
    holders: Mutex<Vec<Weak<ByteHolder>>>,
    closed_readers: Counter,
    closed_senders: Counter,
}

#[derive(Clone, Copy, Debug, Default)]
struct InUse {
    inbound: usize,
    outbound: usize,
}

/// Which way bytes go, seen from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}

/// The budget has no room for more inbound bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes are on their way in")]
pub struct BudgetFull;

/// Bytes of the budget, given back when this is dropped.
#[derive(Debug)]
pub struct BytePermit {
    budget: Arc<ByteBudget>,
    direction: Direction,
    bytes: usize,
}

/// A connection, stream or message that may hold bytes of the budget and can be closed to make
/// room.
pub struct ByteHolder {
    direction: Direction,
    /// The kind of connection, for the log.
    kind: &'static str,
    stalled_since: Mutex<Option<Instant>>,
    is_closed: AtomicBool,
    close: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for ByteHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByteHolder")
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}

impl ByteHolder {
    /// Notes that the holder waits for its peer, from now on unless it did before.
    pub fn note_stalled(&self) {
        lock(&self.stalled_since).get_or_insert_with(Instant::now);
    }

    /// Notes that the peer has taken or sent something.
    pub fn note_progress(&self) {
        *lock(&self.stalled_since) = None;
    }

    /// Returns true once the holder was closed to make room.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn stalled_for(&self) -> Option<Duration> {
        lock(&self.stalled_since)
            .filter(|_| !self.is_closed())
            .map(|since| since.elapsed())
    }
}

impl ByteBudget {
    /// Messages of no more bytes than this are too small to be counted.
    pub const UNCOUNTED_BYTES: usize = 64 << 10;

    /// The budget of a host: `limits.buffers`, of which `limits.bodies` may be on their way in.
    pub fn new(limits: &Limits) -> Arc<Self> {
        let largest = limits.frame.0.max(Self::UNCOUNTED_BYTES);
        let total_limit = limits.buffers.0.max(2 * largest);
        Arc::new(Self {
            total_limit,
            inbound_limit: limits.bodies.0.min(total_limit - largest),
            outbound_limit: total_limit - largest,
            stall_limit: limits.silence.to_std().unwrap_or(DEFAULT_STALL_LIMIT),
            in_use: Mutex::default(),
            freed: Notify::new(),
            turn: tokio::sync::Mutex::new(()),
            waiting: AtomicUsize::new(0),
            is_relieving: AtomicBool::new(false),
            holders: Mutex::default(),
            closed_readers: Counter::default(),
            closed_senders: Counter::default(),
        })
    }

    pub fn limit(&self) -> usize {
        self.total_limit
    }

    pub fn bytes_in_use(&self, direction: Direction) -> usize {
        let in_use = lock(&self.in_use);
        match direction {
            Direction::In => in_use.inbound,
            Direction::Out => in_use.outbound,
        }
    }

    /// How many holders of that direction were closed to make room.
    pub fn closed(&self, direction: Direction) -> u64 {
        self.closings(direction).get()
    }

    const fn closings(&self, direction: Direction) -> &Counter {
        match direction {
            Direction::In => &self.closed_senders,
            Direction::Out => &self.closed_readers,
        }
    }

    /// Registers a holder. `close` must give its bytes back soon, and must not wait.
    pub fn add_holder(
        &self,
        direction: Direction,
        kind: &'static str,
        close: impl Fn() + Send + Sync + 'static,
    ) -> Arc<ByteHolder> {
        let holder = Arc::new(ByteHolder {
            direction,
            kind,
            stalled_since: Mutex::default(),
            is_closed: AtomicBool::new(false),
            close: Box::new(close),
        });
        let mut holders = lock(&self.holders);
        holders.retain(|known| known.strong_count() > 0);
        holders.push(Arc::downgrade(&holder));
        holder
    }

    /// An inbound permit for no bytes yet; see [`BytePermit::try_grow`].
    pub fn begin_in(self: &Arc<Self>) -> BytePermit {
        BytePermit { budget: Arc::clone(self), direction: Direction::In, bytes: 0 }
    }

    /// Takes bytes on their way out if there is room and no reader waits for it.
    pub fn try_reserve_out(self: &Arc<Self>, bytes: usize) -> Option<BytePermit> {
        let _turn = self.turn.try_lock().ok()?;
        self.take_out(bytes)
    }

    /// Takes bytes on their way out, waiting for room. The caller must hold none of these bytes
    /// while it waits.
    pub async fn reserve_out(self: &Arc<Self>, bytes: usize) -> BytePermit {
        if let Some(permit) = self.try_reserve_out(bytes) {
            return permit;
        }
        let _waiting = Waiting::new(&self.waiting);
        self.relieve();
        let _turn = self.turn.lock().await;
        loop {
            let freed = self.freed.notified();
            if let Some(permit) = self.take_out(bytes) {
                return permit;
            }
            freed.await;
        }
    }

    /// Counts bytes on their way out that exist already and cannot wait, room or not.
    pub fn charge_out(self: &Arc<Self>, bytes: usize) -> BytePermit {
        let mut in_use = lock(&self.in_use);
        in_use.outbound += bytes;
        let is_over = in_use.outbound > self.outbound_limit
            || in_use.inbound + in_use.outbound > self.total_limit;
        drop(in_use);
        if is_over {
            self.relieve();
        }
        BytePermit { budget: Arc::clone(self), direction: Direction::Out, bytes }
    }

    fn take_out(self: &Arc<Self>, bytes: usize) -> Option<BytePermit> {
        // One message may always pass, whatever a setting says of its size.
        let bytes = bytes.min(self.total_limit - self.inbound_limit).min(self.outbound_limit);
        let mut in_use = lock(&self.in_use);
        let outbound = in_use.outbound + bytes;
        if outbound > self.outbound_limit || in_use.inbound + outbound > self.total_limit {
            return None;
        }
        in_use.outbound = outbound;
        Some(BytePermit { budget: Arc::clone(self), direction: Direction::Out, bytes })
    }

    fn give_back(&self, direction: Direction, bytes: usize) {
        let mut in_use = lock(&self.in_use);
        match direction {
            Direction::In => in_use.inbound -= bytes,
            Direction::Out => in_use.outbound -= bytes,
        }
        drop(in_use);
        self.freed.notify_waiters();
    }

    fn needs_room(&self) -> bool {
        let in_use = *lock(&self.in_use);
        self.waiting.load(Ordering::Acquire) > 0
            || in_use.outbound > self.outbound_limit
            || in_use.inbound + in_use.outbound > self.total_limit
    }

    /// Closes stalled holders, one after the other, until the budget has room again.
    fn relieve(self: &Arc<Self>) {
        if self.is_relieving.swap(true, Ordering::AcqRel) {
            return;
        }
        let budget = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                while budget.needs_room() {
                    budget.close_longest_stalled(Direction::Out);
                    tokio::time::sleep(RELIEF_INTERVAL).await;
                }
                budget.is_relieving.store(false, Ordering::Release);
                // A reader that came in between has relied on this task.
                if !budget.needs_room() || budget.is_relieving.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        });
    }

    /// Closes the holder that has stalled for longest; false if none has for too long.
    fn close_longest_stalled(&self, direction: Direction) -> bool {
        let holders: Vec<Arc<ByteHolder>> =
            lock(&self.holders).iter().filter_map(Weak::upgrade).collect();
        let stalled = holders.iter().filter(|holder| holder.direction == direction);
        let longest = stalled
            .filter_map(|holder| Some((holder.stalled_for()?, holder)))
            .max_by_key(|(long, _)| *long);
        let Some((stalled, holder)) = longest.filter(|(long, _)| *long >= self.stall_limit) else {
            return false;
        };
        holder.is_closed.store(true, Ordering::Release);
        self.closings(direction).add(1);
        let kind = holder.kind;
        let stalled_millis = stalled.as_millis();
        match direction {
            Direction::Out => tracing::info!(
                kind,
                stalled_millis,
                "a client that takes nothing is dropped, in the middle of a message without a close frame: others need \
                 the bytes that wait for it (limits.buffers)"
            ),
            Direction::In => tracing::info!(
                kind,
                stalled_millis,
                "a message that does not come to its end is dropped: others need its bytes (limits.bodies)"
            ),
        }
        (holder.close)();
        true
    }
}

impl BytePermit {
    /// Takes more bytes on their way in. A message that has been under way for too long makes room
    /// for others.
    pub fn try_grow(&mut self, more: usize) -> Result<(), BudgetFull> {
        let budget = &self.budget;
        let mut in_use = lock(&budget.in_use);
        let inbound = in_use.inbound + more;
        let fits =
            inbound <= budget.inbound_limit && inbound + in_use.outbound <= budget.total_limit;
        if fits {
            in_use.inbound = inbound;
        }
        drop(in_use);
        if !fits {
            if !budget.close_longest_stalled(self.direction) {
                return Err(BudgetFull);
            }
            // The bytes of the closed one come back in a moment.
            lock(&budget.in_use).inbound += more;
        }
        self.bytes += more;
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for BytePermit {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(self.direction, self.bytes);
        }
    }
}

/// Counts a reader as waiting.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use wharf_config::Size;

    use super::super::poll_once;
    use super::*;

    const MIB: usize = 1 << 20;

    fn budget(silence_millis: u64) -> Arc<ByteBudget> {
        let silence = wharf_config::Duration::from_millis(silence_millis);
        let frame = Size(MIB);
        let bodies = Size(2 * MIB);
        let buffers = Size(4 * MIB);
        ByteBudget::new(&Limits { frame, bodies, buffers, silence, ..Limits::default() })
    }

    #[tokio::test]
    async fn readers_get_room_in_the_order_in_which_they_came() {
        let budget = budget(60_000);
        let held = budget.reserve_out(3 * MIB).await;
        let mut large = Box::pin(budget.reserve_out(2 * MIB));
        assert!(poll_once(&mut large).await.is_none(), "there is no room");
        let mut small = Box::pin(budget.reserve_out(1));
        assert!(poll_once(&mut small).await.is_none(), "a small one does not overtake");
        drop(held);
        let large = large.await;
        let small = small.await;
        assert_eq!(budget.bytes_in_use(Direction::Out), 2 * MIB + 1);
        drop((large, small));
        assert_eq!(budget.bytes_in_use(Direction::Out), 0);
    }

    #[tokio::test]
    async fn each_direction_has_room_for_one_message_whatever_the_other_holds() {
        let budget = budget(60_000);
        let outbound = [budget.reserve_out(100 * MIB).await, budget.reserve_out(MIB).await];
        assert!(budget.try_reserve_out(1).is_none());
        let mut inbound = budget.begin_in();
        inbound.try_grow(MIB).unwrap();
        assert_eq!(inbound.try_grow(1), Err(BudgetFull));
        drop(outbound);
        inbound.try_grow(MIB).unwrap();
        assert_eq!(inbound.try_grow(1), Err(BudgetFull), "limits.bodies");
        assert!(budget.try_reserve_out(MIB).is_some());
    }

    #[tokio::test]
    async fn a_reader_that_waits_gets_the_room_of_one_that_has_stalled() {
        let budget = budget(0);
        let held = Arc::new(Mutex::new(Some(budget.charge_out(9 * MIB))));
        let holder = budget.add_holder(Direction::Out, "test", {
            let held = Arc::clone(&held);
            move || drop(lock(&held).take())
        });
        let reading = budget.add_holder(Direction::Out, "test", || {});
        holder.note_stalled();
        reading.note_stalled();
        reading.note_progress();
        let _permit = budget.reserve_out(MIB).await;
        assert!(holder.is_closed() && !reading.is_closed());
        assert_eq!((budget.closed(Direction::Out), budget.closed(Direction::In)), (1, 0));
        assert_eq!(budget.bytes_in_use(Direction::Out), MIB);
    }

    #[tokio::test]
    async fn a_message_that_takes_too_long_makes_room_for_another() {
        let budget = budget(0);
        let mut old = budget.begin_in();
        old.try_grow(2 * MIB).unwrap();
        let holder = budget.add_holder(Direction::In, "test", || {});
        let mut new = budget.begin_in();
        assert_eq!(new.try_grow(1), Err(BudgetFull));
        holder.note_stalled();
        new.try_grow(1).unwrap();
        assert!(holder.is_closed());
        drop(old);
        assert_eq!(budget.bytes_in_use(Direction::In), 1);
    }
}
