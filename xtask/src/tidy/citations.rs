//! Rule: a number of the specification that a text cites is defined in `docs/spec`, and each number
//! is defined once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Finding, Repo, read};

const RULE: &str = "citation";
const SPEC_DIR: &str = "docs/spec";
const INDEX: &str = "docs/spec/README.md";
/// Begins the heading of a rule, `### 3.7 Title`.
const HEADING: &str = "### ";
const SECTION_SIGN: char = '\u{a7}';
/// An unpublished source document; texts name the public document or the rule instead.
const UNPUBLISHED_SOURCE: &str = "the s\u{65}ed";
/// Marks at the beginning of a line that are no part of its sentence.
const LINE_MARKS: [&str; 5] = ["//", "///", "//!", ">", "-"];

/// The number of a rule: chapter and place in it.
type Number = (u32, u32);

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let documents =
        repo.files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "md"));
    let documents: Vec<(PathBuf, String)> = documents
        .map(|path| Ok((path.clone(), read(&repo.root, path)?)))
        .collect::<Result<_>>()?;
    let (defined, mut findings) = defined_rules(&documents);
    for (path, text) in &documents {
        findings.extend(check_text(path, text, &defined));
        if path == Path::new(INDEX) {
            findings.extend(check_index(path, text, &defined));
        }
    }
    for source in &repo.sources {
        findings.extend(check_text(&source.path, &source.text, &defined));
    }
    Ok(findings)
}

/// Returns the rules with the documents that define them, and a finding for each second definition.
fn defined_rules(documents: &[(PathBuf, String)]) -> (BTreeMap<Number, &Path>, Vec<Finding>) {
    let (mut defined, mut findings) = (BTreeMap::new(), Vec::new());
    for (path, text) in documents.iter().filter(|(path, _)| path.starts_with(SPEC_DIR)) {
        for (at, line) in text.lines().enumerate() {
            let title = line.strip_prefix(HEADING).and_then(|title| title.split(' ').next());
            let Some(Cited::Rule(chapter, place)) = title.and_then(read_number) else { continue };
            if let Some(other) = defined.insert((chapter, place), path.as_path()) {
                let message =
                    format!("rule {chapter}.{place} is defined in {} too", other.display());
                findings.push(Finding::failure(path, at + 1, RULE, message));
            }
        }
    }
    (defined, findings)
}

fn check_text(path: &Path, text: &str, defined: &BTreeMap<Number, &Path>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, cited) in citations(path, text) {
        let problem = match cited {
            Cited::Rule(chapter, place) if defined.contains_key(&(chapter, place)) => continue,
            Cited::Chapter(chapter) if defined.keys().any(|(known, _)| *known == chapter) => {
                continue;
            }
            Cited::Rule(chapter, place) => format!("{SPEC_DIR} defines no rule {chapter}.{place}"),
            Cited::Chapter(chapter) => format!("{SPEC_DIR} has no chapter {chapter}"),
            Cited::ChapterAsRule(chapter) => {
                format!("write {SECTION_SIGN}{chapter}, or the number of a rule")
            }
        };
        findings.push(Finding::failure(path, line, RULE, problem));
    }
    for (at, line) in text.lines().enumerate() {
        if line.to_lowercase().contains(UNPUBLISHED_SOURCE) {
            let message = "name the source document or the rule; a number for random choices is a random seed";
            findings.push(Finding::failure(path, at + 1, RULE, message));
        }
    }
    findings
}

/// Compares the rules that the index gives to each page with those that the page defines.
fn check_index(path: &Path, text: &str, defined: &BTreeMap<Number, &Path>) -> Vec<Finding> {
    let mut missing = defined.clone();
    let mut findings = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("| [")) {
        let page = line
            .split("](")
            .nth(1)
            .and_then(|rest| rest.split(')').next())
            .unwrap_or_default();
        let page = Path::new(SPEC_DIR).join(page);
        let cell = line.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
        for number in numbers(&mut cell.split_whitespace().map(|word| (at + 1, word)).peekable()) {
            let (_, Cited::Rule(chapter, place)) = number else { continue };
            if missing.get(&(chapter, place)).is_some_and(|definer| *definer == page) {
                missing.remove(&(chapter, place));
            } else {
                let message = format!("{} does not define rule {chapter}.{place}", page.display());
                findings.push(Finding::failure(path, at + 1, RULE, message));
            }
        }
    }
    let missing = missing
        .into_keys()
        .map(|(chapter, place)| format!("{chapter}.{place}"))
        .collect::<Vec<_>>();
    if !missing.is_empty() {
        findings.push(Finding::failure(
            path,
            1,
            RULE,
            format!("the index lacks {}", missing.join(", ")),
        ));
    }
    findings
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cited {
    Rule(u32, u32),
    Chapter(u32),
    /// A chapter that is called a rule.
    ChapterAsRule(u32),
}

