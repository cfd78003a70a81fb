//! The certificates that the servers which Wharf itself connects to may be certified by.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Returns the certificates of a PEM file, else those of the system.
pub fn load_roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let shown = path.display();
            let text = std::fs::read(path).map_err(|error| format!("cannot read the certificates {shown}: {error}"))?;
            let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
            let found = found.map_err(|error| format!("{shown} is not a PEM file that can be read: {error}"))?;
            for certificate in found {
                roots.add(certificate).map_err(|error| format!("a certificate in {shown} cannot be used: {error}"))?;
            }
            if roots.is_empty() {
                return Err(format!("{shown} holds no certificate; it must be a PEM file"));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err("this system has no certificates of authorities; install ca-certificates".to_owned());
            }
        }
    }
    Ok(roots)
}
