//! The member `usage` of a manifest: what the token counts of the agent mean (rule 15.1).

use wharf_core::{TokenSource, TokenSpan, UsageMeaning};

use super::node::{FieldError, Node, read_optional};
use super::range::{VersionRange, parse_leniently};

/// The meaning of the token counts of an agent, by its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    meaning: UsageMeaning,
    /// The versions that report so; others report as ACP says. `None`: all versions.
    versions: Option<VersionRange>,
}

impl UsageReport {
    pub(super) fn from_node(node: &Node<'_>) -> Result<Self, FieldError> {
        let tokens = read_optional(node, "tokens", read_span)?.unwrap_or_default();
        let source = read_optional(node, "source", read_source)?.unwrap_or_default();
        let versions = read_optional(node, "versions", |versions| {
            VersionRange::parse(&versions.read_text()?).map_err(|why| versions.field_error(why))
        })?;
        Ok(Self { meaning: UsageMeaning { tokens, source }, versions })
    }

    /// Returns the meaning for an agent of this version. An agent without a version counts as one
    /// of the known versions.
    pub(crate) fn meaning_for(&self, version: Option<&str>) -> UsageMeaning {
        let version = version.and_then(parse_leniently);
        let is_other = match (&self.versions, version) {
            (Some(versions), Some(version)) => !versions.matches_version(&version),
            (_, _) => false,
        };
        if is_other { UsageMeaning::default() } else { self.meaning }
    }
}

fn read_span(node: &Node<'_>) -> Result<TokenSpan, FieldError> {
    Ok(match node.one_of(&["turn", "session", "process", "last_call", "none"])? {
        "session" => TokenSpan::Session,
        "process" => TokenSpan::Process,
        "last_call" => TokenSpan::LastCall,
        "none" => TokenSpan::None,
        _ => TokenSpan::Turn,
    })
}

fn read_source(node: &Node<'_>) -> Result<TokenSource, FieldError> {
    Ok(match node.one_of(&["answer", "quota", "chunk"])? {
        "quota" => TokenSource::Quota,
        "chunk" => TokenSource::Chunk,
        _ => TokenSource::Answer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_outside_of_the_range_reports_as_acp_says() {
        let value = serde_json::json!({ "tokens": "last_call", "versions": "<1.19" });
        let report = UsageReport::from_node(&Node::from_root(&value)).unwrap();
        let spans = [Some("1.18.33"), Some("1.19.0"), None].map(|version| report.meaning_for(version).tokens);
        assert_eq!(spans, [TokenSpan::LastCall, TokenSpan::Turn, TokenSpan::LastCall]);
        let odd = serde_json::json!({ "source": "stderr" });
        assert!(UsageReport::from_node(&Node::from_root(&odd)).is_err());
    }
}
