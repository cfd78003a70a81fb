//! Processes that resist signals, and the functions that inspect them.

use std::time::Duration;

use anyhow::{Context, Result};
use wharf_testkit::{WAIT_LIMIT, processes};

use crate::{open_scripted_agent, prompt_for_text};

/// The pids that the command `spawn` reports. Dropping it kills them.
struct Pids(Vec<u32>);

impl Drop for Pids {
    fn drop(&mut self) {
        for pid in &self.0 {
            processes::send_sigkill(*pid);
        }
    }
}

#[test]
fn spawned_children_survive_their_agent_until_killed() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    let text = prompt_for_text(&mut agent, &session, "spawn")?.0;
    let pids: Vec<u32> = text.split(' ').skip(1).map(str::parse).collect::<Result<_, _>>()?;
    let pids = Pids(pids);
    assert_eq!(pids.0.len(), 3);
    assert_eq!(
        processes::list_descendants(agent.pid()).len(),
        2,
        "the third has no parent any more"
    );
    agent.close_stdin();
    agent.wait_exit()?;
    assert!(pids.0.iter().all(|pid| processes::is_alive(*pid)));
    assert!(pids.0.iter().all(|pid| processes::send_sigterm(*pid)));
    let left = processes::wait_gone(&pids.0[..], Duration::from_millis(50))
        .err()
        .context("all obeyed SIGTERM")?;
    assert!(left.len() >= 2);
    assert!(left.iter().all(|pid| processes::send_sigkill(*pid)));
    assert_eq!(processes::wait_gone(&pids.0, WAIT_LIMIT), Ok(()));
    Ok(())
}

#[test]
fn an_agent_can_ignore_the_end_of_its_input_and_sigterm() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&["--ignore-eof", "--ignore-term"])?;
    agent.close_stdin();
    processes::send_sigterm(agent.pid());
    assert!(processes::wait_gone(&[agent.pid()], Duration::from_millis(50)).is_err(), "{session}");
    processes::send_sigkill(agent.pid());
    assert!(agent.wait_exit()?.code().is_none());
    Ok(())
}

#[test]
fn memory_and_cpu_time_are_seen() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    let before = processes::cpu_time(agent.pid()).context("no CPU time")?;
    // The kernel counts in ticks and by samples: a short burst may pass between two of them.
    let mut has_advanced = || -> Result<bool> {
        agent.send_prompt(&session, "burst 15000 50 flush")?;
        Ok(processes::cpu_time(agent.pid()).context("no CPU time")? > before)
    };
    let bursts = (0..50).map(|_| has_advanced()).find(|advanced| !matches!(advanced, Ok(false)));
    assert!(bursts.context("50 bursts took no CPU time")??);
    assert!((500..200_000).contains(&processes::rss_kib(agent.pid()).context("no memory")?));
    assert!(processes::is_alive(std::process::id()));
    Ok(())
}
