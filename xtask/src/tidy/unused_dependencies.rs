//! Rule: a crate's manifest names no dependency that its code does not use, and the repo's no
//! version that no crate takes.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use super::{Finding, Repo, read};

const RULE: &str = "unused-dependency";

/// Dependencies that are there for their features or macros only: the crate's folder, the
/// dependency.
const USED_WITHOUT_A_NAME: &[(&str, &str)] = &[];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let (mut findings, mut taken) = (Vec::new(), BTreeSet::new());
    let is_member = |path: &Path| path.starts_with("crates") || path.starts_with("xtask");
    let is_manifest =
        |path: &Path| path.file_name().is_some_and(|name| name == "Cargo.toml") && is_member(path);
    for path in repo.files.iter().filter(|path| is_manifest(path)) {
        let text = read(&repo.root, path)?;
        let manifest: Table =
            toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let folder = path.parent().unwrap_or(path);
        for name in dependencies(&manifest) {
            if !is_named(repo, folder, &name)
                && !USED_WITHOUT_A_NAME.contains(&(&folder.to_string_lossy(), &name))
            {
                let message = format!("{name} is used nowhere in {}", folder.display());
                findings.push(Finding::failure(path, 1, RULE, message));
            }
            taken.insert(name);
        }
    }
    let manifest: Table = toml::from_str(&read(&repo.root, Path::new("Cargo.toml"))?)?;
    let listed = manifest
        .get("workspace")
        .and_then(|repo| repo.get("dependencies"))
        .and_then(Value::as_table);
    for name in listed.into_iter().flat_map(Table::keys).filter(|name| !taken.contains(*name)) {
        let message = format!("no crate takes {name}");
        findings.push(Finding::failure(Path::new("Cargo.toml"), 1, RULE, message));
    }
    Ok(findings)
}

/// Returns the names in every table of dependencies of a manifest, for all targets.
fn dependencies(manifest: &Table) -> BTreeSet<String> {
    let targets = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::values);
    let holders = targets.filter_map(Value::as_table).chain([manifest]);
    let tables = holders.flat_map(|holder| {
        ["dependencies", "dev-dependencies", "build-dependencies"]
            .into_iter()
            .filter_map(|kind| holder.get(kind))
    });
    tables.filter_map(Value::as_table).flat_map(Table::keys).cloned().collect()
}

fn is_named(repo: &Repo, folder: &Path, dependency: &str) -> bool {
    let name = dependency.replace('-', "_");
    let is_word = |code: &str, at: usize| {
        let after = code[at + name.len()..].chars().next();
        !after.is_some_and(|next| next.is_alphanumeric() || next == '_')
    };
    let sources = repo.sources.iter().filter(|source| source.path.starts_with(folder));
    sources
        .into_iter()
        .any(|source| source.find(&name).any(|at| is_word(&source.code, at)))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::source::Source;
    use super::*;

    #[test]
    fn dependencies_without_a_use_or_a_crate_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let manifest = "[dependencies]\nused-one = \"1\"\nunused = \"1\"\n[target.'cfg(unix)'.dev-dependencies]\nidle = \"1\"\n";
        std::fs::create_dir_all(root.path().join("crates/a")).unwrap();
        std::fs::write(root.path().join("crates/a/Cargo.toml"), manifest).unwrap();
        let listed = "[workspace.dependencies]\nunused = \"1\"\nidle = \"1\"\nused-one = \"1\"\nforgotten = \"1\"\n";
        std::fs::write(root.path().join("Cargo.toml"), listed).unwrap();
        let code = "use used_one::Thing;\n// unused\nfn unused_but_longer() {}\n".to_owned();
        let repo = Repo {
            root: root.path().to_path_buf(),
            files: vec![PathBuf::from("crates/a/Cargo.toml"), PathBuf::from("Cargo.toml")],
            sources: vec![Source::new(Path::new("crates/a/src/lib.rs"), code)],
        };
        let messages: Vec<String> =
            check(&repo).unwrap().into_iter().map(|finding| finding.message).collect();
        assert_eq!(
            messages,
            [
                "idle is used nowhere in crates/a",
                "unused is used nowhere in crates/a",
                "no crate takes forgotten"
            ]
        );
    }
}
