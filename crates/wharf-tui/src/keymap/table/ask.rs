//! Keys of the focused ask. They act nowhere else, so that typed text never approves anything.

use super::{bind, show};
use crate::keymap::{AskCommand, GlobalCommand, KeyBinding, KeyScope, TuiCommand};

const fn run(command: AskCommand) -> TuiCommand {
    TuiCommand::Ask(command)
}

const SCOPE: KeyScope = KeyScope::Ask;

pub(super) const BINDINGS: &[KeyBinding] = &[
    bind(SCOPE, run(AskCommand::OptionDown), &["j", "down"], "Next option"),
    bind(SCOPE, run(AskCommand::OptionUp), &["k", "up"], "Option before"),
    show(SCOPE, run(AskCommand::Choose), &["enter", "space"], "Choose the option", "choose"),
    bind(
        SCOPE,
        run(AskCommand::AllowOnce),
        &["a"],
        "The one option that allows once; of a link: done",
    ),
    bind(SCOPE, run(AskCommand::AllowAlways), &["A"], "The one option that allows always"),
    bind(SCOPE, run(AskCommand::Deny), &["d"], "The one option that denies once"),
    bind(SCOPE, run(AskCommand::Number(1)), &["1"], "First option"),
    bind(SCOPE, run(AskCommand::Number(2)), &["2"], "Second option"),
    bind(SCOPE, run(AskCommand::Number(3)), &["3"], "Third option"),
    bind(SCOPE, run(AskCommand::Number(4)), &["4"], "Fourth option"),
    bind(SCOPE, run(AskCommand::Number(5)), &["5"], "Fifth option"),
    bind(SCOPE, run(AskCommand::Number(6)), &["6"], "Sixth option"),
    bind(SCOPE, run(AskCommand::Number(7)), &["7"], "Seventh option"),
    bind(SCOPE, run(AskCommand::Number(8)), &["8"], "Eighth option"),
    bind(SCOPE, run(AskCommand::Number(9)), &["9"], "Ninth option"),
    show(SCOPE, run(AskCommand::NextAsk), &["n"], "Next question", "next question"),
    bind(SCOPE, run(AskCommand::ScrollDown), &["ctrl-d", "pgdn"], "Scroll the subject down"),
    bind(SCOPE, run(AskCommand::ScrollUp), &["ctrl-u", "pgup"], "Scroll the subject up"),
    show(SCOPE, run(AskCommand::ShowWhole), &["v"], "Show the whole subject", "whole subject"),
    bind(SCOPE, run(AskCommand::CopySubject), &["y"], "Copy the command, the link or the paths"),
    show(
        SCOPE,
        TuiCommand::Global(GlobalCommand::StepBack),
        &["q"],
        "Back to the composer",
        "back",
    ),
];
