//! Rule: links in documents resolve.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Finding, Repo, read};

const RULE: &str = "dead-link";

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in repo.files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "md")) {
        let text = read(&repo.root, path)?;
        let dir = path.parent().unwrap_or(Path::new(""));
        for (line, target) in link_targets(dir, &text) {
            if !repo.has(&target) {
                findings.push(Finding::failure(
                    path,
                    line,
                    RULE,
                    format!("{} does not exist", target.display()),
                ));
            }
        }
    }
    Ok(findings)
}

/// Returns the link targets of a document in `dir` with line numbers: relative links, and `docs/…`
/// in running text.
fn link_targets(dir: &Path, text: &str) -> Vec<(usize, PathBuf)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (at, mark) in line.match_indices("](") {
            let target = line[at + mark.len()..].split([')', '#', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains(':') {
                found.push((number + 1, dir.join(target)));
            }
        }
        for (at, _) in line.match_indices("`docs/") {
            let target = line[at + 1..].split('`').next().unwrap_or_default();
            if !target.contains(['<', '*', ' ']) {
                found.push((number + 1, PathBuf::from(target)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn links_are_relative_to_their_document() {
        let text = "see [a](b.md#part) and [c](https://example.org)\n`docs/x.md`, `docs/<topic>.md`, [up](../README.md)";
        let found = link_targets(Path::new("docs"), text);
        let expected = [(1, "docs/b.md"), (2, "docs/../README.md"), (2, "docs/x.md")];
        assert_eq!(found, expected.map(|(line, path)| (line, PathBuf::from(path))));
    }

    #[test]
    fn a_dead_link_is_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("docs")).unwrap();
        fs::write(dir.path().join("docs/there.md"), "").unwrap();
        fs::write(dir.path().join("README.md"), "[a](docs/there.md)\n[b](docs/gone.md)\n").unwrap();
        let findings = check(&Repo::read(dir.path()).unwrap()).unwrap();
        assert_eq!(
            findings,
            [Finding::failure(Path::new("README.md"), 2, RULE, "docs/gone.md does not exist")]
        );
    }
}
