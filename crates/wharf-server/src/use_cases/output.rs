//! The newest lines of a session (rule 8.4).

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Caller, faults, open};
use crate::App;
use crate::lines::{LastLines, MostLines, last_n};
use crate::problem::Problem;

const LINES: usize = 200;
const MOST_LINES: usize = 10_000;

/// How many.
#[derive(Clone, Debug, Default, Deserialize, IntoParams, JsonSchema)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OutputArgs {
    /// The newest so many lines.
    #[param(minimum = 1, maximum = 10000, default = 200)]
    pub(crate) last_n: Option<usize>,
}

/// What the agent did and said, as lines of plain text.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Output {
    /// The session.
    pub(crate) id: String,
    /// The oldest first.
    pub(crate) lines: Vec<String>,
    /// The id of the last line: the event stream can go on from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) last_event_id: Option<String>,
    /// There are fewer lines than asked for, and there may be older ones: too far back in the log to be looked for, or too
    /// long for one answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub(crate) truncated: bool,
}

/// Reads the newest lines.
pub(crate) async fn output(app: &App, who: &Caller, id: &str, args: &OutputArgs) -> Result<Output, Problem> {
    let count = args.last_n.unwrap_or(LINES);
    if count == 0 || count > MOST_LINES {
        let detail = format!("lastN: {count} is not between 1 and {MOST_LINES}");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_query", detail));
    }
    let handle = open(app, who, id).await?;
    let most = MostLines { lines: count, bytes: app.host.config().limits.history.0 };
    // The semaphore is never closed.
    let _place = app.looking_back.acquire().await.ok();
    let last = last_n(&handle, most, app.host.config().redact_output).await;
    let LastLines { lines, truncated } = last.map_err(|error| faults::unreadable(id, &error))?;
    let last_event_id = lines.last().map(|line| line.id.to_string());
    let lines = lines.into_iter().map(|line| line.text).collect();
    Ok(Output { id: id.to_owned(), lines, last_event_id, truncated })
}
