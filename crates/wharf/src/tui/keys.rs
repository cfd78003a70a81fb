//! Events of the terminal as inputs of the core.

use crossterm::event::{Event, KeyCode as TerminalKey, KeyEvent, KeyEventKind, KeyModifiers};
use wharf_tui::TuiInput;
use wharf_tui::keymap::{KeyCode, KeyPress};

/// Returns the input for an event, or `None` if the client does not use the event.
pub(super) fn to_input(event: Event) -> Option<TuiInput> {
    match event {
        Event::Key(key) => to_key_press(key).map(TuiInput::Key),
        Event::Paste(text) => Some(TuiInput::Paste(text)),
        Event::FocusGained => Some(TuiInput::TerminalFocus(true)),
        Event::FocusLost => Some(TuiInput::TerminalFocus(false)),
        // The loop listens for changes of size itself.
        Event::Resize(..) | Event::Mouse(_) => None,
    }
}

fn to_key_press(key: KeyEvent) -> Option<KeyPress> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
    let alt = key.modifiers.contains(KeyModifiers::ALT);
    let mut shift = key.modifiers.contains(KeyModifiers::SHIFT);
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other keys are not used")]
    let code = match key.code {
        TerminalKey::Char(character) => {
            // Shift is part of the character.
            shift = false;
            KeyCode::Char(if ctrl { to_control_char(character) } else { character })
        }
        TerminalKey::BackTab => {
            shift = true;
            KeyCode::Tab
        }
        TerminalKey::Enter => KeyCode::Enter,
        TerminalKey::Esc => KeyCode::Esc,
        TerminalKey::Tab => KeyCode::Tab,
        TerminalKey::Backspace => KeyCode::Backspace,
        TerminalKey::Delete => KeyCode::Delete,
        TerminalKey::Up => KeyCode::Up,
        TerminalKey::Down => KeyCode::Down,
        TerminalKey::Left => KeyCode::Left,
        TerminalKey::Right => KeyCode::Right,
        TerminalKey::Home => KeyCode::Home,
        TerminalKey::End => KeyCode::End,
        TerminalKey::PageUp => KeyCode::PageUp,
        TerminalKey::PageDown => KeyCode::PageDown,
        _ => return None,
    };
    Some(KeyPress { code, ctrl, alt, shift })
}

/// Returns the character of a control key. The terminal library reports the byte of Ctrl-_ as
/// Ctrl-7.
const fn to_control_char(character: char) -> char {
    match character {
        '7' | '/' => '_',
        other => other.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(code: TerminalKey, modifiers: KeyModifiers) -> Option<String> {
        to_key_press(KeyEvent::new(code, modifiers)).map(|press| press.to_string())
    }

    #[test]
    fn keys_are_named_as_in_the_table() {
        assert_eq!(press(TerminalKey::Char('p'), KeyModifiers::CONTROL).as_deref(), Some("Ctrl-P"));
        assert_eq!(press(TerminalKey::Char('G'), KeyModifiers::SHIFT).as_deref(), Some("G"));
        assert_eq!(press(TerminalKey::BackTab, KeyModifiers::SHIFT).as_deref(), Some("Shift-Tab"));
        assert_eq!(press(TerminalKey::Char('7'), KeyModifiers::CONTROL).as_deref(), Some("Ctrl-_"));
        assert_eq!(press(TerminalKey::F(1), KeyModifiers::NONE), None);
    }
}
