//! `wharf stop`: stops the host, and waits until its process has ended. It asks before it cuts
//! turns.

use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, test_kill_process};
use wharf_api::{StopAgents, StopReceipt, TurnCount};
use wharf_host::inspect_keepers;

use super::status;
use crate::client::{HostCall, HostClient};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::output;

/// An agent may take five seconds to end, and its child processes as well; logs are synced after
/// that.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const FIRST_POLL_DELAY: Duration = Duration::from_millis(5);
const MAX_POLL_DELAY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct StopVerb {
    /// Stop even if that cuts turns.
    #[arg(long)]
    force: bool,
    /// Leave the agents to their keepers: they go on, and the next host takes them over.
    #[arg(long)]
    keep_agents: bool,
}

pub(crate) async fn run(global: &GlobalOptions, verb: StopVerb) -> anyhow::Result<Exit> {
    global.refuse_remote(
        "stop is for the host of this machine: one that is stopped elsewhere could not be started from here",
    )?;
    let client = match global.connect_if_running().await {
        Ok(client) => client,
        Err(error) if Failure::exit_of(&error) == Exit::NoHost => {
            let kept = inspect_keepers(&global.state_dir()?).versions.len();
            if kept == 0 || verb.keep_agents || global.no_start {
                output::print_note("no host was running");
                print_kept_agents(global)?;
                return Ok(Exit::Ok);
            }
            // Only a host ends the agents in order, with their ends in the logs.
            let agents =
                if kept == 1 { "1 agent goes".to_owned() } else { format!("{kept} agents go") };
            output::print_note(&format!(
                "no host was running, and {agents} on without one: starting a host to end them"
            ));
            global.connect_client().await?
        }
        Err(error) => return Err(error),
    };
    let agents = if verb.keep_agents { StopAgents::Leave } else { StopAgents::End };
    // A host of another version may not tell its turns.
    let turns = status::describe_host(&client)
        .await
        .and_then(|host| host.turns)
        .unwrap_or_default();
    let cut = count_cut_turns(turns, agents);
    if cut > 0 && !verb.force && !may_cut_turns(cut, agents)? {
        output::print_note("the host goes on");
        return Ok(Exit::Refused);
    }
    if let Some(pid) = stop_and_wait(&client, agents).await? {
        let cut_turns = if cut > 0 {
            format!("; {} cut", describe_turns(cut, "was", "were"))
        } else {
            String::new()
        };
        output::print_line(&format!("stopped (pid {pid}){cut_turns}; every session is on disk"));
    }
    print_kept_agents(global)?;
    Ok(Exit::Ok)
}

/// Returns how many turns end with the host.
const fn count_cut_turns(turns: TurnCount, agents: StopAgents) -> usize {
    match agents {
        StopAgents::End => turns.running,
        StopAgents::Leave => turns.running.saturating_sub(turns.kept),
    }
}

/// Asks the person at the terminal whether turns may be cut. Refuses if there is none.
fn may_cut_turns(cut: usize, agents: StopAgents) -> anyhow::Result<bool> {
    let turns = describe_turns(cut, "is", "are");
    if output::is_person_present() {
        return Ok(output::confirm(
            &format!("{turns} under way and would be cut. Stop the host? [y/N] "),
            false,
        )?);
    }
    let other_way = match agents {
        StopAgents::End => "leave the agents to the next host (wharf stop --keep-agents)",
        StopAgents::Leave => "wait for their end (wharf sessions)",
    };
    let words = format!("{turns} under way and would be cut; {other_way}, or say --force");
    Err(Failure::new(Exit::Refused, words).into())
}

fn describe_turns(count: usize, is: &str, are: &str) -> String {
    if count == 1 { format!("1 turn {is}") } else { format!("{count} turns {are}") }
}

/// Says how many agents go on without a host.
pub(super) fn print_kept_agents(global: &GlobalOptions) -> anyhow::Result<()> {
    let agents = match inspect_keepers(&global.state_dir()?).versions.len() {
        0 => return Ok(()),
        1 => "1 agent goes on without a host; the next one takes it over".to_owned(),
        count => format!("{count} agents go on without a host; the next one takes them over"),
    };
    output::print_note(&format!("{agents} (start it: wharf restart)"));
    Ok(())
}

/// Stops the host and waits until its process has ended. Returns its pid, unless the host does not
/// tell it.
pub(super) async fn stop_and_wait(
    client: &HostClient,
    agents: StopAgents,
) -> anyhow::Result<Option<u32>> {
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
            let words = format!(
                "the host (pid {pid}) is stopping but has not ended in {} s",
                STOP_TIMEOUT.as_secs()
            );
            return Err(Failure::new(Exit::Error, words).into());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_POLL_DELAY);
    }
    Ok(Some(pid))
}

/// Returns false for a process that has ended, even if its parent has not reaped it yet.
fn is_alive(pid: u32) -> bool {
    let known = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| test_kill_process(pid).is_ok());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which may itself contain brackets.
    let ended = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']));
    known && !ended
}
