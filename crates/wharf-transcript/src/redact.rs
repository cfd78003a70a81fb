//! Redaction: removes text that looks like a secret (rule 10.6). Doubtful text stays.

/// The text that replaces a secret.
pub(crate) const REPLACEMENT_TEXT: &str = "[redacted]";

/// A kind of secret: how it begins, and what must follow.
pub(crate) struct SecretPattern {
    pub(crate) begins: &'static str,
    /// Besides letters and digits.
    also: &'static str,
    least: usize,
    /// Secrets are random: text without any digit is a name.
    digit: bool,
}

const fn secret_pattern(
    begins: &'static str,
    also: &'static str,
    least: usize,
    digit: bool,
) -> SecretPattern {
    SecretPattern { begins, also, least, digit }
}

pub(crate) const SECRET_PATTERNS: [SecretPattern; 21] = [
    secret_pattern("sk-", "-_", 20, true),
    secret_pattern("ghp_", "", 30, false),
    secret_pattern("gho_", "", 30, false),
    secret_pattern("ghu_", "", 30, false),
    secret_pattern("ghs_", "", 30, false),
    secret_pattern("ghr_", "", 30, false),
    secret_pattern("github_pat_", "_", 30, false),
    secret_pattern("glpat-", "-_", 20, false),
    secret_pattern("AKIA", "", 16, false),
    secret_pattern("ASIA", "", 16, false),
    secret_pattern("AIza", "-_", 35, false),
    secret_pattern("xoxa-", "-", 10, true),
    secret_pattern("xoxb-", "-", 10, true),
    secret_pattern("xoxe-", "-", 10, true),
    secret_pattern("xoxp-", "-", 10, true),
    secret_pattern("xoxr-", "-", 10, true),
    secret_pattern("xoxs-", "-", 10, true),
    secret_pattern("Bearer ", "-._~+/=_", 16, true),
    secret_pattern("bearer ", "-._~+/=_", 16, true),
    secret_pattern("npm_", "", 36, false),
    // Wharf's own tokens, those of agents and those of users.
    secret_pattern("wharf_", "_", 40, true),
];

/// A longer block is not a key. A reader that starts in the middle must look back this far to know
/// whether it is in a key block.
pub const MAX_KEY_LINES: usize = 100;

/// Removes the secrets from a text of several lines.
pub fn redact(text: &str) -> String {
    let mut redactor = Redactor::default();
    let lines: Vec<String> =
        text.split('\n').map(|line| redactor.redact_line(line.to_owned())).collect();
    lines.join("\n")
}

/// Takes secrets out of consecutive lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redactor {
    /// Lines that a private key block may still have.
    key: usize,
}

impl Redactor {
    /// Returns the line without its secrets.
    pub fn redact_line(&mut self, line: String) -> String {
        if let Some(begin) = find_key_begin(&line) {
            self.key = MAX_KEY_LINES;
            let end = find_key_end(&line[begin..]).map(|end| begin + end);
            if end.is_some() {
                self.key = 0;
            }
            let rest = end.map_or("", |end| &line[end..]);
            return format!("{}{REPLACEMENT_TEXT}{rest}", &line[..begin]);
        }
        if self.key > 0 {
            let end = find_key_end(&line);
            self.key = if end.is_some() { 0 } else { self.key - 1 };
            return format!("{REPLACEMENT_TEXT}{}", end.map_or("", |end| &line[end..]));
        }
        redact_words(line)
    }

    /// Forgets an open key block: the lines that follow belong to another text.
    pub fn reset(&mut self) {
        self.key = 0;
    }
}

/// A verdict about the beginning of a text that may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretVerdict {
    NoSecret,
    /// More of the text has to be seen.
    Undecided,
    /// `pattern` begins here, with `body` bytes so far.
    Secret {
        pattern: usize,
        body: usize,
    },
}

impl SecretPattern {
    /// Returns true if the byte can be part of the secret.
    pub(crate) fn takes(&self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric() || self.also.as_bytes().contains(&byte)
    }
}

/// Returns true if a secret can begin with this byte.
pub(crate) const fn can_begin_secret(byte: u8) -> bool {
    matches!(byte, b's' | b'g' | b'A' | b'x' | b'B' | b'b' | b'n' | b'w')
}

/// Judges a text that stands at the beginning of a word.
pub(crate) fn judge_secret(text: &[u8]) -> SecretVerdict {
    let begun = SECRET_PATTERNS
        .iter()
        .enumerate()
        .find(|(_, pattern)| text.starts_with(pattern.begins.as_bytes()));
    let Some((index, pattern)) = begun else {
        let may_begin = SECRET_PATTERNS
            .iter()
            .any(|pattern| pattern.begins.as_bytes().starts_with(text));
        return if may_begin { SecretVerdict::Undecided } else { SecretVerdict::NoSecret };
    };
    let rest = &text[pattern.begins.len()..];
    let body = rest.iter().take_while(|byte| pattern.takes(**byte)).count();
    let is_random = !pattern.digit || rest[..body].iter().any(u8::is_ascii_digit);
    match (body >= pattern.least && is_random, body == rest.len()) {
        (true, _) => SecretVerdict::Secret { pattern: index, body },
        (false, true) => SecretVerdict::Undecided,
        (false, false) => SecretVerdict::NoSecret,
    }
}

