//! TLS for connections that Wharf itself opens: to webhooks, and to a host on another machine.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::small_file::read_small_file;

/// Bounds a file of certificates: those of all authorities together have a quarter of it.
const MAX_ROOTS_BYTES: usize = 1 << 20;

/// Returns a configuration that trusts the authorities of this PEM file, else those of the system.
/// It waits for the disk.
pub fn tls_client_config(ca: Option<&Path>) -> Result<ClientConfig, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(load_roots(ca)?).with_no_client_auth())
}

fn load_roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let shown = path.display();
            let text = read_small_file(path, MAX_ROOTS_BYTES)
                .map_err(|error| format!("cannot read the certificates {shown}: {error}"))?;
            let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
            let found = found
                .map_err(|error| format!("{shown} is not a PEM file that can be read: {error}"))?;
            for certificate in found {
                roots
                    .add(certificate)
                    .map_err(|error| format!("a certificate in {shown} cannot be used: {error}"))?;
            }
            if roots.is_empty() {
                return Err(format!("{shown} holds no certificate; it must be a PEM file"));
            }
        }
        None => {
            // Skips broken certificates of the system: the others can be trusted all the same.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(
                    "this system has no certificates of authorities; install ca-certificates"
                        .to_owned(),
                );
            }
        }
    }
    Ok(roots)
}
