//! Keys of the list of sessions.

use super::{bind, show};
use crate::keymap::{GlobalCommand, KeyBinding, KeyScope, ListCommand, TuiCommand};

const fn run(command: ListCommand) -> TuiCommand {
    TuiCommand::List(command)
}

const SCOPE: KeyScope = KeyScope::List;

pub(super) const BINDINGS: &[KeyBinding] = &[
    bind(SCOPE, run(ListCommand::Down), &["j", "down"], "Next session"),
    bind(SCOPE, run(ListCommand::Up), &["k", "up"], "Session before"),
    bind(SCOPE, run(ListCommand::First), &["g", "home"], "First session"),
    bind(SCOPE, run(ListCommand::Last), &["G", "end"], "Last session"),
    bind(SCOPE, run(ListCommand::PageDown), &["pgdn", "ctrl-d"], "Page down"),
    bind(SCOPE, run(ListCommand::PageUp), &["pgup", "ctrl-u"], "Page up"),
    show(SCOPE, run(ListCommand::Open), &["enter", "space"], "Open the session", "open"),
    show(SCOPE, run(ListCommand::AnswerHere), &["a"], "Answer the session's question", "answer"),
    show(SCOPE, run(ListCommand::New), &["n"], "New session", "new"),
    show(SCOPE, run(ListCommand::Filter), &["/"], "Filter the list", "filter"),
    bind(SCOPE, run(ListCommand::Rename), &["r"], "Rename the session"),
    bind(SCOPE, run(ListCommand::Archive), &["x"], "Archive the session, or bring it back"),
    bind(SCOPE, run(ListCommand::Mute), &["z"], "Mute the session, or let it notify again"),
    bind(SCOPE, run(ListCommand::Kill), &["K"], "Kill the session's agent (asks first)"),
    bind(SCOPE, run(ListCommand::Resume), &["R"], "Resume the selected session"),
    bind(SCOPE, run(ListCommand::Fork), &["f"], "Copy the session into a new one"),
    bind(SCOPE, run(ListCommand::CopyId), &["y"], "Copy the session's id"),
    show(SCOPE, TuiCommand::Global(GlobalCommand::OpenHelp), &["?"], "All keys", "help"),
    bind(SCOPE, TuiCommand::Global(GlobalCommand::Detach), &["q"], "Detach; the agents go on"),
];
