//! Keys of the composer, beside those of every text field.

use super::{bind, show};
use crate::keymap::{ComposerCommand, KeyBinding, KeyScope, TuiCommand};

const fn run(command: ComposerCommand) -> TuiCommand {
    TuiCommand::Composer(command)
}

const SCOPE: KeyScope = KeyScope::Composer;

pub(super) const BINDINGS: &[KeyBinding] = &[
    bind(SCOPE, run(ComposerCommand::Send), &["enter"], "Send; while a turn runs, queue"),
    bind(SCOPE, run(ComposerCommand::OpenEditor), &["ctrl-x ctrl-e"], "Edit the text in $EDITOR"),
    show(SCOPE, run(ComposerCommand::FocusTranscript), &["tab"], "Go to the transcript", "transcript"),
    bind(SCOPE, run(ComposerCommand::DetachOrDelete), &["ctrl-d"], "With no text: detach; the agents go on"),
];
