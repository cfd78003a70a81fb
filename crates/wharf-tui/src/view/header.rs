//! The head of the session's pane: workspace, title, agent, mode, context, cost and the others that are there.

use ratatui_core::layout::Rect;
use wharf_api::{SessionInfo, TranscriptState};

use super::Canvas;
use crate::model::{PaneFocus, TuiState};
use crate::session_words::display_name;
use crate::text::format_cost;

pub(super) fn draw_header(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(info) = state.open_info() else { return };
    let beside = state.open.as_ref().and_then(|open| open.rows.state());
    let facts = describe_facts(info, beside, state.options.is_readonly).join(" · ");
    let line = Rect { height: 1, ..area };
    let left = canvas.write_right(line, &format!("{facts} "), canvas.theme.faint);
    let is_focused = state.focus != PaneFocus::List && state.overlays.is_empty();
    let style = if is_focused { canvas.theme.strong } else { canvas.theme.plain };
    let name = display_name(info).unwrap_or("new session");
    let title = match info.workspace_slug.as_str() {
        "default" => format!(" {name}"),
        slug => format!(" {slug} · {name}"),
    };
    canvas.write(area.x, area.y, left.saturating_sub(1), &title, style);
    if area.height > 1 {
        canvas.write_rule(Rect { y: area.y + 1, height: 1, ..area }, "", canvas.theme.faint);
    }
}

/// Returns the facts that are always in view, the most important last: it stands at the edge.
fn describe_facts(info: &SessionInfo, beside: Option<&TranscriptState>, is_readonly: bool) -> Vec<String> {
    let mut facts = vec![info.adapter_slug.clone()];
    if is_readonly {
        facts.push("observer".to_owned());
    }
    let settings = beside.and_then(|state| state.settings.as_deref());
    for choice in settings.into_iter().flat_map(|settings| [&settings.modes, &settings.models]).flatten() {
        let current = choice.all.iter().find(|value| value.id == choice.current);
        facts.push(current.map_or_else(|| choice.current.clone(), |value| value.name.clone()));
    }
    if let Some(context) = info.context.as_ref().filter(|context| context.size > 0) {
        facts.push(format!("{} %", context.used.saturating_mul(100) / context.size));
    }
    if let Some(cost) = info.usage.as_ref().and_then(|usage| usage.cost.as_ref()) {
        facts.push(format_cost(cost));
    }
    if let Some(clients) = beside.map(|state| state.clients.len()).filter(|count| *count > 0) {
        facts.push(format!("{clients} attached"));
    }
    facts
}
