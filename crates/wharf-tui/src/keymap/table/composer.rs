//! Keys of the composer, beside those of every text field.

use super::{bind, show};
use crate::keymap::{ComposerCommand, KeyBinding, KeyScope, TuiCommand};

const fn run(command: ComposerCommand) -> TuiCommand {
    TuiCommand::Composer(command)
}

const SCOPE: KeyScope = KeyScope::Composer;

pub(super) const BINDINGS: &[KeyBinding] = &[
    show(SCOPE, run(ComposerCommand::Send), &["enter"], "Send; while a turn runs, queue", "send"),
    bind(
        SCOPE,
        run(ComposerCommand::SendNow),
        &["ctrl-x enter"],
        "Send now: interrupts the turn and goes first",
    ),
    bind(SCOPE, run(ComposerCommand::RemoveQueued), &["ctrl-x d"], "Remove the waiting prompt"),
    bind(SCOPE, run(ComposerCommand::MoveQueuedUp), &["ctrl-x up"], "Move the waiting prompt up"),
    bind(
        SCOPE,
        run(ComposerCommand::MoveQueuedDown),
        &["ctrl-x down"],
        "Move the waiting prompt down",
    ),
    show(SCOPE, run(ComposerCommand::NextMode), &["shift-tab"], "Next mode of the agent", "mode"),
    bind(SCOPE, run(ComposerCommand::SearchHistory), &["ctrl-r"], "Search earlier prompts"),
    bind(SCOPE, run(ComposerCommand::OpenEditor), &["ctrl-x ctrl-e"], "Edit the text in $EDITOR"),
    show(
        SCOPE,
        run(ComposerCommand::FocusTranscript),
        &["tab"],
        "Go to the transcript",
        "transcript",
    ),
    bind(
        SCOPE,
        run(ComposerCommand::DetachOrDelete),
        &["ctrl-d"],
        "With no text: detach; the agents go on",
    ),
];
