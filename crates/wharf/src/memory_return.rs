//! Gives free memory back to the system seconds after it was freed. See docs/design/memory.md.

use std::time::{Duration, Instant};

use wharf_server::OpenClients;

/// How often the host looks at its memory.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// With this many connections and streams less than there were, their small blocks are worth a trim.
const MANY_CLIENTS: usize = 64;
/// Memory that has grown by a sixth and by this much may have been freed again already.
const GROWTH_KIB: u64 = 4 << 10;
const GROWTH_DIVISOR: u64 = 6;
/// Memory of more than this part above the base is looked at again and again: the promise is 1.3 times.
const EXCESS_DIVISOR: u64 = 5;
/// The time until a trim is repeated. It doubles with each one, up to the longest.
const FIRST_REPEAT_AFTER: Duration = Duration::from_secs(30);
const MAX_REPEAT_AFTER: Duration = Duration::from_secs(600);

/// Decides when the heaps are trimmed. Each trim has a reason of its own, so that an idle host and a host with a steady load
/// are left alone; only memory that stays above the base is trimmed from time to time.
#[derive(Debug)]
struct TrimPolicy {
    /// The lowest resident memory after a trim, or at the start.
    base_kib: u64,
    /// The resident memory after the last trim.
    trimmed_kib: u64,
    /// The most clients since the last trim.
    most_clients: usize,
    /// The time of the next trim and the wait that led to it, while memory is above the base.
    repeat: Option<(Instant, Duration)>,
}

impl TrimPolicy {
    const fn new(resident_kib: u64) -> Self {
        Self { base_kib: resident_kib, trimmed_kib: resident_kib, most_clients: 0, repeat: None }
    }

    /// Returns true if the heaps are to be trimmed now.
    fn is_due(&mut self, now: Instant, resident_kib: u64, clients: usize) -> bool {
        self.most_clients = self.most_clients.max(clients);
        let many_left = self.most_clients - clients >= MANY_CLIENTS;
        let is_repeat = self.repeat.is_some_and(|(at, _)| at <= now) && self.is_above_base(resident_kib);
        many_left || is_repeat || self.has_grown(resident_kib)
    }

    fn has_grown(&self, resident_kib: u64) -> bool {
        resident_kib > self.trimmed_kib + GROWTH_KIB + self.trimmed_kib / GROWTH_DIVISOR
    }

    fn is_above_base(&self, resident_kib: u64) -> bool {
        resident_kib > self.base_kib + self.base_kib / EXCESS_DIVISOR
    }

    fn note_trim(&mut self, now: Instant, before_kib: u64, after_kib: u64, clients: usize) {
        let has_grown = self.has_grown(before_kib);
        self.base_kib = self.base_kib.min(after_kib);
        // Memory that this trim did not find free may be in use, or be free later.
        self.repeat = self.is_above_base(after_kib).then(|| {
            let last = self.repeat.map(|(_, wait)| wait).filter(|_| !has_grown);
            let wait = last.map_or(FIRST_REPEAT_AFTER, |wait| (wait * 2).min(MAX_REPEAT_AFTER));
            (now + wait, wait)
        });
        tracing::debug!(before_kib, after_kib, clients, "the heaps were trimmed");
        self.trimmed_kib = after_kib;
        self.most_clients = clients;
    }
}

/// Trims the heaps whenever many clients have gone, memory has grown, or stays above its base, until the host ends.
pub(crate) async fn return_memory(clients: OpenClients) {
    let Some(resident_kib) = read_resident_kib() else { return };
    let mut policy = TrimPolicy::new(resident_kib);
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let Some(before_kib) = read_resident_kib() else { return };
        if !policy.is_due(Instant::now(), before_kib, clients.count()) {
            continue;
        }
        let began = Instant::now();
        // It takes longer than a task may keep its thread.
        let _ = tokio::task::spawn_blocking(crate::allocator::trim_heaps).await;
        tracing::debug!(took = ?began.elapsed(), "trimming the heaps took this long");
        let Some(after_kib) = read_resident_kib() else { return };
        policy.note_trim(Instant::now(), before_kib, after_kib, clients.count());
    }
}

fn read_resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 10;

    #[test]
    fn idle_host_is_not_trimmed() {
        let now = Instant::now();
        let mut policy = TrimPolicy::new(20 * MIB);
        assert!(!policy.is_due(now, 20 * MIB, 3));
        assert!(!policy.is_due(now + Duration::from_secs(3_600), 23 * MIB, 0));
    }

    #[test]
    fn host_is_trimmed_when_many_clients_have_left() {
        let now = Instant::now();
        let mut policy = TrimPolicy::new(110 * MIB);
        assert!(!policy.is_due(now, 110 * MIB, 1_900));
        assert!(policy.is_due(now, 110 * MIB, 0));
        policy.note_trim(now, 110 * MIB, 30 * MIB, 0);
        assert!(!policy.is_due(now + Duration::from_secs(3_600), 30 * MIB, 0));
    }

    #[test]
    fn memory_that_has_grown_is_trimmed_at_once_and_once_more_later() {
        let now = Instant::now();
        let mut policy = TrimPolicy::new(60 * MIB);
        assert!(policy.is_due(now, 148 * MIB, 1));
        // All of it is still in use.
        policy.note_trim(now, 148 * MIB, 140 * MIB, 1);
        let soon = now + LOOK_INTERVAL;
        assert!(!policy.is_due(soon, 140 * MIB, 1));
        let later = now + FIRST_REPEAT_AFTER;
        assert!(policy.is_due(later, 140 * MIB, 1));
        policy.note_trim(later, 140 * MIB, 62 * MIB, 1);
        assert!(!policy.is_due(later + Duration::from_secs(3_600), 62 * MIB, 1));
    }

    /// Looks at the memory until a time and returns the seconds at which the heaps were trimmed.
    fn trim_until(
        policy: &mut TrimPolicy,
        (start, from, until): (Instant, u64, u64),
        (before_kib, after_kib, clients): (u64, u64, usize),
    ) -> Vec<u64> {
        let mut trims = Vec::new();
        let mut resident_kib = before_kib;
        for seconds in (from..until).step_by(5) {
            let now = start + Duration::from_secs(seconds);
            if policy.is_due(now, resident_kib, clients) {
                policy.note_trim(now, resident_kib, after_kib, clients);
                resident_kib = after_kib;
                trims.push(seconds);
            }
        }
        trims
    }

    #[test]
    fn memory_that_was_in_use_at_each_trim_is_given_back_after_its_clients_have_left() {
        let start = Instant::now();
        let mut policy = TrimPolicy::new(20 * MIB);
        // Sixty clients hold small blocks for a minute. Their number alone is no reason for a trim.
        let trims = trim_until(&mut policy, (start, 5, 65), (60 * MIB, 60 * MIB, 60));
        assert_eq!(trims, [5, 35]);
        let trims = trim_until(&mut policy, (start, 65, 600), (60 * MIB, 21 * MIB, 0));
        assert_eq!(trims, [95]);
    }

    #[test]
    fn memory_that_stays_in_use_is_trimmed_ever_more_seldom() {
        let start = Instant::now();
        let mut policy = TrimPolicy::new(20 * MIB);
        let trims = trim_until(&mut policy, (start, 0, 4_000), (60 * MIB, 60 * MIB, 60));
        let waits: Vec<u64> = trims.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600, 600, 600, 600]);
        // The next growth is looked at soon again.
        let trims = trim_until(&mut policy, (start, 4_000, 4_040), (100 * MIB, 90 * MIB, 60));
        assert_eq!(trims, [4_000, 4_030]);
    }
}
