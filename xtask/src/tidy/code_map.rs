//! Rule: ARCHITECTURE.md stays short, its first section above all, and names every crate.

use std::path::Path;

use anyhow::Result;

use super::{Finding, Repo, read};

const RULE: &str = "code-map";
const DOCUMENT: &str = "ARCHITECTURE.md";
const MAX_DOCUMENT_LINES: usize = 300;
/// The section that a stranger reads first, up to the heading of the one behind it.
const OVERVIEW: &str = "## Bird's-eye view";
const AFTER_OVERVIEW: &str = "## Questions of strangers";
const MAX_OVERVIEW_WORDS: usize = 1_500;

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let document = Path::new(DOCUMENT);
    if !repo.has(document) {
        return Ok(vec![Finding::failure(document, 1, RULE, "it does not exist")]);
    }
    let text = read(&repo.root, document)?;
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_DOCUMENT_LINES {
        findings.push(Finding::failure(
            document,
            MAX_DOCUMENT_LINES + 1,
            RULE,
            format!("{lines} lines; the limit is {MAX_DOCUMENT_LINES}"),
        ));
    }
    let words = count_overview_words(&text);
    if words > MAX_OVERVIEW_WORDS {
        let message =
            format!("the bird's-eye view has {words} words; the limit is {MAX_OVERVIEW_WORDS}");
        findings.push(Finding::failure(document, 1, RULE, message));
    }
    for name in crate_dirs(repo) {
        if !text.contains(&format!("| `{name}`")) {
            findings.push(Finding::failure(
                document,
                1,
                RULE,
                format!("the code map has no row for `{name}`"),
            ));
        }
    }
    Ok(findings)
}

fn count_overview_words(text: &str) -> usize {
    let overview = text.split(OVERVIEW).nth(1).unwrap_or_default();
    let overview = overview.split(AFTER_OVERVIEW).next().unwrap_or_default();
    overview.split_whitespace().count()
}

/// Returns the names of the directories that hold a crate.
fn crate_dirs(repo: &Repo) -> Vec<String> {
    let manifests = repo
        .files
        .iter()
        .filter(|path| path.file_name().is_some_and(|name| name == "Cargo.toml"));
    let dirs = manifests.filter_map(|path| path.parent()?.file_name());
    dirs.map(|name| name.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn findings(document: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for path in ["Cargo.toml", "crates/one/Cargo.toml", "xtask/Cargo.toml"] {
            fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
            fs::write(dir.path().join(path), "").unwrap();
        }
        fs::write(dir.path().join(DOCUMENT), document).unwrap();
        let findings = check(&Repo::read(dir.path()).unwrap()).unwrap();
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn every_crate_has_a_row() {
        assert!(findings("| `one` | x |\n| `xtask` | y |\n").is_empty());
        assert_eq!(
            findings("the crate `one`\n| `xtask` | y |\n"),
            ["the code map has no row for `one`"]
        );
    }

    #[test]
    fn overview_stays_short() {
        let text = |words: usize| {
            format!(
                "| `one` |\n| `xtask` |\n{OVERVIEW}\n{}\n{AFTER_OVERVIEW}\na b c\n",
                "word ".repeat(words)
            )
        };
        assert!(findings(&text(1_500)).is_empty());
        assert_eq!(
            findings(&text(1_501)),
            ["the bird's-eye view has 1501 words; the limit is 1500"]
        );
    }

    #[test]
    fn the_document_stays_short() {
        let text = format!("| `one` |\n| `xtask` |\n{}", "x\n".repeat(299));
        assert_eq!(findings(&text), ["301 lines; the limit is 300"]);
    }
}
