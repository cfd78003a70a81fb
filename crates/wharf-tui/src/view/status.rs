//! The two lines at the bottom: the state of the host and the turn, and the keys of the focused
//! place.

use ratatui_core::layout::Rect;
use wharf_api::{SessionInfo, SessionStatus, StoragePause, TurnPhase};
use wharf_render::text::{format_age, parse_millis};

use super::Canvas;
use crate::keymap::{ComposerCommand, KeyBinding, KeyMeaning, KeyPress, TuiCommand, all_bindings};
use crate::model::{HostLoss, HostPresence, InterruptStep, TuiState};
use crate::session_words::{has_failed, is_asleep};

/// A start that takes longer is explained.
const SLOW_START_SECONDS: u64 = 15;

/// Draws the state of the host or of the turn. Without the list it also tells that other sessions
/// need the person.
pub(super) fn draw_status(state: &TuiState, area: Rect, has_list: bool, canvas: &mut Canvas) {
    let theme = canvas.theme;
    let (text, style) = match (&state.connection, &state.message) {
        (HostPresence::Connecting { .. }, _) => ("starting the host…".to_owned(), theme.faint),
        (HostPresence::Stopping, _) => {
            ("the host is stopping · your text is kept".to_owned(), theme.wants)
        }
        (HostPresence::Lost { .. } | HostPresence::Silent, Some(message)) if message.is_error => {
            (message.text.clone(), theme.bad)
        }
        (HostPresence::Silent, _) => {
            ("the host does not answer · your text is kept".to_owned(), theme.wants)
        }
        (HostPresence::Lost { .. }, _) => (describe_loss(state).unwrap_or_default(), theme.wants),
        (HostPresence::Connected, Some(message)) if message.is_error => {
            (message.text.clone(), theme.bad)
        }
        (HostPresence::Connected, Some(message)) => (message.text.clone(), theme.plain),
        (HostPresence::Connected, None) => {
            (describe_session(state).unwrap_or_default(), theme.plain)
        }
    };
    let note = match &state.other_host_version {
        Some(version) => {
            format!(" host {version}, this is {}: wharf restart ", env!("CARGO_PKG_VERSION"))
        }
        None if has_list || !matches!(state.connection, HostPresence::Connected) => String::new(),
        None => {
            let waiting =
                state.list.describe_waiting(state.open.as_ref().map(|open| open.id.as_str()));
            if waiting.is_empty() { waiting } else { format!(" {waiting} · Ctrl-N ") }
        }
    };
    let left = canvas.write_right(area, &note, theme.wants);
    canvas.write(area.x + 1, area.y, left.saturating_sub(1), &text, style);
}

/// Tells why the host cannot be used and what happens next; `None` if it can be used.
fn describe_loss(state: &TuiState) -> Option<String> {
    let HostPresence::Lost { loss, reason, is_refused, retry_at } = &state.connection else {
        return None;
    };
    let wait = retry_at
        .map(|at| at.saturating_sub(state.now.elapsed).as_secs())
        .unwrap_or_default();
    let retry =
        if wait > 0 { format!("trying again in {wait} s") } else { "trying again".to_owned() };
    if *is_refused {
        return Some(format!("the host refuses: {reason} · {retry} · your text is kept"));
    }
    let text = match loss {
        HostLoss::Starting { .. } | HostLoss::Started { .. } => {
            "host not reachable: starting it again · your text is kept".to_owned()
        }
        HostLoss::StartFailed(reason) => {
            format!("host not started · Ctrl-X S tries again · {reason}")
        }
        HostLoss::Stopped if state.options.may_start_host => {
            "the host was stopped · Ctrl-X S starts it again · your text is kept".to_owned()
        }
        HostLoss::Stopped => "the host was stopped · waiting for it · your text is kept".to_owned(),
        HostLoss::Unreachable | HostLoss::Refusing => {
            let reason = if reason.is_empty() { String::new() } else { format!(" · {reason}") };
            format!("host not reachable · {retry} · your text is kept{reason}")
        }
    };
    Some(text)
}

