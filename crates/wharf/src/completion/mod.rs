//! Completions that know the sessions, agents, workspaces and settings: the shells' scripts run
//! `wharf __complete` with the words so far, and show the lines that it prints.
//!
//! Invariant: completing never starts a host and answers within a moment; whatever fails means that
//! there is nothing to offer.

mod candidates;
mod plan;
pub(crate) mod scripts;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;

use crate::global::GlobalOptions;
use crate::output;
use plan::{CompletionPlan, ValueKind};

/// The hidden command of the scripts.
pub(crate) const COMPLETE_COMMAND: &str = "__complete";
/// A person who presses Tab waits no longer than this.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);
/// Tells the script that the shell itself completes names of files or directories.
const FILES_DIRECTIVE: &str = ":files";
const DIRECTORIES_DIRECTIVE: &str = ":dirs";

/// A word that can stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    word: String,
    about: String,
}

impl Candidate {
    fn new(word: impl Into<String>, about: impl Into<String>) -> Self {
        Self { word: word.into(), about: about.into() }
    }
}

/// Prints the candidates: `--line LINE` for bash, which tells the line up to the cursor, else `--
/// WORD…`.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let form = arguments.next().unwrap_or_default();
    let given: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let (words, splits_at_signs) = match (form.to_str(), &given[..]) {
        (Some("--line"), [line]) => (words::split_line(line).split_off(1), true),
        (Some("--"), words) => (words.to_vec(), false),
        _ => return ExitCode::FAILURE,
    };
    for line in complete(&words, splits_at_signs) {
        output::print_line(&line);
    }
    ExitCode::SUCCESS
}

/// Returns the lines for the script. The last word is the one at the cursor.
fn complete(words: &[String], splits_at_signs: bool) -> Vec<String> {
    let plan = CompletionPlan::new(&crate::build_command(), words);
    if plan.kind == ValueKind::File {
        return vec![FILES_DIRECTIVE.to_owned()];
    }
    if plan.kind == ValueKind::Directory {
        return vec![DIRECTORIES_DIRECTIVE.to_owned()];
    }
    let found = list_candidates(&plan, words);
    // Bash replaces only what follows the last `=` or `:` of the word.
    let kept_from =
        if splits_at_signs { plan.word.rfind(['=', ':']).map_or(0, |at| at + 1) } else { 0 };
    let fitting = found
        .into_iter()
        .map(|Candidate { word, about }| (format!("{}{word}", plan.prefix), about));
    let fitting = fitting.filter(|(word, _)| word.starts_with(&plan.word));
    fitting
        .map(|(word, about)| {
            format!("{}\t{}", &word[kept_from..], wharf_render::text::to_printable(&about))
        })
        .collect()
}

fn list_candidates(plan: &CompletionPlan, words: &[String]) -> Vec<Candidate> {
    if !plan.kind.needs_host() {
        return plan.fixed_candidates();
    }
    let Some(global) = read_global_options(words) else { return Vec::new() };
    if global.token.as_deref() == Some("-") {
        // Stdin is for the verb, not for Tab.
        return Vec::new();
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    runtime.block_on(async {
        let asked = tokio::time::timeout(ANSWER_TIMEOUT, candidates::ask_host(&global, plan)).await;
        asked
            .ok()
            .and_then(Result::ok)
            .unwrap_or_else(|| candidates::without_host(&global, plan))
    })
}

/// Returns the options of every verb among the words, such as `--state-dir`.
fn read_global_options(words: &[String]) -> Option<GlobalOptions> {
    let typed = words.split_last().map(|(_, before)| before).unwrap_or_default();
    let line = std::iter::once("wharf").chain(typed.iter().map(String::as_str));
    let lenient = crate::build_command().ignore_errors(true).arg_required_else_help(false);
    GlobalOptions::from_arg_matches(&lenient.try_get_matches_from(line).ok()?).ok()
}
