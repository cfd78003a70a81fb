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

impl UsageMeaning {
    /// Returns the meaning for an agent whose log does not say it, by the name of the adapter. Returns `None`
    /// if the name is not known.
    pub fn of_known_agent(adapter: &str) -> Option<Self> {
        let (tokens, source) = match adapter {
            "hermes" | "hermes-agent" | "hermes-acp" => (TokenSpan::Process, TokenSource::Answer),
            "vibe" | "mistral-vibe" | "vibe-acp" => (TokenSpan::Session, TokenSource::Answer),
            "copilot" | "copilot-cli" | "github-copilot" | "github-copilot-cli" => {
                (TokenSpan::Session, TokenSource::Answer)
            }
            "opencode" | "goose" => (TokenSpan::LastCall, TokenSource::Answer),
            "gemini" | "gemini-cli" => (TokenSpan::Turn, TokenSource::Quota),
            "qwen" | "qwen-code" => (TokenSpan::Turn, TokenSource::Chunk),
            "claude" | "claude-code" | "claude-agent-acp" | "claude-code-acp" | "codex" | "codex-acp" => {
                (TokenSpan::Turn, TokenSource::Answer)
            }
            _ => return None,
        };
        Some(Self { tokens, source })
    }
}
