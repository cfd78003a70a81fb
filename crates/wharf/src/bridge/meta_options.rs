//! Options in `params._meta.wharf` of a frame. Every other byte stays as it is.

use bytes::Bytes;
use serde_json::Value;
use wharf_acp::{first_member, splice};
use wharf_json::Json;

/// Returns the JSON text of a frame's params.
pub(super) fn params_text(frame: &[u8]) -> Option<&str> {
    Json::parse(frame).ok()?.last_member("params").map(Json::raw)
}

/// Returns the value of an option. An unreadable frame has none: the host refuses it.
pub(super) fn read_option(frame: &[u8], name: &str) -> Option<Value> {
    let option =
        Json::parse(frame).and_then(|frame| frame.seek(&["params", "_meta", "wharf", name]));
    option.ok().flatten().map(Json::to_value)
}

/// Returns the frame with an option set to `value`, which is JSON text; `None` if the frame has no
/// params to put it into.
pub(super) fn with_option(frame: &[u8], name: &str, value: &str) -> Option<Bytes> {
    let params = Json::parse(frame).ok()?.last_member("params")?;
    let meta = params.last_member("_meta");
    let wharf = meta.and_then(|meta| meta.last_member("wharf"));
    let option = format!(r#""{name}":{value}"#);
    let (place, text) = match (meta, wharf) {
        (_, Some(wharf)) if wharf.is_object() => match wharf.last_member(name) {
            Some(old) => (old.span_in(frame)?, value.to_owned()),
            None => first_member(frame, wharf, option)?,
        },
        (_, Some(other)) => (other.span_in(frame)?, format!("{{{option}}}")),
        (Some(meta), None) if meta.is_object() => {
            first_member(frame, meta, format!(r#""wharf":{{{option}}}"#))?
        }
        (Some(other), None) => (other.span_in(frame)?, format!(r#"{{"wharf":{{{option}}}}}"#)),
        (None, None) => {
            first_member(frame, params, format!(r#""_meta":{{"wharf":{{{option}}}}}"#))?
        }
    };
    Some(splice(frame, &mut [(place, text.as_bytes())]).into())
}
