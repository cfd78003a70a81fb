//! Ctrl-C and other signals while a turn is watched.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnSignal {
    Interrupt,
    End,
    /// The terminal is gone.
    HangUp,
}

#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if this program was started so that it outlives its terminal, as by `nohup`.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Catches the signals from now on, so that a started session is not left running by one.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        let interrupt = listen(SignalKind::interrupt())?;
        let terminate = listen(SignalKind::terminate())?;
        let hang_up = if is_hang_up_ignored() { None } else { Some(listen(SignalKind::hangup())?) };
        Ok(Self { interrupt, terminate, hang_up })
    }

    pub(crate) async fn next(&mut self) -> TurnSignal {
        tokio::select! {
            _ = self.interrupt.recv() => TurnSignal::Interrupt,
            _ = self.terminate.recv() => TurnSignal::End,
            () = wait_for(&mut self.hang_up) => TurnSignal::HangUp,
        }
    }

    /// Waits for the work of a process without a terminal. Returns `None` if a signal ends it
    /// before, which SIGHUP does not.
    pub(crate) async fn run_until_end<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                pressed = self.next() => match pressed {
                    TurnSignal::HangUp => {}
                    TurnSignal::Interrupt | TurnSignal::End => return None,
                },
            }
        }
    }
}

async fn wait_for(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Returns true if SIGHUP is ignored, as the starter of this program has set it.
fn is_hang_up_ignored() -> bool {
    // The bits of ignored signals; SIGHUP is the first.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & 1 == 1)
}
