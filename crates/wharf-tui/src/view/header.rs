//! The head of the session's pane: workspace, title, agent, mode, context, cost and the others that
//! are there.

use ratatui_core::layout::Rect;
use wharf_api::{SessionInfo, TranscriptState};
use wharf_render::text::{display_width, format_cost, to_printable};

use super::Canvas;
use crate::model::{PaneFocus, TuiState};
use crate::session_words::display_name;

/// The columns of the title that less important facts leave free.
const MIN_TITLE_COLUMNS: usize = 24;

pub(super) fn draw_header(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(info) = state.open_info() else { return };
    let beside = state.open.as_ref().and_then(|open| open.rows.state());
    let facts = describe_facts(info, beside, state.options.is_readonly);
    let facts = fit_facts(facts, usize::from(area.width));
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

/// Names a fact of the header. Facts give way in this order when the header lacks room: context and
/// cost stay longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HeaderFact {
    Agent,
    Mode,
    Model,
    Clients,
    Observer,
    Context,
    Cost,
}

/// Joins the facts that fit beside the beginning of the title. The last one stays in any case.
fn fit_facts(mut facts: Vec<(HeaderFact, String)>, width: usize) -> String {
    loop {
        let texts: Vec<&str> = facts.iter().map(|(_, text)| text.as_str()).collect();
        let joined = to_printable(&texts.join(" · "));
        let least = facts.iter().map(|(fact, _)| *fact).min();
        // Context and cost are worth more than the title.
        let kept = if least >= Some(HeaderFact::Context) { 0 } else { MIN_TITLE_COLUMNS };
        if facts.len() < 2 || display_width(&joined) + 1 + kept <= width {
            return joined;
        }
        facts.retain(|(fact, _)| Some(*fact) != least);
    }
}

/// Returns the facts from left to right.
fn describe_facts(
    info: &SessionInfo,
    beside: Option<&TranscriptState>,
    is_readonly: bool,
) -> Vec<(HeaderFact, String)> {
    let mut facts = vec![(HeaderFact::Agent, info.adapter_slug.clone())];
    if is_readonly {
        facts.push((HeaderFact::Observer, "observer".to_owned()));
    }
    let settings = beside.and_then(|state| state.settings.as_deref());
    let choices =
        settings.map(|all| [(HeaderFact::Mode, &all.modes), (HeaderFact::Model, &all.models)]);
    for (fact, choice) in choices.into_iter().flatten() {
        let Some(choice) = choice else { continue };
        let current = choice.all.iter().find(|value| value.id == choice.current);
        facts.push((
            fact,
            current.map_or_else(|| choice.current.clone(), |value| value.name.clone()),
        ));
    }
    if let Some(context) = info.context.as_ref().filter(|context| context.size > 0) {
        facts.push((
            HeaderFact::Context,
            format!("{} %", context.used.saturating_mul(100) / context.size),
        ));
    }
    if let Some(cost) = info.usage.as_ref().and_then(|usage| usage.cost.as_ref()) {
        facts.push((HeaderFact::Cost, format_cost(cost)));
    }
    if let Some(clients) = beside.map(|state| state.clients.len()).filter(|count| *count > 0) {
        facts.push((HeaderFact::Clients, format!("{clients} attached")));
    }
    facts
}
