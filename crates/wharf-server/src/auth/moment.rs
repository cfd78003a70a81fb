//! An instant as people and programs read it: RFC 3339 in UTC, to the second.

use wharf_host::core::Millis;

/// From the first of March, so that the leap day is a year's last.
const DAYS_FROM_MARCH_0000_TO_1970: u64 = 719_468;
const DAYS_IN_400_YEARS: u64 = 146_097;

pub(super) fn text(at: Millis) -> String {
    let seconds = at.0 / 1_000;
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The same backwards, of what `text` writes and nothing else.
pub(super) fn parse(text: &str) -> Option<Millis> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten()
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Counted from March, as below.
    let (from_march, years) = if month > 2 { (month - 3, year) } else { ((month + 9) % 12, year.checked_sub(1)?) };
    let days = 365 * years + years / 4 - years / 100 + years / 400 + (153 * from_march + 2) / 5 + day;
    let days = days.checked_sub(DAYS_FROM_MARCH_0000_TO_1970 + 1)?;
    let at = Millis((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000);
    // A day that there is not would be written otherwise.
    (self::text(at) == text).then_some(at)
}

/// Year, month and day of a day since 1970.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_FROM_MARCH_0000_TO_1970;
    let (cycle, day) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    // Takes the leap days before this day out, so that years of 365 remain.
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months from March are 31, 30, 31, 30, 31 days over and over: 153 in five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, turned) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + turned, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_as_the_calendar_says() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(text(Millis(seconds * 1_000 + 999)), expected);
            assert_eq!(parse(expected), Some(Millis(seconds * 1_000)));
        }
        for odd in ["", "2026-02-30T00:00:00Z", "2026-02-03T24:00:00Z", "2026-02-03 00:00:00Z", "2026-00-03T00:00:00Z"]
        {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }
}
