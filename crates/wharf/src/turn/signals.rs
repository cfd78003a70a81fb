//! Ctrl-C and other signals while a turn is watched.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnSignal {
    Interrupt,
    End,
}

#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Catches the signals from now on, so that a started session is not left running by one.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        let (interrupt, terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, hang_up: listen(SignalKind::hangup())? })
    }

    pub(crate) async fn next(&mut self) -> TurnSignal {
        tokio::select! {
            _ = self.interrupt.recv() => TurnSignal::Interrupt,
            _ = self.terminate.recv() => TurnSignal::End,
            _ = self.hang_up.recv() => TurnSignal::End,
        }
    }
}
