//! A key press, independent of the terminal library.

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyCode {
    Char(char),
    Enter,
    Esc,
    Tab,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
}

/// A key with its modifiers. Shift is part of a character (`G`), and is only told apart for other
/// keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyPress {
    pub code: KeyCode,
    pub ctrl: bool,
    pub alt: bool,
    pub shift: bool,
}

/// The names of keys in the table, and as people write them.
const NAMES: &[(KeyCode, &str, &str)] = &[
    (KeyCode::Enter, "enter", "Enter"),
    (KeyCode::Esc, "esc", "Esc"),
    (KeyCode::Tab, "tab", "Tab"),
    (KeyCode::Backspace, "backspace", "Backspace"),
    (KeyCode::Delete, "delete", "Delete"),
    (KeyCode::Up, "up", "↑"),
    (KeyCode::Down, "down", "↓"),
    (KeyCode::Left, "left", "←"),
    (KeyCode::Right, "right", "→"),
    (KeyCode::Home, "home", "Home"),
    (KeyCode::End, "end", "End"),
    (KeyCode::PageUp, "pgup", "PgUp"),
    (KeyCode::PageDown, "pgdn", "PgDn"),
    (KeyCode::Char(' '), "space", "Space"),
];

impl KeyPress {
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, ctrl: false, alt: false, shift: false }
    }

    pub const fn ctrl(character: char) -> Self {
        Self { ctrl: true, ..Self::plain(KeyCode::Char(character)) }
    }

    /// Reads a key as the table writes it: `ctrl-p`, `shift-tab`, `G`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut press = Self::plain(KeyCode::Esc);
        let mut rest = text;
        loop {
            if let Some(after) = rest.strip_prefix("ctrl-") {
                (press.ctrl, rest) = (true, after);
            } else if let Some(after) = rest.strip_prefix("alt-") {
                (press.alt, rest) = (true, after);
            } else if let Some(after) = rest.strip_prefix("shift-") {
                (press.shift, rest) = (true, after);
            } else {
                break;
            }
        }
        let named = NAMES.iter().find(|(_, name, _)| *name == rest).map(|(code, _, _)| *code);
        let mut characters = rest.chars();
        let single = characters.next().filter(|_| characters.next().is_none()).map(KeyCode::Char);
        press.code = named.or(single)?;
        Some(press)
    }

    /// Returns the character that the key types, if it types one.
    pub const fn typed_char(self) -> Option<char> {
        if let KeyCode::Char(character) = self.code
            && !self.ctrl
            && !self.alt
        {
            return Some(character);
        }
        None
    }
}

/// As people write it: `Ctrl-P`, `Shift-Tab`, `G`.
impl std::fmt::Display for KeyPress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (is_held, name) in [(self.ctrl, "Ctrl-"), (self.alt, "Alt-"), (self.shift, "Shift-")] {
            if is_held {
                f.write_str(name)?;
            }
        }
        if let Some((_, _, label)) = NAMES.iter().find(|(code, _, _)| *code == self.code) {
            return f.write_str(label);
        }
        let KeyCode::Char(character) = self.code else { return Ok(()) };
        if self.ctrl {
            write!(f, "{}", character.to_ascii_uppercase())
        } else {
            write!(f, "{character}")
        }
    }
}
