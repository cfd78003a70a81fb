//! The `sandbox` of a manifest: what of it Wharf's own sandbox can keep, and a warning for the rest.

use serde_json::Value;

use super::node::{Node, Wrong, optional};
use crate::config::{SandboxMode, SandboxSettings};

/// The members of a `sandbox` mapping that Wharf applies. AIP-45 leaves them to the host.
const KNOWN: &[&str] = &["mode", "writable", "hidden", "readable"];

/// Returns the settings that Wharf applies, and a warning that names the rest.
pub(super) fn read(node: &Node<'_>) -> Result<(SandboxSettings, Option<String>), Wrong> {
    match node.value() {
        Value::Object(block) => {
            let other: Vec<&str> = block.keys().map(String::as_str).filter(|name| !KNOWN.contains(name)).collect();
            let warning =
                (!other.is_empty()).then(|| format!("of its sandbox this is not applied: {}", other.join(", ")));
            Ok((settings(node)?, warning))
        }
        Value::String(_) => Ok((SandboxSettings::default(), Some("its sandbox is not applied".to_owned()))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            Err(node.wrong("must be a mapping or the path of a SANDBOX.md"))
        }
    }
}

fn settings(node: &Node<'_>) -> Result<SandboxSettings, Wrong> {
    let mode = optional(node, "mode", |mode| mode.one_of(&["off", "landlock"]))?;
    let settings = SandboxSettings {
        mode: mode.map(|mode| if mode == "landlock" { SandboxMode::Landlock } else { SandboxMode::Off }),
        writable: optional(node, "writable", Node::texts)?.unwrap_or_default(),
        hidden: optional(node, "hidden", Node::texts)?.unwrap_or_default(),
        readable: optional(node, "readable", Node::texts)?.unwrap_or_default(),
    };
    match settings.misplaced() {
        Some(path) => Err(node.wrong(format!("{path:?} is no path; begin it with /, ~/ or $VARIABLE/, without .."))),
        None => Ok(settings),
    }
}
