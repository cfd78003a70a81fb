//! The member `usage` of a manifest: what the token counts of the agent mean (rule 15.1).

use semver::{Prerelease, Version};
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

    pub(super) const fn of_all_versions(meaning: UsageMeaning) -> Self {
        Self { meaning, versions: None }
    }

    /// Returns the meaning for an agent of this version. A pre-release counts as its release, and
    /// an agent without a version as one of the known versions.
    pub fn meaning_for(&self, version: Option<&str>) -> UsageMeaning {
        // A range would match a pre-release only if it names one of the same release.
        let version = version
            .and_then(parse_leniently)
            .map(|version| Version { pre: Prerelease::EMPTY, ..version });
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
    use wharf_core::{EXAMINED_AGENTS, ExaminedAgent};

    use super::super::built_in;
    use super::*;

    const TURN: Option<UsageMeaning> = meaning(TokenSpan::Turn, TokenSource::Answer);
    const LAST_CALL: Option<UsageMeaning> = meaning(TokenSpan::LastCall, TokenSource::Answer);
    const SESSION: Option<UsageMeaning> = meaning(TokenSpan::Session, TokenSource::Answer);
    const PROCESS: Option<UsageMeaning> = meaning(TokenSpan::Process, TokenSource::Answer);

    /// The meaning that the manifest of a built-in agent states for a version of that agent. `None`
    /// if the manifest does not state it.
    const STATED_MEANINGS: &[(&str, &str, Option<UsageMeaning>)] = &[
        ("claude", "0.100.0", TURN),
        ("codex", "1.6.0", LAST_CALL),
        ("codex", "1.7.0", TURN),
        ("codex", "2.6.0", TURN),
        // According to its issues; no messages of it were seen.
        ("copilot", "1.0.102", SESSION),
        // It needs an account and was not examined.
        ("cursor", "2026.8.11", None),
        ("gemini", "0.61.0", meaning(TokenSpan::Turn, TokenSource::Quota)),
        ("goose", "1.52.0", LAST_CALL),
        ("goose", "1.53.0", TURN),
        ("hermes", "0.19.0", PROCESS),
        // It reports no tokens. If a later version does, they are examined and not ignored.
        ("kimi", "2.1.0", None),
        ("opencode", "1.18.33", LAST_CALL),
        ("opencode", "1.19.0", TURN),
        ("qwen", "0.24.4", meaning(TokenSpan::Turn, TokenSource::Chunk)),
    ];

    /// Versions for which the manifest means something else than the core's table for older logs.
    /// Such a log does not have the agent's version: the table has the meaning of the versions in
    /// docs/adapters.md, with which the manifests were checked.
    const UNLIKE_OLDER_LOGS: &[(&str, &str)] = &[
        // Checked with 2.6.0, which reports turns.
        ("codex", "1.6.0"),
        // Checked with 1.52.0, which reports the last call.
        ("goose", "1.53.0"),
        // Checked with 1.18.33, which reports the last call.
        ("opencode", "1.19.0"),
    ];

    const fn meaning(tokens: TokenSpan, source: TokenSource) -> Option<UsageMeaning> {
        Some(UsageMeaning { tokens, source })
    }

    #[test]
    fn built_in_manifests_state_what_each_version_of_their_agent_reports() {
        let find =
            |slug: &str| built_in::all_manifests().iter().find(|manifest| manifest.id == slug);
        let stated = STATED_MEANINGS.iter().map(|(slug, version, _)| {
            let usage = find(slug).and_then(|manifest| manifest.usage.as_ref());
            (*slug, *version, usage.map(|usage| usage.meaning_for(Some(version))))
        });
        assert_eq!(stated.collect::<Vec<_>>(), STATED_MEANINGS);

        let is_listed = |slug: &str| STATED_MEANINGS.iter().any(|(listed, ..)| *listed == slug);
        let slugs = built_in::all_manifests().iter().map(|manifest| manifest.id.as_str());
        let missing: Vec<_> = slugs.filter(|slug| !is_listed(slug)).collect();
        assert_eq!(missing, [""; 0], "add the versions that these were checked with");
    }

    #[test]
    fn older_logs_count_as_the_manifest_of_their_agent_states() {
        let manifests = built_in::all_manifests();
        let differs = |slug: &str, version: &str| {
            let manifest = manifests.iter().find(|manifest| manifest.id == slug);
            let usage = manifest.and_then(|manifest| manifest.usage.as_ref());
            let stated = usage.map(|usage| usage.meaning_for(Some(version)));
            ExaminedAgent::find(slug).map(|agent| agent.meaning) != stated
        };
        let versions = STATED_MEANINGS.iter().map(|(slug, version, _)| (*slug, *version));
        let differences: Vec<_> =
            versions.filter(|(slug, version)| differs(slug, version)).collect();
        assert_eq!(differences, UNLIKE_OLDER_LOGS);

        let is_built_in = |slug: &str| manifests.iter().any(|manifest| manifest.id == slug);
        let known = EXAMINED_AGENTS.iter().map(|agent| agent.name);
        let others: Vec<_> = known.filter(|slug| !is_built_in(slug)).collect();
        assert_eq!(others, ["vibe"], "known agents without a manifest");
    }

    #[test]
    fn version_outside_of_the_range_reports_as_acp_says() {
        let value = serde_json::json!({ "tokens": "last_call", "versions": "<1.19" });
        let report = UsageReport::from_node(&Node::from_root(&value)).unwrap();
        let versions = [Some("1.18.33"), Some("1.18.34-beta.1"), Some("1.19.0"), None];
        let spans = versions.map(|version| report.meaning_for(version).tokens);
        assert_eq!(
            spans,
            [TokenSpan::LastCall, TokenSpan::LastCall, TokenSpan::Turn, TokenSpan::LastCall]
        );
        let odd = serde_json::json!({ "source": "stderr" });
        assert!(UsageReport::from_node(&Node::from_root(&odd)).is_err());
    }
}
