//! `wharf search`: prompts, messages, tool calls and asks of all sessions by their words.

use std::collections::HashMap;

use clap::Args;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use wharf_api::{SearchHit, SessionInfo};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{format_ago, to_printable, truncate_to_columns};

use crate::client::{HostCall, HostClient, query_part};
use crate::exit::{Exit, Failure};
use crate::format::table::join_with_tabs;
use crate::format::times;
use crate::global::GlobalOptions;
use crate::{output, session_ref};

/// How many hits are shown by default.
const DEFAULT_HITS: usize = 30;
/// The most hits that the host gives at once.
const MAX_PAGE_HITS: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct SearchVerb {
    /// Words that must all occur. The last one may be the beginning of a word; words in double
    /// quotes follow one another.
    #[arg(required = true, value_name = "WORDS")]
    words: Vec<String>,
    /// Only sessions of this agent.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only sessions of this workspace.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
    /// Only this session; `.` is the newest of the current directory.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only rows of this kind: prompt, message, tool or ask; can be repeated.
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// The newest N hits.
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = DEFAULT_HITS)]
    limit: usize,
    /// The JSON of the host; the pages of it are joined.
    #[arg(long)]
    json: bool,
}

/// A page of hits, each with its JSON text.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSearchPage {
    fold: u32,
    hits: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
    pending: u64,
}

pub(crate) async fn run(global: &GlobalOptions, verb: SearchVerb) -> anyhow::Result<Exit> {
    if verb.limit == 0 {
        return Err(Failure::new(Exit::Usage, "-n 0: at least one hit").into());
    }
    let client = global.connect_client().await?;
    let session = match &verb.session {
        Some(meant) => Some(session_ref::find_session(&client, Some(meant)).await?.id),
        None => None,
    };
    let found = search(&client, &verb, session.as_deref()).await?;
    if verb.json {
        output::print_line(&to_json(&found)?);
        return Ok(Exit::Ok);
    }
    let hits: Vec<SearchHit> = found
        .hits
        .iter()
        .map(|hit| wharf_json::read_own(hit.get().as_bytes()))
        .collect::<Result<_, _>>()?;
    let screen = global.screen();
    print_hits(&client, screen, &hits).await?;
    if hits.is_empty() && screen.terminal {
        output::print_note("nothing was found");
    }
    if found.pending > 0 {
        output::print_note(&format!(
            "{} sessions are not searched yet; try again in a moment",
            found.pending
        ));
    }
    if found.next_cursor.is_some() && screen.terminal {
        output::print_note(&format!(
            "there may be older hits: -n {}",
            verb.limit.saturating_mul(2)
        ));
    }
    Ok(Exit::Ok)
}

/// Reads pages until there are enough hits. A page may have few hits, or none, and yet be followed
/// by others.
async fn search(
    client: &HostClient,
    verb: &SearchVerb,
    session: Option<&str>,
) -> anyhow::Result<RawSearchPage> {
    let kinds = Some(verb.kind.join(",")).filter(|kinds| !kinds.is_empty());
    let words = verb.words.join(" ");
    let filters = [
        ("q", Some(words.as_str())),
        ("adapter", verb.agent.as_deref()),
        ("workspace", verb.workspace.as_deref()),
        ("session", session),
        ("kinds", kinds.as_deref()),
    ];
    let filters: String = filters.iter().map(|(name, value)| query_part(name, *value)).collect();
    let mut found = RawSearchPage { fold: 0, hits: Vec::new(), next_cursor: None, pending: 0 };
    loop {
        let limit = (verb.limit - found.hits.len()).min(MAX_PAGE_HITS);
        let cursor = query_part("cursor", found.next_cursor.as_deref());
        let page: RawSearchPage = client
            .fetch_json(&HostCall::get(format!("/search?limit={limit}{filters}{cursor}")))
            .await?;
        found.hits.extend(page.hits);
        (found.fold, found.next_cursor) = (page.fold, page.next_cursor);
        found.pending = found.pending.max(page.pending);
        if found.hits.len() >= verb.limit || found.next_cursor.is_none() {
            return Ok(found);
        }
    }
}

/// Returns the JSON of the hits as the host writes a page.
fn to_json(found: &RawSearchPage) -> anyhow::Result<String> {
    let hits: Vec<&str> = found.hits.iter().map(|hit| hit.get()).collect();
    let cursor = match &found.next_cursor {
        Some(cursor) => format!(",\"nextCursor\":{}", json!(cursor)),
        None => String::new(),
    };
    Ok(format!(
        r#"{{"fold":{},"hits":[{}]{cursor},"pending":{}}}"#,
        found.fold,
        hits.join(","),
        found.pending
    ))
}

