//! TLS for the TCP listener (rule 10.4).

use std::path::PathBuf;

use serde::Deserialize;

/// The files of the certificate and its key: both are set, or neither.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TlsSettings {
    /// A PEM file: the certificate first, then those that lead to its root.
    pub cert: Option<PathBuf>,
    /// A PEM file with the certificate's private key.
    pub key: Option<PathBuf>,
}

/// A further name of this host is a name alone: no scheme, no port, no path.
pub(super) fn check_names(hosts: &[String]) -> Result<(), String> {
    let plain = |name: &String| {
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let address = name.parse::<std::net::IpAddr>().is_ok();
        address
            || (!name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')))
    };
    match hosts.iter().find(|name| !plain(name)) {
        Some(name) => Err(format!(
            "hosts: {name:?} is not a name of a host; write the name alone, like \"box.example\", without scheme and port"
        )),
        None => Ok(()),
    }
}
