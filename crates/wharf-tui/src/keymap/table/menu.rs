//! Keys of a list of choices over the screen.

use super::{bind, show};
use crate::keymap::{KeyBinding, KeyScope, MenuCommand, TuiCommand};

const fn run(command: MenuCommand) -> TuiCommand {
    TuiCommand::Menu(command)
}

const SCOPE: KeyScope = KeyScope::Menu;

pub(super) const BINDINGS: &[KeyBinding] = &[
    bind(SCOPE, run(MenuCommand::Down), &["down", "ctrl-n"], "Next choice"),
    bind(SCOPE, run(MenuCommand::Up), &["up", "ctrl-p"], "Choice before"),
    show(SCOPE, run(MenuCommand::Choose), &["enter", "tab"], "Take the choice", "take"),
];
