//! Rule: banned words, for unfinished code, skipped tests and queues without a bound.

use super::Finding;
use super::source::Source;

const RULE: &str = "banned";
const WORDS: &[(&str, &str)] = &[
    ("todo!", "unfinished code does not go in"),
    ("unimplemented!", "unfinished code does not go in"),
    ("#[ignore", "a test that is not run is not a test"),
    ("unbounded_channel", "every queue has a bound"),
    ("UnboundedSender", "every queue has a bound"),
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (word, reason) in WORDS {
        for at in source.find(word) {
            findings.push(Finding::failure(
                &source.path,
                source.line_of(at),
                RULE,
                format!("`{word}`: {reason}"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_word_is_found_in_tests_too() {
        for (word, _) in WORDS {
            let source = Source::new(
                Path::new("crates/a/tests/it/main.rs"),
                format!("fn a() {{}}\n{word}\n"),
            );
            let findings = check(&source);
            assert_eq!(findings.len(), 1, "{word}");
            assert_eq!(findings[0].line, 2);
        }
    }

    #[test]
    fn comments_may_name_banned_words() {
        let source = Source::new(
            Path::new("a.rs"),
            "// no todo!() here\nlet a = \"unbounded_channel\";".to_owned(),
        );
        assert_eq!(check(&source), []);
    }
}
