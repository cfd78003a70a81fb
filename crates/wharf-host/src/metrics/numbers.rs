//! Counters and histograms that cost a few nanoseconds: atomics, no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// From 10 µs, a write to the page cache, to 10 s, a disk in trouble.
pub(crate) const DISK_BUCKET_SECONDS: &[f64] =
    &[0.000_01, 0.000_1, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0];
/// From a tenth of a second to a day: what people and models take.
pub(crate) const WORK_BUCKET_SECONDS: &[f64] =
    &[0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 86_400.0];
/// More bounds than any of the above.
const MAX_BUCKETS: usize = 12;

/// How long something took, in classes.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds in seconds, rising.
    bounds: &'static [f64],
    /// The counts of the classes. There is one class more than bounds: the last class counts values
    /// above all bounds.
    classes: [AtomicU64; MAX_BUCKETS],
    nanos: AtomicU64,
}

/// A histogram as it was at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes {
    pub bounds: &'static [f64],
    /// How many fell into each class; one more than there are bounds.
    pub counts: Vec<u64>,
    /// In seconds.
    pub sum: f64,
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        debug_assert!(bounds.len() < MAX_BUCKETS, "too many classes");
        Self {
            bounds,
            classes: std::array::from_fn(|_| AtomicU64::new(0)),
            nanos: AtomicU64::new(0),
        }
    }

    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let class = self
            .bounds
            .iter()
            .position(|bound| seconds <= *bound)
            .unwrap_or(self.bounds.len());
        if let Some(count) = self.classes.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.nanos
            .fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn classes(&self) -> Classes {
        let counts = self
            .classes
            .iter()
            .take(self.bounds.len() + 1)
            .map(|count| count.load(Ordering::Relaxed));
        let sum = Duration::from_nanos(self.nanos.load(Ordering::Relaxed)).as_secs_f64();
        Classes { bounds: self.bounds, counts: counts.collect(), sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_falls_into_one_class() {
        let histogram = Histogram::new(WORK_BUCKET_SECONDS);
        for millis in [1, 100, 101, 600_000, 999_999_999] {
            histogram.observe(Duration::from_millis(millis));
        }
        let classes = histogram.classes();
        assert_eq!(classes.counts, [2, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1]);
        assert!((classes.sum - 1_000_600.201).abs() < 0.001, "{}", classes.sum);
    }

    #[test]
    fn there_is_room_for_every_class() {
        for bounds in [DISK_BUCKET_SECONDS, WORK_BUCKET_SECONDS] {
            assert!(bounds.len() < MAX_BUCKETS && bounds.is_sorted());
        }
    }
}
