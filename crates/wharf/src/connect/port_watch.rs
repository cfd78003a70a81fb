//! Notices that a host has taken another port than before, so that the client tells the user once.

use std::path::Path;

use wharf_config::{DEFAULT_LISTEN as USUAL_ADDRESS, KeptPort};

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
        match self.kept.read() {
            now if now == self.before => None,
            Some(port) => Some(describe_new_port(port)),
            None => {
                Some(format!("this host's usual port is free: it listens on {USUAL_ADDRESS} again"))
            }
        }
    }
}

/// Says that another program has the usual port.
pub(crate) fn describe_new_port(port: u16) -> String {
    format!(
        "another program has this host's usual port: it listens on 127.0.0.1:{port} from now on \
         (another address: wharf config set listen ADDRESS:PORT)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_move_to_another_port_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let kept = KeptPort::of(folder.path());
        let note_of_start = |port: u16| {
            let watch = PortWatch::begin(folder.path());
            kept.keep(port).unwrap();
            watch.describe_change()
        };
        assert_eq!(note_of_start(7433), None);
        assert!(
            note_of_start(7434).is_some_and(|note| note.contains("127.0.0.1:7434 from now on"))
        );
        assert_eq!(note_of_start(7434), None);
        assert!(note_of_start(7433).is_some_and(|note| note.contains("127.0.0.1:7433 again")));
        assert_eq!(note_of_start(7433), None);
    }
}
