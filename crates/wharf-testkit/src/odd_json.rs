//! Frames that are valid JSON-RPC in unusual spellings, which a host would change by serialising
//! them again.
//!
//! A frame is made as a template: [`ID_MARK`] and [`SESSION_MARK`] mark its ids, so that a test can
//! compute its form on either side of a host.

use crate::random::TestRandom;

/// Marks the position of the frame's `id`, as JSON.
pub const ID_MARK: &str = "@ID_MARK@";
/// Marks the position of the session's id, as JSON.
pub const SESSION_MARK: &str = "@SESSION_MARK@";

/// The allowed oddities of the frames.
#[derive(Debug, Clone, Copy)]
pub struct OddStyle {
    /// Allows values that common parsers refuse: half surrogate pairs, numbers beyond any range,
    /// very deep nesting.
    pub wild: bool,
    /// Allows line breaks between tokens, for transports on which a frame is more than a line.
    pub breaks: bool,
}

/// A source of odd JSON.
#[derive(Debug)]
pub struct OddJson<'a> {
    dice: &'a mut TestRandom,
    style: OddStyle,
}

const ODD_NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-0.0",
    "1.10",
    "1e2",
    "1E+2",
    "0.1e-7",
    "100000000000000000000",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "9007199254740993",
    "3.141592653589793238462643383279502884",
];
const WILD_NUMBERS: &[&str] = &["1e400", "-1E+9999", "1e-99999"];
const STRING_PIECES: &[&str] = &[
    "a",
    "word",
    "é",
    "😀",
    "\u{2028}",
    "\u{7f}",
    " ",
    "\\u00e9",
    "\\u0000",
    "\\u001F",
    "\\/",
    "/",
    "\\\"",
    "\\\\",
    "\\n",
    "\\r\\n",
    "\\t",
    "\\b",
    "\\ud83d\\ude00",
    "\\u003c",
    "<",
    "$",
    "%",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "data: ",
    "\\u000aid: 1",
];
const WILD_STRING_PIECES: &[&str] = &["\\ud83d", "\\ude00", "\\uDBFF\\uD800"];
/// Keys without a meaning in the positions where they are used.
const UNUSED_KEYS: &[&str] = &[
    "x",
    "",
    "é",
    "a b",
    "Id",
    "ID",
    "session_id",
    "sessionid",
    "traceparent",
    "\\u0078",
    "a\\/b",
    "0",
    "-",
    "$ref",
];

impl<'a> OddJson<'a> {
    pub fn new(dice: &'a mut TestRandom, style: OddStyle) -> Self {
        Self { dice, style }
    }

    /// Returns any value.
    pub fn make_value(&mut self) -> String {
        let deepest = if self.style.wild { 2_000 } else { 90 };
        if self.dice.is_once_in(60) {
            let depth = usize::try_from(self.dice.next_below(deepest)).unwrap_or_default();
            return format!("{}{}", "[".repeat(depth + 1), "]".repeat(depth + 1));
        }
        self.make_nested(3)
    }

    fn make_nested(&mut self, depth: u32) -> String {
        match self.dice.next_below(if depth == 0 { 5 } else { 8 }) {
            0 => "null".to_owned(),
            1 => self.dice.pick_one(&["true", "false"]).to_owned(),
            2 => self.make_number(),
            3 | 4 => self.make_string(),
            5 | 6 => {
                let items: Vec<String> =
                    (0..self.dice.next_below(4)).map(|_| self.padded_value(depth)).collect();
                format!("[{}{}]", items.join(","), self.make_blank())
            }
            _ => self.make_members(&[], depth),
        }
    }

    fn padded_value(&mut self, depth: u32) -> String {
        let before = self.make_blank();
        let after = self.make_blank();
        format!("{before}{}{after}", self.make_nested(depth - 1))
    }

    pub fn make_number(&mut self) -> String {
        if self.style.wild && self.dice.is_once_in(8) {
            return self.dice.pick_one(WILD_NUMBERS).to_owned();
        }
        match self.dice.next_below(3) {
            0 => self.dice.next_number().to_string(),
            1 => format!("-{}.{}0", self.dice.next_below(1000), self.dice.next_number()),
            _ => self.dice.pick_one(ODD_NUMBERS).to_owned(),
        }
    }

    pub fn make_string(&mut self) -> String {
        let mut text = String::from("\"");
        for _ in 0..self.dice.next_below(6) {
            let wild = self.style.wild && self.dice.is_once_in(8);
            text.push_str(self.dice.pick_one(if wild {
                WILD_STRING_PIECES
            } else {
                STRING_PIECES
            }));
        }
        text + "\""
    }

