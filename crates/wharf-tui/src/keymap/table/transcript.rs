//! Keys of the transcript.

use super::{bind, show};
use crate::keymap::{GlobalCommand, KeyBinding, KeyScope, TranscriptCommand, TuiCommand};

const fn run(command: TranscriptCommand) -> TuiCommand {
    TuiCommand::Transcript(command)
}

const SCOPE: KeyScope = KeyScope::Transcript;

pub(super) const BINDINGS: &[KeyBinding] = &[
    bind(SCOPE, run(TranscriptCommand::RowDown), &["j", "down"], "Next row"),
    bind(SCOPE, run(TranscriptCommand::RowUp), &["k", "up"], "Row before"),
    show(
        SCOPE,
        run(TranscriptCommand::ToggleRow),
        &["enter", "space"],
        "Open or fold the row",
        "open",
    ),
    bind(SCOPE, run(TranscriptCommand::Oldest), &["g", "home"], "Oldest row that is loaded"),
    show(SCOPE, run(TranscriptCommand::Newest), &["G", "end"], "Newest row, and follow", "newest"),
    bind(SCOPE, run(TranscriptCommand::HalfPageDown), &["ctrl-d"], "Half a page down"),
    bind(SCOPE, run(TranscriptCommand::HalfPageUp), &["ctrl-u"], "Half a page up"),
    bind(SCOPE, run(TranscriptCommand::PageDown), &["pgdn"], "Page down"),
    bind(SCOPE, run(TranscriptCommand::PageUp), &["pgup"], "Page up"),
    bind(SCOPE, run(TranscriptCommand::PromptBefore), &["["], "Prompt before"),
    bind(SCOPE, run(TranscriptCommand::PromptAfter), &["]"], "Prompt after"),
    bind(SCOPE, run(TranscriptCommand::NextError), &["e"], "Next error"),
    bind(SCOPE, run(TranscriptCommand::ErrorBefore), &["E"], "Error before"),
    show(SCOPE, run(TranscriptCommand::Find), &["/"], "Find in this session", "find"),
    bind(SCOPE, run(TranscriptCommand::FindOlder), &["n"], "Next older row with the text"),
    bind(SCOPE, run(TranscriptCommand::FindNewer), &["N"], "Next newer row with the text"),
    show(SCOPE, run(TranscriptCommand::CopyRow), &["y"], "Copy the row", "copy"),
    bind(SCOPE, run(TranscriptCommand::CopyTurn), &["Y"], "Copy the turn"),
    show(
        SCOPE,
        run(TranscriptCommand::OpenReader),
        &["v"],
        "Show the diff or the whole text",
        "view",
    ),
    bind(SCOPE, run(TranscriptCommand::OpenPager), &["o"], "Open the row in the pager"),
    show(
        SCOPE,
        run(TranscriptCommand::ShowChanges),
        &["c"],
        "Files that the session changed",
        "changes",
    ),
    bind(SCOPE, run(TranscriptCommand::TogglePlan), &["p"], "Open or fold the plan"),
    show(
        SCOPE,
        run(TranscriptCommand::FocusComposer),
        &["i", "tab"],
        "Go to the composer",
        "composer",
    ),
    bind(SCOPE, TuiCommand::Global(GlobalCommand::OpenHelp), &["?"], "All keys"),
    bind(SCOPE, TuiCommand::Global(GlobalCommand::StepBack), &["q"], "One step back"),
];
