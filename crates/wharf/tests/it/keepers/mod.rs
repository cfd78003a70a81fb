//! Agents that outlive their host (rule 2.14): the running turn goes on with the next host, nothing
//! is lost or doubled, and no process is left behind.

mod adopted_identity;
mod callers;
mod carried_over;
pub(crate) mod left_output;
mod long_turn;
mod long_turn_clients;
mod without_host;

use std::ops::{Deref, DerefMut};

use anyhow::{Result, ensure};
use serde_json::Value;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;
use wharf_testkit::random::TestRandom;
use wharf_testkit::{polling, processes};

use crate::TREE_ENDS_WITHIN;

/// A host whose agents outlive it, with a look at its keepers.
#[derive(Debug)]
pub(crate) struct KeepingHost(TestHost);

impl KeepingHost {
    pub(crate) fn start(options: HostOptions) -> Result<Self> {
        Ok(Self(options.start_host()?))
    }

    /// Returns the pids of the keepers on record.
    pub(crate) fn keeper_pids(&self) -> Vec<u32> {
        let entries = std::fs::read_dir(self.0.state_dir().join("run"))
            .into_iter()
            .flatten()
            .flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// Returns the keepers on record and every process below them.
    pub(crate) fn kept_processes(&self) -> Vec<u32> {
        let keepers = self.keeper_pids();
        let below = keepers.iter().flat_map(|keeper| processes::list_descendants(*keeper));
        below.chain(keepers.iter().copied()).collect()
    }

    /// Returns the keepers of agents that outlive the host. Agents without a session do not.
    pub(crate) fn keepers_of_sessions(&self) -> Result<Vec<u32>> {
        let mut keepers = Vec::new();
        for keeper in self.keeper_pids() {
            // The agent of an `initialize` may end meanwhile.
            let Ok(record) = std::fs::read(self.0.state_dir().join("run").join(keeper.to_string()))
            else {
                continue;
            };
            if serde_json::from_slice::<Value>(&record)?["kept"].is_object() {
                keepers.push(keeper);
            }
        }
        Ok(keepers)
    }

    /// Returns the keeper of the only session.
    pub(crate) fn only_keeper(&self) -> Result<u32> {
        match self.keepers_of_sessions()?.as_slice() {
            [one] => Ok(*one),
            several => anyhow::bail!("keepers: {several:?}"),
        }
    }

    /// Stops the host with its agents and checks that no process, record or socket is left.
    pub(crate) async fn stop_all(mut self) -> Result<()> {
        let all = self.kept_processes();
        RestClient::new(&self.0).post_empty("/stop").await?.expect(202)?;
        ensure!(self.0.wait_exit(TREE_ENDS_WITHIN)?.success(), "the host's exit");
        self.expect_nothing_left(&all).await
    }

    /// Checks that these processes are gone, and every record and socket.
    pub(crate) async fn expect_nothing_left(&self, pids: &[u32]) -> Result<()> {
        let left = processes::wait_gone(pids, TREE_ENDS_WITHIN).err().unwrap_or_default();
        ensure!(left.is_empty(), "processes are left: {left:?}");
        let sockets = || {
            std::fs::read_dir(self.0.state_dir().join("run/keepers-1")).map_or(0, Iterator::count)
        };
        // A host that lives learns of the end of a keeper at the same time as this test.
        let is_clean = || self.keeper_pids().is_empty() && sockets() == 0;
        let cleaned =
            polling::poll_until(TREE_ENDS_WITHIN, || Ok(is_clean().then_some(()))).await?;
        ensure!(
            cleaned.is_some(),
            "records are left: {:?}, and {} sockets",
            self.keeper_pids(),
            sockets()
        );
        Ok(())
    }
}

impl Deref for KeepingHost {
    type Target = TestHost;

    fn deref(&self) -> &TestHost {
        &self.0
    }
}

impl DerefMut for KeepingHost {
    fn deref_mut(&mut self) -> &mut TestHost {
        &mut self.0
    }
}

/// Picks how often a test yields before a kill. Small and large numbers are equally frequent.
fn pick_yields(dice: &mut TestRandom) -> u64 {
    let end = 1 << dice.next_below(12);
    dice.next_below(end)
}

async fn pause_for_yields(yields: u64) {
    for _ in 0..yields {
        tokio::task::yield_now().await;
    }
}
