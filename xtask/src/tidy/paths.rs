//! Rule: the repo names no directory of the machine on which it was written.

use std::path::Path;

use anyhow::Result;

use super::{Finding, Repo, read};

const RULE: &str = "machine-path";
/// The paths are split in two, so that this file has no finding itself.
const STARTS: &[(&str, &str)] = &[("/wor", "k/"), ("/far", "m/"), ("../share", "d")];
const TEXTS: &[&str] =
    &["rs", "md", "toml", "json", "sh", "yml", "yaml", "txt", "js", "mjs", "html", "css"];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in repo.files.iter().filter(|path| is_text(path)) {
        findings.extend(check_text(path, &read(&repo.root, path)?));
    }
    Ok(findings)
}

fn is_text(path: &Path) -> bool {
    match path.extension() {
        Some(ext) => TEXTS.iter().any(|text| ext == *text),
        None => path.starts_with(".ci"),
    }
}

fn check_text(path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (head, tail) in STARTS {
            let start = format!("{head}{tail}");
            if line.match_indices(&start).any(|(at, _)| begins_a_path(&line[..at])) {
                findings.push(Finding::failure(
                    path,
                    number + 1,
                    RULE,
                    format!("`{start}` is a path of one machine"),
                ));
            }
        }
    }
    findings
}

/// Returns false if the match is in the middle of a longer path: `~/some/wor…`.
fn begins_a_path(before: &str) -> bool {
    !before.ends_with(|c: char| {
        c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '/' | '}' | '*')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_machine_are_found_where_they_begin() {
        for (head, tail) in STARTS {
            for line in [
                format!("see {head}{tail}x"),
                format!("\"{head}{tail}x\""),
                format!("{head}{tail}"),
            ] {
                assert_eq!(check_text(Path::new("a.md"), &line).len(), 1, "{line}");
            }
            let within = format!("~/projects{head}{tail}x");
            assert_eq!(check_text(Path::new("a.md"), &within), [], "{within}");
        }
    }

    #[test]
    fn scripts_without_an_extension_are_read_too() {
        assert!(is_text(Path::new(".ci/run")) && is_text(Path::new("README.md")));
        assert!(!is_text(Path::new("a.png")) && !is_text(Path::new("LICENSE-MIT")));
    }
}
