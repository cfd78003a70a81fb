//! Keys of forms: a new session, and the forms of agents.

use super::{bind, show};
use crate::keymap::{FormCommand, KeyBinding, KeyScope, TuiCommand};

const fn run(command: FormCommand) -> TuiCommand {
    TuiCommand::Form(command)
}

const SCOPE: KeyScope = KeyScope::Form;

pub(super) const BINDINGS: &[KeyBinding] = &[
    show(SCOPE, run(FormCommand::NextField), &["tab"], "Next field", "next field"),
    bind(SCOPE, run(FormCommand::PreviousField), &["shift-tab"], "Field before"),
    show(SCOPE, run(FormCommand::NextValue), &["right"], "Next value of the field", "other value"),
    bind(SCOPE, run(FormCommand::PreviousValue), &["left"], "Value of the field before"),
    show(
        SCOPE,
        run(FormCommand::Submit),
        &["enter"],
        "Start the session, or send the answers",
        "send",
    ),
];
