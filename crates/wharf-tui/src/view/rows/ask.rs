//! Asks as the line of their answer.

use ratatui_core::text::Line;
use wharf_api::{AskState, RowAsk};
use wharf_render::text::{format_duration, to_printable, wrap_plain};

use super::RowLayoutOptions;
use super::prompt::actor_name;

/// An open ask is in the dock; here stands the question, and later its answer. Below a tool call
/// the answer is enough.
pub(super) fn ask_lines(ask: &RowAsk, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let answer = describe_answer(ask);
    let text = match ask.tool {
        Some(_) => format!("  ↳ {answer}"),
        None => format!("? {} → {answer}", to_printable(&ask.subject.title)),
    };
    let style = if ask.state == AskState::Open { look.theme.wants } else { look.theme.faint };
    wrap_plain(&text, style, look.columns())
}

fn describe_answer(ask: &RowAsk) -> String {
    let answer = ask.answer.as_ref();
    let chosen = answer.and_then(|answer| answer.name.as_deref().or(answer.option.as_deref()));
    let what = match &ask.state {
        AskState::Open => return "waits for an answer".to_owned(),
        AskState::Answered => to_printable(chosen.unwrap_or("answered")),
        AskState::Declined => "declined".to_owned(),
        AskState::Cancelled => "cancelled".to_owned(),
        AskState::Withdrawn => "withdrawn by the agent".to_owned(),
        AskState::AgentGone => "not answered: the agent is gone".to_owned(),
        AskState::Other(newer) => to_printable(newer),
    };
    let by = answer
        .and_then(|answer| answer.by.as_ref())
        .map(|by| format!(" · {}", actor_name(by)));
    let after = answer.map(|answer| format!(" · {}", format_duration(answer.after)));
    format!("{what}{}{}", by.unwrap_or_default(), after.unwrap_or_default())
}
