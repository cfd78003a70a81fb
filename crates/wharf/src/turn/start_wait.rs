//! Waits until the agent of a new session has started.

use wharf_api::SessionStatus;
use wharf_render::style::Screen;

use super::printer::TurnPrinter;
use super::{Signals, TurnFormat, TurnSignal, status_ticks, tick};
use crate::client::{HostClient, TranscriptStream, TranscriptUpdate};

/// The outcome of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartEnd {
    Started,
    Failed,
    /// The person did not want to wait any longer.
    Left,
    /// The terminal is gone. The session stays.
    TerminalLost,
}

/// Waits until the agent runs, has failed to start, or a signal comes.
pub(crate) async fn wait_until_started(
    client: &HostClient,
    session: &str,
    agent: &str,
    screen: Screen,
    signals: &mut Signals,
) -> anyhow::Result<StartEnd> {
    let mut rows = TranscriptStream::open(client, session, false);
    let mut printer = TurnPrinter::new(TurnFormat::Json, screen, agent);
    let mut ticks = printer.has_status().then(status_ticks);
    let end = loop {
        tokio::select! {
            update = rows.next() => {
                if let Some(end) = find_start_end(update?.as_ref()) {
                    break end;
                }
            }
            pressed = signals.next() => match pressed {
                TurnSignal::HangUp => break StartEnd::TerminalLost,
                TurnSignal::Interrupt | TurnSignal::End => break StartEnd::Left,
            },
            () = tick(&mut ticks) => printer.draw_status(),
        }
    };
    printer.clear_status();
    Ok(end)
}

/// Returns the outcome of the start that an update tells of. The stream ends with the session.
fn find_start_end(update: Option<&TranscriptUpdate>) -> Option<StartEnd> {
    match update {
        Some(TranscriptUpdate::State(state)) if state.session.status == SessionStatus::Running => {
            Some(StartEnd::Started)
        }
        Some(TranscriptUpdate::State(state)) => {
            (!state.session.status.is_alive()).then_some(StartEnd::Failed)
        }
        Some(TranscriptUpdate::Gone) | None => Some(StartEnd::Failed),
        Some(
            TranscriptUpdate::FirstPage { .. }
            | TranscriptUpdate::Row(_)
            | TranscriptUpdate::Event(_)
            | TranscriptUpdate::HostAway
            | TranscriptUpdate::HostBack,
        ) => None,
    }
}