/// Returns what a text cites, with line numbers.
fn citations(path: &Path, text: &str) -> BTreeSet<(usize, Cited)> {
    let is_rust = path.extension().is_some_and(|ext| ext == "rs");
    let mut found = BTreeSet::new();
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    for (at, line) in lines.clone() {
        found.extend(after_section_signs(line).map(|cited| (at, cited)));
        let comment = line.trim_start().strip_prefix("//").filter(|_| is_rust);
        found.extend(comment.into_iter().flat_map(in_parentheses).map(|cited| (at, cited)));
    }
    let words = lines.flat_map(|(at, line)| line.split_whitespace().map(move |word| (at, word)));
    let mut words = words.filter(|(_, word)| !LINE_MARKS.contains(word)).peekable();
    while let Some((_, word)) = words.next() {
        let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        if matches!(word, "rule" | "rules" | "Rule" | "Rules") {
            found.extend(numbers(&mut words));
        }
    }
    found
}

/// Reads `3.7`, `3.7, 3.8 and 4.1`, `2.4 to 2.7` from the front of `words`.
fn numbers<'a>(
    words: &mut std::iter::Peekable<impl Iterator<Item = (usize, &'a str)>>,
) -> Vec<(usize, Cited)> {
    let mut found: Vec<(usize, Cited)> = Vec::new();
    let mut is_range = false;
    while let Some((at, word)) = words.peek().copied() {
        if matches!(word, "and" | "or" | "to") && !found.is_empty() {
            is_range = word == "to";
        } else if let Some(number) = read_number(word) {
            let last = found.last().map(|(_, last)| *last);
            if let (true, Some(Cited::Rule(chapter, from)), Cited::Rule(same, to)) =
                (is_range, last, number)
                && chapter == same
            {
                found.extend((from + 1..to).map(|place| (at, Cited::Rule(chapter, place))));
            }
            let number = if let Cited::Chapter(chapter) = number {
                Cited::ChapterAsRule(chapter)
            } else {
                number
            };
            found.push((at, number));
            is_range = false;
            // A closing mark other than a comma ends the list.
            if !word.ends_with(|c: char| c == ',' || c.is_ascii_digit()) {
                words.next();
                break;
            }
        } else {
            break;
        }
        words.next();
    }
    found
}

fn after_section_signs(line: &str) -> impl Iterator<Item = Cited> {
    line.split(SECTION_SIGN).skip(1).filter_map(|rest| {
        let rest = rest.trim_start();
        read_number(
            &rest[..rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len())],
        )
    })
}

/// Reads a list of rules and nothing else between parentheses: `(3.7, 3.8)`.
fn in_parentheses(comment: &str) -> Vec<Cited> {
    let mut found = Vec::new();
    for inside in comment
        .split('(')
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(inside, _)| inside)
    {
        let listed: Option<Vec<Cited>> = inside.split(", ").map(read_number).collect();
        found.extend(listed.into_iter().flatten().filter(|cited| matches!(cited, Cited::Rule(..))));
    }
    found
}

