//! `wharf usage`: tokens and cost that agents reported, per session or per turn.

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;
use wharf_api::{
    ContextUse, SessionInfo, TokenUsage, TurnInfo, UsageCost, UsageOfSession, UsageTotal,
};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{format_ago, format_duration};

use crate::client::{HostCall, HostClient, query_part};
use crate::exit::Exit;
use crate::format::table::{Cell, TextTable, join_with_tabs, plain_cell, styled_cell};
use crate::format::times;
use crate::global::GlobalOptions;
use crate::turn_ref::list_turns;
use crate::{output, session_ref};

/// The most sessions that the host gives at once.
const MAX_PAGE_SESSIONS: usize = 1_000;
/// Shown to a person for a number that the agent did not report. For a program the value is empty.
const UNKNOWN: &str = "unknown";

#[derive(Debug, Args)]
pub(crate) struct UsageVerb {
    /// The turns of this session; `.` is the newest of the current directory [default: all
    /// sessions].
    id: Option<String>,
    /// Only sessions of this agent.
    #[arg(long, value_name = "NAME", conflicts_with = "id")]
    agent: Option<String>,
    /// Only sessions of this workspace.
    #[arg(long, value_name = "SLUG", conflicts_with = "id")]
    workspace: Option<String>,
    /// The JSON of the host; with ID the session's `usage` and `context` and the turns.
    #[arg(long)]
    json: bool,
}

/// A page of `GET /usage`, each session with its JSON text.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawUsagePage {
    sessions: Vec<Box<RawValue>>,
    total: Box<RawValue>,
    next_cursor: Option<String>,
}

pub(crate) async fn run(global: &GlobalOptions, verb: UsageVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    match &verb.id {
        Some(id) => show_session(&client, global.screen(), id, verb.json).await,
        None => show_all(&client, global.screen(), &verb).await,
    }
}

async fn show_all(client: &HostClient, screen: Screen, verb: &UsageVerb) -> anyhow::Result<Exit> {
    let filters = query_part("adapter", verb.agent.as_deref())
        + &query_part("workspace", verb.workspace.as_deref());
    let (mut sessions, mut cursor): (Vec<Box<RawValue>>, Option<String>) = (Vec::new(), None);
    let total = loop {
        let cursor_part = query_part("cursor", cursor.as_deref());
        let call = HostCall::get(format!("/usage?limit={MAX_PAGE_SESSIONS}{filters}{cursor_part}"));
        let page: RawUsagePage = client.fetch_json(&call).await?;
        sessions.extend(page.sessions);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break page.total;
        }
    };
    if verb.json {
        let sessions: Vec<&str> = sessions.iter().map(|session| session.get()).collect();
        output::print_line(&format!(
            r#"{{"sessions":[{}],"total":{}}}"#,
            sessions.join(","),
            total.get()
        ));
        return Ok(Exit::Ok);
    }
    let sessions: Vec<UsageOfSession> = sessions
        .iter()
        .map(|session| wharf_json::read_own(session.get().as_bytes()))
        .collect::<Result<_, _>>()?;
    if !screen.terminal {
        sessions.iter().for_each(|session| output::print_line(&plain_session(session)));
        return Ok(Exit::Ok);
    }
    if sessions.is_empty() {
        output::print_note("no sessions");
        return Ok(Exit::Ok);
    }
    session_table(&sessions)
        .to_lines(screen)
        .iter()
        .for_each(|line| output::print_line(line));
    let total: UsageTotal = wharf_json::read_own(total.get().as_bytes())?;
    output::print_line("");
    output::print_line(&screen.paint(TextStyle::Strong, &describe_total(&total)));
    Ok(Exit::Ok)
}

async fn show_session(
    client: &HostClient,
    screen: Screen,
    id: &str,
    json: bool,
) -> anyhow::Result<Exit> {
    let session = session_ref::find_session(client, Some(id)).await?;
    let turns = list_turns(client, &session.id).await?;
    if json {
        let usage = serde_json::json!({
            "id": session.id, "usage": session.usage, "context": session.context, "turns": turns,
        });
        output::print_line(&usage.to_string());
        return Ok(Exit::Ok);
    }
    if !screen.terminal {
        turns
            .iter()
            .enumerate()
            .for_each(|(place, turn)| output::print_line(&plain_turn(place + 1, turn)));
        return Ok(Exit::Ok);
    }
    if turns.is_empty() {
        output::print_note("the session has no turn yet");
    } else {
        turn_table(&turns)
            .to_lines(screen)
            .iter()
            .for_each(|line| output::print_line(line));
        output::print_line("");
    }
    output::print_line(&screen.paint(TextStyle::Strong, &describe_session(&session)));
    Ok(Exit::Ok)
}