/// Describes the open session: its turn, and what the next key does.
fn describe_session(state: &TuiState) -> Option<String> {
    let open = state.open.as_ref()?;
    let info = state.open_info()?;
    if let Some(reason) = &open.rows_loss {
        return Some(format!("no news of this session · trying again · {reason}"));
    }
    let text = match open.interrupt.step {
        InterruptStep::Armed { .. } => "Esc again to interrupt the turn".to_owned(),
        InterruptStep::Asked { since } => {
            let left =
                state.cancel_timeout.map(|timeout| (since + timeout).saturating_sub(state.now.elapsed).as_secs());
            match left {
                None | Some(0) => "interrupting · Esc ends it by force".to_owned(),
                Some(left) => format!("interrupting · forced in {left} s · Esc ends it by force now"),
            }
        }
        InterruptStep::Idle if open.composing.queue_edit.is_some() => {
            "Enter saves · Esc leaves it as it was · Ctrl-X D removes · Ctrl-X ↑ ↓ moves · Ctrl-X Enter sends now"
                .to_owned()
        }
        InterruptStep::Idle => describe_turn(state, info),
    };
    Some(text)
}

fn describe_turn(state: &TuiState, info: &SessionInfo) -> String {
    match &info.paused {
        Some(StoragePause::StorageFull) => {
            return "paused: disk full · kill and interrupt work".to_owned();
        }
        Some(_) => return "paused: the disk is read-only · kill and interrupt work".to_owned(),
        None => {}
    }
    // An observer has none of these keys.
    let with_keys = |text: &str, keys: &str| {
        if state.options.is_readonly { text.to_owned() } else { format!("{text} · {keys}") }
    };
    let seconds_since =
        |at: Option<u64>| at.map_or(0, |at| state.now.unix_millis.saturating_sub(at) / 1_000);
    match (&info.status, &info.turn) {
        (SessionStatus::Starting, _) => {
            let seconds = seconds_since(parse_millis(&info.started_at));
            let note = if seconds >= SLOW_START_SECONDS {
                " · the first start may download the adapter"
            } else {
                ""
            };
            with_keys(
                &format!("» starting {} · {seconds} s{note}", info.adapter_slug),
                "Enter queues",
            )
        }
        (SessionStatus::Running, TurnPhase::Idle) => "idle".to_owned(),
        (SessionStatus::Running, TurnPhase::AwaitingInput) => {
            with_keys("? waits for an answer", "Ctrl-G")
        }
        (SessionStatus::Running, _) => {
            let since =
                info.attention.as_ref().and_then(|attention| parse_millis(&attention.since));
            let seconds = seconds_since(since);
            let working = format!("» working {}:{:02}", seconds / 60, seconds % 60);
            with_keys(&working, "Enter queues · Esc Esc interrupts")
        }
        _ if is_asleep(info) => with_keys("z asleep", "the next prompt wakes it"),
        (SessionStatus::Killed, _) => {
            let age = info.ended_at.as_deref().and_then(parse_millis);
            let age = age
                .map(|at| format!(" {}", format_age(at, state.now.unix_millis)))
                .unwrap_or_default();
            with_keys(&format!("killed{age} · its history stays"), "Ctrl-X R resumes")
        }
        _ if has_failed(info) => with_keys(info.status.as_str(), "Ctrl-X A tries again"),
        (status, _) => {
            format!("{status} · {}", info.message.as_deref().unwrap_or("its history stays"))
        }
    }
}

/// Draws the keys of the focused place, then those that act everywhere, as many as fit. A key that
/// an inner place takes is left out.
pub(super) fn draw_keys(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let scopes = state.key_scopes();
    let acts = |binding: &&KeyBinding| {
        let first = binding.keys.first().and_then(|keys| KeyPress::parse(keys));
        first.is_some_and(|key| {
            state.keymap.find(&scopes, None, key) == KeyMeaning::Run(binding.command)
        })
    };
    let shown = scopes
        .iter()
        .flat_map(|scope| all_bindings().filter(move |binding| binding.scope == *scope));
    let edits_queue = state.open.as_ref().is_some_and(|open| open.composing.queue_edit.is_some());
    let name_effect = |binding: &KeyBinding| {
        let saves = edits_queue && binding.command == TuiCommand::Composer(ComposerCommand::Send);
        if saves { Some("save") } else { binding.short }
    };
    let mut texts: Vec<String> = Vec::new();
    for binding in shown.filter(acts) {
        texts
            .extend(name_effect(binding).map(|effect| format!("{} {effect}", binding.key_label())));
    }
    if !state.overlays.is_empty() {
        texts.push("Esc back".to_owned());
    }
    let mut x = area.x + 1;
    for text in texts {
        let gap = if x > area.x + 1 { " · " } else { "" };
        let text = format!("{gap}{text}");
        let columns = u16::try_from(wharf_render::text::display_width(&text)).unwrap_or(u16::MAX);
        if x.saturating_add(columns) > area.right() {
            break;
        }
        x += canvas.write(x, area.y, columns, &text, canvas.theme.faint);
    }
}
