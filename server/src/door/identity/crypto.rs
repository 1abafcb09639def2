//! Signatures by `ring`, which is here for TLS already, behind the reader of tokens.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
    signature::{Error, Verifier},
};
use ring::signature::{
    self as by_ring, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

/// Tokens are checked only, and keys with a shared secret are none.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory,
    key_utils: KeyUtils::new_unimplemented(),
};

struct ByRing {
    algorithm: Algorithm,
    check: Check,
    key: DecodingKey,
}

#[derive(Clone, Copy)]
enum Check {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

/// Has the reader of tokens use it. Has to be called before the first token is read.
pub(super) fn install() {
    // Installed already: just as well, there is no other.
    let _installed = PROVIDER.install_default();
}

fn verifier_factory(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let check = match algorithm {
        Algorithm::RS256 => Check::Rsa(&by_ring::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Check::Rsa(&by_ring::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Check::Rsa(&by_ring::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Check::Rsa(&by_ring::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Check::Rsa(&by_ring::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Check::Rsa(&by_ring::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Check::Other(&by_ring::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Check::Other(&by_ring::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Check::Other(&by_ring::ED25519),
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(ByRing { algorithm: *algorithm, check, key: key.clone() }))
}

impl Verifier<Vec<u8>> for ByRing {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let checked = match (self.check, self.key.kind()) {
            (Check::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                // Some issuers write a zero in front, as other encodings need it.
                let n = n.iter().position(|byte| *byte != 0).and_then(|from| n.get(from..)).unwrap_or_default();
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Check::Other(algorithm), DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        checked.map_err(|_| Error::new())
    }
}

impl JwtVerifier for ByRing {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
