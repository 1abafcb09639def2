//! The keys of an issuer: a JSON Web Key Set (RFC 7517).

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};

use crate::model::Unproven;

/// Largest key set, in bytes, and most keys of one.
pub(super) const MAX_BYTES: usize = 1 << 20;
const MAX_KEYS: usize = 256;

/// The keys of an issuer at one time.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    /// Grows with every change of the keys. 0: there were none yet.
    pub(super) generation: u64,
    keys: Vec<Key>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    jwk: Jwk,
    algorithms: Vec<Algorithm>,
}

impl KeySet {
    /// Reads a key set. Keys that tokens cannot be signed with are left out.
    ///
    /// # Errors
    /// What is wrong with it, in one line. A set of which no key can be used is an error; one without keys is not, it
    /// takes all keys back.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let value = hookd_json::parse(text).map_err(|error| format!("is not JSON: {error}"))?;
        let keys = value.get("keys").and_then(|keys| keys.as_array()).ok_or("has no list `keys`")?;
        if keys.len() > MAX_KEYS {
            return Err(format!("has {} keys, at most {MAX_KEYS} are taken", keys.len()));
        }
        let usable = keys.iter().filter_map(Key::of).collect::<Vec<_>>();
        if usable.is_empty() && !keys.is_empty() {
            return Err("has no key that tokens can be signed with".to_owned());
        }
        Ok(Self { generation: 0, keys: usable })
    }

    /// As the one that follows `old`: of the same generation if nothing has changed.
    pub(super) fn following(self, old: &Self) -> Self {
        let changed = self.keys != old.keys;
        Self { generation: old.generation.saturating_add(changed.into()), ..self }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys that a token may be signed with whose header names this algorithm and key. Without a name it is the only
    /// one that fits the algorithm: trying all of them would let one token cost hundreds of checks.
    ///
    /// # Errors
    /// [`Unproven::UnknownKey`] where there is none, [`Unproven::KeyNotNamed`] where a name would have to say which.
    pub(super) fn candidates(
        &self,
        algorithm: Algorithm,
        kid: Option<&str>,
    ) -> Result<impl Iterator<Item = DecodingKey>, Unproven> {
        let named = move |key: &&Key| kid.is_none_or(|kid| key.jwk.common.key_id.as_deref() == Some(kid));
        let fitting = self.keys.iter().filter(move |key| key.algorithms.contains(&algorithm)).filter(named);
        match fitting.clone().count() {
            0 => return Err(Unproven::UnknownKey),
            2.. if kid.is_none() => return Err(Unproven::KeyNotNamed),
            _ => {}
        }
        Ok(fitting.filter_map(|key| DecodingKey::from_jwk(&key.jwk).ok()))
    }
}

impl Key {
    fn of(value: &hookd_json::Value) -> Option<Self> {
        let jwk = serde_json::from_value::<Jwk>(value.clone()).ok()?;
        let is_for_others = jwk.common.public_key_use.as_ref().is_some_and(|to| *to != PublicKeyUse::Signature);
        let does_others = jwk.common.key_operations.as_ref().is_some_and(|may| !may.contains(&KeyOperations::Verify));
        if is_for_others || does_others {
            return None;
        }
        // INVARIANT: what a key may be used with follows from its kind, never from the token, and a shared secret is no
        // key: so no public key can ever be taken for a secret.
        let algorithms: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms(),
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[Algorithm::ES256],
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[Algorithm::ES384],
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
            _ => return None,
        };
        let only = match jwk.common.key_algorithm {
            // One that the key does not fit leaves nothing.
            Some(only) => Some(only.to_string().parse::<Algorithm>().ok()?),
            None => None,
        };
        let algorithms = algorithms.iter().copied().filter(|algorithm| only.is_none_or(|only| only == *algorithm));
        let algorithms = algorithms.collect::<Vec<_>>();
        let usable = !algorithms.is_empty() && DecodingKey::from_jwk(&jwk).is_ok();
        usable.then_some(Self { jwk, algorithms })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A point of P-256; that it is on the curve is checked with each signature.
    fn ec(kid: &str) -> serde_json::Value {
        json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": "A".repeat(43), "y": "A".repeat(43) })
    }

    fn parsed(keys: serde_json::Value) -> Result<KeySet, String> {
        KeySet::parse(&json!({ "keys": keys }).to_string())
    }

