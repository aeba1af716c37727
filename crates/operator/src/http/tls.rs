//! TLS: one configuration that verifies the server, one that a spec may ask for instead, and either with a
//! certificate of one's own.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    WantsVerifier,
    client::{
        WantsClientCert,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};

use super::ClientCertificate;

/// Takes any certificate. Signatures are still checked: whoever answers does own the certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

/// Trusts whom the machine trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` are obeyed).
///
/// On a machine that trusts nobody every verified connection fails, and the log says why once.
pub(super) fn verified() -> ClientConfig {
    native().with_no_client_auth()
}

fn native() -> ConfigBuilder<ClientConfig, WantsClientCert> {
    builder().with_native_roots().unwrap_or_else(|error| {
        tracing::warn!(%error, "No certificate authority is trusted, https will not work");
        builder().with_root_certificates(RootCertStore::empty())
    })
}

/// Shows a certificate; trusts these authorities, else whom the machine trusts, or everybody.
pub(super) fn identified(
    authorities: Option<&[u8]>,
    verify: bool,
    certificate: &ClientCertificate,
) -> Result<ClientConfig, rustls::Error> {
    let builder = match (authorities, verify) {
        (_, false) => lax(),
        (Some(pem), true) => builder().with_root_certificates(roots(pem)),
        (None, true) => native(),
    };
    let unreadable = |_| {
        tracing::warn!("A Secret has a certificate to show, and it cannot be read");
        rustls::Error::General("no certificate".to_owned())
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate.chain_pem).collect();
    let key = PrivateKeyDer::from_pem_slice(&certificate.key_pem).map_err(unreadable)?;
    builder.with_client_auth_cert(chain.map_err(unreadable)?, key)
}

/// Trusts these authorities and no others.
pub(super) fn trusting(roots: RootCertStore) -> ClientConfig {
    builder().with_root_certificates(roots).with_no_client_auth()
}

/// Trusts the authorities of a PEM file and no others; nobody if there are none in it.
pub(super) fn trusting_pem(pem: &[u8]) -> ClientConfig {
    trusting(roots(pem))
}

fn roots(pem: &[u8]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        tracing::warn!("A Secret names authorities to trust, and holds none that can be read");
    }
    roots
}

/// Trusts everybody.
pub(super) fn unverified() -> ClientConfig {
    lax().with_no_client_auth()
}

fn lax() -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let builder = builder();
    let verifier = Arc::new(AnyCertificate(Arc::clone(builder.crypto_provider())));
    builder.dangerous().with_custom_certificate_verifier(verifier)
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports TLS 1.2 and 1.3")
}

// === impl AnyCertificate ===

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
