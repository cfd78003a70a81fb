//! The argument of `--since`: an instant, a day, or how long ago.

use std::str::FromStr;

use wharf_host::parse_timestamp;

use crate::format::times::now_millis;

/// An instant in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SinceTime(u64);

impl SinceTime {
    pub(crate) const fn to_millis(self) -> u64 {
        self.0
    }
}

impl FromStr for SinceTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A day begins at midnight in UTC, and a time without a zone is in UTC, as the times that
        // Wharf shows.
        let candidates = [
            text.to_owned(),
            format!("{text}Z"),
            format!("{text}:00Z"),
            format!("{text}T00:00:00Z"),
        ];
        if let Some(at) = candidates.iter().find_map(|text| parse_timestamp(text)) {
            return Ok(Self(at.0));
        }
        let ago = text
            .parse::<wharf_config::Duration>()
            .ok()
            .and_then(wharf_config::Duration::to_millis);
        ago.map(|ago| Self(now_millis().saturating_sub(ago.0))).ok_or_else(|| {
            "write a time like 2026-11-15T20:34:00Z, a day like 2026-11-15, or how long ago: 10m, 2h, 3d".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_days_and_durations_are_understood() {
        let at = |text: &str| text.parse::<SinceTime>().map(SinceTime::to_millis);
        let evening = 1_794_774_840_000;
        for text in [
            "2026-11-15T20:34:00Z",
            "2026-11-15T20:34:00",
            "2026-11-15T20:34",
            "2026-11-15T21:34:00+01:00",
        ] {
            assert_eq!(at(text), Ok(evening), "{text}");
        }
        assert_eq!(at("2026-11-15"), Ok(evening - (20 * 60 + 34) * 60_000));
        let two_hours_ago = at("2h").unwrap();
        let ago = now_millis() - two_hours_ago;
        assert!((7_200_000..7_260_000).contains(&ago), "{ago}");
        for wrong in ["", "never", "yesterday", "2026-02-30", "10"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
