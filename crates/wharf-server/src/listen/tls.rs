//! TLS on the TCP listener: the certificate and its key, read at start and again when the files
//! change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use wharf_config::TlsSettings;

/// How often a handshake checks whether the files have changed: a certificate is renewed every few
/// weeks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The reason why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("TLS needs a certificate and its key: {missing} is not set")]
    Half { missing: &'static str },
    #[error("cannot read the {what} {path}: {source}", path = path.display())]
    Unreadable { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{path} holds no {what}; it must be a PEM file with a line -----BEGIN {label}-----", path = path.display())]
    Missing { what: &'static str, label: &'static str, path: PathBuf },
    #[error("{path} is not a PEM file that can be read: {why}", path = path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("the key in {key} is not that of the certificate in {cert}; give the pair that was made together", key = key.display(), cert = cert.display())]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error("the certificate in {cert} and the key in {key} cannot be used: {why}", key = key.display(), cert = cert.display())]
    Unusable { cert: PathBuf, key: PathBuf, why: String },
}

/// The files, and the configuration that was last read from them.
#[derive(Debug)]
pub(crate) struct Tls {
    cert: PathBuf,
    key: PathBuf,
    held: Mutex<LoadedConfig>,
}

#[derive(Debug)]
struct LoadedConfig {
    config: Arc<ServerConfig>,
    changed_at: [Option<SystemTime>; 2],
    checked_at: Instant,
}

impl Tls {
    /// Returns `None` if no certificate is configured.
    pub(crate) fn open(settings: &TlsSettings) -> Result<Option<Arc<Self>>, TlsError> {
        let (cert, key) = match (&settings.cert, &settings.key) {
            (None, None) => return Ok(None),
            (Some(_), None) => return Err(TlsError::Half { missing: "tls.key" }),
            (None, Some(_)) => return Err(TlsError::Half { missing: "tls.cert" }),
            (Some(cert), Some(key)) => (cert.clone(), key.clone()),
        };
        let changed_at = [modified_at(&cert), modified_at(&key)];
        let config = load_config(&cert, &key)?;
        let held = Mutex::new(LoadedConfig { config, changed_at, checked_at: Instant::now() });
        Ok(Some(Arc::new(Self { cert, key, held })))
    }

    /// Returns the acceptor for the next connection. If the files have changed and cannot be used,
    /// the old certificate stays in force.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.checked_at.elapsed() >= CHECK_INTERVAL {
            held.checked_at = Instant::now();
            self.reload_if_changed(&mut held);
        }
        TlsAcceptor::from(Arc::clone(&held.config))
    }

    fn reload_if_changed(&self, held: &mut LoadedConfig) {
        let changed_at = [modified_at(&self.cert), modified_at(&self.key)];
        if held.changed_at == changed_at {
            return;
        }
        held.changed_at = changed_at;
        match load_config(&self.cert, &self.key) {
            Ok(config) => {
                tracing::info!(cert = %self.cert.display(), "the certificate was read again");
                held.config = config;
            }
            Err(error) => {
                tracing::warn!(%error, "the new certificate is not taken; the one before stays in force")
            }
        }
    }
}

fn modified_at(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|about| about.modified()).ok()
}

fn load_config(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = load_certificates(cert)?;
    let private = load_private_key(key)?;
    let unusable =
        |why: String| TlsError::Unusable { cert: cert.to_owned(), key: key.to_owned(), why };
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private);
    let mut config = config.map_err(|error| {
        if matches!(error, rustls::Error::InconsistentKeys(_)) {
            return TlsError::Mismatch { cert: cert.to_owned(), key: key.to_owned() };
        }
        unusable(error.to_string())
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn load_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read_file("certificate", path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain
        .map_err(|error| TlsError::Damaged { path: path.to_owned(), why: error.to_string() })?;
    if chain.is_empty() {
        return Err(TlsError::Missing {
            what: "certificate",
            label: "CERTIFICATE",
            path: path.to_owned(),
        });
    }
    Ok(chain)
}

fn load_private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read_file("key", path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        if matches!(error, pem::Error::NoItemsFound) {
            return TlsError::Missing {
                what: "private key",
                label: "PRIVATE KEY",
                path: path.to_owned(),
            };
        }
        // The error may quote the file, which is secret.
        TlsError::Damaged {
            path: path.to_owned(),
            why: "the private key is cut off or garbled".to_owned(),
        }
    })
}

fn read_file(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable {
        what,
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
