//! Rule: docs/configuration.md has a row for every setting, and no other rows.

use std::path::Path;

use anyhow::Result;

use super::{Finding, Repo, read};

const RULE: &str = "settings";
const DOCUMENT: &str = "docs/configuration.md";
/// The file that lists the keys, and the name of the list.
const SOURCE: &str = "crates/wharf-config/src/settings/keys.rs";
const LIST: &str = "const CONFIG_KEYS:";
/// Begins a row of the list.
const ROW: &str = "key(\"";

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let (document, source) = (Path::new(DOCUMENT), Path::new(SOURCE));
    if !repo.has(document) || !repo.has(source) {
        return Ok(vec![Finding::failure(
            document,
            1,
            RULE,
            format!("this document or {SOURCE} does not exist"),
        )]);
    }
    Ok(compare_settings(&read(&repo.root, document)?, &read(&repo.root, source)?))
}

fn compare_settings(document: &str, source: &str) -> Vec<Finding> {
    let known = known_settings(source);
    let documented: Vec<(usize, String)> = documented_settings(document).collect();
    let mut findings = Vec::new();
    for key in &known {
        if !documented.iter().any(|(_, row)| row == key) {
            findings.push(Finding::failure(
                Path::new(DOCUMENT),
                1,
                RULE,
                format!("there is no row for `{key}`"),
            ));
        }
    }
    for (line, key) in documented {
        if !known.contains(&key) {
            findings.push(Finding::failure(
                Path::new(DOCUMENT),
                line,
                RULE,
                format!("there is no setting `{key}`"),
            ));
        }
    }
    findings
}

/// Returns the first literal of each row of the list, in the form of the documentation:
/// `agents.*.env.*` is the table `agents.NAME.env`.
fn known_settings(source: &str) -> Vec<String> {
    let list = source
        .split_once(LIST)
        .map_or("", |(_, list)| list.split("];").next().unwrap_or_default());
    let literals = list.split(ROW).skip(1).filter_map(|row| row.split('"').next());
    literals
        .map(|key| key.strip_suffix(".*").unwrap_or(key).replace('*', "NAME"))
        .collect()
}

/// Returns the texts in backticks in the first column of a table.
fn documented_settings(document: &str) -> impl Iterator<Item = (usize, String)> {
    let rows = document.lines().enumerate();
    rows.filter_map(|(at, row)| {
        Some((at + 1, row.strip_prefix("| `")?.split('`').next()?.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = "const CONFIG_KEYS: &[ConfigKey] = &[\n key(\"listen\", Text, \"x\"),\n secret_key(\"agents.*.env.*\"),\n];\nfn f() { key(\"other\") }";

    fn messages(document: &str) -> Vec<String> {
        compare_settings(document, KEYS)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn every_setting_has_its_row() {
        assert!(
            messages("| key |\n|---|\n| `listen` | x |\n| `agents.NAME.env` | y |\n").is_empty()
        );
        assert_eq!(messages("| `listen` | x |\n"), ["there is no row for `agents.NAME.env`"]);
    }

    #[test]
    fn row_without_a_setting_is_found() {
        let found = messages("| `listen` |\n| `agents.NAME.env` |\n| `lisen` |\n");
        assert_eq!(found, ["there is no setting `lisen`"]);
    }
}
