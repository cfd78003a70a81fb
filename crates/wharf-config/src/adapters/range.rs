//! npm's version ranges, which manifests use, by way of Cargo's.

use semver::{Version, VersionReq};

/// A version range: alternatives, one of which must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VersionRange(Vec<VersionReq>);

impl VersionRange {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: String| format!("{text:?} is not a version range: {why}");
        let alternatives = text.split("||").map(|part| parse_requirement(part).map_err(wrong));
        Ok(Self(alternatives.collect::<Result<_, _>>()?))
    }

    pub(super) fn matches_version(&self, version: &Version) -> bool {
        self.0.iter().any(|alternative| alternative.matches(version))
    }
}

fn parse_requirement(part: &str) -> Result<VersionReq, String> {
    let part = part.trim();
    let text = match part.split_once(" - ") {
        Some((from, to)) => format!(">={}, <={}", from.trim(), to.trim()),
        None => split_comparators(part).join(", "),
    };
    VersionReq::parse(if text.is_empty() { "*" } else { &text }).map_err(|error| error.to_string())
}

/// `>= 1.2 <2` as npm writes it; a bare version is exactly that one there.
fn split_comparators(part: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in part.split([' ', ',']).filter(|word| !word.is_empty()) {
        match found.last_mut() {
            // An operator that stands apart from its version.
            Some(last) if last.ends_with(['=', '>', '<', '^', '~']) => last.push_str(word),
            _ => found.push(word.to_owned()),
        }
    }
    let bare = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
    let plain = |word: String| word.strip_prefix('v').map(ToOwned::to_owned).unwrap_or(word);
    found
        .into_iter()
        .map(plain)
        .map(|word| if bare(&word) { format!("={word}") } else { word })
        .collect()
}

/// A version as programs print it: `v1.2`, `1.2.3-beta`, `2026.01.5`.
pub(super) fn parse_leniently(text: &str) -> Option<Version> {
    let text = text.trim().trim_start_matches('v');
    let (numbers, rest) =
        text.split_at(text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len()));
    let mut parts: Vec<u64> = numbers
        .split('.')
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    if parts.is_empty() {
        return None;
    }
    parts.resize(3, 0);
    Version::parse(&format!("{}.{}.{}{rest}", parts[0], parts[1], parts[2]))
        .ok()
        .or_else(|| Some(Version::new(parts[0], parts[1], parts[2])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_npm_reads_them() {
        let holds = |range: &str, version: &str| {
            VersionRange::parse(range)
                .unwrap()
                .matches_version(&parse_leniently(version).unwrap())
        };
        for (range, version) in [
            (">=1.2 <2", "1.9.9"),
            (">= 1.2.0 < 2", "1.2.0"),
            ("^1.2.3", "1.9.0"),
            ("~1.2", "1.2.9"),
            ("1.2.3", "1.2.3"),
            ("1.2", "1.2.7"),
            ("1.x || 3.x", "3.1.0"),
            ("*", "9.0.0"),
            ("", "0.1.0"),
            ("1.0 - 2.0", "1.5.0"),
            ("v1.2.3", "1.2.3"),
        ] {
            assert!(holds(range, version), "{range} {version}");
        }
        for (range, version) in
            [(">=1.2 <2", "2.0.0"), ("1.2.3", "1.2.4"), ("1.x || 3.x", "2.0.0"), ("^0.2", "0.3.0")]
        {
            assert!(!holds(range, version), "{range} {version}");
        }
        assert!(VersionRange::parse("soon").unwrap_err().contains("\"soon\""));
    }

    #[test]
    fn versions_are_read_as_programs_print_them() {
        assert_eq!(parse_leniently("v1.2"), Some(Version::new(1, 2, 0)));
        assert_eq!(parse_leniently(" 2026.01.05 "), Some(Version::new(2026, 1, 5)));
        assert_eq!(parse_leniently("1.2.3-beta.1").unwrap().to_string(), "1.2.3-beta.1");
        assert_eq!(parse_leniently("none"), None);
    }
}
