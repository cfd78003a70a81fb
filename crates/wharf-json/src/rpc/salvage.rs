//! Finds the request that a malformed line concerns.

use crate::walk::{skip_space, skip_string, skip_value};
use crate::{Json, Kind};

/// The members of a malformed line that identify its request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Each `id`, in its spelling.
    pub ids: Vec<String>,
    /// True if it has a `method`: a request or a notification, not an answer.
    pub has_method: bool,
    /// True if it has a `result` or an `error`.
    pub has_outcome: bool,
}

impl Salvaged {
    /// Returns the id under which the line is refused, as JSON text: that of its request, else `null`.
    pub fn refused_id(&self) -> &[u8] {
        match self.ids.as_slice() {
            [id] if self.has_method => id.as_bytes(),
            _ => b"null",
        }
    }

    /// Returns the numeric values of the ids.
    pub fn id_numbers(&self) -> impl Iterator<Item = u64> {
        self.ids.iter().filter_map(|id| Json::parse(id.as_bytes()).ok()?.id_number())
    }
}

/// The bytes at the beginning of a line over the limit that are kept to find its request.
pub const HEAD_BYTES: usize = 4 << 10;

/// Searches the first bytes of a line whose rest is lost. Returns no members unless they show a request with its id, or
/// an answer with its id. An id at the very end may be cut off and does not count.
pub fn salvage_head(head: &[u8]) -> Salvaged {
    // The last byte is part of the cut token, if there is one.
    let found = walk_members(head, head.len());
    if found.has_method || found.has_outcome { found } else { Salvaged::default() }
}

/// Searches `id` and `method` among the outermost members of a line that may be cut off or otherwise malformed.
pub fn salvage(line: &[u8]) -> Salvaged {
    walk_members(line, usize::MAX)
}

/// Collects the outermost members. A value that ends at `cut` is incomplete.
fn walk_members(line: &[u8], cut: usize) -> Salvaged {
    let mut found = Salvaged::default();
    let mut at = skip_space(line, 0);
    if line.get(at) != Some(&b'{') {
        return found;
    }
    at += 1;
    while at < line.len() {
        at = skip_space(line, at);
        match line.get(at) {
            Some(b'"') => {}
            Some(b'}') => break,
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
    found
}

fn note(found: &mut Salvaged, key: &[u8], value: &[u8]) {
    let Ok(key) = Json::parse(key) else { return };
    let value = Json::parse(value).ok();
    let is_null = value.is_some_and(|value| value.kind() == Kind::Null);
    match (key.text().as_deref(), value) {
        (Some("id"), Some(value)) => found.ids.push(value.raw().to_owned()),
        (Some("method"), Some(_)) => found.has_method |= !is_null,
        (Some("result" | "error"), _) => found.has_outcome |= !is_null,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> (Vec<u64>, bool) {
        let found = salvage(line.as_bytes());
        (found.id_numbers().collect(), found.has_method)
    }

    #[test]
    fn ids_are_found_in_lines_that_are_no_messages() {
        assert_eq!(found(r#"{"id":7,"id":"8","result":{},"error":{}}"#), (vec![7, 8], false));
        assert_eq!(found(r#"{ "result":{"id":1} , "\u0069d" : 7.0 "#), (vec![7], false));
        assert_eq!(found(r#"{"id":7,"result":{"stopReason":"end_tu"#), (vec![7], false));
        assert_eq!(found(r#"{"id":7,"result":{}} {"id":9}"#), (vec![7], false));
        assert_eq!(found(r#"{"id":7,"method":"m","params":"#), (vec![7], true));
        assert_eq!(found(r#"{"method":null,"id":7,,,]"#), (vec![7], false));
        assert_eq!(salvage(b"{\"x\":\"\xff\",\"id\":7").ids, ["7"]);
    }

    #[test]
    fn the_head_of_a_line_tells_the_request_that_it_concerns() {
        let found = |head: &str| {
            let found = salvage_head(head.as_bytes());
            (found.id_numbers().collect::<Vec<u64>>(), found.has_method)
        };
        assert_eq!(found(r#"{"jsonrpc":"2.0","id":7,"result":{"text":"aaa"#), (vec![7], false));
        assert_eq!(found(r#"{"error":{"code":1},"id":"7","x":"#), (vec![7], false));
        assert_eq!(found(r#"{"id":7,"method":"_x/ask","params":{"text":"aaa"#), (vec![7], true));
        assert_eq!(found(r#"{"result":{},"id":1"#), (vec![], false), "the rest of the number may be lost");
        assert_eq!(found(r#"{"id":7,"params":{"text":"aaa"#), (vec![], false), "the method of a request may be lost");
        assert_eq!(found(r#"{"id":7,"error":null,"params":{"text":"aaa"#), (vec![], false));
    }

    #[test]
    fn lines_without_an_id_yield_no_id() {
        for line in ["", "{", "[{\"id\":1}]", "17", "{\"id\"", "{\"id\":", "{\"id\" 7}", "{\"x\":\"\\", "\u{feff}"] {
            assert_eq!(salvage(line.as_bytes()), Salvaged::default(), "{line}");
        }
    }
}
