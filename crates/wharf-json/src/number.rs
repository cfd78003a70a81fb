//! Numbers by their value, independent of the spelling.

/// The number of digits of the largest integers that are compared: `i128` holds them all.
const MAX_DIGITS: usize = 38;

/// Returns the integer value of a JSON number in any spelling (`100`, `1e2`, `100.0`). Returns
/// `None` if it has a fraction or more than 38 digits.
pub(crate) fn integer(text: &str) -> Option<i128> {
    if let Ok(plain) = text.parse() {
        return Some(plain);
    }
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    // An exponent that does not fit makes a number that is too large or has a fraction.
    let exponent: i64 = exponent.parse().ok()?;
    let shift = usize::try_from(exponent.checked_sub(fraction.len() as i64)?);
    let number = match shift {
        Ok(zeros) if significant.len() + zeros.min(MAX_DIGITS + 1) <= MAX_DIGITS => {
            format!("{significant}{}", "0".repeat(zeros))
        }
        Ok(_) => return None,
        Err(_) => {
            let cut = usize::try_from(fraction.len() as i64 - exponent).ok()?;
            let (kept, zeros) =
                significant.split_at_checked(significant.len().checked_sub(cut)?)?;
            if zeros.bytes().any(|digit| digit != b'0') {
                return None;
            }
            kept.to_owned()
        }
    };
    let number: i128 = number.parse().ok()?;
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_the_same_in_every_spelling() {
        for text in ["100", "1e2", "1E+2", "100.0", "1000e-1", "0.1e3", "1.00e2"] {
            assert_eq!(integer(text), Some(100), "{text}");
        }
        for text in ["0", "-0", "0.0", "-0e9", "0e-999999999999999999999"] {
            assert_eq!(integer(text), Some(0), "{text}");
        }
        assert_eq!(integer("-7.0"), Some(-7));
        assert_eq!(integer("18446744073709551616"), Some(1 << 64));
    }

    #[test]
    fn fractions_and_giants_are_no_integers() {
        for text in
            ["1.5", "1e-1", "10e-2", "1e400", "1e39", "1e999999999999999999999", "-1e400", "1e-400"]
        {
            assert_eq!(integer(text), None, "{text}");
        }
    }
}
