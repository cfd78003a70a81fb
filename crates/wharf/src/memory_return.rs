//! Gives free memory back to the system seconds after it was freed. See docs/design/memory.md.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crate::allocator;

/// How often the host looks at its memory.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The shortest time between two trims. A trim costs tens of milliseconds if the heaps are in
/// pieces.
const TRIM_INTERVAL: Duration = Duration::from_secs(25);
/// Unused memory of more than this part of the resident memory above the base is worth a trim: the
/// promise is 1.3 times.
const EXCESS_DIVISOR: i64 = 8;
/// With this part of the resident memory more unused than after the last trim, a further one may
/// find more. It is small, since few blocks in use can hold many pages.
const FREED_DIVISOR: i64 = 64;

/// The memory of this process.
#[derive(Clone, Copy, Debug)]
struct MemoryUse {
    /// Resident memory that is not mapped from files.
    resident_kib: i64,
    /// The blocks that the program holds. Some of their pages may not be resident.
    held_kib: i64,
}

impl MemoryUse {
    fn read() -> Option<Self> {
        let held_kib = i64::try_from(allocator::held_bytes() >> 10).ok()?;
        Some(Self { resident_kib: read_resident_kib()?, held_kib })
    }

    /// Returns the resident memory that is not in blocks: free pages, parts of pages, and stacks.
    const fn unused_kib(self) -> i64 {
        self.resident_kib - self.held_kib
    }
}

/// Decides when the heaps are trimmed. Memory in use does not count, so that clients can hold
/// memory for as long as they like, and neither does free memory that a trim could not give back.
#[derive(Debug)]
struct TrimPolicy {
    /// The lowest unused memory after a trim, or at the start.
    base_kib: i64,
    /// The unused memory after the last trim.
    trimmed_kib: i64,
    next_trim_at: Instant,
}

impl TrimPolicy {
    fn new(now: Instant, memory: MemoryUse) -> Self {
        Self {
            base_kib: memory.unused_kib(),
            trimmed_kib: memory.unused_kib(),
            next_trim_at: now,
        }
    }

    /// Returns true if the heaps are to be trimmed now.
    fn is_due(&self, now: Instant, memory: MemoryUse) -> bool {
        let is_above =
            |kib: i64, divisor: i64| memory.unused_kib() > kib + memory.resident_kib / divisor;
        now >= self.next_trim_at
            && is_above(self.base_kib, EXCESS_DIVISOR)
            && is_above(self.trimmed_kib, FREED_DIVISOR)
    }

    fn note_trim(&mut self, now: Instant, after: MemoryUse) {
        self.base_kib = self.base_kib.min(after.unused_kib());
        self.trimmed_kib = after.unused_kib();
        self.next_trim_at = now + TRIM_INTERVAL;
    }
}

/// Starts the thread that trims the heaps until the process ends. Looking through heaps that are in
/// pieces takes longer than a task may keep its thread.
pub(crate) fn start_returning_memory() -> io::Result<()> {
    thread::Builder::new().name("memory".to_owned()).spawn(return_memory).map(drop)
}

fn return_memory() {
    let Some(memory) = MemoryUse::read() else { return };
    let mut policy = TrimPolicy::new(Instant::now(), memory);
    loop {
        thread::sleep(LOOK_INTERVAL);
        let began = Instant::now();
        let Some(before) = MemoryUse::read() else { return };
        if !policy.is_due(began, before) {
            continue;
        }
        allocator::trim_heaps();
        let Some(after) = MemoryUse::read() else { return };
        policy.note_trim(began, after);
        tracing::debug!(?before, ?after, took = ?began.elapsed(), "the heaps were trimmed");
    }
}

fn read_resident_kib() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 10;
    const NO_TRIMS: [u64; 0] = [];

    const fn memory(resident_mib: i64, held_mib: i64) -> MemoryUse {
        MemoryUse { resident_kib: resident_mib * MIB, held_kib: held_mib * MIB }
    }

    /// Looks at the memory from one second to another, and returns the seconds at which the heaps
    /// were trimmed. A trim gives `returned_mib` back, the first time.
    fn trim_between(
        policy: &mut TrimPolicy,
        start: Instant,
        seconds: std::ops::Range<u64>,
        mut now: MemoryUse,
        returned_mib: i64,
    ) -> Vec<u64> {
        let mut trims = Vec::new();
        for second in seconds.step_by(5) {
            let at = start + Duration::from_secs(second);
            if policy.is_due(at, now) {
                if trims.is_empty() {
                    now.resident_kib -= returned_mib * MIB;
                }
                policy.note_trim(at, now);
                trims.push(second);
            }
        }
        trims
    }

    #[test]
    fn idle_host_is_not_trimmed() {
        let start = Instant::now();
        let mut policy = TrimPolicy::new(start, memory(20, 15));
        assert_eq!(trim_between(&mut policy, start, 5..3_600, memory(22, 16), 0), NO_TRIMS);
    }

    #[test]
    fn memory_in_use_is_not_trimmed_and_is_given_back_when_it_is_free() {
        let start = Instant::now();
        let mut policy = TrimPolicy::new(start, memory(20, 15));
        // Clients hold small blocks for half an hour.
        assert_eq!(trim_between(&mut policy, start, 5..1_800, memory(110, 100), 0), NO_TRIMS);
        assert_eq!(trim_between(&mut policy, start, 1_800..3_600, memory(110, 16), 85), [1_800]);
    }

    #[test]
    fn host_that_has_never_been_trimmed_keeps_less_than_the_promise() {
        let start = Instant::now();
        let policy = TrimPolicy::new(start, memory(21, 16));
        let freed = MemoryUse { resident_kib: 21 * MIB * 13 / 10, held_kib: 16 * MIB };
        assert!(policy.is_due(start, freed));
    }

    #[test]
    fn free_memory_that_a_trim_cannot_give_back_is_trimmed_once() {
        let start = Instant::now();
        let mut policy = TrimPolicy::new(start, memory(20, 15));
        assert_eq!(trim_between(&mut policy, start, 5..3_600, memory(110, 40), 0), [5]);
        // A few of the blocks that kept the pages are freed.
        assert_eq!(trim_between(&mut policy, start, 3_600..7_200, memory(110, 38), 60), [3_600]);
    }

    #[test]
    fn clients_that_leave_one_by_one_cause_few_trims() {
        let start = Instant::now();
        let mut policy = TrimPolicy::new(start, memory(20, 15));
        let mut trims = 0;
        for second in (0..120).step_by(5) {
            let at = start + Duration::from_secs(second);
            let left = memory(110, 100 - i64::try_from(second).unwrap() * 2 / 3);
            if policy.is_due(at, left) {
                policy.note_trim(at, left);
                trims += 1;
            }
        }
        assert_eq!(trims, 5);
    }

    #[test]
    fn free_blocks_are_not_held() {
        let blocks: Vec<Box<[u8]>> =
            (0..1_000).map(|_| vec![1; 40 << 10].into_boxed_slice()).collect();
        let full = allocator::held_bytes();
        drop(blocks);
        // Other tests allocate at the same time.
        assert!(allocator::held_bytes() + (20 << 20) < full);
    }
}
