//! Decides where a host listens, and whether it could: the same for a start and for the check
//! before it (rule 11.6).

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket};
use wharf_config::{Auth, Config, KeptPort, SettingOrigin};

use super::{LISTEN_BACKLOG, Tls, TlsError};

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(
        "{listen:?} is not an address to listen on: it takes an IP address and a port, such as 127.0.0.1:0 for any free port; {advice}"
    )]
    Address { listen: String, advice: String },
    #[error(
        "{address} is not a loopback address, and without TLS everyone on the way could read tokens and sessions: {advice}"
    )]
    NotLoopback { address: SocketAddr, advice: String },
    #[error("TLS needs a certificate and its key: {missing} is not set; {advice}")]
    HalfTls { missing: &'static str, advice: String },
    #[error(transparent)]
    Tls(TlsError),
    #[error(
        "auth = \"none\" would open every session to everyone who reaches {0}: listen on 127.0.0.1 or [::1], or use tokens"
    )]
    OpenToAll(SocketAddr),
    #[error(
        "auth = \"none\" together with public_url would open every session to everyone who reaches that address: remove one of the two"
    )]
    OpenToPublic,
    #[error("cannot listen on {address}: another program has this port; {advice}")]
    Taken { address: SocketAddr, advice: String },
    #[error("cannot listen on {address}: {source}; {advice}")]
    Tcp { address: SocketAddr, source: io::Error, advice: String },
    #[error("cannot make the socket {path}: {source}", path = path.display())]
    Socket { path: PathBuf, source: io::Error },
}

/// The address of a host, before it is bound.
#[derive(Debug)]
struct ListenPlan {
    /// Tried in this order until one is free.
    candidates: Vec<SocketAddr>,
    tls: Option<Arc<Tls>>,
}

/// A bound address.
#[derive(Debug)]
pub(crate) struct BoundAddress {
    pub(crate) tcp: TcpListener,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) address: SocketAddr,
    /// The address that another program had, if this one was taken instead.
    pub(crate) taken: Option<SocketAddr>,
}

/// The address that a host would have which is started now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressOutlook {
    /// The port is 0 if it could be any free one.
    pub address: SocketAddr,
    /// The running host has this port now.
    pub is_own: bool,
    /// The address that it would have if another program did not.
    pub taken: Option<SocketAddr>,
}

/// Fails if a host could not start with these settings, whatever other programs do now.
pub fn check_settings(config: &Config) -> Result<(), BindError> {
    ListenPlan::of(config).map(drop)
}

/// Fails if a host could not start with these settings. `own` is the address of the running host in
/// whose place it would start.
pub fn check_start(config: &Config, own: Option<SocketAddr>) -> Result<AddressOutlook, BindError> {
    let plan = ListenPlan::of(config)?;
    let mut taken = None;
    for &address in &plan.candidates {
        let is_own = own.is_some_and(|own| is_held_by(own, address));
        if is_own {
            return Ok(AddressOutlook { address, is_own, taken });
        }
        match open_socket(address) {
            Ok(_) => return Ok(AddressOutlook { address, is_own, taken }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                taken = taken.or(Some(address))
            }
            Err(source) => {
                return Err(BindError::Tcp { address, source, advice: advise_change(config) });
            }
        }
    }
    Err(taken_error(config, taken))
}

/// Returns true if the host at `own` has the wanted address, so that it is free once that host has
/// ended. An unspecified address is every one of its family, and `[::]` has those of IPv4, too.
fn is_held_by(own: SocketAddr, wanted: SocketAddr) -> bool {
    let is_same_family = own.is_ipv4() == wanted.is_ipv4();
    let is_same = own.ip() == wanted.ip()
        || own.ip().is_unspecified() && (is_same_family || own.is_ipv6())
        || wanted.ip().is_unspecified() && is_same_family;
    wanted.port() != 0 && own.port() == wanted.port() && is_same
}

/// Binds the address of these settings. A port that is taken in place of the usual one is kept for
/// later hosts.
pub(crate) fn bind(config: &Config) -> Result<BoundAddress, BindError> {
    let ListenPlan { candidates, tls } = ListenPlan::of(config)?;
    let mut taken = None;
    for address in candidates {
        match open_socket(address).and_then(|socket| socket.listen(LISTEN_BACKLOG)) {
            Ok(tcp) => {
                let failed =
                    |source| BindError::Tcp { address, source, advice: advise_change(config) };
                let bound =
                    BoundAddress { address: tcp.local_addr().map_err(failed)?, tcp, tls, taken };
                bound.keep_port(config);
                return Ok(bound);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                taken = taken.or(Some(address))
            }
            Err(source) => {
                return Err(BindError::Tcp { address, source, advice: advise_change(config) });
            }
        }
    }
    Err(taken_error(config, taken))
}

