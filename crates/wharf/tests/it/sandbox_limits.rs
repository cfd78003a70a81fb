//! A confined agent against the host itself: limits and priorities, which Landlock does not cover.

use std::fs;

use anyhow::Result;
use wharf_testkit::client::Client;
use wharf_testkit::host::Host;

use crate::sandbox::{Yard, landlock};
use crate::told;

async fn confined(yard: &Yard) -> Result<(Host, Client, String)> {
    let host = yard.options(&[])?.start()?;
    let (client, session) = yard.open(&host).await?;
    Ok((host, client, session))
}

/// What one shell command of the agent did: `done`, or the complaint.
async fn attempt(client: &Client, session: &str, command: &str) -> Result<String> {
    told(client, session, &format!("sh {command} 2>&1 >/dev/null && echo done")).await
}

#[tokio::test]
async fn confined_agent_cannot_change_limits_and_priorities_of_other_processes() -> Result<()> {
    if !landlock() {
        return Ok(());
    }
    let yard = Yard::new()?;
    let (host, client, session) = confined(&yard).await?;
    let shim = told(&client, &session, r"sh sed -n 's/^PPid:\t//p' /proc/$PPID/status").await?;
    for victim in [host.pid().to_string(), shim.trim().to_owned()] {
        for attack in [
            format!("prlimit --pid {victim} --nofile=64:64"),
            format!("prlimit --pid {victim} --cpu=1:1"),
            format!("renice -n 19 -p {victim}"),
            format!("renice -n 19 -g $(cut -d' ' -f5 /proc/{victim}/stat)"),
            format!("taskset -p 1 {victim}"),
            format!("chrt --idle -p 0 {victim}"),
            format!("ionice -c 3 -p {victim}"),
        ] {
            let said = attempt(&client, &session, &attack).await?;
            assert!(said.contains("Operation not permitted"), "{attack}: {said}");
        }
    }
    // All processes of the user at once.
    let said = attempt(&client, &session, "renice -n 19 -u $(id -u)").await?;
    assert!(said.contains("Operation not permitted"), "{said}");
    let limits = fs::read_to_string(format!("/proc/{}/limits", host.pid()))?;
    assert!(!limits.contains("Max open files            64"), "{limits}");
    Ok(())
}

#[tokio::test]
async fn confined_agent_sets_its_own_limits_and_priorities() -> Result<()> {
    if !landlock() {
        return Ok(());
    }
    let yard = Yard::new()?;
    let (_host, client, session) = confined(&yard).await?;
    for deed in [
        "prlimit --nofile=100:100 true",
        "sh -c 'ulimit -n 100'",
        "nice -n 5 true",
        "taskset 1 true",
        "chrt --idle 0 true",
        "ionice -c 3 true",
        // Reading harms nobody.
        "prlimit --pid 1",
        "taskset -p 1",
    ] {
        assert_eq!(attempt(&client, &session, deed).await?, "done\n", "{deed}");
    }
    Ok(())
}
