//! Decides on the address of a host whose user has not set one. The host takes the usual port, or
//! another port if another program has the usual one. It keeps that other port in the state
//! directory, so that clients reach later hosts at the same address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::{Config, SettingOrigin};
use crate::private_file::write_private;

/// The default of `listen`.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7433";
/// The port of that address.
const USUAL_PORT: u16 = 7433;
/// Ports that are tried after the usual one. They lie below those that systems give to outgoing
/// connections, so that a kept port is usually free at the next start.
const NEARBY_PORTS: std::ops::RangeInclusive<u16> = USUAL_PORT + 1..=USUAL_PORT + 99;
const FILE_NAME: &str = "port";

/// The port that a host keeps in its state directory. A port that cannot be read counts as absent.
#[derive(Clone, Debug)]
pub struct KeptPort {
    file: PathBuf,
}

impl KeptPort {
    pub fn of(state_dir: &Path) -> Self {
        Self { file: state_dir.join(FILE_NAME) }
    }

    pub fn read(&self) -> Option<u16> {
        let text = std::fs::read_to_string(&self.file).ok()?;
        text.trim().parse().ok().filter(|port| *port != 0 && *port != USUAL_PORT)
    }

    /// Keeps this port for later hosts. The usual port needs no file.
    pub fn keep(&self, port: u16) -> std::io::Result<()> {
        if port != USUAL_PORT {
            return write_private(&self.file, format!("{port}\n").as_bytes());
        }
        match std::fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Config {
    /// Returns where a setting comes from.
    pub fn origin_of(&self, path: &str) -> SettingOrigin {
        self.settings.get(path).map_or(SettingOrigin::Default, |setting| setting.origin)
    }

    /// Returns true if the user has not set the address.
    pub fn has_default_address(&self) -> bool {
        self.listen == DEFAULT_LISTEN && self.origin_of("listen") == SettingOrigin::Default
    }

    /// Returns `listen`; if it has its default, with the port that is kept.
    pub fn listen_address(&self) -> String {
        match KeptPort::of(&self.state_dir).read().filter(|_| self.has_default_address()) {
            Some(port) => loopback(port).to_string(),
            None => self.listen.clone(),
        }
    }

    /// Yields the addresses to try in this order if `listen` has its default: the kept one, the
    /// usual one, those nearby, and at last any free one.
    pub fn default_addresses(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        let kept = KeptPort::of(&self.state_dir).read();
        let others = NEARBY_PORTS.filter(move |port| Some(*port) != kept).chain([0]);
        self.known_default_addresses().chain(others.map(loopback))
    }

    /// Yields those of them that clients may know: the kept one and the usual one.
    pub fn known_default_addresses(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        KeptPort::of(&self.state_dir)
            .read()
            .into_iter()
            .chain([USUAL_PORT])
            .map(loopback)
    }
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_port_counts_until_the_user_sets_an_address() {
        let folder = tempfile::tempdir().unwrap();
        let config = |text: &str| Config {
            state_dir: folder.path().to_owned(),
            ..Config::parse(text).unwrap()
        };
        let unset = config("");
        assert_eq!(unset.listen_address(), "127.0.0.1:7433");
        KeptPort::of(folder.path()).keep(7440).unwrap();
        assert_eq!(unset.listen_address(), "127.0.0.1:7440");
        let ports: Vec<u16> = unset.default_addresses().map(|address| address.port()).collect();
        assert_eq!(ports[..3], [7440, 7433, 7434]);
        assert_eq!(ports.last(), Some(&0));
        assert_eq!(ports.iter().filter(|port| **port == 7440).count(), 1);
        assert_eq!(config("listen = \"127.0.0.1:7433\"").listen_address(), "127.0.0.1:7433");
        KeptPort::of(folder.path()).keep(7433).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn damaged_file_counts_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "0", "70000", "x", "7433", "\u{0}"] {
            std::fs::write(folder.path().join(FILE_NAME), text).unwrap();
            assert_eq!(KeptPort::of(folder.path()).read(), None, "{text:?}");
        }
    }
}
