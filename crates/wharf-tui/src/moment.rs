//! The time, as the shell tells it with each input, and its zone.

use std::fmt;
use std::time::Duration;

/// An instant. Deadlines are compared with `elapsed`, which never goes back; `unix_millis` is for
/// the ages of things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The time since the client started.
    pub elapsed: Duration,
    /// Milliseconds since 1970, by the clock of this machine.
    pub unix_millis: u64,
}

/// The person's time zone: the minutes by which its clocks are ahead of UTC at an instant
/// (milliseconds since 1970). The shell knows the zone; its rules may differ from one row to the
/// next.
#[derive(Clone, Copy)]
pub struct TimeZone(pub fn(u64) -> i32);

impl TimeZone {
    /// Returns the time of day, `09:58`.
    pub(crate) fn format_clock(self, unix_millis: u64) -> String {
        let offset = i64::from((self.0)(unix_millis));
        let minutes = i64::try_from(unix_millis / 60_000).unwrap_or_default() + offset;
        let of_day = minutes.rem_euclid(24 * 60);
        format!("{:02}:{:02}", of_day / 60, of_day % 60)
    }
}

impl Default for TimeZone {
    fn default() -> Self {
        Self(|_| 0)
    }
}

impl fmt::Debug for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimeZone")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse_millis;

    #[test]
    fn time_of_day_is_that_of_the_zone_at_that_instant() {
        // Summer time ends at 01:00 UTC on 25 October 2026.
        let zone = TimeZone(|at| if at < 1_792_890_000_000 { 120 } else { 60 });
        let clock = |at: &str| zone.format_clock(parse_millis(at).unwrap());
        assert_eq!(clock("2026-10-25T00:59:00.000Z"), "02:59");
        assert_eq!(clock("2026-10-25T01:00:00.000Z"), "02:00");
        assert_eq!(clock("2026-11-17T23:30:00.000Z"), "00:30");
        assert_eq!(
            TimeZone(|_| -20).format_clock(parse_millis("2026-11-17T00:10:00.000Z").unwrap()),
            "23:50"
        );
    }
}
