//! Finds the request that a malformed line concerns.

use crate::Json;
use crate::walk::{skip_space, skip_string, skip_value};

/// The members of a malformed line that say whom it concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Each `id`, as it is spelled.
    pub ids: Vec<String>,
    /// It has a `method`: a request or a notification, not an answer.
    pub has_method: bool,
}

impl Salvaged {
    /// The numbers that the ids mean.
    pub fn id_numbers(&self) -> impl Iterator<Item = u64> {
        self.ids.iter().filter_map(|id| Json::parse(id.as_bytes()).ok()?.id_number())
    }
}

/// Looks for `id` and `method` among the outermost members of a line that may be cut off or otherwise no JSON.
pub fn salvage(line: &[u8]) -> Salvaged {
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
            // A comma, or what should not be here.
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
        note(&mut found, key, line.get(start..end).unwrap_or_default());
        at = end;
    }
    found
}

fn note(found: &mut Salvaged, key: &[u8], value: &[u8]) {
    let (Ok(key), Ok(value)) = (Json::parse(key), Json::parse(value)) else { return };
    match key.text().as_deref() {
        Some("id") => found.ids.push(value.raw().to_owned()),
        Some("method") => found.has_method |= value.kind() != crate::Kind::Null,
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
    fn lines_without_an_id_yield_no_id() {
        for line in ["", "{", "[{\"id\":1}]", "17", "{\"id\"", "{\"id\":", "{\"id\" 7}", "{\"x\":\"\\", "\u{feff}"] {
            assert_eq!(salvage(line.as_bytes()), Salvaged::default(), "{line}");
        }
    }
}
