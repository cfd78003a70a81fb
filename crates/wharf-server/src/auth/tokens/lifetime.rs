//! The lifetime of a token, which does not depend on changes of the clock.

use std::time::{Duration, Instant};

use wharf_host::core::Millis;
use wharf_host::{Now, parse_timestamp};

use super::super::terms::TokenEntry;

/// The wall clock, which people and programs set, and the monotonic clock.
pub(super) type Moments = (Millis, Instant);

/// The end of a token: by the wall clock, and by the monotonic clock counted from when the token
/// was first seen. The earlier one counts, so that a clock that is set back keeps no token alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenLifetime {
    at: Millis,
    by: Option<Instant>,
}

impl TokenLifetime {
    pub(super) fn of(entry: &TokenEntry, (wall, steady): Moments) -> Option<Self> {
        let at = entry.ends_at()?;
        // If the clock is earlier than the creation time, the remaining lifetime is capped at the
        // full TTL.
        let most =
            parse_timestamp(&entry.created_at).map_or(u64::MAX, |made| at.0.saturating_sub(made.0));
        let left = at.0.saturating_sub(wall.0).min(most);
        Some(Self { at, by: steady.checked_add(Duration::from_millis(left)) })
    }

    pub(super) fn is_over(self, (wall, steady): Moments) -> bool {
        wall >= self.at || self.by.is_some_and(|by| steady >= by)
    }
}

pub(super) fn now() -> Moments {
    (Now::millis(), Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Access, TokenTerms};

    const HOUR: u64 = 3_600_000;

    #[test]
    fn token_ends_in_time_whatever_the_clock_is_set_to() {
        let terms = TokenTerms { ttl: Some(Millis(HOUR)), ..TokenTerms::new(Access::Observer) };
        let entry = terms.into_entry("tok_a".into(), "text");
        let (wall, steady) = now();
        let limit = TokenLifetime::of(&entry, (wall, steady)).unwrap();
        let later = |wall_by: i64, steady_by: u64| {
            let wall = Millis(wall.0.saturating_add_signed(wall_by));
            limit.is_over((wall, steady + Duration::from_millis(steady_by)))
        };
        let hour = HOUR.cast_signed();
        assert!(!later(0, 0) && !later(hour - 5_000, HOUR - 5_000));
        assert!(later(hour + 1_000, HOUR + 1_000));
        assert!(later(-1_000 * hour, HOUR + 1_000), "the clock was set back");
        assert!(later(hour + 1_000, 0), "the machine slept, or the clock was set forward");
        let earlier = TokenLifetime::of(&entry, (Millis(wall.0 - 100 * HOUR), steady)).unwrap();
        assert!(
            earlier.is_over((
                Millis(wall.0 - 99 * HOUR),
                steady + Duration::from_millis(HOUR + 1_000)
            ))
        );
    }
}
