//! Instants as text: RFC 3339 in UTC.

use chrono::{DateTime, SecondsFormat, Utc};
use wharf_core::Millis;

/// Returns `2026-11-15T20:34:00.123Z`.
pub fn format_timestamp(at: Millis) -> String {
    format_instant(at, SecondsFormat::Millis)
}

/// Returns `2026-11-15T20:34:00Z`.
pub fn format_timestamp_in_seconds(at: Millis) -> String {
    format_instant(at, SecondsFormat::Secs)
}

/// Reads an instant with any offset and any number of decimals. Returns `None` for other text, for
/// days that do not exist and for instants before 1970.
pub fn parse_timestamp(text: &str) -> Option<Millis> {
    let at = DateTime::parse_from_rfc3339(text).ok()?;
    u64::try_from(at.timestamp_millis()).ok().map(Millis)
}

/// Instants after the year 262000 count as its end.
fn format_instant(at: Millis, format: SecondsFormat) -> String {
    let instant = i64::try_from(at.0).ok().and_then(DateTime::from_timestamp_millis);
    instant.unwrap_or(DateTime::<Utc>::MAX_UTC).to_rfc3339_opts(format, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_in_utc_and_read_again() {
        for (millis, text, in_seconds) in [
            (0, "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z", "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z", "2000-02-29T00:00:00Z"),
            (1_794_774_845_123, "2026-11-15T20:34:05.123Z", "2026-11-15T20:34:05Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z", "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(
                (
                    format_timestamp(Millis(millis)).as_str(),
                    format_timestamp_in_seconds(Millis(millis)).as_str()
                ),
                (text, in_seconds)
            );
            assert_eq!(parse_timestamp(text), Some(Millis(millis)));
            assert_eq!(parse_timestamp(in_seconds), Some(Millis(millis / 1_000 * 1_000)));
        }
    }

    #[test]
    fn text_that_is_no_instant_is_refused() {
        for odd in [
            "",
            "now",
            "2026-11-15",
            "2026-02-30T00:00:00Z",
            "2026-02-03T24:00:00Z",
            "2026-00-03T00:00:00Z",
            "1969-12-31T00:00:00Z",
        ] {
            assert_eq!(parse_timestamp(odd), None, "{odd}");
        }
    }
}
