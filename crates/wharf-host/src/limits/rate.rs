//! A limit on how often each key may do something within a minute.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
/// Keys that are counted one by one. Further keys share one count for as long as these are in use.
const MAX_KEYS: usize = 1_024;

/// The way in which a key gets its uses back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refill {
    /// One after the other, spread over a minute.
    Gradual,
    /// All at once, a minute after the first use.
    AfterMinute,
}

/// A number of uses a minute for each key. A key may use all of them at once.
#[derive(Debug)]
pub struct RateLimit<K> {
    per_minute: usize,
    refill: Refill,
    /// `None` stands for all keys beyond [`MAX_KEYS`].
    used: Mutex<HashMap<Option<K>, Usage>>,
}

/// The key has no use left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateExceeded {
    /// The time until the key has a use again.
    pub retry_after: Duration,
    /// True if this is the first refusal since the key last had a use.
    pub is_first: bool,
}

#[derive(Clone, Copy, Debug)]
struct Usage {
    spent: f64,
    /// [`Refill::Gradual`]: the last use; [`Refill::AfterMinute`]: the first.
    since: Instant,
    is_refused: bool,
}

impl Usage {
    fn new(now: Instant) -> Self {
        Self { spent: 0.0, since: now, is_refused: false }
    }
}

impl<K: Eq + Hash> RateLimit<K> {
    pub fn new(per_minute: usize, refill: Refill) -> Self {
        Self { per_minute, refill, used: Mutex::default() }
    }

    /// Takes one use of the key.
    pub fn take(&self, key: K, now: Instant) -> Result<(), RateExceeded> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Some(key);
        if used.len() >= MAX_KEYS && !used.contains_key(&key) {
            used.retain(|_, usage| self.is_in_use(usage, now));
            key = key.filter(|_| used.len() < MAX_KEYS);
        }
        let usage = used.entry(key).or_insert_with(|| Usage::new(now));
        self.refill(usage, now);
        let after = usage.spent + 1.0;
        if after <= self.per_minute as f64 {
            usage.spent = after;
            usage.is_refused = false;
            return Ok(());
        }
        let is_first = !std::mem::replace(&mut usage.is_refused, true);
        let retry_after = match self.refill {
            Refill::Gradual if self.per_minute > 0 => {
                MINUTE.mul_f64((after - self.per_minute as f64) / self.per_minute as f64)
            }
            Refill::Gradual => MINUTE,
            Refill::AfterMinute => (usage.since + MINUTE).saturating_duration_since(now),
        };
        Err(RateExceeded { retry_after, is_first })
    }

    /// Gives back the uses that the key has earned by now.
    fn refill(&self, usage: &mut Usage, now: Instant) {
        let elapsed = now.saturating_duration_since(usage.since);
        match self.refill {
            Refill::Gradual => {
                let earned = elapsed.as_secs_f64() / MINUTE.as_secs_f64() * self.per_minute as f64;
                usage.spent = (usage.spent - earned).max(0.0);
                usage.since = now;
            }
            Refill::AfterMinute if elapsed >= MINUTE => *usage = Usage::new(now),
            Refill::AfterMinute => {}
        }
    }

    fn is_in_use(&self, usage: &Usage, now: Instant) -> bool {
        match self.refill {
            Refill::Gradual => {
                let mut usage = *usage;
                self.refill(&mut usage, now);
                usage.spent > 0.0
            }
            Refill::AfterMinute => now < usage.since + MINUTE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry_after(limit: &RateLimit<&str>, key: &'static str, now: Instant) -> Option<Duration> {
        limit.take(key, now).err().map(|exceeded| exceeded.retry_after)
    }

    #[test]
    fn gradual_refill_returns_one_use_after_the_other() {
        let limit = RateLimit::new(6, Refill::Gradual);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        for _ in 0..6 {
            assert_eq!(limit.take("a", start), Ok(()));
        }
        let wait = retry_after(&limit, "a", start).unwrap();
        assert!(
            (Duration::from_millis(9_999)..=Duration::from_millis(10_001)).contains(&wait),
            "{wait:?}"
        );
        assert_eq!(limit.take("b", start), Ok(()), "another key is not concerned");
        assert!(limit.take("a", after(9)).is_err());
        assert_eq!(limit.take("a", after(11)), Ok(()));
        assert!(limit.take("a", after(12)).is_err());
    }

    #[test]
    fn refill_after_a_minute_returns_all_uses_at_once() {
        let limit = RateLimit::new(3, Refill::AfterMinute);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        for seconds in [0, 5, 10] {
            assert_eq!(limit.take("a", after(seconds)), Ok(()));
        }
        assert_eq!(retry_after(&limit, "a", after(20)), Some(Duration::from_secs(40)));
        assert_eq!(limit.take("b", after(20)), Ok(()), "another key is not concerned");
        for _ in 0..3 {
            assert_eq!(limit.take("a", after(60)), Ok(()));
        }
        assert_eq!(retry_after(&limit, "a", after(60)), Some(MINUTE));
    }

    #[test]
    fn first_refusal_is_marked_once() {
        let limit = RateLimit::new(1, Refill::AfterMinute);
        let start = Instant::now();
        let is_first = |now| limit.take("a", now).err().map(|exceeded| exceeded.is_first);
        assert_eq!([start, start, start].map(is_first), [None, Some(true), Some(false)]);
        let later = start + MINUTE;
        assert_eq!([later, later].map(is_first), [None, Some(true)]);
    }

    #[test]
    fn rate_of_zero_refuses_every_use() {
        for refill in [Refill::Gradual, Refill::AfterMinute] {
            assert_eq!(retry_after(&RateLimit::new(0, refill), "a", Instant::now()), Some(MINUTE));
        }
    }

    #[test]
    fn keys_with_all_their_uses_are_forgotten() {
        for refill in [Refill::Gradual, Refill::AfterMinute] {
            let limit = RateLimit::new(60, refill);
            let start = Instant::now();
            for number in 0..MAX_KEYS {
                limit.take(number, start).unwrap();
            }
            limit.take(MAX_KEYS, start + MINUTE).unwrap();
            assert_eq!(limit.used.lock().unwrap().len(), 1);
        }
    }

    #[test]
    fn keys_beyond_the_limit_share_one_count() {
        for refill in [Refill::Gradual, Refill::AfterMinute] {
            let limit = RateLimit::new(1, refill);
            let start = Instant::now();
            for number in 0..10 * MAX_KEYS {
                let _ = limit.take(number, start);
            }
            assert_eq!(limit.used.lock().unwrap().len(), MAX_KEYS + 1);
            assert!(limit.take(usize::MAX, start).is_err(), "together they are over it");
            assert_eq!(limit.take(usize::MAX, start + MINUTE), Ok(()));
        }
    }
}
