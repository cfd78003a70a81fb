//! Notices that a host has taken another port than before, so that the user is told once.

use std::path::Path;

use wharf_host::KeptPort;

/// The port that was kept before a host was started.
#[derive(Debug)]
pub(crate) struct PortWatch {
    kept: KeptPort,
    before: Option<u16>,
}

impl PortWatch {
    pub(crate) fn begin(state_dir: &Path) -> Self {
        let kept = KeptPort::of(state_dir);
        Self { before: kept.read(), kept }
    }

    /// Returns a note if a host has taken another port since then.
    pub(crate) fn describe_change(&self) -> Option<String> {
        let port = self.kept.read().filter(|port| Some(*port) != self.before)?;
        Some(describe_new_port(port))
    }
}

/// Says that another program has the usual port.
pub(crate) fn describe_new_port(port: u16) -> String {
    format!(
        "another program has this host's usual port: it listens on 127.0.0.1:{port} from now on \
         (another address: wharf config set listen ADDRESS:PORT)"
    )
}
