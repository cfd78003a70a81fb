//! Keys that act wherever the focus is.

use super::{bind, show};
use crate::keymap::{GlobalCommand, KeyBinding, KeyScope, TuiCommand};

const fn run(command: GlobalCommand) -> TuiCommand {
    TuiCommand::Global(command)
}

const SCOPE: KeyScope = KeyScope::Everywhere;

pub(super) const BINDINGS: &[KeyBinding] = &[
    show(SCOPE, run(GlobalCommand::OpenPalette), &["ctrl-p"], "Command palette", "commands"),
    show(
        SCOPE,
        run(GlobalCommand::NextWaiting),
        &["ctrl-n"],
        "Next session that needs you",
        "next that waits",
    ),
    bind(
        SCOPE,
        run(GlobalCommand::FocusAsk),
        &["ctrl-g"],
        "Answer the agent's question; again: the next one",
    ),
    bind(SCOPE, run(GlobalCommand::ToggleList), &["ctrl-t"], "Show or hide the list of sessions"),
    bind(SCOPE, run(GlobalCommand::NewSession), &[], "New session"),
    bind(SCOPE, run(GlobalCommand::SearchAll), &["ctrl-f", "ctrl-x f"], "Search all sessions"),
    bind(
        SCOPE,
        run(GlobalCommand::OpenSettings),
        &["ctrl-x m"],
        "Mode, model and options of the agent",
    ),
    bind(SCOPE, run(GlobalCommand::ResumeSession), &["ctrl-x r"], "Resume the session"),
    bind(SCOPE, run(GlobalCommand::LogIn), &["ctrl-x l"], "Log the agent in"),
    bind(
        SCOPE,
        run(GlobalCommand::TryAgain),
        &["ctrl-x a"],
        "Try again after a failure: sends its prompt again",
    ),
    bind(
        SCOPE,
        run(GlobalCommand::StartHost),
        &["ctrl-x s"],
        "Start the host again after it was stopped",
    ),
    bind(SCOPE, run(GlobalCommand::OpenHelp), &[], "All keys"),
    bind(SCOPE, run(GlobalCommand::Redraw), &["ctrl-l"], "Draw the screen anew"),
    bind(SCOPE, run(GlobalCommand::Suspend), &["ctrl-z"], "Suspend this client"),
    bind(
        SCOPE,
        run(GlobalCommand::ClearOrDetach),
        &["ctrl-c"],
        "Clear the text; with none, twice detaches",
    ),
    bind(
        SCOPE,
        run(GlobalCommand::StepBack),
        &["esc"],
        "One step back; in the composer, twice interrupts the turn",
    ),
    bind(SCOPE, run(GlobalCommand::Detach), &[], "Detach; the agents go on"),
];
