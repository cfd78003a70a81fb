//! Keys of every field that text is typed into, as in readline.

use super::bind;
use crate::keymap::{EditCommand, KeyBinding, KeyScope, TuiCommand};

const fn run(command: EditCommand) -> TuiCommand {
    TuiCommand::Edit(command)
}

const SCOPE: KeyScope = KeyScope::TextField;

pub(super) const BINDINGS: &[KeyBinding] = &[
    bind(
        SCOPE,
        run(EditCommand::NewLine),
        &["ctrl-j", "shift-enter", "alt-enter"],
        "New line; also \\ and Enter",
    ),
    bind(SCOPE, run(EditCommand::Left), &["left", "ctrl-b"], "Character left"),
    bind(SCOPE, run(EditCommand::Right), &["right", "ctrl-f"], "Character right"),
    bind(SCOPE, run(EditCommand::Up), &["up"], "Line up"),
    bind(SCOPE, run(EditCommand::Down), &["down"], "Line down"),
    bind(SCOPE, run(EditCommand::WordLeft), &["alt-b", "ctrl-left"], "Word left"),
    bind(SCOPE, run(EditCommand::WordRight), &["alt-f", "ctrl-right"], "Word right"),
    bind(SCOPE, run(EditCommand::LineStart), &["ctrl-a", "home"], "Start of the line"),
    bind(SCOPE, run(EditCommand::LineEnd), &["ctrl-e", "end"], "End of the line"),
    bind(
        SCOPE,
        run(EditCommand::DeleteBefore),
        &["backspace", "ctrl-h"],
        "Delete the character before",
    ),
    bind(SCOPE, run(EditCommand::DeleteAfter), &["delete", "ctrl-d"], "Delete the character after"),
    bind(SCOPE, run(EditCommand::KillWord), &["ctrl-w", "alt-backspace"], "Cut the word before"),
    bind(SCOPE, run(EditCommand::KillToLineStart), &["ctrl-u"], "Cut to the start of the line"),
    bind(SCOPE, run(EditCommand::KillToLineEnd), &["ctrl-k"], "Cut to the end of the line"),
    bind(
        SCOPE,
        run(EditCommand::Yank),
        &["ctrl-y"],
        "Put in the text that was cut or cleared last",
    ),
    bind(SCOPE, run(EditCommand::Undo), &["ctrl-_"], "Undo"),
];
