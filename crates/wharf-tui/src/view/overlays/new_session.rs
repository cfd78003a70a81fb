//! The form for a new session.

use ratatui_core::layout::Rect;
use wharf_api::{AdapterDescription, LoginState};
use wharf_render::text::{shorten_path, truncate_to_columns};

use super::draw_frame;
use crate::model::{NewSessionField, TuiState};
use crate::view::Canvas;
use crate::view::areas::COMPOSER_MARK_COLUMNS;
use crate::view::composer::draw_text_field;

/// The columns of the names of the fields.
const NAME_COLUMNS: u16 = 8;

pub(in crate::view) fn draw_new_session(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let form = &state.form;
    let inside = draw_frame(area, "New session", canvas);
    if inside.height == 0 {
        return;
    }
    let theme = canvas.theme;
    let mut line = Rect { height: 1, ..inside };
    let agent = form.chosen_agent(&state.choices);
    let here = state.options.directory.as_deref() == Some(form.directory.text());
    let directory = shorten_path(
        form.directory.text(),
        state.options.home.as_deref(),
        usize::from(inside.width),
    );
    let directory = if here { format!("{directory} (here)") } else { directory };
    let mode = form.mode.as_deref().unwrap_or("default");
    let fields = [
        (NewSessionField::Directory, "Where", directory),
        (NewSessionField::Agent, "Agent", agent.map_or_else(|| "…".to_owned(), describe_agent)),
        (NewSessionField::Mode, "Mode", mode.to_owned()),
    ];
    for (field, name, value) in fields {
        let is_focused = form.field == field;
        let style = if is_focused { theme.strong } else { theme.plain };
        canvas.write(line.x, line.y, NAME_COLUMNS, name, theme.faint);
        let hint = describe_other_values(state, field, is_focused);
        let hint = truncate_to_columns(&hint, usize::from(line.width / 2));
        let left = canvas.write_right(line, &hint, theme.faint);
        let room = Rect {
            x: line.x + NAME_COLUMNS,
            width: left.saturating_sub(NAME_COLUMNS + 1),
            ..line
        };
        if is_focused && field == NewSessionField::Directory {
            draw_text_field(&form.directory, room, true, canvas);
        } else {
            canvas.write(room.x, room.y, room.width, &value, style);
        }
        line.y += 1;
    }
    let top = line.y + 1;
    let prompt = Rect {
        y: top,
        height: inside.bottom().saturating_sub(top + 1),
        ..inside
    };
    canvas.write(prompt.x, prompt.y, 1, "❯", theme.strong);
    let text = Rect {
        x: prompt.x + COMPOSER_MARK_COLUMNS,
        width: prompt.width.saturating_sub(COMPOSER_MARK_COLUMNS),
        ..prompt
    };
    draw_text_field(&form.prompt, text, form.field == NewSessionField::Prompt, canvas);
    let last = inside.bottom() - 1;
    match (&form.error, form.is_starting) {
        (Some(error), _) => canvas.write(inside.x, last, inside.width, error, theme.bad),
        (None, true) => canvas.write(inside.x, last, inside.width, "starting…", theme.busy),
        (None, false) => 0,
    };
}

fn describe_agent(agent: &AdapterDescription) -> String {
    let version = agent
        .agent_version
        .as_deref()
        .map(|version| format!(" {version}"))
        .unwrap_or_default();
    let login = match agent.login {
        LoginState::Yes => " · signed in",
        LoginState::No => " · not signed in",
        LoginState::Unknown | LoginState::Other(_) => "",
    };
    format!("{}{version}{login}", agent.slug)
}

/// Returns the other values of a field: keys for the directory, names for the agent and the mode.
fn describe_other_values(state: &TuiState, field: NewSessionField, is_focused: bool) -> String {
    let chosen = state.form.chosen_agent(&state.choices);
    match field {
        NewSessionField::Directory if is_focused => "← → recent · or type a path".to_owned(),
        NewSessionField::Agent => {
            let is_other =
                |adapter: &&AdapterDescription| Some(&adapter.slug) != chosen.map(|own| &own.slug);
            let mut others: Vec<&AdapterDescription> =
                state.choices.adapters.iter().filter(is_other).collect();
            others.sort_by_key(|adapter| !adapter.installed);
            let names = others.into_iter().map(|adapter| {
                match (adapter.installed, adapter.missing.is_empty()) {
                    (false, _) => format!("{} (not installed)", adapter.slug),
                    (true, false) => format!("{} (see: wharf agents)", adapter.slug),
                    (true, true) => adapter.slug.clone(),
                }
            });
            names.collect::<Vec<_>>().join(" · ")
        }
        NewSessionField::Mode if is_focused => {
            let modes = chosen.map(|agent| agent.modes.as_slice()).unwrap_or_default();
            modes.iter().map(|mode| mode.id.as_str()).collect::<Vec<_>>().join(" · ")
        }
        NewSessionField::Directory | NewSessionField::Mode | NewSessionField::Prompt => {
            String::new()
        }
    }
}
