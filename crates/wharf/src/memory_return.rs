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
/// Memory that was still in use at a trim for growth is looked at once more after this time.
const SECOND_TRIM_AFTER: Duration = Duration::from_secs(30);

/// Decides when the heaps are trimmed. Each trim has a reason of its own, so that an idle host and a host with a steady load
/// are left alone.
#[derive(Debug)]
struct TrimPolicy {
    /// The resident memory after the last trim.
    trimmed_kib: u64,
    /// The most clients since the last trim.
    most_clients: usize,
    second_trim_at: Option<Instant>,
}

impl TrimPolicy {
    const fn new(resident_kib: u64) -> Self {
        Self { trimmed_kib: resident_kib, most_clients: 0, second_trim_at: None }
    }

    /// Returns true if the heaps are to be trimmed now.
    fn is_due(&mut self, now: Instant, resident_kib: u64, clients: usize) -> bool {
        self.most_clients = self.most_clients.max(clients);
        let many_left = self.most_clients - clients >= MANY_CLIENTS;
        let is_second = self.second_trim_at.is_some_and(|at| at <= now);
        many_left || is_second || self.has_grown(resident_kib)
    }

    fn has_grown(&self, resident_kib: u64) -> bool {
        resident_kib > self.trimmed_kib + GROWTH_KIB + self.trimmed_kib / GROWTH_DIVISOR
    }

    fn note_trim(&mut self, now: Instant, before_kib: u64, after_kib: u64, clients: usize) {
        let is_second = self.second_trim_at.is_some_and(|at| at <= now);
        let has_grown = self.has_grown(after_kib);
        // Memory that the second trim did not find free is in use until it grows or clients leave.
        self.second_trim_at = (has_grown && !is_second).then(|| now + SECOND_TRIM_AFTER);
        tracing::debug!(before_kib, after_kib, clients, "the heaps were trimmed");
        self.trimmed_kib = after_kib;
        self.most_clients = clients;
    }
}

/// Trims the heaps whenever many clients have gone, or memory has grown, until the host ends.
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
        let later = now + SECOND_TRIM_AFTER;
        assert!(policy.is_due(later, 140 * MIB, 1));
        policy.note_trim(later, 140 * MIB, 62 * MIB, 1);
        assert!(!policy.is_due(later + Duration::from_secs(3_600), 62 * MIB, 1));
    }
}
