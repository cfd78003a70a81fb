//! Search for a model: few hits, each in one line.

use wharf_api::mcp::SearchInput;
use wharf_api::{ErrorCode, SearchArgs, SearchHit, SearchPage};

use crate::fault::Fault;

const DEFAULT_HITS: usize = 20;
/// A hit has less than 800 characters, so that an answer has no more than one of rows.
const MAX_HITS: usize = 30;

/// Returns the arguments of the use case.
pub(super) fn to_search_args(input: SearchInput) -> Result<SearchArgs, Fault> {
    let SearchInput {
        query,
        session_id,
        kinds,
        workspace_slug,
        adapter,
        limit,
        cursor,
    } = input;
    let limit = limit.unwrap_or(DEFAULT_HITS);
    if limit == 0 || limit > MAX_HITS {
        let detail = format!("limit: {limit} is not between 1 and {MAX_HITS}");
        return Err(
            Fault::new(ErrorCode::INVALID_PARAMS, detail).with_legacy_code("invalid_arguments")
        );
    }
    Ok(SearchArgs {
        q: Some(query),
        limit: Some(limit),
        cursor,
        session: session_id,
        kinds,
        workspace: workspace_slug,
        adapter,
        ..SearchArgs::default()
    })
}

/// Returns the page as a model reads it.
pub(super) fn show_page(page: &SearchPage) -> String {
    let mut lines: Vec<String> = page.hits.iter().map(show_hit).collect();
    if page.hits.is_empty() {
        lines.push("nothing found".to_owned());
    }
    if page.pending > 0 {
        lines.push(format!(
            "{} sessions are not searched completely yet; try again later",
            page.pending
        ));
    }
    if let Some(cursor) = &page.next_cursor {
        lines.push(format!("there may be older hits: cursor {cursor}"));
    }
    lines.join("\n")
}

fn show_hit(hit: &SearchHit) -> String {
    let snippet: String = hit.snippet.iter().map(|part| part.text.as_str()).collect();
    format!("[{} {}] {} {}: {snippet}", hit.session, hit.row, hit.at, hit.kind)
}
