//! Rule: tests that the documents cite as proofs exist.

use std::path::{Component, Path};

use anyhow::Result;

use super::{Finding, Repo, Source, read};

const RULE: &str = "proofs";
const DOCUMENTS: [&str; 2] = ["docs/reliability.md", "docs/security.md"];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for document in DOCUMENTS.map(Path::new) {
        let text = read(&repo.root, document)?;
        for (line, proof) in
            cited_tests(&text).filter(|(_, proof)| !test_exists(proof, &repo.sources))
        {
            findings.push(Finding::failure(
                document,
                line,
                RULE,
                format!("there is no test `{proof}`"),
            ));
        }
    }
    Ok(findings)
}

/// Returns the texts in backticks that look like the path of a test: `module::the_test`.
fn cited_tests(document: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_name = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    document.lines().enumerate().flat_map(move |(at, row)| {
        let quoted = row.split('`').skip(1).step_by(2);
        let paths = quoted.filter(move |text| text.contains("::") && text.split("::").all(is_name));
        paths.map(move |path| (at + 1, path))
    })
}

/// Returns true if a file or folder of the module's name has such a test.
fn test_exists(proof: &str, sources: &[Source]) -> bool {
    let Some((modules, name)) = proof.rsplit_once("::") else { return false };
    let module = modules.rsplit("::").next().unwrap_or_default();
    sources.iter().filter(|source| is_module(&source.path, module)).any(|source| {
        let function = format!("fn {name}(");
        source.find(&function).any(|at| source.is_test_at(at))
    })
}

fn is_module(path: &Path, module: &str) -> bool {
    let named = |part: Component<'_>| {
        Path::new(part.as_os_str()).file_stem().is_some_and(|stem| stem == module)
    };
    path.components().any(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_names_a_test_and_its_module() {
        let text = "| it lasts | `faults::kills::it_lasts` and `Session::create`, see `docs/x.md` |\n`a::b`";
        assert_eq!(
            cited_tests(text).collect::<Vec<_>>(),
            [(1, "faults::kills::it_lasts"), (2, "a::b")]
        );
    }

    #[test]
    fn proof_must_be_a_test_of_its_module() {
        let source =
            |path: &str| Source::new(Path::new(path), "#[test]\nfn it_lasts() {}\n".to_owned());
        assert!(test_exists(
            "faults::kills::it_lasts",
            &[source("crates/wharf/tests/it/faults/kills.rs")]
        ));
        assert!(test_exists("walk::it_lasts", &[source("crates/wharf/tests/it/walk/mod.rs")]));
        assert!(!test_exists(
            "faults::other::it_lasts",
            &[source("crates/wharf/tests/it/faults/kills.rs")]
        ));
        assert!(!test_exists(
            "faults::kills::it_last",
            &[source("crates/wharf/tests/it/faults/kills.rs")]
        ));
        assert!(
            !test_exists("kills::it_lasts", &[source("crates/wharf/src/kills.rs")]),
            "not a test"
        );
    }
}
