//! How fast each token may start sessions: so many at once, and then as they come back minute by minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
/// With so many tokens known, those who have not used their share lately are forgotten: they have it whole.
const KNOWN: usize = 1_024;

/// A token's id; `None` stands for our own user.
type Token = Option<Arc<str>>;

/// A bucket for each token: it holds a minute's worth, and fills as time goes.
#[derive(Debug)]
pub(super) struct Rate {
    per_minute: u32,
    used: Mutex<HashMap<Token, Used>>,
}

#[derive(Clone, Copy, Debug)]
struct Used {
    /// What is taken out of the bucket.
    spent: f64,
    at: Instant,
}

impl Rate {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { per_minute, used: Mutex::default() }
    }

    /// Takes one; the error says in how long there will be one.
    pub(super) fn take(&self, token: Token, now: Instant) -> Result<(), Duration> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= KNOWN && !used.contains_key(&token) {
            used.retain(|_, used| self.left_of(*used, now) > 0.0);
        }
        let known = used.entry(token).or_insert(Used { spent: 0.0, at: now });
        let spent = self.left_of(*known, now);
        if spent + 1.0 > f64::from(self.per_minute) {
            let over = spent + 1.0 - f64::from(self.per_minute);
            let wait = if self.per_minute == 0 { MINUTE } else { self.time_for(over) };
            return Err(wait);
        }
        *known = Used { spent: spent + 1.0, at: now };
        Ok(())
    }

    fn time_for(&self, count: f64) -> Duration {
        MINUTE.mul_f64(count / f64::from(self.per_minute))
    }

    /// What is still taken out by now.
    fn left_of(&self, used: Used, now: Instant) -> f64 {
        let back = now.saturating_duration_since(used.at).as_secs_f64() / MINUTE.as_secs_f64();
        (used.spent - back * f64::from(self.per_minute)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str) -> Token {
        Some(name.into())
    }

    #[test]
    fn a_token_that_is_too_fast_is_told_when_and_others_are_not_concerned() {
        let (rate, start) = (Rate::new(6), Instant::now());
        for _ in 0..6 {
            assert_eq!(rate.take(token("a"), start), Ok(()));
        }
        let wait = rate.take(token("a"), start).unwrap_err();
        assert!((Duration::from_millis(9_999)..=Duration::from_millis(10_001)).contains(&wait), "{wait:?}");
        assert_eq!(rate.take(token("b"), start), Ok(()));
        assert_eq!(rate.take(None, start), Ok(()));
        assert!(rate.take(token("a"), start + Duration::from_secs(9)).is_err());
        assert_eq!(rate.take(token("a"), start + Duration::from_secs(11)), Ok(()));
        assert!(rate.take(token("a"), start + Duration::from_secs(12)).is_err());
    }

    #[test]
    fn none_a_minute_is_none() {
        assert_eq!(Rate::new(0).take(None, Instant::now()), Err(MINUTE));
    }

    #[test]
    fn tokens_that_have_their_share_whole_again_are_forgotten() {
        let (rate, start) = (Rate::new(60), Instant::now());
        for n in 0..KNOWN {
            rate.take(token(&n.to_string()), start).unwrap();
        }
        rate.take(token("late"), start + MINUTE).unwrap();
        assert_eq!(rate.used.lock().unwrap().len(), 1);
    }
}
