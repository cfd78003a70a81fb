//! The two lines at the bottom: the state of the host and the turn, and the keys of the focused place.

use ratatui_core::layout::Rect;
use wharf_api::{SessionInfo, SessionStatus, TurnPhase};

use super::Canvas;
use crate::keymap::{KeyScope, all_bindings};
use crate::model::{HostConnection, InterruptStep, TuiState};
use crate::session_words::is_asleep;
use crate::text::parse_millis;

pub(super) fn draw_status(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let theme = canvas.theme;
    let (text, style) = match (&state.connection, &state.message) {
        (HostConnection::Connecting { .. }, _) => ("connecting to the host…".to_owned(), theme.faint),
        (HostConnection::Lost { reason, retry_at }, _) => (describe_loss(state, reason, *retry_at), theme.wants),
        (HostConnection::Connected, Some(message)) if message.is_error => (message.text.clone(), theme.bad),
        (HostConnection::Connected, Some(message)) => (message.text.clone(), theme.plain),
        (HostConnection::Connected, None) => (describe_session(state).unwrap_or_default(), theme.plain),
    };
    canvas.write(area.x + 1, area.y, area.width.saturating_sub(1), &text, style);
}

fn describe_loss(state: &TuiState, reason: &str, retry_at: Option<std::time::Duration>) -> String {
    let wait = retry_at.map(|at| at.saturating_sub(state.now.elapsed).as_secs());
    match wait {
        Some(0) => "host not reachable · trying again · your text is kept".to_owned(),
        Some(seconds) => format!("host not reachable · trying again in {seconds} s · your text is kept"),
        None => format!("host not reachable: {reason}"),
    }
}

/// Describes the open session: its turn, and what the next key does.
fn describe_session(state: &TuiState) -> Option<String> {
    let open = state.open.as_ref()?;
    let info = state.open_info()?;
    let text = match open.interrupt {
        InterruptStep::Armed { .. } => "Esc again to interrupt the turn".to_owned(),
        InterruptStep::Asked { since } => {
            let seconds = state.now.elapsed.saturating_sub(since).as_secs();
            format!("interrupting · {seconds} s · Esc again to force it")
        }
        InterruptStep::Idle => describe_turn(state, info),
    };
    Some(text)
}

fn describe_turn(state: &TuiState, info: &SessionInfo) -> String {
    if info.paused.is_some() {
        return "paused: the disk is full · kill and interrupt work".to_owned();
    }
    match (&info.status, &info.turn) {
        (SessionStatus::Starting, _) => format!("» starting {}", info.adapter_slug),
        (SessionStatus::Running, TurnPhase::Idle) => "idle".to_owned(),
        (SessionStatus::Running, TurnPhase::AwaitingInput) => "? waits for an answer · Ctrl-G".to_owned(),
        (SessionStatus::Running, _) => {
            let since = info.attention.as_ref().and_then(|attention| parse_millis(&attention.since));
            let seconds = since.map_or(0, |since| state.now.unix_millis.saturating_sub(since) / 1_000);
            format!("» working {}:{:02} · Enter queues · Esc Esc interrupts", seconds / 60, seconds % 60)
        }
        _ if is_asleep(info) => "z asleep · the next prompt wakes it".to_owned(),
        (status, _) => format!("{status} · {}", info.message.as_deref().unwrap_or("its history stays")),
    }
}

/// Draws the keys of the focused place, then those that act everywhere, as many as fit.
pub(super) fn draw_keys(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let scopes = state.key_scopes();
    let shown = |scope: KeyScope| all_bindings().filter(move |binding| binding.scope == scope);
    let mut x = area.x + 1;
    for binding in scopes.iter().flat_map(|scope| shown(*scope)) {
        let Some(short) = binding.short else { continue };
        let gap = if x > area.x + 1 { " · " } else { "" };
        let text = format!("{gap}{} {short}", binding.key_label());
        let columns = u16::try_from(crate::text::display_width(&text)).unwrap_or(u16::MAX);
        if x.saturating_add(columns) > area.right() {
            break;
        }
        x += canvas.write(x, area.y, columns, &text, canvas.theme.faint);
    }
}