impl ListenPlan {
    /// Refuses an address that cannot be used or would be open to others, and certificates that
    /// cannot be used.
    fn of(config: &Config) -> Result<Self, BindError> {
        let listen = config.listen_address();
        let address: SocketAddr = listen
            .parse()
            .map_err(|_| BindError::Address { listen, advice: advise_change(config) })?;
        let is_public = !address.ip().is_loopback();
        let is_open = config.auth == Auth::None;
        let tls = match Tls::open(&config.tls) {
            Ok(tls) => tls,
            Err(TlsError::Half { missing }) => {
                let needs_tls = is_public && !config.insecure_no_tls;
                return Err(BindError::HalfTls { missing, advice: advise_pair(config, needs_tls) });
            }
            Err(error) => return Err(BindError::Tls(error)),
        };
        if is_open && is_public {
            return Err(BindError::OpenToAll(address));
        }
        if is_open && config.public_url.is_some() {
            return Err(BindError::OpenToPublic);
        }
        if is_public && tls.is_none() && !config.insecure_no_tls {
            return Err(BindError::NotLoopback { address, advice: advise_protection(config) });
        }
        // A proxy that serves `public_url` would go on to the program that has the port.
        let is_fixed = !config.has_default_address() || config.public_url.is_some();
        let candidates = if is_fixed {
            vec![address]
        } else if config.takes_free_port {
            config.default_addresses().collect()
        } else {
            config.known_default_addresses().collect()
        };
        Ok(Self { candidates, tls })
    }
}

impl BoundAddress {
    fn keep_port(&self, config: &Config) {
        if !config.has_default_address() {
            return;
        }
        if let Err(error) = KeptPort::of(&config.state_dir).keep(self.address.port()) {
            tracing::warn!(%error, address = %self.address, "the port cannot be kept; the next host may have another one");
        }
    }
}

/// Binds a socket that does not listen yet.
fn open_socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // The port of a host that has just ended is usable at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn taken_error(config: &Config, taken: Option<SocketAddr>) -> BindError {
    let address = taken.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
    BindError::Taken { address, advice: advise_change(config) }
}

/// Says how the user changes the address.
fn advise_change(config: &Config) -> String {
    match config.origin_of("listen") {
        SettingOrigin::File => {
            "change it: wharf config set listen ADDRESS:PORT, or leave it to Wharf: wharf config unset listen"
                .to_owned()
        }
        SettingOrigin::Environment(name) => format!("change the variable {name}, or unset it"),
        SettingOrigin::Flag(flag) => format!("change {flag}, or leave it out"),
        SettingOrigin::Default => "set another one: wharf config set listen ADDRESS:PORT".to_owned(),
    }
}

/// Says how the user completes a certificate that has no key, or a key without its certificate. An
/// address that others reach cannot do without both.
fn advise_pair(config: &Config, needs_tls: bool) -> String {
    let given = if config.tls.cert.is_some() { "tls.cert" } else { "tls.key" };
    if needs_tls {
        return match config.origin_of(given) {
            SettingOrigin::File | SettingOrigin::Default => format!("set both: {SET_CERTIFICATE}"),
            SettingOrigin::Environment(_) => {
                "set both variables, WHARF_TLS_CERT and WHARF_TLS_KEY".to_owned()
            }
            SettingOrigin::Flag(_) => "give both --tls-cert and --tls-key".to_owned(),
        };
    }
    match config.origin_of(given) {
        SettingOrigin::File | SettingOrigin::Default => {
            format!("set both: {SET_CERTIFICATE}, or neither: wharf config unset {given}")
        }
        SettingOrigin::Environment(name) => {
            format!("set both variables, WHARF_TLS_CERT and WHARF_TLS_KEY, or unset {name}")
        }
        SettingOrigin::Flag(_) => "give both --tls-cert and --tls-key".to_owned(),
    }
}

/// Says how the user protects an address that others reach, or listens on this machine alone.
fn advise_protection(config: &Config) -> String {
    match config.origin_of("listen") {
        SettingOrigin::File | SettingOrigin::Default => format!(
            "set a certificate: {SET_CERTIFICATE}, or listen on this machine alone: wharf config set listen 127.0.0.1:PORT; wharf serve --insecure-no-tls listens all the same"
        ),
        SettingOrigin::Environment(name) => format!(
            "set a certificate: {SET_CERTIFICATE}, or change the variable {name} to 127.0.0.1:PORT or [::1]:PORT; wharf serve --insecure-no-tls listens all the same"
        ),
        SettingOrigin::Flag(_) => {
            "give --tls-cert and --tls-key, or listen on 127.0.0.1 or [::1]; --insecure-no-tls listens all the same"
                .to_owned()
        }
    }
}

/// The command that sets a certificate with its key.
const SET_CERTIFICATE: &str = "wharf config set tls.cert FILE tls.key FILE";

#[cfg(test)]
mod tests;
