//! Instants and durations in few columns.

use std::time::Duration;

use chrono::DateTime;

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
pub(crate) fn parse_millis(text: &str) -> Option<u64> {
    u64::try_from(DateTime::parse_from_rfc3339(text).ok()?.timestamp_millis()).ok()
}

/// Returns an age in one unit and at most four columns: `now`, `2m`, `5h`, `3d`. A clock that is
/// behind gives `now`.
pub(crate) fn format_age(at_millis: u64, now_millis: u64) -> String {
    let seconds = now_millis.saturating_sub(at_millis) / 1_000;
    match seconds {
        0..60 => "now".to_owned(),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", (seconds / 86_400).min(999)),
    }
}

/// Returns the time until the age of this instant is written otherwise.
pub(crate) fn time_to_next_age(at_millis: u64, now_millis: u64) -> Duration {
    let millis = now_millis.saturating_sub(at_millis);
    let unit = match millis / 1_000 {
        0..3_600 => 60_000,
        3_600..86_400 => 3_600_000,
        _ => 86_400_000,
    };
    Duration::from_millis(unit - millis % unit)
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
}
