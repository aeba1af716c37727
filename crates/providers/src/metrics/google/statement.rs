//! The statement that the key of a service account signs, as `jsonwebtoken` makes it.
//!
//! That library leaves the cryptography to others; here it is ring's, as everywhere in this program.

use std::sync::Once;

use jiff::Timestamp;
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    encode,
    errors::{Error, ErrorKind},
    signature::{self, Signer},
};
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject as _};
use serde_json::json;

/// Issuer, audience and scope of a signed statement.
pub(super) struct Statement<'a> {
    pub(super) account: &'a str,
    pub(super) key_pem: &'a str,
    pub(super) key_id: Option<&'a str>,
    pub(super) scope: &'a str,
    pub(super) audience: &'a str,
}

/// How long a statement is good for; the most that is allowed.
const LIFETIME_S: i64 = 3600;

static RING: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// A key of RSA, for signatures over SHA-256.
struct Rs256(RsaKeyPair);

// === impl Statement ===

impl Statement<'_> {
    /// The statement with its signature; nothing if the key is none.
    pub(super) fn signed(&self, now: Timestamp) -> Option<String> {
        static INSTALLED: Once = Once::new();
        // Fails only if one is installed already, and no other code installs one.
        INSTALLED.call_once(|| {
            let _ = RING.install_default();
        });
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).ok()?;
        let key = EncodingKey::from_rsa_der(key.secret_der());
        let mut head = Header::new(Algorithm::RS256);
        head.kid = self.key_id.map(str::to_owned);
        let from = now.as_second();
        let claims = json!({
            "iss": self.account,
            "scope": self.scope,
            "aud": self.audience,
            "iat": from,
            "exp": from.saturating_add(LIFETIME_S),
        });
        encode(&head, &claims, &key).ok()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as the library wants it")]
fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    if *algorithm != Algorithm::RS256 {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let bytes = key.as_bytes();
    // In either of the two forms there are.
    let pair = RsaKeyPair::from_pkcs8(bytes).or_else(|_| RsaKeyPair::from_der(bytes));
    let pair = pair.map_err(|_| Error::from(ErrorKind::InvalidKeyFormat))?;
    Ok(Box::new(Rs256(pair)))
}

/// Nothing is verified here.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as the library wants it")]
fn verifier(_: &Algorithm, _: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

// === impl Rs256 ===

impl Signer<Vec<u8>> for Rs256 {
    /// Depends on nothing but key and text: the randomness only hides the key from an observer who
    /// measures time.
    fn try_sign(&self, text: &[u8]) -> Result<Vec<u8>, signature::Error> {
        let mut signature = vec![0; self.0.public().modulus_len()];
        let signed = self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature);
        signed.map(|()| signature).map_err(|_| signature::Error::new())
    }
}

impl JwtSigner for Rs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::RS256
    }
}
