//! Configurations of TLS clients: which servers are trusted, and the certificate to present.

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
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject as _},
    },
};

/// The servers that a client trusts.
#[derive(Debug)]
pub enum Trust {
    /// Those that the machine trusts; `SSL_CERT_FILE` and `SSL_CERT_DIR` are obeyed. On a machine without authorities
    /// every connection fails, and the log says why.
    Machine,
    /// Those with a certificate of these authorities.
    Authorities(RootCertStore),
    /// All of them.
    Any,
}

/// Why a client certificate cannot be presented.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("the certificate or its key cannot be read")]
    Unreadable(#[source] pem::Error),
    /// The chain is empty, or the key is of another certificate.
    #[error("the certificate and its key do not belong together")]
    Rejected(#[source] rustls::Error),
}

/// Takes any certificate. Signatures are still checked: the server does own the certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

/// A client that presents no certificate.
pub fn client(trust: Trust) -> ClientConfig {
    builder(trust).with_no_client_auth()
}

/// A client that presents a certificate.
pub fn client_with_certificate(
    trust: Trust,
    chain_pem: &[u8],
    key_pem: &[u8],
) -> Result<ClientConfig, CertificateError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain_pem).collect();
    let chain = chain.map_err(CertificateError::Unreadable)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(CertificateError::Unreadable)?;
    builder(trust).with_client_auth_cert(chain, key).map_err(CertificateError::Rejected)
}

/// The authorities of a PEM file; certificates that cannot be read are left out.
pub fn authorities(pem: &[u8]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
    roots
}

fn builder(trust: Trust) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    match trust {
        Trust::Machine => versions().with_native_roots().unwrap_or_else(|error| {
            tracing::warn!(%error, "No certificate authority is trusted, https will not work");
            versions().with_root_certificates(RootCertStore::empty())
        }),
        Trust::Authorities(roots) => versions().with_root_certificates(roots),
        Trust::Any => {
            let builder = versions();
            let verifier = Arc::new(AnyCertificate(Arc::clone(builder.crypto_provider())));
            builder.dangerous().with_custom_certificate_verifier(verifier)
        }
    }
}

fn versions() -> ConfigBuilder<ClientConfig, WantsVerifier> {
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
