//! How an agent reports tokens: which span a number covers, and where it stands.

use serde::{Deserialize, Serialize};

/// The meaning of the token counts of an agent (rule 15.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageMeaning {
    pub tokens: TokenSpan,
    pub source: TokenSource,
}

/// The span that one report covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSpan {
    /// The turn, as ACP means it.
    #[default]
    Turn,
    /// The session so far; it goes on after a restart of the agent.
    Session,
    /// The agent's process so far.
    Process,
    /// The last call of the model in the turn: the turn used at least as much.
    LastCall,
    /// The agent's numbers are not counted.
    None,
}

/// The place of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// `usage` in the answer to the prompt.
    #[default]
    Answer,
    /// `_meta.quota.token_count` in the answer to the prompt.
    Quota,
    /// `_meta.usage` of message chunks, for each call of the model.
    Chunk,
}

/// An agent whose token counts are known from its source, its messages or its issue tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExaminedAgent {
    /// The adapter's name in Wharf.
    pub name: &'static str,
    /// The names of the agent's program, of its package and in ACP's registry.
    pub other_names: &'static [&'static str],
    /// The meaning for a log that does not state it. Such a log does not have the agent's version
    /// either, so this is the meaning of the version that was examined.
    pub meaning: UsageMeaning,
}

/// All agents whose token counts are known.
pub const EXAMINED_AGENTS: &[ExaminedAgent] = &[
    ExaminedAgent {
        name: "claude",
        other_names: &["claude-acp", "claude-code", "claude-agent-acp", "claude-code-acp"],
        meaning: UsageMeaning { tokens: TokenSpan::Turn, source: TokenSource::Answer },
    },
    ExaminedAgent {
        name: "codex",
        other_names: &["codex-acp"],
        meaning: UsageMeaning { tokens: TokenSpan::Turn, source: TokenSource::Answer },
    },
    // `github-copilot` of the registry is not listed: that is the language server, which was not
    // examined.
    ExaminedAgent {
        name: "copilot",
        other_names: &["copilot-cli", "github-copilot-cli"],
        meaning: UsageMeaning { tokens: TokenSpan::Session, source: TokenSource::Answer },
    },
    ExaminedAgent {
        name: "gemini",
        other_names: &["gemini-cli"],
        meaning: UsageMeaning { tokens: TokenSpan::Turn, source: TokenSource::Quota },
    },
    ExaminedAgent {
        name: "goose",
        other_names: &[],
        meaning: UsageMeaning { tokens: TokenSpan::LastCall, source: TokenSource::Answer },
    },
    ExaminedAgent {
        name: "hermes",
        other_names: &["hermes-agent", "hermes-acp"],
        meaning: UsageMeaning { tokens: TokenSpan::Process, source: TokenSource::Answer },
    },
    ExaminedAgent {
        name: "opencode",
        other_names: &[],
        meaning: UsageMeaning { tokens: TokenSpan::LastCall, source: TokenSource::Answer },
    },
    ExaminedAgent {
        name: "qwen",
        other_names: &["qwen-code"],
        meaning: UsageMeaning { tokens: TokenSpan::Turn, source: TokenSource::Chunk },
    },
    ExaminedAgent {
        name: "vibe",
        other_names: &["mistral-vibe", "vibe-acp"],
        meaning: UsageMeaning { tokens: TokenSpan::Session, source: TokenSource::Answer },
    },
];

impl ExaminedAgent {
    /// Returns the agent that has the adapter's name among its names.
    pub fn find(adapter: &str) -> Option<&'static Self> {
        EXAMINED_AGENTS
            .iter()
            .find(|agent| agent.name == adapter || agent.other_names.contains(&adapter))
    }
}
