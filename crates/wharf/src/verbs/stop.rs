//! `wharf stop`: stops the host, and waits until its process has ended.

use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, test_kill_process};
use wharf_api::{StopAgents, StopReceipt};

use crate::client::{HostCall, HostClient};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::output;

/// An agent may take five seconds to end, and its child processes as well; logs are synced after that.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const FIRST_POLL_DELAY: Duration = Duration::from_millis(5);
const MAX_POLL_DELAY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct StopVerb {}

pub(crate) async fn run(global: &GlobalOptions, _: StopVerb) -> anyhow::Result<Exit> {
    global.refuse_remote(
        "stop is for the host of this machine: one that is stopped elsewhere could not be started from here",
    )?;
    let client = match global.connect_if_running().await {
        Ok(client) => client,
        Err(error) if Failure::exit_of(&error) == Exit::NoHost => {
            output::print_note("no host was running");
            return Ok(Exit::Ok);
        }
        Err(error) => return Err(error),
    };
    if let Some(pid) = stop_and_wait(&client, StopAgents::End).await? {
        output::print_line(&format!("stopped (pid {pid}); every session is on disk"));
    }
    Ok(Exit::Ok)
}

/// Stops the host and waits until its process has ended. Returns its pid, unless the host does not tell it.
pub(super) async fn stop_and_wait(client: &HostClient, agents: StopAgents) -> anyhow::Result<Option<u32>> {
    let path = match agents {
        StopAgents::End => "/stop",
        StopAgents::Leave => "/stop?agents=leave",
    };
    // A host of another version may answer something else.
    let answer = client.send_call(&HostCall::post_empty(path)).await?;
    let told = answer.json::<StopReceipt>().ok().map(|receipt| receipt.pid);
    let Some(pid) = told.or(client.pid) else { return Ok(None) };
    let give_up_at = Instant::now() + STOP_TIMEOUT;
    let mut pause = FIRST_POLL_DELAY;
    while is_alive(pid) {
        if Instant::now() >= give_up_at {
            let words = format!("the host (pid {pid}) is stopping but has not ended in {} s", STOP_TIMEOUT.as_secs());
            return Err(Failure::new(Exit::Error, words).into());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_POLL_DELAY);
    }
    Ok(Some(pid))
}

/// Returns false for a process that has ended, even if its parent has not reaped it yet.
fn is_alive(pid: u32) -> bool {
    let known = i32::try_from(pid).ok().and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid).is_ok());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which may itself contain brackets.
    let ended = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']));
    known && !ended
}
