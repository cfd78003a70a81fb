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
    /// The adapter's name in Wharf first, then those of the agent's program, package and registry.
    pub names: &'static [&'static str],
    /// The meaning for a log that does not state it. Such a log does not have the agent's version
    /// either, so this is the meaning of the version that was examined.
    pub meaning: UsageMeaning,
}

/// All agents whose token counts are known.
pub const EXAMINED_AGENTS: &[ExaminedAgent] = &[
    examined(&["claude", "claude-code", "claude-agent-acp", "claude-code-acp"], TokenSpan::Turn, TokenSource::Answer),
    examined(&["codex", "codex-acp"], TokenSpan::Turn, TokenSource::Answer),
    examined(
        &["copilot", "copilot-cli", "github-copilot", "github-copilot-cli"],
        TokenSpan::Session,
        TokenSource::Answer,
    ),
    examined(&["gemini", "gemini-cli"], TokenSpan::Turn, TokenSource::Quota),
    examined(&["goose"], TokenSpan::LastCall, TokenSource::Answer),
    examined(&["hermes", "hermes-agent", "hermes-acp"], TokenSpan::Process, TokenSource::Answer),
    examined(&["opencode"], TokenSpan::LastCall, TokenSource::Answer),
    examined(&["qwen", "qwen-code"], TokenSpan::Turn, TokenSource::Chunk),
    examined(&["vibe", "mistral-vibe", "vibe-acp"], TokenSpan::Session, TokenSource::Answer),
];

const fn examined(names: &'static [&'static str], tokens: TokenSpan, source: TokenSource) -> ExaminedAgent {
    ExaminedAgent { names, meaning: UsageMeaning { tokens, source } }
}

impl ExaminedAgent {
    /// Returns the agent that has the adapter's name among its names.
    pub fn find(adapter: &str) -> Option<&'static Self> {
        EXAMINED_AGENTS.iter().find(|agent| agent.names.contains(&adapter))
    }
}
