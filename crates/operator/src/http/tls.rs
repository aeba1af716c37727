//! TLS of outgoing requests: the server is verified unless a spec says otherwise, and a Secret may bring authorities or
//! a certificate to present.

use rustls::ClientConfig;
use tidegate_runtime::tls::{self, CertificateError, Trust};

use super::ClientCertificate;

/// Trusts the machine's authorities.
pub(super) fn verified() -> ClientConfig {
    tls::client(Trust::Machine)
}

/// Trusts every server.
pub(super) fn unverified() -> ClientConfig {
    tls::client(Trust::Any)
}

/// Trusts the authorities of a PEM file and no others; no server at all if there are none in it.
pub(super) fn trusting_pem(pem: &[u8]) -> ClientConfig {
    tls::client(authorities(pem))
}

/// Presents a certificate; trusts these authorities, else those of the machine, or every server.
pub(super) fn identified(
    pem: Option<&[u8]>,
    verify: bool,
    certificate: &ClientCertificate,
) -> Result<ClientConfig, CertificateError> {
    let trust = match (pem, verify) {
        (_, false) => Trust::Any,
        (Some(pem), true) => authorities(pem),
        (None, true) => Trust::Machine,
    };
    let ClientCertificate { chain_pem, key_pem } = certificate;
    let config = tls::client_with_certificate(trust, chain_pem, key_pem);
    if matches!(config, Err(CertificateError::Unreadable(_))) {
        tracing::warn!("A Secret has a certificate to show, and it cannot be read");
    }
    config
}

fn authorities(pem: &[u8]) -> Trust {
    let authorities = tls::authorities(pem);
    if authorities.is_empty() {
        tracing::warn!("A Secret names authorities to trust, and holds none that can be read");
    }
    Trust::Authorities(authorities)
}
