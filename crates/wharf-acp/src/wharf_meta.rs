//! Keeps the `_meta` of an agent's message free for the event id, which only Wharf may write (rule
//! 12.11): an agent's own `_meta.wharf` gets another name, and a `_meta` that cannot hold an event
//! id moves into an object that can.

use bytes::Bytes;
use wharf_json::{Json, Kind, ReadError};

/// The objects of an agent's message in which Wharf or its clients look for `_meta.wharf`.
const META_HOLDERS: [&[&str]; 4] =
    [&["params"], &["params", "update"], &["params", "toolCall"], &["result"]];

/// Returns the frame with each `_meta.wharf` renamed to `_meta["wharf.agent"]`. It replaces a
/// `wharf.agent` that is there already because the agent is a Wharf itself.
pub fn rename_wharf_meta(frame: &[u8]) -> Result<Bytes, ReadError> {
    let mut text = Json::parse(frame)?.raw().to_owned();
    for holder in META_HOLDERS {
        let json = Json::parse(text.as_bytes())?;
        if !has_wharf_meta(json, holder)? {
            continue;
        }
        let path = |name: &'static str| [holder, &["_meta", name]].concat();
        let without = wharf_json::remove(json, &path("wharf.agent"))?;
        let renamed =
            wharf_json::rename(Json::parse(without.as_bytes())?, &path("wharf"), "wharf.agent")?;
        text = renamed.into_owned();
    }
    Ok(text.into())
}

/// The objects of a message whose `_meta` holds its event id.
const ID_HOLDERS: [&str; 2] = ["params", "result"];

/// Returns the frame with an object as its `_meta`, if its `_meta` is not an object or stands
/// twice. The odd value, or the list of both, becomes the member `wharf.agentMeta` of that object.
pub fn wrap_odd_meta(frame: &[u8]) -> Result<Bytes, ReadError> {
    let mut text = Json::parse(frame)?.raw().to_owned();
    for holder in ID_HOLDERS {
        let json = Json::parse(text.as_bytes())?;
        if json.member(holder)?.is_some_and(has_odd_meta) {
            text = wharf_json::wrap(json, &[holder], "_meta", "wharf.agentMeta")?.into_owned();
        }
    }
    Ok(text.into())
}

/// Returns true if the object has a `_meta` that is neither an object nor null, or has more than
/// one.
pub(super) fn has_odd_meta(object: Json<'_>) -> bool {
    let mut metas = object.members().filter(|(name, _)| name == "_meta").map(|(_, meta)| meta);
    let first = metas.next();
    first.is_some_and(|meta| !matches!(meta.kind(), Kind::Object | Kind::Null))
        || metas.next().is_some()
}

fn has_wharf_meta(json: Json<'_>, holder: &[&str]) -> Result<bool, ReadError> {
    let mut object = json;
    for name in holder {
        match object.is_object().then(|| object.member(name)).transpose()?.flatten() {
            Some(next) => object = next,
            None => return Ok(false),
        }
    }
    let meta = if object.is_object() { object.member("_meta")? } else { None };
    Ok(meta.is_some_and(|meta| meta.has_key("wharf")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan;

    #[test]
    fn odd_meta_moves_into_an_object_and_nothing_else_changes() {
        for (frame, expected) in [
            (
                r#"{"method":"m","params":{"n":1e400,"_meta": [1] ,"update":{"_meta":7}}}"#,
                r#"{"method":"m","params":{"n":1e400,"_meta":{"wharf.agentMeta":[1]} ,"update":{"_meta":7}}}"#,
            ),
            (
                r#"{"method":"m","params":{"_meta":{"wharf":{"eventId":"9-9"}},"a":1,"_meta":null}}"#,
                r#"{"method":"m","params":{"_meta":{"wharf.agentMeta":[{"wharf":{"eventId":"9-9"}},null]},"a":1}}"#,
            ),
            (
                r#"{"id":1,"result":{"_meta":""}}"#,
                r#"{"id":1,"result":{"_meta":{"wharf.agentMeta":""}}}"#,
            ),
            (r#"{"id":1,"result":{"_meta":null}}"#, r#"{"id":1,"result":{"_meta":null}}"#),
            (r#"{"id":1,"result":"_meta"}"#, r#"{"id":1,"result":"_meta"}"#),
        ] {
            assert_eq!(wrap_odd_meta(frame.as_bytes()).unwrap(), expected);
            let is_odd = |text: &str| scan(text.as_bytes()).unwrap().has_odd_meta;
            assert_eq!(is_odd(frame), frame != expected, "{frame}");
            assert!(!is_odd(expected), "{expected}");
        }
    }

    #[test]
    fn an_agents_wharf_meta_gets_another_name_and_nothing_else_changes() {
        for (frame, expected) in [
            (
                r#"{"params":{"_meta":{ "\u0077harf":{"eventId":"1-1"},"n":1e400},"update":{"_meta":{"wharf":1},"content":{"_meta":{"wharf":2}}}}}"#,
                r#"{"params":{"_meta":{ "wharf.agent":{"eventId":"1-1"},"n":1e400},"update":{"_meta":{"wharf.agent":1},"content":{"_meta":{"wharf":2}}}}}"#,
            ),
            (
                r#"{"params":{"toolCall":{"_meta":{"wharf":null}}}}"#,
                r#"{"params":{"toolCall":{"_meta":{"wharf.agent":null}}}}"#,
            ),
            (
                r#"{"result":{"_meta":{"wharf.agent":1,"wharf":2}}}"#,
                r#"{"result":{"_meta":{"wharf.agent":2}}}"#,
            ),
            (
                r#"{"result":[{"_meta":{"wharf":1}}],"params":"x"}"#,
                r#"{"result":[{"_meta":{"wharf":1}}],"params":"x"}"#,
            ),
        ] {
            assert_eq!(rename_wharf_meta(frame.as_bytes()).unwrap(), expected);
        }
        let twice = br#"{"result":{"_meta":{"wharf":1,"wharf":2}}}"#;
        assert_eq!(rename_wharf_meta(twice), Err(ReadError::Twice("wharf".to_owned())));
    }
}
