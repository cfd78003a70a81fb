//! State directories with ended sessions, made without a host.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::Bench;
use super::compare::Binary;
use crate::output::print_progress;
use crate::process::{command, run_checked};

impl Bench {
    pub(super) fn cold_dir(&self, binary: &Binary) -> PathBuf {
        self.dir.join(format!("cold-{}", binary.name))
    }

    /// Makes ended sessions of at least this many events with the program beside the binary, or
    /// with this repo's if there is none.
    pub(super) fn make_cold_sessions(
        &self,
        binary: &Binary,
        sessions: u32,
        events: u32,
    ) -> Result<()> {
        let dir = self.cold_dir(binary);
        fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
        print_progress(&format!("making {sessions} sessions"));
        let mut maker = binary.wharf.with_file_name("wharf-cold-sessions");
        if !maker.exists() {
            maker = self.agent.with_file_name("wharf-cold-sessions");
        }
        run_checked(
            command(&maker)
                .arg(dir.join("state"))
                .args([sessions.to_string(), events.to_string()]),
        )
    }

    /// Deletes files of the state directory together with SQLite's files beside them. No host may
    /// be running.
    pub(super) fn delete_databases(&self, binary: &Binary, names: &[&str]) {
        for name in names {
            for suffix in ["", "-wal", "-shm"] {
                let _ = fs::remove_file(
                    self.cold_dir(binary).join("state").join(format!("{name}{suffix}")),
                );
            }
        }
    }

    pub(super) fn remove_cold_sessions(&self) -> Result<()> {
        for binary in &self.binaries {
            let dir = self.cold_dir(binary);
            fs::remove_dir_all(&dir).with_context(|| format!("deleting {}", dir.display()))?;
        }
        Ok(())
    }
}
