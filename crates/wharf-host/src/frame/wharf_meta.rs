//! Renames the `_meta.wharf` of an agent's message, which only Wharf may write, so that no agent can forge an event id.

use bytes::Bytes;
use wharf_json::{Json, ReadError};

/// The objects of an agent's message in which Wharf or its clients look for `_meta.wharf`.
const META_HOLDERS: [&[&str]; 4] = [&["params"], &["params", "update"], &["params", "toolCall"], &["result"]];

/// Returns the frame with each `_meta.wharf` renamed to `_meta["wharf.agent"]`. It replaces a `wharf.agent` that is there already
/// because the agent is a Wharf itself.
pub fn rename_wharf_meta(frame: &[u8]) -> Result<Bytes, ReadError> {
    let mut text = Json::parse(frame)?.raw().to_owned();
    for holder in META_HOLDERS {
        let json = Json::parse(text.as_bytes())?;
        if !has_wharf_meta(json, holder)? {
            continue;
        }
        let path = |name: &'static str| [holder, &["_meta", name]].concat();
        let without = wharf_json::remove(json, &path("wharf.agent"))?;
        let renamed = wharf_json::rename(Json::parse(without.as_bytes())?, &path("wharf"), "wharf.agent")?;
        text = renamed.into_owned();
    }
    Ok(text.into())
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
            (r#"{"result":{"_meta":{"wharf.agent":1,"wharf":2}}}"#, r#"{"result":{"_meta":{"wharf.agent":2}}}"#),
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
