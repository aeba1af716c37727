//! TLS: one configuration that verifies the server, and one that a spec may ask for instead.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    WantsVerifier,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};

/// Takes any certificate. Signatures are still checked: whoever answers does own the certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

/// Trusts whom the machine trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` are obeyed).
///
/// On a machine that trusts nobody every verified connection fails, and the log says why once.
pub(super) fn verified() -> ClientConfig {
    match builder().with_native_roots() {
        Ok(config) => config.with_no_client_auth(),
        Err(error) => {
            tracing::warn!(%error, "No certificate authority is trusted, https will not work");
            trusting(RootCertStore::empty())
        }
    }
}

/// Trusts these authorities and no others.
pub(super) fn trusting(roots: RootCertStore) -> ClientConfig {
    builder().with_root_certificates(roots).with_no_client_auth()
}

/// Trusts the authorities of a PEM file and no others; nobody if there are none in it.
pub(super) fn trusting_pem(pem: &[u8]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        tracing::warn!("A Secret names authorities to trust, and holds none that can be read");
    }
    trusting(roots)
}

/// Trusts everybody.
pub(super) fn unverified() -> ClientConfig {
    let builder = builder();
    let verifier = Arc::new(AnyCertificate(Arc::clone(builder.crypto_provider())));
    builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
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
