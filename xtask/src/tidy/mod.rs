//! `cargo xtask tidy`: the invariants of ARCHITECTURE.md and CONTRIBUTING.md that a machine can
//! check, one rule per file.

mod banned;
mod ceilings;
mod citations;
mod code_map;
mod conflicts;
mod dependencies;
mod document_words;
mod enums;
mod exceptions;
mod figures;
mod links;
mod module_docs;
mod paths;
mod prints;
mod proofs;
mod settings;
mod sizes;
mod sleeps;
mod source;
mod type_methods;
mod type_names;
mod unused_dependencies;
mod update_readers;
mod words;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{output, repo};
use source::Source;

/// A finding of a rule about a line. `path` is relative to the repo's root.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    path: PathBuf,
    line: usize,
    rule: &'static str,
    message: String,
    /// False for a notice.
    fails: bool,
}

/// The files of the repo for the rules.
struct Repo {
    root: PathBuf,
    files: Vec<PathBuf>,
    sources: Vec<Source>,
}

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let repo = Repo::read(root)?;
    match args {
        [] => {}
        [figures] if figures == "--figures" => {
            figures::describe(&repo).iter().for_each(|line| output::print_line(line));
            return Ok(());
        }
        _ => bail!("tidy takes no arguments but --figures"),
    }
    let findings = exceptions::apply_exceptions(exceptions::LISTED, check(&repo)?);
    for finding in &findings {
        output::print_line(&finding.to_string());
    }
    let failures = findings.iter().filter(|finding| finding.fails).count();
    if failures > 0 {
        bail!("tidy: {failures} to mend");
    }
    output::print_line(&format!("tidy: {} source files, nothing to mend", repo.sources.len()));
    Ok(())
}

fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for source in &repo.sources {
        findings.extend(module_docs::check(source));
        findings.extend(sizes::check(source));
        findings.extend(enums::check(source));
        findings.extend(prints::check(source));
        findings.extend(update_readers::check(source));
        findings.extend(banned::check(source));
        findings.extend(sleeps::check(source));
    }
    findings.extend(paths::check(repo)?);
    findings.extend(conflicts::check(repo)?);
    findings.extend(links::check(repo)?);
    findings.extend(citations::check(repo)?);
    findings.extend(code_map::check(repo)?);
    findings.extend(proofs::check(repo)?);
    findings.extend(settings::check(repo)?);
    findings.extend(dependencies::check(repo)?);
    findings.extend(unused_dependencies::check(repo)?);
    findings.extend(ceilings::check(repo));
    findings.extend(words::check(repo));
    findings.extend(document_words::check(repo)?);
    findings.extend(type_names::check(repo));
    findings.extend(type_methods::check(repo));
    findings.sort_by(|a, b| (&a.path, a.line, a.rule).cmp(&(&b.path, b.line, b.rule)));
    Ok(findings)
}

impl Repo {
    fn read(root: &Path) -> Result<Self> {
        let files = repo::list_files(root)?;
        let rust = files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "rs"));
        let sources = rust
            .map(|path| Ok(Source::new(path, read(root, path)?)))
            .collect::<Result<_>>()?;
        Ok(Self { root: root.to_path_buf(), files, sources })
    }

    fn has(&self, path: &Path) -> bool {
        self.root.join(path).exists()
    }
}

/// Reads a file and names it in the error.
fn read(root: &Path, path: &Path) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("reading {}", path.display()))
}

impl Finding {
    fn failure(path: &Path, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self {
            path: path.to_path_buf(),
            line,
            rule,
            message: message.into(),
            fails: true,
        }
    }

    fn notice(path: &Path, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self { fails: false, ..Self::failure(path, line, rule, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = if self.fails { "" } else { " (notice)" };
        write!(f, "{}:{}: {}{weight}: {}", self.path.display(), self.line, self.rule, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_that_editors_can_jump_to() {
        let finding = Finding::failure(Path::new("a/b.rs"), 7, "prints", "no");
        assert_eq!(finding.to_string(), "a/b.rs:7: prints: no");
        let notice = Finding::notice(Path::new("a/b.rs"), 1, "size", "long");
        assert_eq!(notice.to_string(), "a/b.rs:1: size (notice): long");
    }
}
