//! Search over the transcripts of all sessions (rule 13.11).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Selects rows by their words.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub struct SearchArgs {
    /// Words that a row must all have; the last one may be the beginning of a word. Words between
    /// double quotes must follow one another.
    #[param(required = true, nullable = false, max_length = 1000)]
    pub q: Option<String>,
    /// Hits in a page.
    #[param(minimum = 1, maximum = 100, default = 30)]
    pub limit: Option<usize>,
    /// `nextCursor` of the page before.
    pub cursor: Option<String>,
    /// The id of a session: only its rows.
    pub session: Option<String>,
    /// Only rows of these kinds, separated by commas: `prompt`, `message`, `tool`, `ask`.
    pub kinds: Option<String>,
    /// The slug of a workspace.
    pub workspace: Option<String>,
    /// The slug of an adapter.
    pub adapter: Option<String>,
    /// The whole label of sessions.
    pub label: Option<String>,
    /// True: sessions in the archive. False: the others.
    pub archived: Option<bool>,
}

/// A page of hits, the newest row first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchPage {
    /// The number of the rules by which the rows were made.
    pub fold: u32,
    pub hits: Vec<SearchHit>,
    /// There may be older hits: ask again with this as `cursor`. A page may have few hits, or none,
    /// and yet have this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// The selected sessions of which something is not searched yet. 0 says that the hits are
    /// complete.
    pub pending: u64,
}

/// A row that matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// The id of the session.
    pub session: String,
    /// The title of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub workspace_slug: String,
    /// The id of the row: `GET /sessions/{id}/rows?around=` shows it in its place.
    pub row: String,
    /// The kind of the row.
    pub kind: String,
    /// ISO 8601, the time of the event that created the row.
    pub at: String,
    /// The id of the prompt whose turn the row belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The row in one line.
    pub summary: String,
    /// A piece of the row's text around the first match. The parts together are the piece.
    pub snippet: Vec<SnippetPart>,
}

/// A part of a snippet, plain text in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
pub struct SnippetPart {
    pub text: String,
    /// True if this part matches the query.
    #[serde(default, rename = "match", skip_serializing_if = "std::ops::Not::not")]
    pub is_match: bool,
}