async fn print_hits(client: &HostClient, screen: Screen, hits: &[SearchHit]) -> anyhow::Result<()> {
    if hits.is_empty() {
        return Ok(());
    }
    let short = if screen.terminal { short_ids(client).await? } else { HashMap::new() };
    let now = times::now_millis();
    for hit in hits {
        let lines = if screen.terminal {
            let id = short
                .get(&hit.session)
                .map_or_else(|| session_ref::short_id(&hit.session), String::as_str);
            format_hit(screen, hit, id, now)
        } else {
            plain_hit(hit)
        };
        if output::try_print_line(&lines).is_err() {
            break;
        }
    }
    Ok(())
}

/// Returns the end of each session's id that no other session has.
async fn short_ids(client: &HostClient) -> anyhow::Result<HashMap<String, String>> {
    let listed = session_ref::list_sessions(client, "").await?;
    let sessions: Vec<&SessionInfo> = listed.iter().map(|listed| &listed.session).collect();
    let ids = session_ref::short_ids(&sessions);
    Ok(sessions.iter().map(|session| session.id.clone()).zip(ids).collect())
}

/// Returns a hit for a person: the place in one line, and the snippet with its matches marked below
/// it.
fn format_hit(screen: Screen, hit: &SearchHit, id: &str, now: u64) -> String {
    let place = match hit.workspace_slug.as_str() {
        "default" | "" => String::new(),
        slug => format!("  @{slug}"),
    };
    let title = hit.title.as_deref().map(|title| format!("  {title}")).unwrap_or_default();
    let details = format!("  {}  {}{place}{title}", hit.kind, format_ago(&hit.at, now));
    let room = screen.width.saturating_sub(id.len());
    let details = truncate_to_columns(&to_printable(&details), room);
    let parts = hit.snippet.iter().map(|part| {
        let style = if part.is_match { TextStyle::Wants } else { TextStyle::Plain };
        screen.paint(style, &to_printable(&part.text))
    });
    let snippet: String = parts.collect();
    format!(
        "{}{}\n    {snippet}",
        screen.paint(TextStyle::Strong, id),
        screen.paint(TextStyle::Faint, &details)
    )
}

/// Returns the tab-separated line of a hit. The columns are part of the interface: see docs/cli.md.
fn plain_hit(hit: &SearchHit) -> String {
    let snippet: String = hit.snippet.iter().map(|part| part.text.as_str()).collect();
    join_with_tabs([
        hit.session.as_str(),
        &hit.row,
        &hit.kind,
        &hit.at,
        &hit.workspace_slug,
        hit.turn.as_deref().unwrap_or_default(),
        hit.title.as_deref().unwrap_or_default(),
        &hit.summary,
        &snippet,
    ])
}

#[cfg(test)]
mod tests {
    use wharf_api::SnippetPart;

    use super::*;

    fn hit() -> SearchHit {
        let part = |text: &str, is_match| SnippetPart { text: text.to_owned(), is_match };
        SearchHit {
            session: "sess_01m7gw14763taqj3w7afz31k9c".to_owned(),
            title: Some("Fix\tthe parser".to_owned()),
            workspace_slug: "blog".to_owned(),
            row: "1-14".to_owned(),
            kind: "tool".to_owned(),
            at: "2026-11-15T20:34:05.123Z".to_owned(),
            turn: None,
            summary: "Edit src/parser.rs".to_owned(),
            snippet: vec![part("src/", false), part("parser", true), part(".rs\u{1b}[2J", false)],
        }
    }

    #[test]
    fn matches_are_marked_for_a_person_and_plain_for_a_program() {
        let now = wharf_host::parse_timestamp(&hit().at).unwrap().0 + 120_000;
        let colour = Screen { colour: true, ..Screen::TERMINAL };
        assert_eq!(
            format_hit(colour, &hit(), "z31k9c", now),
            "\x1b[1mz31k9c\x1b[0m\x1b[2m  tool  2 min ago  @blog  Fix the parser\x1b[0m\n    src/\x1b[1;33mparser\x1b[0m.rs"
        );
        assert_eq!(
            plain_hit(&hit()),
            "sess_01m7gw14763taqj3w7afz31k9c\t1-14\ttool\t2026-11-15T20:34:05.123Z\tblog\t\tFix the parser\tEdit src/parser.rs\tsrc/parser.rs"
        );
    }
}
