//! Finds what a `serde_json::Value` cannot hold as it is written.

use std::collections::HashSet;

use crate::{Json, Kind, MAX_VALUE_DEPTH, ReadError};

/// Checks that [`Json::to_value`] holds what the text says: no number that would be rounded, no
/// lone surrogate, no member that stands twice, and no nesting beyond [`MAX_VALUE_DEPTH`]. The
/// error names the place.
pub fn check_exact(json: Json<'_>) -> Result<(), ReadError> {
    check(json, &mut String::new(), 0)
}

fn check(json: Json<'_>, path: &mut String, depth: usize) -> Result<(), ReadError> {
    match json.kind() {
        Kind::Null | Kind::Bool => Ok(()),
        Kind::Text if is_whole_text(json) => Ok(()),
        Kind::Text => Err(inexact(path, "holds half a surrogate pair")),
        Kind::Number if is_exact_number(json) => Ok(()),
        Kind::Number => Err(inexact(path, "is a number that cannot be kept exactly")),
        Kind::Object | Kind::List if depth >= MAX_VALUE_DEPTH => {
            Err(inexact(path, &format!("is nested deeper than {MAX_VALUE_DEPTH} levels")))
        }
        Kind::Object => {
            let mut keys = HashSet::new();
            for (key, value) in json.members() {
                let before = path.len();
                path.push_str(&format!(".{key}"));
                if key.contains('\u{fffd}') {
                    return Err(inexact(path, "is a name that holds half a surrogate pair"));
                }
                check(value, path, depth + 1)?;
                if !keys.insert(key) {
                    return Err(inexact(path, "stands there twice"));
                }
                path.truncate(before);
            }
            Ok(())
        }
        Kind::List => {
            for (number, item) in json.items().enumerate() {
                let before = path.len();
                path.push_str(&format!("[{number}]"));
                check(item, path, depth + 1)?;
                path.truncate(before);
            }
            Ok(())
        }
    }
}

fn inexact(path: &str, why: &str) -> ReadError {
    let shown: String = path.trim_start_matches('.').chars().take(200).collect();
    ReadError::Unusable(if shown.is_empty() { why.to_owned() } else { format!("`{shown}` {why}") })
}

fn is_whole_text(json: Json<'_>) -> bool {
    !json.raw().contains('\\') || crate::read_own::<String>(json.raw().as_bytes()).is_ok()
}

/// Compares the digits as written with those of the nearest `f64`, unless it is an integer that is
/// kept as one.
fn is_exact_number(json: Json<'_>) -> bool {
    let text = json.raw();
    if text.parse::<u64>().is_ok() || text.parse::<i64>().is_ok() {
        return true;
    }
    json.float().is_some_and(|float| digits(text) == digits(&format!("{float:e}")))
}

/// Returns the significant digits of a number, and the power of ten of the last one.
fn digits(text: &str) -> Option<(String, i64)> {
    let text = text.trim_start_matches('-');
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let significant = all.trim_end_matches('0');
    let power = exponent.parse::<i64>().ok()?.checked_sub(fraction.len().try_into().ok()?)?;
    let power = power.checked_add((all.len() - significant.len()).try_into().ok()?)?;
    let significant = significant.trim_start_matches('0');
    Some((significant.to_owned(), if significant.is_empty() { 0 } else { power }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> Option<String> {
        check_exact(Json::parse(text.as_bytes()).unwrap())
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn values_that_can_be_kept_pass() {
        for text in [
            "0",
            "-0",
            "-0.0",
            "0.1",
            "1E+2",
            "1.50e2",
            "18446744073709551615",
            "-9223372036854775808",
            "1e308",
            "0e999",
            "100000000000000000000",
            r#""a\ud83d\ude00\u0000""#,
            r#"{"a":[{"b":null}],"A":true}"#,
        ] {
            assert_eq!(error(text), None, "{text}");
        }
    }

    #[test]
    fn values_that_would_change_are_named() {
        let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
        for (text, words) in [
            (r#"{"a":[0,{"b":1e400}]}"#, "`a[1].b` is a number that cannot be kept exactly"),
            ("123456789012345678901234567890", "is a number that cannot be kept exactly"),
            ("0.1234567890123456789", "is a number that cannot be kept exactly"),
            ("1e-400", "is a number that cannot be kept exactly"),
            (r#"["\ud83d"]"#, "`[0]` holds half a surrogate pair"),
            (r#"{"\ud83d":1}"#, "is a name that holds half a surrogate pair"),
            (r#"{"a":1,"\u0061":1}"#, "`a` stands there twice"),
            (&deep, "is nested deeper than 100 levels"),
        ] {
            assert!(
                error(text).is_some_and(|error| error.contains(words)),
                "{text}: {:?}",
                error(text)
            );
        }
    }
}