    fn with(mut key: serde_json::Value, name: &str, value: &str) -> serde_json::Value {
        key[name] = value.into();
        key
    }

    #[test]
    fn only_public_keys_for_signatures_are_taken_and_only_for_their_own_algorithms() {
        let rsa = json!({ "kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB", "key_ops": ["verify"] });
        let secret = json!({ "kty": "oct", "kid": "s", "k": "c2VjcmV0" });
        let strange = json!({ "kty": "LWE", "kid": "q" });
        let for_encryption = with(ec("enc"), "use", "enc");
        let mut agrees = ec("agrees");
        agrees["key_ops"] = json!(["deriveKey"]);
        let wrong_algorithm = with(ec("hs"), "alg", "HS256");
        let no_signature = with(rsa.clone(), "alg", "RSA-OAEP");
        let p521 = with(ec("p521"), "crv", "P-521");
        let keys =
            json!([ec("a"), rsa, secret, strange, for_encryption, agrees, wrong_algorithm, no_signature, p521, 1]);
        let set = parsed(keys).unwrap();
        let found = |algorithm, kid| set.candidates(algorithm, kid).map_or(0, Iterator::count);
        assert_eq!(set.keys.len(), 2);
        assert_eq!((found(Algorithm::ES256, Some("a")), found(Algorithm::RS256, Some("a"))), (1, 0));
        assert_eq!((found(Algorithm::RS512, Some("r")), found(Algorithm::ES256, None)), (1, 1));
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            assert_eq!(found(algorithm, None), 0);
        }
        let mut nameless = ec("");
        nameless.as_object_mut().unwrap().remove("kid");
        let set = parsed(json!([nameless])).unwrap();
        let found = |kid| set.candidates(Algorithm::ES256, kid).map(Iterator::count);
        assert_eq!(
            (found(Some("a")), found(None)),
            (Err(Unproven::UnknownKey), Ok(1)),
            "one that is named has to be it"
        );
    }

    #[test]
    fn a_token_that_names_no_key_has_to_be_signed_with_the_only_one_that_fits() {
        let found = |set: &KeySet, algorithm, kid| set.candidates(algorithm, kid).map(Iterator::count);
        let p384 = json!({ "kty": "EC", "crv": "P-384", "x": "A".repeat(64), "y": "A".repeat(64) });
        let one_of_each = parsed(json!([ec("a"), p384])).unwrap();
        assert_eq!(found(&one_of_each, Algorithm::ES256, None), Ok(1));
        assert_eq!(found(&one_of_each, Algorithm::ES384, None), Ok(1));
        assert_eq!(found(&one_of_each, Algorithm::RS256, None), Err(Unproven::UnknownKey));
        let two = parsed(json!([ec("a"), ec("b")])).unwrap();
        assert_eq!(found(&two, Algorithm::ES256, None), Err(Unproven::KeyNotNamed));
        assert_eq!(found(&two, Algorithm::ES256, Some("b")), Ok(1));
        assert_eq!(found(&two, Algorithm::ES256, Some("")), Err(Unproven::UnknownKey));
        // A name that stands twice is the issuer's doing.
        let same_name = parsed(json!([ec("a"), with(ec("a"), "x", &format!("B{}", "A".repeat(42)))])).unwrap();
        assert_eq!(found(&same_name, Algorithm::ES256, Some("a")), Ok(2));
    }

    #[test]
    fn a_set_that_cannot_be_used_is_none_and_an_empty_one_takes_all_keys_back() {
        let wrong = |text: &str| KeySet::parse(text).unwrap_err();
        assert_eq!(wrong("[]"), "has no list `keys`");
        assert!(wrong("<html>").starts_with("is not JSON: "));
        assert_eq!(
            parsed(json!([{ "kty": "oct", "k": "AA" }])).unwrap_err(),
            "has no key that tokens can be signed with"
        );
        assert_eq!(parsed(json!(vec![1; 257])).unwrap_err(), "has 257 keys, at most 256 are taken");
        let first = parsed(json!([ec("a")])).unwrap().following(&KeySet::default());
        let same = parsed(json!([ec("a")])).unwrap().following(&first);
        let none = parsed(json!([])).unwrap().following(&same);
        assert_eq!([first.generation, same.generation, none.generation], [1, 1, 2]);
        assert!(none.is_empty());
    }
}
