//! Exceptions from rules, each with its reason. The list may only shrink: an exception without a
//! finding is itself a finding.

use std::path::Path;

use super::Finding;

const RULE: &str = "exception";

pub(super) struct Exception {
    rule: &'static str,
    path: &'static str,
    reason: &'static str,
}

pub(super) const LISTED: &[Exception] = &[];

/// Removes the findings that are excepted.
pub(super) fn apply_exceptions(listed: &[Exception], findings: Vec<Finding>) -> Vec<Finding> {
    let mut left = findings;
    for exception in listed {
        let before = left.len();
        left.retain(|finding| {
            finding.rule != exception.rule || finding.path != Path::new(exception.path)
        });
        if left.len() == before {
            let message = format!(
                "nothing breaks {:?} here any more ({}): take it off the list",
                exception.rule, exception.reason
            );
            left.push(Finding::failure(Path::new(exception.path), 1, RULE, message));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCUSE: Exception = Exception { rule: "file-size", path: "a.rs", reason: "a table" };

    #[test]
    fn a_listed_finding_is_excused_and_no_other() {
        let excused = Finding::failure(Path::new("a.rs"), 1, "file-size", "long");
        let other = Finding::failure(Path::new("b.rs"), 1, "file-size", "long");
        assert_eq!(apply_exceptions(&[EXCUSE], vec![excused, other.clone()]), [other]);
    }

    #[test]
    fn a_stale_excuse_is_a_finding() {
        let findings = apply_exceptions(&[EXCUSE], Vec::new());
        assert_eq!(findings.len(), 1);
        assert!(findings[0].fails);
    }
}
