//! Rule: every file begins with a sentence about itself.

use super::Finding;
use super::source::Source;

const RULE: &str = "module-docs";

pub(super) fn check(source: &Source) -> Option<Finding> {
    let first = source.text.lines().next().unwrap_or_default();
    let says_something = first.strip_prefix("//!").is_some_and(|text| !text.trim().is_empty());
    (!says_something).then(|| {
        Finding::failure(&source.path, 1, RULE, "the file must begin with `//!` and what it is")
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn is_fine(text: &str) -> bool {
        check(&Source::new(Path::new("a.rs"), text.to_owned())).is_none()
    }

    #[test]
    fn the_first_line_is_a_sentence_about_the_file() {
        assert!(is_fine("//! What it is.\n"));
        assert!(!is_fine("use std::fmt;\n//! Too late.\n"));
        assert!(!is_fine("//!\n//! After an empty line.\n"));
        assert!(!is_fine("// Only a comment.\n"));
        assert!(!is_fine(""));
    }
}
