//! The clock, and instants and limits in words for people.

use std::time::{SystemTime, UNIX_EPOCH};

use wharf_api::SessionInfo;
use wharf_host::parse_timestamp;
use wharf_render::text::format_duration;

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
}
