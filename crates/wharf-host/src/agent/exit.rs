//! A running agent process as the host holds it: how to end it, and how it ended.

use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::{mpsc, watch};

use super::adopted::{self, Shim};
use super::badge::Worn;
use super::shim;
use super::records::Records;

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgentExit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

impl AgentExit {
    pub(crate) fn describe(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("the agent exited with code {code}"),
            (None, Some(signal)) => format!("the agent was ended by signal {signal}"),
            (None, None) => "the agent was ended together with its shim".to_owned(),
        }
    }
}

/// The host's hold on an agent's tree. Dropping it ends the tree, as the host's death would.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    shim: u32,
    end: mpsc::Sender<()>,
    exit: watch::Receiver<Option<AgentExit>>,
}

impl AgentProcess {
    /// The shim's pid: the root of the tree.
    pub(crate) fn shim(&self) -> u32 {
        self.shim
    }

    /// Asks for the end; returns at once. Asking again does nothing.
    pub(crate) fn end(&self) {
        let _ = self.end.try_send(());
    }

    /// Waits until nothing of the tree is left.
    pub(crate) async fn gone(&mut self) -> AgentExit {
        match self.exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            Err(_) => AgentExit::default(),
        }
    }
}

/// How long the last words of a shim may take to be read. They are there already.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Follows the shim until it ends.
pub(super) fn attend(
    mut child: Child,
    shim: Shim,
    mut news: Lines<BufReader<OwnedReadHalf>>,
    mut control: OwnedWriteHalf,
    records: Records,
    worn: Option<Worn>,
) -> AgentProcess {
    let (pid, mut killed) = (shim.0, false);
    let (end, mut ends) = mpsc::channel(1);
    let (report, exit) = watch::channel(None);
    tokio::spawn(async move {
        let mut how = AgentExit::default();
        let mut ending = false;
        let mut talking = true;
        loop {
            tokio::select! {
                line = news.next_line(), if talking => match line {
                    Ok(Some(line)) => note(&line, &mut how),
                    Ok(None) | Err(_) => talking = false,
                },
                // `None`: the owner dropped its hold, which means the same.
                _ = ends.recv(), if !ending => {
                    ending = true;
                    let _ = control.write_all(shim::END).await;
                }
                status = child.wait() => {
                    // What the shim wrote just before it ended is still in the socket. Whoever else may hold its end of
                    // it has nothing to say.
                    while let Ok(Ok(Some(line))) = tokio::time::timeout(LAST_WORDS, news.next_line()).await {
                        note(&line, &mut how);
                    }
                    if how == AgentExit::default() || !status.is_ok_and(|status| status.code().is_some()) {
                        // The shim itself was killed: what it had is ended by record, and what has become ours by descent.
                        let (records, pid) = (records.clone(), shim.0);
                        let _ = tokio::task::spawn_blocking(move || records.end_left(pid)).await;
                        killed = true;
                    }
                    break;
                }
            }
        }
        records.remove(shim.0);
        drop(shim);
        if killed {
            // What has taken its tag off is ours now.
            adopted::end().await;
        }
        // First of all who waits for the end: its token is of no use any more.
        drop(worn);
        report.send_replace(Some(how));
    });
    AgentProcess { shim: pid, end, exit }
}

fn note(line: &str, how: &mut AgentExit) {
    match line.split_once(' ') {
        Some((shim::EXITED, code)) => how.code = code.parse().ok(),
        Some((shim::SIGNALLED, signal)) => how.signal = signal.parse().ok(),
        _ => {}
    }
}
