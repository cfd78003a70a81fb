//! Tests of the table of keys.

use std::collections::HashSet;

use super::*;

fn press(text: &str) -> KeyPress {
    KeyPress::parse(text).unwrap()
}

#[test]
fn every_key_is_readable_and_bound_once_in_its_place() {
    let mut seen = HashSet::new();
    for binding in all_bindings() {
        for keys in binding.keys {
            for key in keys.split(' ') {
                assert!(KeyPress::parse(key).is_some(), "{key:?} is no key");
            }
            assert!(
                seen.insert((binding.scope, *keys)),
                "{keys:?} is bound twice in {:?}",
                binding.scope
            );
        }
        assert!(
            !binding.title.is_empty() && !binding.title.ends_with('.'),
            "{:?}",
            binding.command
        );
    }
}

#[test]
fn keys_of_terminals_and_multiplexers_are_free() {
    const TAKEN: &[&str] = &["ctrl-s", "ctrl-q", "ctrl-\\", "ctrl-i", "ctrl-m", "ctrl-["];
    for binding in all_bindings() {
        let is_editing = matches!(binding.command, TuiCommand::Edit(_));
        for key in binding.keys.iter().flat_map(|keys| keys.split(' ')) {
            assert!(!TAKEN.contains(&key), "{key} is not ours");
            assert!(
                is_editing || !["ctrl-a", "ctrl-b", "ctrl-h"].contains(&key),
                "{key} is for editing only"
            );
        }
        let all_alt =
            !binding.keys.is_empty() && binding.keys.iter().all(|keys| keys.contains("alt-"));
        assert!(!all_alt, "{:?} needs Alt", binding.command);
    }
}

#[test]
fn chords_and_inner_places_are_found_first() {
    let keymap = Keymap::new();
    let scopes = [KeyScope::Composer, KeyScope::TextField, KeyScope::Everywhere];
    assert_eq!(keymap.find(&scopes, None, press("ctrl-x")), KeyMeaning::Prefix);
    let editor = KeyMeaning::Run(TuiCommand::Composer(ComposerCommand::OpenEditor));
    assert_eq!(keymap.find(&scopes, Some(press("ctrl-x")), press("ctrl-e")), editor);
    let detach = KeyMeaning::Run(TuiCommand::Composer(ComposerCommand::DetachOrDelete));
    assert_eq!(keymap.find(&scopes, None, press("ctrl-d")), detach);
    assert_eq!(keymap.find(&scopes, None, press("x")), KeyMeaning::Unbound);
}

#[test]
fn keys_are_labelled_as_people_write_them() {
    let labels =
        ["ctrl-p", "shift-tab", "G", "space", "ctrl-_", "pgup"].map(|key| press(key).to_string());
    assert_eq!(labels, ["Ctrl-P", "Shift-Tab", "G", "Space", "Ctrl-_", "PgUp"]);
}
