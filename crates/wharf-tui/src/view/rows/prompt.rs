//! A prompt: its sender, its time and its text behind a bar.

use ratatui_core::text::{Line, Span};
use wharf_api::{RowActor, RowPrompt};
use wharf_render::text::{parse_millis, to_printable, wrap_plain};

use super::{RowLayoutOptions, parts_text};

pub(super) fn prompt_lines(
    prompt: &RowPrompt,
    at: &str,
    look: &RowLayoutOptions<'_>,
) -> Vec<Line<'static>> {
    let again = if prompt.again { " · again" } else { "" };
    let edited = prompt
        .edited_by
        .as_ref()
        .map(|by| format!(" · edited by {}", actor_name(by)))
        .unwrap_or_default();
    let clock = parse_millis(at).map(|at| look.time_zone.format_clock(at)).unwrap_or_default();
    let head = format!("{} · {clock}{edited}{again}", actor_name(&prompt.by));
    let mut lines = vec![Line::default(), bar_line(Line::styled(head, look.theme.faint), look)];
    let text = parts_text(&prompt.parts);
    for line in wrap_plain(text.trim_end(), look.theme.strong, look.columns().saturating_sub(2)) {
        lines.push(bar_line(line, look));
    }
    lines.push(Line::default());
    lines
}

fn bar_line(line: Line<'static>, look: &RowLayoutOptions<'_>) -> Line<'static> {
    let style = line.style;
    let spans = line.spans.into_iter().map(|span| span.patch_style(style));
    Line::from(
        std::iter::once(Span::styled("▌ ", look.theme.busy))
            .chain(spans)
            .collect::<Vec<_>>(),
    )
}

/// Returns words for an actor: the session whose agent acts, else the actor's name, else only
/// whether it is an agent or a client.
pub(super) fn actor_name(actor: &RowActor) -> String {
    match (&actor.name, &actor.parent_session, actor.agent) {
        (_, Some(session), _) => format!("the agent of {}", to_printable(session)),
        (Some(name), None, _) => to_printable(name),
        (None, None, true) => "the agent".to_owned(),
        (None, None, false) => "a client".to_owned(),
    }
}
