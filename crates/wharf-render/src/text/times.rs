//! Instants and durations: in few columns, and in words.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

/// Returns a duration in one or two units: `0.4s`, `12s`, `3m05s`, `2h10m`.
pub fn format_duration(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0..10 => format!("{seconds}.{}s", millis % 1_000 / 100),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Returns the milliseconds since 1970 of a timestamp in RFC 3339.
pub fn parse_millis(text: &str) -> Option<u64> {
    u64::try_from(DateTime::parse_from_rfc3339(text).ok()?.timestamp_millis()).ok()
}

/// Returns an age in one unit and at most four columns: `now`, `2m`, `5h`, `3d`. A clock that is
/// behind gives `now`.
pub fn format_age(at_millis: u64, now_millis: u64) -> String {
    let seconds = now_millis.saturating_sub(at_millis) / 1_000;
    match seconds {
        0..60 => "now".to_owned(),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", (seconds / 86_400).min(999)),
    }
}

/// Returns the time until the age of this instant is written otherwise.
pub fn time_to_next_age(at_millis: u64, now_millis: u64) -> Duration {
    let millis = now_millis.saturating_sub(at_millis);
    let unit = match millis / 1_000 {
        0..3_600 => 60_000,
        3_600..86_400 => 3_600_000,
        _ => 86_400_000,
    };
    Duration::from_millis(unit - millis % unit)
}

/// Returns how long before `now` the timestamp is, or its date if that is a month or more.
pub fn format_ago(text: &str, now: u64) -> String {
    parse_millis(text).map_or_else(|| text.to_owned(), |at| format_millis_ago(at, now))
}

/// Returns how long before `now` the instant is, or its date if that is a month or more.
pub fn format_millis_ago(at: u64, now: u64) -> String {
    let seconds = now.saturating_sub(at) / 1_000;
    match seconds {
        0..5 => "now".to_owned(),
        5..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..2_592_000 => format!("{} d ago", seconds / 86_400),
        _ => format_date(at),
    }
}

/// Returns the date of an instant in UTC, `2026-11-15`. Instants after the year 262000 count as its
/// end.
fn format_date(unix_millis: u64) -> String {
    let instant = i64::try_from(unix_millis).ok().and_then(DateTime::from_timestamp_millis);
    instant
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
        .to_rfc3339()
        .chars()
        .take(10)
        .collect()
}

/// The person's time zone: the minutes by which its clocks are ahead of UTC at an instant
/// (milliseconds since 1970). The shell knows the zone; its rules may differ from one row to the
/// next.
#[derive(Clone, Copy)]
pub struct TimeZone(pub fn(u64) -> i32);

impl TimeZone {
    /// Returns the time of day, `09:58`.
    pub fn format_clock(self, unix_millis: u64) -> String {
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

    #[test]
    fn stretches_of_time_are_short() {
        let told = [0, 480, 9_999, 12_300, 185_000, 7_800_000].map(format_duration);
        assert_eq!(told, ["0.0s", "0.4s", "9.9s", "12s", "3m05s", "2h10m"]);
    }

    #[test]
    fn ages_have_one_unit() {
        let at = parse_millis("2026-11-15T20:34:05.123Z").unwrap();
        let told = [0, 59, 60, 3_599, 7_200, 86_400 * 2]
            .map(|seconds| format_age(at, at + seconds * 1_000));
        assert_eq!(told, ["now", "now", "1m", "59m", "2h", "2d"]);
        assert_eq!(format_age(at, 0), "now", "a clock that is behind");
        assert_eq!(parse_millis("yesterday"), None);
    }

    #[test]
    fn past_instants_are_shown_in_one_unit() {
        let at = "2026-11-15T20:34:05.123Z";
        let then = parse_millis(at).unwrap();
        let told = |seconds: u64| format_ago(at, then + seconds * 1_000);
        let words = [0, 59, 60, 3_599, 7_200, 86_400 * 2, 86_400 * 40].map(told);
        assert_eq!(
            words,
            ["now", "59 s ago", "1 min ago", "59 min ago", "2 h ago", "2 d ago", "2026-11-15"]
        );
        assert_eq!(format_ago(at, 0), "now", "a clock that is behind");
    }

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