fn session_table(sessions: &[UsageOfSession]) -> TextTable {
    let mut table = TextTable::new(&[
        "ID", "AGENT", "INPUT", "OUTPUT", "CACHED", "TOTAL", "COST", "CONTEXT", "TITLE",
    ]);
    for session in sessions {
        let id = session_ref::short_id(&session.id);
        let agent = &session.adapter_slug;
        let cells = [styled_cell(TextStyle::Strong, id), plain_cell(agent)];
        // A line of 80 columns has no room for the size of the context besides.
        let context = show_cell(session.context.as_ref().map(format_context_share));
        let title = plain_cell(session.title.as_deref().unwrap_or_default());
        table.add_row(
            cells
                .into_iter()
                .chain(usage_cells(session.usage.as_ref()))
                .chain([context, title]),
        );
    }
    table
}

fn turn_table(turns: &[TurnInfo]) -> TextTable {
    let mut table = TextTable::new(&[
        "TURN", "WHEN", "TOOK", "INPUT", "OUTPUT", "CACHED", "TOTAL", "COST", "PROMPT",
    ]);
    let now = times::now_millis();
    for (place, turn) in turns.iter().enumerate() {
        let when = turn.started_at.as_deref().map(|at| format_ago(at, now)).unwrap_or_default();
        let took = turn.duration_ms.map(format_duration).unwrap_or_else(|| turn.state.to_string());
        let cells = [
            plain_cell((place + 1).to_string()),
            styled_cell(TextStyle::Faint, when),
            plain_cell(took),
        ];
        let prompt = plain_cell(&turn.summary);
        table.add_row(cells.into_iter().chain(usage_cells(turn.usage.as_ref())).chain([prompt]));
    }
    table
}

/// Returns input, output, cached, total and cost.
fn usage_cells(usage: Option<&TokenUsage>) -> [Cell; 5] {
    let number =
        |member: fn(&TokenUsage) -> Option<u64>| {
            show_cell(usage.and_then(|usage| {
                member(usage).map(|count| usage.mark_count(&format_count(count)))
            }))
        };
    let cost = show_cell(usage.and_then(|usage| usage.cost.as_ref()).map(format_cost));
    [
        number(|usage| usage.input),
        number(|usage| usage.output),
        number(|usage| usage.cached),
        number(|usage| usage.total),
        cost,
    ]
}

fn show_cell(value: Option<String>) -> Cell {
    match value {
        Some(value) => plain_cell(value),
        None => styled_cell(TextStyle::Faint, UNKNOWN),
    }
}

/// Returns a number with a space between groups of three digits: `18 200`.
fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

pub(crate) fn format_cost(cost: &UsageCost) -> String {
    format!("{} {}", cost.format_amount(), cost.currency)
}

fn format_context(context: &ContextUse) -> String {
    let size = if context.size > 0 {
        format!(" of {}", format_count(context.size))
    } else {
        String::new()
    };
    format_context_share(context) + &size
}

/// Returns the part of the context that is used; the number of tokens if the size is not known.
fn format_context_share(context: &ContextUse) -> String {
    let percent = (u128::from(context.used) * 100).checked_div(u128::from(context.size));
    percent.map_or_else(|| format_count(context.used), |percent| format!("{percent}%"))
}

fn describe_total(total: &UsageTotal) -> String {
    let number = |value: Option<u64>| {
        value.map_or_else(|| UNKNOWN.to_owned(), |count| total.mark_count(&format_count(count)))
    };
    let costs: Vec<String> = total.costs.iter().map(format_cost).collect();
    let cost = if costs.is_empty() { UNKNOWN.to_owned() } else { costs.join(" and ") };
    format!(
        "{} of {} sessions report usage: input {}, output {}, cached {}, total {}, cost {cost}",
        total.reporting,
        total.sessions,
        number(total.input),
        number(total.output),
        number(total.cached),
        number(total.total)
    )
}

fn describe_session(session: &SessionInfo) -> String {
    let usage = session.usage.clone().unwrap_or_default();
    let number = |value: Option<u64>| {
        value.map_or_else(|| UNKNOWN.to_owned(), |count| usage.mark_count(&format_count(count)))
    };
    format!(
        "input {}, output {}, cached {}, total {}, cost {}, context {}",
        number(usage.input),
        number(usage.output),
        number(usage.cached),
        number(usage.total),
        usage.cost.as_ref().map_or_else(|| UNKNOWN.to_owned(), format_cost),
        session.context.as_ref().map_or_else(|| UNKNOWN.to_owned(), format_context)
    )
}