/// Reads `7` or `7.4`, whatever punctuation follows. A version such as `1.2.3` is no number of a
/// rule.
fn read_number(word: &str) -> Option<Cited> {
    let word = word.trim_end_matches(|c: char| !c.is_alphanumeric());
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match word.split_once('.') {
        Some((chapter, place)) if is_number(chapter) && is_number(place) => {
            Some(Cited::Rule(chapter.parse().ok()?, place.parse().ok()?))
        }
        None if is_number(word) => Some(Cited::Chapter(word.parse().ok()?)),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Samples say RULE, SECTION and SOURCE, so that this file cites nothing itself.
    fn sample(text: &str) -> String {
        text.replace("RULE", "rule")
            .replace("SECTION", "\u{a7}")
            .replace("SOURCE", UNPUBLISHED_SOURCE)
    }

    fn cited(path: &str, text: &str) -> Vec<(usize, Cited)> {
        citations(Path::new(path), &sample(text)).into_iter().collect()
    }

    /// Checks a repo with a specification of the rules 1.1, 1.2 and 2.1.
    fn check_repo(path: &str, text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "docs/spec/log.md",
            "# 1. Log\n\n### 1.1 One\nText.\n\n### 1.2 Two\n\n### 2.1 Three\n",
        );
        write(
            INDEX,
            "| page | numbers |\n|---|---|\n| [Log](log.md): all of it | 1.1, 1.2, 2.1 |\n",
        );
        write(path, &sample(text));
        let findings = check(&Repo::read(dir.path()).unwrap()).unwrap();
        findings.into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_dangling_citation_is_refused() {
        let findings =
            check_repo("a.rs", "//! Fine (RULE 1.2).\n/// Not (RULEs 1.1 and 1.9).\nfn a() {}\n");
        assert_eq!(findings, [sample("a.rs:2: citation: docs/spec defines no RULE 1.9")]);
        let findings = check_repo("a.rs", "// See SECTION2, SECTION3 and SECTION1.7. (2.2)\n");
        let expected = ["no RULE 1.7", "no RULE 2.2", "has no chapter 3"].map(sample);
        assert_eq!(findings.len(), 3);
        assert!(
            findings.iter().zip(&expected).all(|(finding, end)| finding.ends_with(end)),
            "{findings:?}"
        );
        let findings = check_repo("docs/a.md", "As in RULE 4.1.\n");
        assert_eq!(findings, [sample("docs/a.md:1: citation: docs/spec defines no RULE 4.1")]);
    }

    #[test]
    fn citations_that_resolve_are_no_findings() {
        let text = "// RULEs 1.1, 1.2 and 2.1; RULEs 1.1 to 1.2, SECTION1, SECTION2.1 (1.2, 2.1)\nfn a() { b(0.5, 9.9) }\n";
        assert_eq!(check_repo("a.rs", text), <[String; 0]>::default());
    }

    #[test]
    fn ranges_lists_and_line_breaks_are_followed() {
        let rules = |numbers: &[(usize, u32, u32)]| -> Vec<(usize, Cited)> {
            numbers
                .iter()
                .map(|(line, chapter, place)| (*line, Cited::Rule(*chapter, *place)))
                .collect()
        };
        assert_eq!(
            cited("a.rs", "//! (RULEs 2.4 to 2.6)."),
            rules(&[(1, 2, 4), (1, 2, 5), (1, 2, 6)])
        );
        assert_eq!(
            cited("a.rs", "//! (RULEs 3.8,\n//! 3.10). 5.5"),
            rules(&[(1, 3, 8), (2, 3, 10)])
        );
        assert_eq!(cited("a.md", "RULE 3.7. 4.4 is a number, and (5.5) too"), rules(&[(1, 3, 7)]));
        assert_eq!(cited("a.rs", "// the RULE of 3.5, version (1.2.3)"), []);
    }

    #[test]
    fn a_chapter_is_not_called_a_rule() {
        let findings = check_repo("a.rs", "//! Attaching (RULE 1).\n");
        assert_eq!(findings, [sample("a.rs:1: citation: write SECTION1, or the number of a RULE")]);
    }

    #[test]
    fn a_number_is_defined_once_and_stands_in_the_index() {
        let findings = check_repo("docs/spec/more.md", "### 1.2 Again\n\n### 1.3 New\n");
        let expected = [
            "docs/spec/more.md:1: citation: RULE 1.2 is defined in docs/spec/log.md too",
            "docs/spec/README.md:3: citation: docs/spec/log.md does not define RULE 1.2",
            "docs/spec/README.md:1: citation: the index lacks 1.2, 1.3",
        ];
        assert_eq!(findings, expected.map(sample));
    }

    #[test]
    fn an_unpublished_source_is_not_named() {
        let findings = check_repo("a.rs", "//! A row of SOURCE's table.\n");
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].starts_with("a.rs:1: citation: name the source document"),
            "{findings:?}"
        );
    }
}
