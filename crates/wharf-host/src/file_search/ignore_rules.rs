//! The rules of ignore files (`.gitignore`, `.ignore`): reading them, and telling whether they
//! leave a path out.

/// A larger ignore file is not read: it would take longer than the search may.
pub(super) const MAX_IGNORE_FILE_BYTES: u64 = 256 << 10;
/// Rules of one file that count.
const MAX_RULES: usize = 2_000;

/// One line of an ignore file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IgnoreRule {
    /// The line begins with `!`: it brings back what an earlier line leaves out.
    includes: bool,
    /// The line ends with `/`.
    only_directories: bool,
    /// The pattern by its parts; `**` is any number of directories.
    parts: Vec<String>,
}

/// The rules of one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IgnoreRules(Vec<IgnoreRule>);

impl IgnoreRules {
    pub(super) fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(parse_rule).take(MAX_RULES).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns what the last rule that fits says about a path below the directory: `Some(true)` if
    /// it is left out, `Some(false)` if it is brought back, `None` if no rule fits.
    pub(super) fn judge(&self, path: &[&str], is_directory: bool) -> Option<bool> {
        let fits = |rule: &&IgnoreRule| {
            (is_directory || !rule.only_directories) && match_parts(&rule.parts, path)
        };
        self.0.iter().rev().find(fits).map(|rule| !rule.includes)
    }
}

fn parse_rule(line: &str) -> Option<IgnoreRule> {
    let line = trim_line(line);
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (includes, pattern) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
    let (only_directories, pattern) =
        pattern.strip_suffix('/').map_or((false, pattern), |rest| (true, rest));
    // A pattern with a slash at its beginning or inside is meant from the file's directory on,
    // others at any depth.
    let is_anchored = pattern.contains('/');
    let names = pattern
        .trim_start_matches('/')
        .split('/')
        .filter(|part| !part.is_empty())
        .map(ToOwned::to_owned);
    let parts: Vec<String> =
        (!is_anchored).then(|| "**".to_owned()).into_iter().chain(names).collect();
    (parts.iter().any(|part| part != "**") || is_anchored).then_some(IgnoreRule {
        includes,
        only_directories,
        parts,
    })
}

/// Removes blanks at the end unless a backslash keeps the last one.
fn trim_line(line: &str) -> &str {
    let trimmed = line.trim_end();
    let is_kept = trimmed.ends_with('\\') && trimmed.len() < line.len();
    if is_kept { &line[..=trimmed.len()] } else { trimmed }
}

/// Matches a whole path. The work is bounded by the product of both lengths, whatever the pattern.
fn match_parts(pattern: &[String], path: &[&str]) -> bool {
    // `reached[at]`: the parts so far can stand for the first `at` names.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for (place, part) in pattern.iter().enumerate() {
        let mut next = vec![false; path.len() + 1];
        if part == "**" {
            let first = reached.iter().position(|reached| *reached).unwrap_or(path.len() + 1);
            // At the end it means everything inside, not the directory itself.
            let least = first + usize::from(place + 1 == pattern.len());
            next.iter_mut().skip(least).for_each(|next| *next = true);
        } else {
            for (at, name) in path.iter().enumerate() {
                next[at + 1] = reached[at] && match_name(part, name);
            }
        }
        reached = next;
    }
    reached[path.len()]
}

/// Matches one name with `*`, `?`, `[a-z]` and `\`.
fn match_name(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let mut at = 0;
    let mut seen = 0;
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        let next = match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
                continue;
            }
            Some('?') => Some(at + 1),
            Some('[') => match_class(&pattern, at, name[seen]),
            Some('\\') => (pattern.get(at + 1) == Some(&name[seen])).then_some(at + 2),
            Some(other) => (*other == name[seen]).then_some(at + 1),
            None => None,
        };
        match (next, star) {
            (Some(next), _) => (at, seen) = (next, seen + 1),
            // The star takes one more character.
            (None, Some((star_at, taken))) => {
                star = Some((star_at, taken + 1));
                (at, seen) = (star_at + 1, taken + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

/// Returns the place after a class in brackets that begins at `at`, if it holds the character. A
/// class that does not end stands for its first bracket.
fn match_class(pattern: &[char], at: usize, wanted: char) -> Option<usize> {
    let negates = matches!(pattern.get(at + 1), Some('!' | '^'));
    let first = at + 1 + usize::from(negates);
    let Some(length) = pattern.get(first + 1..)?.iter().position(|c| *c == ']') else {
        return (wanted == '[').then_some(at + 1);
    };
    let end = first + 1 + length;
    let mut place = first;
    let mut holds = false;
    while place < end {
        let is_range = pattern.get(place + 1) == Some(&'-') && place + 2 < end;
        let last = if is_range { pattern[place + 2] } else { pattern[place] };
        holds |= (pattern[place]..=last).contains(&wanted);
        place += if is_range { 3 } else { 1 };
    }
    (holds != negates).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves_out(rules: &str, path: &str) -> Option<bool> {
        let (path, is_directory) =
            path.strip_suffix('/').map_or((path, false), |path| (path, true));
        let parts: Vec<&str> = path.split('/').collect();
        IgnoreRules::parse(rules).judge(&parts, is_directory)
    }

    #[test]
    fn patterns_match_as_git_matches_them() {
        for (rules, path, expected) in [
            ("*.o", "a.o", Some(true)),
            ("*.o", "deep/down/a.o", Some(true)),
            ("*.o", "a.oo", None),
            ("/target", "target/", Some(true)),
            ("/target", "sub/target/", None),
            ("target/", "sub/target/", Some(true)),
            ("target/", "sub/target", None),
            ("docs/*.txt", "docs/a.txt", Some(true)),
            ("docs/*.txt", "docs/deep/a.txt", None),
            ("docs/*.txt", "sub/docs/a.txt", None),
            ("**/logs", "a/b/logs/", Some(true)),
            ("**/logs", "logs/", Some(true)),
            ("a/**/b", "a/b", Some(true)),
            ("a/**/b", "a/x/y/b", Some(true)),
            ("a/**", "a/x/y", Some(true)),
            ("a/**", "a/", None),
            ("*.log\n!keep.log", "keep.log", Some(false)),
            ("!keep.log\n*.log", "keep.log", Some(true)),
            ("# comment\n\n   \nx", "x", Some(true)),
            ("\\#x", "#x", Some(true)),
            ("\\!x", "!x", Some(true)),
            ("x \t", "x", Some(true)),
            ("x\\ ", "x ", Some(true)),
            ("a?c", "abc", Some(true)),
            ("a?c", "ac", None),
            ("[a-c]x", "bx", Some(true)),
            ("[!a-c]x", "bx", None),
            ("[!a-c]x", "dx", Some(true)),
            ("[]]x", "]x", Some(true)),
            ("[x", "[x", Some(true)),
            ("a*b*c", "aXXbYYc", Some(true)),
            ("a*b*c", "aXXcYYb", None),
            ("é*", "état", Some(true)),
        ] {
            assert_eq!(leaves_out(rules, path), expected, "{rules:?} {path:?}");
        }
    }

    #[test]
    fn odd_patterns_match_nothing_and_end() {
        let many = format!("{}x", "*a".repeat(200));
        assert_eq!(leaves_out(&many, &"a".repeat(2_000)), None);
        for odd in ["!", "/", "//", "**", "[", "\\", "[]", "***/***"] {
            leaves_out(odd, "a/b/c");
        }
        assert_eq!(
            leaves_out(&"**/".repeat(40), "a/b"),
            None,
            "a pattern that only ends in a slash is for directories"
        );
    }
}