/// Returns input, output, cached, total, cost and currency for a program; empty if unknown.
fn plain_usage(usage: Option<&TokenUsage>) -> [String; 6] {
    let number = |member: fn(&TokenUsage) -> Option<u64>| {
        usage.and_then(member).map(|count| count.to_string()).unwrap_or_default()
    };
    let cost = usage.and_then(|usage| usage.cost.as_ref());
    let (amount, currency) = cost
        .map(|cost| (cost.amount.to_string(), cost.currency.clone()))
        .unwrap_or_default();
    [
        number(|usage| usage.input),
        number(|usage| usage.output),
        number(|usage| usage.cached),
        number(|usage| usage.total),
        amount,
        currency,
    ]
}

/// Returns the tab-separated line of a session. The columns are part of the interface: see
/// docs/cli.md.
fn plain_session(session: &UsageOfSession) -> String {
    let usage = plain_usage(session.usage.as_ref());
    let (used, size) = session
        .context
        .as_ref()
        .map(|c| (c.used.to_string(), c.size.to_string()))
        .unwrap_or_default();
    let front = [session.id.as_str(), &session.adapter_slug, &session.workspace_slug];
    let back = [used.as_str(), &size, session.title.as_deref().unwrap_or_default()];
    join_with_tabs(front.into_iter().chain(usage.iter().map(String::as_str)).chain(back))
}

/// Returns the tab-separated line of a turn. The columns are part of the interface: see
/// docs/cli.md.
fn plain_turn(number: usize, turn: &TurnInfo) -> String {
    let usage = plain_usage(turn.usage.as_ref());
    let number = number.to_string();
    let took = turn.duration_ms.map(|took| took.to_string()).unwrap_or_default();
    let started = turn.started_at.as_deref().unwrap_or_default();
    let front = [number.as_str(), &turn.prompt_id, turn.state.as_str(), started, &took];
    join_with_tabs(
        front
            .into_iter()
            .chain(usage.iter().map(String::as_str))
            .chain([turn.summary.as_str()]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage() -> TokenUsage {
        let cost = Some(UsageCost { amount: 0.0712, currency: "USD".to_owned() });
        TokenUsage {
            input: Some(18_200),
            output: Some(0),
            cost,
            ..TokenUsage::default()
        }
    }

    fn session(usage: Option<TokenUsage>) -> UsageOfSession {
        UsageOfSession {
            id: "sess_01m7gw14763taqj3w7afz31k9c".to_owned(),
            adapter_slug: "claude".to_owned(),
            workspace_slug: "default".to_owned(),
            title: None,
            usage,
            context: Some(ContextUse { used: 57_000, size: 200_000 }),
        }
    }

    #[test]
    fn unknown_number_is_never_zero() {
        let lines = session_table(&[session(Some(usage())), session(None)])
            .to_lines(Screen { width: 200, ..Screen::TERMINAL });
        assert_eq!(
            lines,
            [
                "ID      AGENT   INPUT    OUTPUT   CACHED   TOTAL    COST        CONTEXT",
                "z31k9c  claude  18 200   0        unknown  unknown  0.0712 USD  28%",
                "z31k9c  claude  unknown  unknown  unknown  unknown  unknown     28%",
            ]
        );
        assert_eq!(
            plain_session(&session(Some(usage()))),
            "sess_01m7gw14763taqj3w7afz31k9c\tclaude\tdefault\t18200\t0\t\t\t0.0712\tUSD\t57000\t200000\t"
        );
        assert_eq!(
            plain_session(&session(None)),
            "sess_01m7gw14763taqj3w7afz31k9c\tclaude\tdefault\t\t\t\t\t\t\t57000\t200000\t"
        );
    }

    #[test]
    fn lower_bounds_and_guesses_are_marked() {
        let marked = TokenUsage { at_least: true, guessed: true, ..usage() };
        let lines = session_table(&[session(Some(marked))])
            .to_lines(Screen { width: 200, ..Screen::TERMINAL });
        assert!(lines[1].contains("≥18 200?"), "{lines:?}");
    }

    #[test]
    fn sum_tells_what_is_unknown_and_keeps_currencies_apart() {
        let costs = [(1.5, "USD"), (2.0, "EUR")]
            .map(|(amount, currency)| UsageCost { amount, currency: currency.to_owned() });
        let total = UsageTotal {
            sessions: 3,
            reporting: 1,
            input: Some(1_234_567),
            costs: costs.to_vec(),
            ..UsageTotal::default()
        };
        assert_eq!(
            describe_total(&total),
            "1 of 3 sessions report usage: input 1 234 567, output unknown, cached unknown, total unknown, cost 1.50 USD and 2.00 EUR"
        );
        let nothing = UsageTotal { sessions: 1, ..UsageTotal::default() };
        assert!(describe_total(&nothing).ends_with("total unknown, cost unknown"));
    }
}
