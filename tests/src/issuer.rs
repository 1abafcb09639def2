//! An issuer of tokens (JWT): keys that sign them, and a server that has the keys for whoever checks them.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use crate::{HttpStub, Reply};

/// A key that signs tokens with ES256.
#[derive(Debug)]
pub struct SigningKey {
    name: String,
    pair: EcdsaKeyPair,
}

/// A server that has the keys of an issuer, at `/keys`.
#[derive(Debug)]
pub struct KeyServer {
    stub: HttpStub,
    answer: Arc<Mutex<Reply>>,
}

impl SigningKey {
    /// A new one with this name (`kid`).
    #[must_use]
    pub fn new(name: &str) -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        Self { name: name.to_owned(), pair }
    }

    /// Its public half as a JSON Web Key.
    #[must_use]
    pub fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|part| BASE64.encode(part));
        json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": self.name, "x": x, "y": y })
    }

    /// A token with these claims.
    #[must_use]
    pub fn token(&self, claims: &Value) -> String {
        self.token_with_header(&json!({ "alg": "ES256", "typ": "JWT", "kid": self.name }), claims)
    }

    /// A token with these claims whose header says this, signed with the key whatever it says.
    #[must_use]
    pub fn token_with_header(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", BASE64.encode(signature.as_ref()))
    }

    /// A token signed with HS256, for which the public key is taken for a secret in each way in which it can be written.
    #[must_use]
    pub fn tokens_by_the_public_key(&self, claims: &Value) -> Vec<String> {
        let point = self.pair.public_key().as_ref();
        let texts = [point.to_vec(), point[1..].to_vec(), self.jwk().to_string().into_bytes()];
        let header = json!({ "alg": "HS256", "typ": "JWT", "kid": self.name });
        let token = |secret: &Vec<u8>| {
            let message = message(&header, claims);
            let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
            format!("{message}.{}", BASE64.encode(signature.as_ref()))
        };
        texts.iter().map(token).collect()
    }
}

impl KeyServer {
    /// A server that has these keys.
    pub async fn start(keys: &[&SigningKey]) -> Self {
        let answer = Arc::new(Mutex::new(set(keys)));
        let answers = Arc::clone(&answer);
        Self { stub: HttpStub::start(move |_| answers.lock().unwrap().clone()).await, answer }
    }

    /// Has these keys from now on.
    pub fn has(&self, keys: &[&SigningKey]) {
        self.answers(set(keys));
    }

    /// Answers so from now on.
    pub fn answers(&self, reply: Reply) {
        *self.answer.lock().unwrap() = reply;
    }

    /// Where it has them.
    #[must_use]
    pub fn url(&self) -> String {
        self.stub.url("/keys")
    }

    /// What it was asked for so far.
    #[must_use]
    pub fn paths(&self) -> BTreeSet<String> {
        let path = |head: &str| head.split(' ').nth(1).unwrap().to_owned();
        self.stub.requests().iter().map(|request| path(&request.head)).collect()
    }

    /// How often it was asked.
    #[must_use]
    pub fn fetches(&self) -> usize {
        self.stub.requests().len()
    }

    /// Stops.
    pub async fn stop(self) {
        self.stub.stop().await;
    }
}

/// A token whose header says this and that nobody signed.
#[must_use]
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.", message(header, claims))
}

/// `request` with a token.
///
/// # Panics
/// The token cannot stand in a header.
#[must_use]
pub fn with_token<T>(request: T, token: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(request);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

fn set(keys: &[&SigningKey]) -> Reply {
    Reply::ok(json!({ "keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() }).to_string())
}

fn message(header: &Value, claims: &Value) -> String {
    format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()))
}
