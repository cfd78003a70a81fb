//! The table of keys, one file per place.
//!
//! Keys that belong to others are not bound: `Ctrl-B` and `Ctrl-A` as commands (tmux, screen),
//! `Ctrl-S`, `Ctrl-Q` and `Ctrl-\` (the terminal), function keys, and Alt as the only way.

mod ask;
mod composer;
mod everywhere;
mod form;
mod list;
mod menu;
mod reader;
mod text_field;
mod transcript;

use super::KeyBinding;

/// The tables of all places, in the order of the help.
pub(super) const TABLES: &[&[KeyBinding]] = &[
    everywhere::BINDINGS,
    composer::BINDINGS,
    text_field::BINDINGS,
    transcript::BINDINGS,
    list::BINDINGS,
    ask::BINDINGS,
    form::BINDINGS,
    menu::BINDINGS,
    reader::BINDINGS,
];

/// Makes a binding that the bottom line does not show.
const fn bind(
    scope: super::KeyScope,
    command: super::TuiCommand,
    keys: &'static [&'static str],
    title: &'static str,
) -> KeyBinding {
    KeyBinding { scope, command, keys, title, short: None }
}

/// Makes a binding that the bottom line shows by `short`.
const fn show(
    scope: super::KeyScope,
    command: super::TuiCommand,
    keys: &'static [&'static str],
    title: &'static str,
    short: &'static str,
) -> KeyBinding {
    KeyBinding { scope, command, keys, title, short: Some(short) }
}
