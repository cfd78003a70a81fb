//! Instants as people say them: `3 min ago`.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 of `2026-11-15T20:34:05.123Z`; `None` if it is not written so.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<u64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut clock = clock.splitn(3, ':').map(str::parse::<u64>);
    let (hour, minute, second) = (clock.next()?.ok()?, clock.next()?.ok()?, clock.next()?.ok()?);
    let millis = format!("{fraction:0<3}").get(..3)?.parse::<u64>().ok()?;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    // Years that begin in March: the leap day is then the last one.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = (365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day).checked_sub(719_469)?;
    Some(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1_000 + millis)
}

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How long before `now` it was; as it is written if that is a month or more.
pub(crate) fn ago(text: &str, now: u64) -> String {
    let Some(at) = parse(text) else { return text.to_owned() };
    let seconds = now.saturating_sub(at) / 1_000;
    match seconds {
        0..5 => "now".to_owned(),
        5..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..2_592_000 => format!("{} d ago", seconds / 86_400),
        _ => text.get(..10).unwrap_or(text).to_owned(),
    }
}

/// A stretch of time in one or two units: `0.4s`, `12s`, `3m05s`, `2h10m`.
pub(crate) fn spent(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0..10 => format!("{seconds}.{}s", millis % 1_000 / 100),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_of_time_are_short() {
        let told = [0, 480, 9_999, 12_300, 185_000, 7_800_000].map(spent);
        assert_eq!(told, ["0.0s", "0.4s", "9.9s", "12s", "3m05s", "2h10m"]);
    }

    #[test]
    fn instants_are_read_as_they_are_written() {
        for at in [0, 951_782_400_000, 1_794_774_845_123, 4_102_444_799_999] {
            assert_eq!(parse(&wharf_host::timestamp(wharf_host::core::Millis(at))), Some(at));
        }
        for wrong in ["", "now", "2026-11-15", "2026-13-15T00:00:00Z", "0000-01-01T00:00:00Z", "2026-01-01T00:00Z"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_past_is_told_in_one_unit() {
        let at = "2026-11-15T20:34:05.123Z";
        let then = parse(at).unwrap();
        let told = |seconds: u64| ago(at, then + seconds * 1_000);
        let words = [0, 59, 60, 3_599, 7_200, 86_400 * 2, 86_400 * 40].map(told);
        assert_eq!(words, ["now", "59 s ago", "1 min ago", "59 min ago", "2 h ago", "2 d ago", "2026-11-15"]);
        assert_eq!(ago(at, 0), "now", "a clock that is behind");
    }
}
