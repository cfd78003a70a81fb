//! A prompt: its sender, its time and its text behind a bar.

use ratatui_core::text::{Line, Span};
use wharf_api::{RowActor, RowPrompt};

use super::{RowLayoutOptions, parts_text};
use crate::text::{parse_millis, to_printable, wrap_plain};

pub(super) fn prompt_lines(prompt: &RowPrompt, at: &str, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let again = if prompt.again { " · again" } else { "" };
    let edited = prompt.edited_by.as_ref().map(|by| format!(" · edited by {}", actor_name(by))).unwrap_or_default();
    let head = format!("{} · {}{edited}{again}", actor_name(&prompt.by), clock_time(at, look.utc_offset_minutes));
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
    Line::from(std::iter::once(Span::styled("▌ ", look.theme.busy)).chain(spans).collect::<Vec<_>>())
}

/// Returns the name of a sender, in words that say what is known.
pub(super) fn actor_name(actor: &RowActor) -> String {
    match (&actor.name, &actor.parent_session, actor.agent) {
        (_, Some(session), _) => format!("the agent of {}", to_printable(session)),
        (Some(name), None, _) => to_printable(name),
        (None, None, true) => "the agent".to_owned(),
        (None, None, false) => "a client".to_owned(),
    }
}

/// Returns the local time of day of a timestamp.
fn clock_time(at: &str, utc_offset_minutes: i32) -> String {
    let Some(millis) = parse_millis(at) else { return String::new() };
    let minutes = i64::try_from(millis / 60_000).unwrap_or_default() + i64::from(utc_offset_minutes);
    let of_day = minutes.rem_euclid(24 * 60);
    format!("{:02}:{:02}", of_day / 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_day_is_local() {
        assert_eq!(clock_time("2026-11-17T23:30:00.000Z", 90), "01:00");
        assert_eq!(clock_time("2026-11-17T00:10:00.000Z", -20), "23:50");
        assert_eq!(clock_time("soon", 0), "");
    }
}
