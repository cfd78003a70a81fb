//! Rule: no file holds the marks of an unresolved merge.

use anyhow::Result;

use super::{Finding, Repo, read};

const RULE: &str = "merge-conflict";
/// The files that people write. A line of seven signs and a blank means nothing else in any of
/// them.
const CHECKED_EXTENSIONS: [&str; 6] = ["md", "rs", "toml", "ts", "py", "sh"];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let is_checked = |extension: &std::ffi::OsStr| {
        CHECKED_EXTENSIONS.iter().any(|checked| extension == *checked)
    };
    for path in repo.files.iter().filter(|path| path.extension().is_some_and(is_checked)) {
        for line in list_conflict_lines(&read(&repo.root, path)?) {
            findings.push(Finding::failure(
                path,
                line,
                RULE,
                "a mark of an unresolved merge".to_owned(),
            ));
        }
    }
    Ok(findings)
}

/// Returns the numbers of the lines that a merge has left.
fn list_conflict_lines(text: &str) -> Vec<usize> {
    let is_mark = |line: &str| {
        ['<', '>']
            .iter()
            .any(|sign| line.starts_with(&format!("{} ", sign.to_string().repeat(7))))
    };
    text.lines()
        .enumerate()
        .filter(|(_, line)| is_mark(line))
        .map(|(number, _)| number + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_a_merge_are_found_and_other_lines_are_not() {
        let mark = |sign: &str, word: &str| format!("{} {word}\n", sign.repeat(7));
        let text = format!(
            "a\n{}b\n=======\nc\n{}> quoted\n>>> x\n",
            mark("<", "HEAD"),
            mark(">", "other")
        );
        assert_eq!(list_conflict_lines(&text), [2, 6]);
    }
}
