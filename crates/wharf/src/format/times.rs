//! Formats instants and durations for people: `3 min ago`, `2h10m`.

use std::time::{SystemTime, UNIX_EPOCH};

use wharf_api::SessionInfo;
use wharf_host::core::Millis;
use wharf_host::{format_timestamp, parse_timestamp};

pub(crate) use wharf_tui::text::format_duration;

/// Returns a limit as a person sets it: `30m`, `12h`, `for ever`.
pub(crate) fn format_limit(millis: Option<u64>) -> String {
    let Some(millis) = millis else { return "for ever".to_owned() };
    let told = format_duration(millis);
    match told.strip_suffix(".0s") {
        Some(seconds) => format!("{seconds}s"),
        None => told
            .strip_suffix("00m")
            .or_else(|| told.strip_suffix("00s"))
            .unwrap_or(&told)
            .to_owned(),
    }
}

pub(crate) fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns when the session last did something: its last output, its end or its start (milliseconds
/// since 1970).
pub(crate) fn last_activity(session: &SessionInfo) -> u64 {
    let times = [
        session.last_output_at.as_deref(),
        session.ended_at.as_deref(),
        Some(session.started_at.as_str()),
    ];
    times
        .into_iter()
        .flatten()
        .filter_map(parse_timestamp)
        .map(|at| at.0)
        .max()
        .unwrap_or_default()
}

/// Returns how long before `now` the timestamp is, or its date if that is a month or more.
pub(crate) fn format_ago(text: &str, now: u64) -> String {
    parse_timestamp(text).map_or_else(|| text.to_owned(), |at| format_millis_ago(at.0, now))
}

/// Returns how long before `now` the instant is, or its date if that is a month or more.
pub(crate) fn format_millis_ago(at: u64, now: u64) -> String {
    let seconds = now.saturating_sub(at) / 1_000;
    match seconds {
        0..5 => "now".to_owned(),
        5..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..2_592_000 => format!("{} d ago", seconds / 86_400),
        _ => format_timestamp(Millis(at)).chars().take(10).collect(),
    }
}

/// Returns the time of day of a timestamp, `20:34:05` in UTC.
pub(crate) fn clock_time(text: &str) -> String {
    let is_timestamp = parse_timestamp(text).is_some();
    text.get(11..19).filter(|_| is_timestamp).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_as_they_are_set() {
        let told = [12 * 3_600_000, 30 * 60_000, 90_000, 45_000, 5_000, 1_500]
            .map(|millis| format_limit(Some(millis)));
        assert_eq!(told, ["12h", "30m", "1m30s", "45s", "5s", "1.5s"]);
        assert_eq!(format_limit(None), "for ever");
    }

    #[test]
    fn past_instants_are_shown_in_one_unit() {
        let at = "2026-11-15T20:34:05.123Z";
        let then = parse_timestamp(at).unwrap().0;
        let told = |seconds: u64| format_ago(at, then + seconds * 1_000);
        let words = [0, 59, 60, 3_599, 7_200, 86_400 * 2, 86_400 * 40].map(told);
        assert_eq!(
            words,
            ["now", "59 s ago", "1 min ago", "59 min ago", "2 h ago", "2 d ago", "2026-11-15"]
        );
        assert_eq!(format_ago(at, 0), "now", "a clock that is behind");
    }
}
