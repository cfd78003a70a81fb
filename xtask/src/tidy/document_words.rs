//! Rule: headings and sentences of documents put their subject first, as comments do.

use anyhow::Result;

use super::words::hidden_opening;
use super::{Finding, Repo, read};

const RULE: &str = "subject-first";

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in repo.files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "md")) {
        for (line, opening) in hidden_subjects(&read(&repo.root, path)?) {
            let message =
                format!("a heading or sentence opens with {opening:?}; name the subject first");
            findings.push(Finding::failure(path, line, RULE, message));
        }
    }
    Ok(findings)
}

/// Returns the openings that hide their subject, with line numbers. Code blocks and questions are
/// left out.
fn hidden_subjects(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    let mut ended = true;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            ended = true;
            continue;
        }
        if in_code {
            continue;
        }
        let begins_block =
            line.trim_start().starts_with(['#', '-', '|', '>', '*']) || line.trim().is_empty();
        for (nth, sentence) in sentences(line).enumerate() {
            if (nth > 0 || ended || begins_block) && !is_question(sentence) {
                found.extend(hidden_opening(sentence).map(|opening| (number + 1, opening)));
            }
        }
        ended = line.trim().is_empty()
            || line.trim_end().ends_with(['.', '!', '?', ':'])
            || line.starts_with('#');
    }
    found
}

/// Yields the sentences and table cells of a line, without the marks of headings, lists and bold
/// text.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    line.split('|')
        .flat_map(|cell| cell.split_inclusive(['.', '!', '?']))
        .map(|part| part.trim_start_matches(['#', '-', '>', ' ']).trim_start_matches("**"))
        .filter(|part| !part.is_empty())
}

fn is_question(sentence: &str) -> bool {
    sentence.trim_end().ends_with('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_sentences_items_and_cells_are_checked() {
        let text = "# What it is\n\nThe host. Nobody asks.\n- Who asks is told.\n- **Those** wait.\n| a | None of it |\n";
        let lines: Vec<usize> = hidden_subjects(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 3, 4, 5, 6]);
    }

    #[test]
    fn continued_lines_code_and_questions_are_not_checked() {
        let text = "The host tells a client\nWho it is. `None` is fine.\n```\nWhat\n```\n*Who gets in?* The guard.\nWhat now?\n";
        assert_eq!(hidden_subjects(text), []);
    }
}
