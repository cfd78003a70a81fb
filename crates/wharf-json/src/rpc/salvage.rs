//! Finds the requests that a malformed line concerns.

use crate::walk::{skip_space, skip_string, skip_value};
use crate::{Json, Kind};

/// The members of one message of a malformed line that identify its request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Each `id`, in its spelling.
    pub ids: Vec<String>,
    /// True if it has a `method`: a request or a notification, unless it may be an answer all the
    /// same.
    pub has_method: bool,
    /// True if its `method` is the empty text, which some libraries write into answers.
    has_empty_method: bool,
    /// True if it has a `result` or an `error`.
    has_outcome: bool,
}

impl Salvaged {
    /// Returns true if the message may be the answer to a request.
    pub const fn may_be_answer(&self) -> bool {
        !self.has_method || self.has_empty_method || self.has_outcome
    }

    /// Returns true if the message may be the answer to the request with this id.
    pub fn may_answer(&self, id: u64) -> bool {
        self.may_be_answer() && self.id_numbers().any(|found| found == id)
    }

    /// Returns the numeric values of the ids.
    pub fn id_numbers(&self) -> impl Iterator<Item = u64> {
        self.ids.iter().filter_map(|id| Json::parse(id.as_bytes()).ok()?.id_number())
    }
}

/// Returns the id under which a line is refused, as JSON text: that of its request if it is one
/// message, else `null`.
pub fn refused_id(messages: &[Salvaged]) -> &[u8] {
    match messages {
        [Salvaged { ids, has_method: true, .. }] if ids.len() == 1 => ids[0].as_bytes(),
        _ => b"null",
    }
}

/// The bytes at the beginning of a line over the limit that are kept to find its request.
pub const HEAD_BYTES: usize = 4 << 10;

/// Searches the first bytes of a line whose rest is lost. Returns only messages that show a request
/// with its id, or an answer with its id. An id at the very end may be cut off and does not count.
pub fn salvage_head(head: &[u8]) -> Vec<Salvaged> {
    // The last byte is part of the cut token, if there is one.
    let mut found = walk_messages(head, head.len());
    found.retain(|message| message.has_method || message.has_outcome);
    found
}

/// Searches for `id` and `method` among the outermost members of a line that may be cut off or
/// otherwise malformed. Returns one entry for each message of a batch, and for each of several
/// messages that follow one another without other text. A batch ends at text that is not JSON,
/// since the text after it may be an echo for debugging.
pub fn salvage(line: &[u8]) -> Vec<Salvaged> {
    walk_messages(line, usize::MAX)
}

/// Collects the messages of a line. A value that ends at `cut` is incomplete.
fn walk_messages(line: &[u8], cut: usize) -> Vec<Salvaged> {
    let mut found = Vec::new();
    let mut at = skip_space(line, 0);
    let is_batch = line.get(at) == Some(&b'[');
    if is_batch {
        at = skip_space(line, at + 1);
    }
    loop {
        match line.get(at) {
            Some(b'{') => {
                let message = walk_members(line, at + 1, cut, &mut at);
                found.push(message);
            }
            Some(b',') if is_batch => at += 1,
            Some(_) if is_batch => {
                let Some(end) = skip_batch_item(line, at) else { return found };
                at = end;
            }
            None | Some(_) => return found,
        }
        at = skip_space(line, at);
    }
}

/// Returns the place behind the batch item that begins at `at` and is not a message. Returns `None`
/// if the item is not JSON, or if no comma follows it: then further messages of the batch cannot be
/// distinguished from other text.
fn skip_batch_item(line: &[u8], at: usize) -> Option<usize> {
    let end = skip_value(line, at);
    let comma = skip_space(line, end);
    let is_item = Json::parse(line.get(at..end)?).is_ok() && line.get(comma) == Some(&b',');
    is_item.then_some(comma + 1)
}

/// Collects the members of the message whose members begin at `at`. Sets `end` to the place behind
/// it.
fn walk_members(line: &[u8], mut at: usize, cut: usize, end: &mut usize) -> Salvaged {
    let mut found = Salvaged::default();
    while at < line.len() {
        at = skip_space(line, at);
        match line.get(at) {
            Some(b'"') => {}
            Some(b'}') => {
                at += 1;
                break;
            }
            // A value without a key: its members are not those of the message.
            Some(b'{' | b'[') => {
                at = skip_value(line, at);
                continue;
            }
            // This is a comma or an unexpected byte.
            _ => {
                at += 1;
                continue;
            }
        }
        let key_end = skip_string(line, at);
        let key = &line[at..key_end];
        let colon = skip_space(line, key_end);
        if line.get(colon) != Some(&b':') {
            at = key_end;
            continue;
        }
        let start = skip_space(line, colon + 1);
        let end = skip_value(line, start).max(start);
        let value = if end == cut { &[] } else { line.get(start..end).unwrap_or_default() };
        note(&mut found, key, value);
        at = end;
    }
    *end = at;
    found
}