/// Returns how many bytes at the beginning of an undecided text belong to the prefix of a secret,
/// which redaction leaves. A dash and the bytes after it are not counted: the dash may begin a
/// private key.
pub(crate) fn count_prefix_bytes(text: &[u8]) -> usize {
    let length =
        |prefix: &[u8]| prefix.iter().take_while(|byte| **byte != b'-').count().min(text.len());
    let prefixes = SECRET_PATTERNS.iter().map(|pattern| pattern.begins.as_bytes());
    let begun = prefixes.filter(|prefix| text.starts_with(prefix) || prefix.starts_with(text));
    begun.map(length).max().unwrap_or_default()
}

/// Returns the position of `-----BEGIN … PRIVATE KEY…-----`.
fn find_key_begin(line: &str) -> Option<usize> {
    let begin = line.find("-----BEGIN ")?;
    let title = &line[begin + "-----BEGIN ".len()..];
    let title = &title[..title.find("-----")?];
    title.contains("PRIVATE KEY").then_some(begin)
}

/// Returns the position after `-----END … PRIVATE KEY…-----`.
pub(crate) fn find_key_end(line: &str) -> Option<usize> {
    let begin = line.find("-----END ")? + "-----END ".len();
    let dashes = line[begin..].find("-----")?;
    line[begin..begin + dashes]
        .contains("PRIVATE KEY")
        .then_some(begin + dashes + "-----".len())
}

fn redact_words(line: String) -> String {
    let mut out = String::new();
    let mut done = 0;
    let mut at = 0;
    while at < line.len() {
        match find_secret(&line, at) {
            Some((from, to)) => {
                out.push_str(&line[done..from]);
                out.push_str(REPLACEMENT_TEXT);
                (done, at) = (to, to);
            }
            None => at += line[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    if done == 0 {
        return line;
    }
    out.push_str(&line[done..]);
    out
}

/// Returns the part to remove of the secret that begins at `at`.
fn find_secret(line: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = line.as_bytes();
    // Most of any text is ruled out by its first letter.
    if !can_begin_secret(bytes[at]) || (at > 0 && is_word_byte(bytes[at - 1])) {
        return None;
    }
    match judge_secret(&bytes[at..]) {
        SecretVerdict::Secret { pattern, body } => {
            let from = at + SECRET_PATTERNS[pattern].begins.len();
            Some((from, from + body))
        }
        SecretVerdict::NoSecret | SecretVerdict::Undecided => None,
    }
}

/// Returns true for the bytes that a secret's beginning may not follow.
pub(crate) const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> String {
        Redactor::default().redact_line(line.to_owned())
    }

    #[test]
    fn known_secrets_go_and_their_kind_stays() {
        for (line, redacted) in [
            ("key sk-ant-api03-AbCdEfGhIjKlMnOp1234 end", "key sk-[redacted] end"),
            ("OPENAI=\"sk-proj-0123456789abcdefghij\"", "OPENAI=\"sk-[redacted]\""),
            ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "ghp_[redacted]"),
            ("AKIAIOSFODNN7EXAMPLE", "AKIA[redacted]"),
            ("Authorization: Bearer abc.def-123_4567890", "Authorization: Bearer [redacted]"),
            (
                "xoxb-1234567890-abcdef and xoxb-1234567890-abcdef",
                "xoxb-[redacted] and xoxb-[redacted]",
            ),
            ("é sk-0123456789012345678901é", "é sk-[redacted]é"),
        ] {
            assert_eq!(one(line), redacted);
        }
    }

    #[test]
    fn every_kind_is_looked_for() {
        for pattern in &SECRET_PATTERNS {
            let secret = format!("{}{}", pattern.begins, "A1".repeat(25));
            assert_eq!(one(&secret), format!("{}{REPLACEMENT_TEXT}", pattern.begins));
        }
    }

    #[test]
    fn text_that_only_resembles_a_secret_stays() {
        for line in [
            "risk-0123456789012345678901 is no key",
            "sk-learn",
            "sk-a-long-name-of-a-package-in-words",
            "Bearer authentication is used",
            "AKIA",
            "the task-sk- prefix",
            "-----BEGIN CERTIFICATE-----",
            "-----BEGIN PUBLIC KEY-----",
        ] {
            assert_eq!(one(line), line);
        }
    }

    #[test]
    fn a_private_key_goes_with_all_its_lines() {
        let mut redactor = Redactor::default();
        let lines = [
            "a -----BEGIN RSA PRIVATE KEY-----",
            "MIIEow",
            "",
            "-----END RSA PRIVATE KEY----- b",
            "after",
        ];
        let redacted: Vec<String> =
            lines.iter().map(|line| redactor.redact_line((*line).to_owned())).collect();
        assert_eq!(redacted, ["a [redacted]", "[redacted]", "[redacted]", "[redacted] b", "after"]);
        assert_eq!(
            one(r"x -----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY----- y"),
            "x [redacted] y"
        );
    }

    #[test]
    fn a_key_block_that_never_ends_does_not_hide_everything() {
        let mut redactor = Redactor::default();
        redactor.redact_line("-----BEGIN PRIVATE KEY-----".to_owned());
        let hidden = (0..1_000)
            .filter(|_| redactor.redact_line("text".to_owned()) == REPLACEMENT_TEXT)
            .count();
        assert_eq!(hidden, MAX_KEY_LINES);
    }
}
