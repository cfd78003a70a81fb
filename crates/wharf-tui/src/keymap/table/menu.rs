//! Keys of a list of choices over the screen.

use super::{bind, show};
use crate::keymap::{Binding, Command, KeyScope, MenuCommand};

const fn run(command: MenuCommand) -> Command {
    Command::Menu(command)
}

const SCOPE: KeyScope = KeyScope::Menu;

pub(super) const BINDINGS: &[Binding] = &[
    bind(SCOPE, run(MenuCommand::Down), &["down", "ctrl-n"], "Next choice"),
    bind(SCOPE, run(MenuCommand::Up), &["up", "ctrl-p"], "Choice before"),
    show(SCOPE, run(MenuCommand::Choose), &["enter"], "Take the choice", "take"),
];
