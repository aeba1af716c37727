//! TLS towards others: verified as a rule; load is made as hey and wrk make it, by not looking.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    WantsVerifier,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// Takes any certificate. Signatures are still checked: whoever answers does own the certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

/// Trusts whom the machine trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` are obeyed).
pub(crate) fn verified() -> ClientConfig {
    match builder().with_native_roots() {
        Ok(config) => config.with_no_client_auth(),
        Err(error) => {
            tracing::warn!(%error, "No certificate authority is trusted, https will not work");
            builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        }
    }
}

/// Trusts everybody.
pub(crate) fn unverified() -> ClientConfig {
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
