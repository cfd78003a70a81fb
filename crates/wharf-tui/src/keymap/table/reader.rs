//! Keys of a text over the whole screen.

use super::{bind, show};
use crate::keymap::{KeyBinding, KeyScope, ReaderCommand, TuiCommand};

const fn run(command: ReaderCommand) -> TuiCommand {
    TuiCommand::Reader(command)
}

const SCOPE: KeyScope = KeyScope::Reader;

pub(super) const BINDINGS: &[KeyBinding] = &[
    show(SCOPE, run(ReaderCommand::Down), &["j", "down"], "Line down", "down"),
    show(SCOPE, run(ReaderCommand::Up), &["k", "up"], "Line up", "up"),
    bind(SCOPE, run(ReaderCommand::PageDown), &["space", "pgdn", "ctrl-d"], "Page down"),
    bind(SCOPE, run(ReaderCommand::PageUp), &["pgup", "ctrl-u"], "Page up"),
    bind(SCOPE, run(ReaderCommand::First), &["g", "home"], "Beginning"),
    bind(SCOPE, run(ReaderCommand::Last), &["G", "end"], "End"),
    show(SCOPE, run(ReaderCommand::NextPage), &["]"], "Next file or text", "next"),
    bind(SCOPE, run(ReaderCommand::PageBefore), &["["], "File or text before"),
    show(SCOPE, run(ReaderCommand::ToggleWrap), &["w"], "Break or cut long lines", "wrap"),
    show(SCOPE, run(ReaderCommand::Copy), &["y"], "Copy the text", "copy"),
    show(SCOPE, run(ReaderCommand::OpenPager), &["o"], "Open the text in the pager", "pager"),
    bind(SCOPE, run(ReaderCommand::OpenFile), &["enter"], "Show the change of the selected file"),
    show(SCOPE, run(ReaderCommand::Close), &["q"], "Close", "close"),
];