    /// Returns a unique id that holds this number: a large or fractional number, or a string.
    pub fn make_id(&mut self, number: u64) -> String {
        match self.dice.next_below(5) {
            0 => number.to_string(),
            1 => format!("{number}.50"),
            2 => format!("-92233720368547758{number:05}"),
            3 => format!("\"q\\u00e9\\/{number}\""),
            _ => format!("\"{number}\""),
        }
    }

    /// Returns an object with these members among others, with random blanks.
    pub fn make_object(&mut self, members: &[(&str, String)]) -> String {
        self.make_members(members, 3)
    }

    fn make_members(&mut self, known: &[(&str, String)], depth: u32) -> String {
        let mut all: Vec<(String, String)> =
            known.iter().map(|(key, value)| (self.spell_key(key), value.clone())).collect();
        for _ in 0..self.dice.next_below(4) {
            // The same key may occur twice.
            let key = self.dice.pick_one(UNUSED_KEYS).to_owned();
            let value = if depth == 3 {
                self.make_value()
            } else {
                self.make_nested(depth.saturating_sub(1))
            };
            let place =
                usize::try_from(self.dice.next_below(all.len() as u64 + 1)).unwrap_or_default();
            all.insert(place, (key, value));
        }
        if known.len() > 1 {
            let turn = usize::try_from(self.dice.next_below(all.len() as u64)).unwrap_or_default();
            all.rotate_left(turn);
        }
        let mut text = String::from("{");
        for (place, (key, value)) in all.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let blanks =
                [self.make_blank(), self.make_blank(), self.make_blank(), self.make_blank()];
            let [a, b, c, d] = blanks;
            text.push_str(&format!("{comma}{a}\"{key}\"{b}:{c}{value}{d}"));
        }
        format!("{text}{}}}", self.make_blank())
    }

    /// Returns the key, sometimes with one of its letters written as an escape.
    fn spell_key(&mut self, key: &str) -> String {
        if !self.dice.is_once_in(5) {
            return key.to_owned();
        }
        let place =
            usize::try_from(self.dice.next_below(key.chars().count() as u64)).unwrap_or_default();
        let letter = |(at, letter): (usize, char)| {
            if at == place { format!("\\u{:04x}", u32::from(letter)) } else { letter.to_string() }
        };
        key.chars().enumerate().map(letter).collect()
    }

    fn make_blank(&mut self) -> &'static str {
        let choices: &[&str] = if self.style.breaks {
            &[" ", "  ", "\t", "\n", "\r\n", " \n  "]
        } else {
            &[" ", "   ", "\t"]
        };
        if self.dice.is_once_in(4) { self.dice.pick_one(choices) } else { "" }
    }

    /// Returns a notification or request of this method for a session; a request has an id.
    pub fn make_message(
        &mut self,
        method: &str,
        is_request: bool,
        params: &[(&str, String)],
    ) -> String {
        let mut inner = vec![("sessionId", SESSION_MARK.to_owned())];
        inner.extend(params.iter().cloned());
        let mut outer =
            vec![("jsonrpc", "\"2.0\"".to_owned()), ("method", format!("\"{method}\""))];
        outer.push(("params", self.make_object(&inner)));
        if is_request {
            outer.push(("id", ID_MARK.to_owned()));
        }
        self.make_object(&outer)
    }

    /// Returns a response: mostly a result, sometimes an error.
    pub fn make_response(&mut self) -> String {
        let body = if self.dice.is_once_in(4) {
            let code = ("code", "-32050".to_owned());
            let message = ("message", self.make_string());
            ("error", self.make_object(&[code, message]))
        } else {
            ("result", self.make_value())
        };
        self.make_object(&[("jsonrpc", "\"2.0\"".to_owned()), ("id", ID_MARK.to_owned()), body])
    }
}

/// Replaces the marks of a template by ids.
pub fn fill_template(template: &str, id: &str, session: &str) -> String {
    template.replace(ID_MARK, id).replace(SESSION_MARK, session)
}

/// Returns the id in a frame that was made of this template; `None` if any other part differs.
pub fn extract_id<'f>(template: &str, session: &str, frame: &'f str) -> Option<&'f str> {
    let whole = template.replace(SESSION_MARK, session);
    let (before, after) = whole.split_once(ID_MARK)?;
    frame.strip_prefix(before)?.strip_suffix(after)
}