fn note(found: &mut Salvaged, key: &[u8], value: &[u8]) {
    let Ok(key) = Json::parse(key) else { return };
    let value = Json::parse(value).ok();
    let is_null = value.is_some_and(|value| value.kind() == Kind::Null);
    match (key.text().as_deref(), value) {
        (Some("id"), Some(value)) => found.ids.push(value.raw().to_owned()),
        (Some("method"), Some(value)) => {
            found.has_method |= !is_null;
            found.has_empty_method |= value.text().is_some_and(|method| method.is_empty());
        }
        (Some("result" | "error"), _) => found.has_outcome |= !is_null,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ids of each message, and whether it may be an answer.
    fn found(line: &str) -> Vec<(Vec<u64>, bool)> {
        salvage(line.as_bytes())
            .iter()
            .map(|found| (found.id_numbers().collect(), found.may_be_answer()))
            .collect()
    }

    #[test]
    fn ids_are_found_in_lines_that_are_no_messages() {
        for (line, expected) in [
            (r#"{"id":7,"id":"8","result":{},"error":{}}"#, (vec![7, 8], true)),
            (r#"{ "result":{"id":1} , "\u0069d" : 7.0 "#, (vec![7], true)),
            (r#"{"id":7,"result":{"stopReason":"end_tu"#, (vec![7], true)),
            (r#"{"id":7,"method":"m","params":"#, (vec![7], false)),
            (r#"{"method":null,"id":7,,,]"#, (vec![7], true)),
            ("{\"a\tb\":1,\"id\":7,\"result\":{}}", (vec![7], true)),
        ] {
            assert_eq!(found(line), [expected], "{line}");
        }
        assert_eq!(salvage(b"{\"x\":\"\xff\",\"id\":7")[0].ids, ["7"]);
    }

    #[test]
    fn message_with_a_method_may_be_an_answer_if_it_says_so_otherwise() {
        for (line, may_be_answer) in [
            (r#"{"id":7,"method":"m","result":{}}"#, true),
            (r#"{"id":7,"method":"m","error":{},"result":null}"#, true),
            (r#"{"id":7,"method":"m","error":null,"result":null}"#, false),
            (r#"{"id":7,"method":"","result":{"a"#, true),
            (r#"{"id":7,"method":"","resu"#, true),
            (r#"{"id":7,"method":"m","params":{"result":{}}}"#, false),
        ] {
            assert_eq!(found(line), [(vec![7], may_be_answer)], "{line}");
        }
    }

    #[test]
    fn each_message_of_a_line_is_found() {
        let answer = (vec![7], true);
        let request = (vec![9], false);
        for line in [
            r#"[{"id":7,"result":{}},{"id":9,"method":"m"}]"#,
            r#" [ {"id":7,"result":{}} , {"id":9,"method":"m""#,
            r#"[1,{"id":7,"result":{}},[{"id":8,"result":{}}],{"id":9,"method":"m"},"{""#,
            r#"{"id":7,"result":{}}{"id":9,"method":"m"}"#,
            r#"{"id":7,"result":{}} {"id":9,"method":"m"} trailing {"id":8,"result":{}}"#,
        ] {
            assert_eq!(found(line), [answer.clone(), request.clone()], "{line}");
        }
    }

    #[test]
    fn a_line_is_refused_under_the_id_of_its_one_request() {
        let refused =
            |line: &str| String::from_utf8(refused_id(&salvage(line.as_bytes())).to_vec()).unwrap();
        assert_eq!(refused(r#"{"id":"a","method":"m","x"#), r#""a""#);
        for line in [
            r#"{"id":1,"result":{}}}"#,
            r#"{"id":1,"id":2,"method":"m"}"#,
            r#"[{"id":1,"method":"m"},{"id":2,"method":"m"}]"#,
            "text",
        ] {
            assert_eq!(refused(line), "null", "{line}");
        }
    }

    #[test]
    fn the_head_of_a_line_tells_the_request_that_it_concerns() {
        let found = |head: &str| -> Vec<(Vec<u64>, bool)> {
            let found = salvage_head(head.as_bytes());
            found
                .iter()
                .map(|found| (found.id_numbers().collect(), found.may_be_answer()))
                .collect()
        };
        assert_eq!(found(r#"{"jsonrpc":"2.0","id":7,"result":{"text":"aaa"#), [(vec![7], true)]);
        assert_eq!(found(r#"{"error":{"code":1},"id":"7","x":"#), [(vec![7], true)]);
        assert_eq!(found(r#"{"id":7,"method":"_x/ask","params":{"text":"aaa"#), [(vec![7], false)]);
        assert_eq!(found(r#"{"id":7,"method":"","result":{"text":"aaa"#), [(vec![7], true)]);
        assert_eq!(found(r#"[{"id":7,"result":{"text":"aaa"#), [(vec![7], true)]);
        assert_eq!(
            found(r#"{"result":{},"id":1"#),
            [(vec![], true)],
            "the rest of the number may be lost"
        );
        assert_eq!(
            found(r#"{"id":7,"params":{"text":"aaa"#),
            [],
            "the method of a request may be lost"
        );
        assert_eq!(found(r#"{"id":7,"error":null,"params":{"text":"aaa"#), []);
    }

    #[test]
    fn lines_without_an_id_yield_no_id() {
        for line in [
            "",
            "{",
            "[1]",
            "[",
            "17",
            "{\"id\"",
            "{\"id\":",
            "{\"id\" 7}",
            "{\"x\":\"\\",
            "\u{feff}",
        ] {
            assert!(
                salvage(line.as_bytes()).iter().all(|found| *found == Salvaged::default()),
                "{line}"
            );
        }
        // Text before a message may be a debug echo.
        for line in [
            r#"DEBUG sends {"id":7,"result":{}}"#,
            r#"[DEBUG sends {"id":7,"result":{}}]"#,
            r#"[DEBUG] {"id":7,"result":{}}"#,
            r#"[7 {"id":7,"result":{}}]"#,
            r#"[12:30:01, {"id":7,"result":{}}]"#,
        ] {
            assert_eq!(salvage(line.as_bytes()), [], "{line}");
        }
        assert_eq!(salvage(br#"{sends {"id":7,"result":{}}}"#), [Salvaged::default()]);
    }
}
