//! The `sandbox` of a manifest: what of it Wharf's own sandbox can keep, and a warning for the
//! rest.

use serde_json::Value;

use super::node::{FieldError, Node, read_optional};
use crate::settings::{SandboxMode, SandboxSettings};

/// The members of a `sandbox` mapping that Wharf applies. AIP-45 leaves them to the host.
const KNOWN_MEMBERS: &[&str] = &["mode", "writable", "hidden", "readable"];

/// Returns the settings that Wharf applies, and a warning that names the rest.
pub(super) fn read_sandbox(
    node: &Node<'_>,
) -> Result<(SandboxSettings, Option<String>), FieldError> {
    match node.value() {
        Value::Object(block) => {
            let other: Vec<&str> = block
                .keys()
                .map(String::as_str)
                .filter(|name| !KNOWN_MEMBERS.contains(name))
                .collect();
            let warning = (!other.is_empty())
                .then(|| format!("these members of its sandbox are ignored: {}", other.join(", ")));
            Ok((read_settings(node)?, warning))
        }
        Value::String(_) => {
            Ok((SandboxSettings::default(), Some("its sandbox is ignored".to_owned())))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            Err(node.field_error("must be a mapping or the path of a SANDBOX.md"))
        }
    }
}

fn read_settings(node: &Node<'_>) -> Result<SandboxSettings, FieldError> {
    let mode = read_optional(node, "mode", |mode| mode.one_of(&["off", "landlock"]))?;
    let settings = SandboxSettings {
        mode: mode
            .map(|mode| if mode == "landlock" { SandboxMode::Landlock } else { SandboxMode::Off }),
        writable: read_optional(node, "writable", Node::read_texts)?.unwrap_or_default(),
        hidden: read_optional(node, "hidden", Node::read_texts)?.unwrap_or_default(),
        readable: read_optional(node, "readable", Node::read_texts)?.unwrap_or_default(),
    };
    match settings.find_bad_path() {
        Some(path) => Err(node.field_error(format!(
            "{path:?} is not a valid path; begin it with /, ~/ or $VARIABLE/, without .."
        ))),
        None => Ok(settings),
    }
}
