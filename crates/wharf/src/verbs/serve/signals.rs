//! Signals to the host: some stop it gracefully, SIGHUP reloads its settings, the others have no
//! effect.

use anyhow::Context;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::Receiver;
use wharf_server::StopKind;

/// Each of these stops the host gracefully. A person at the terminal stops the agents too; a
/// service manager or a script that ends the host leaves them to the next one.
const STOP_SIGNALS: [(Signal, StopKind); 3] = [
    (Signal::TERM, StopKind::LeaveAgents),
    (Signal::INT, StopKind::EndAgents),
    (Signal::QUIT, StopKind::EndAgents),
];

/// By default each of these would end the host at once, with agents running and logs unsynced.
/// SIGXFSZ comes when a file has reached its limit, which the write then reports too.
const IGNORED_SIGNALS: [Signal; 8] = [
    Signal::USR1,
    Signal::USR2,
    Signal::XFSZ,
    Signal::XCPU,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::IO,
];

/// Listens for signals from now on. The future completes at the first signal that stops the host.
/// The second one ends the program at once, and leaves the agents to their keepers. The receiver
/// gets something at each SIGHUP, which also comes when a terminal closes: a reload without a
/// change does no harm.
///
/// Signals without effect are caught rather than ignored: agents would inherit the ignoring.
pub(super) fn listen() -> anyhow::Result<(impl Future<Output = StopKind>, Receiver<()>)> {
    let (stop, mut stops) = tokio::sync::mpsc::channel(2);
    for (signal, kind) in STOP_SIGNALS {
        let stop = stop.clone();
        on_each(signal, move || {
            let _ = stop.try_send(kind);
        })?;
    }
    for kind in IGNORED_SIGNALS {
        on_each(
            kind,
            move || tracing::info!(signal = ?kind, "a signal without effect; SIGTERM stops this host"),
        )?;
    }
    // Signals that come while one is handled are one more reload.
    let (reload, reloads) = tokio::sync::mpsc::channel(1);
    on_each(Signal::HUP, move || {
        let _ = reload.try_send(());
    })?;
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let kind = stops.recv().await.unwrap_or(StopKind::LeaveAgents);
        tracing::info!(?kind, "stopping: no new work; a second signal ends at once");
        let _ = stopping.send(kind);
        // At the end of the program the senders are dropped, which does not count as a signal.
        if stops.recv().await.is_some() {
            std::process::exit(130);
        }
    });
    let stopped = async move { stopped.await.unwrap_or(StopKind::LeaveAgents) };
    Ok((stopped, reloads))
}

/// Calls `call` at each such signal, as long as the program runs.
fn on_each(kind: Signal, call: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let mut signals = signal(SignalKind::from_raw(kind.as_raw()))
        .with_context(|| format!("listening for {kind:?}"))?;
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            call();
        }
    });
    Ok(())
}
