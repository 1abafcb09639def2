//! Who calls: by the client certificate of its connection, by a bearer token, or by nothing, where that is enough.
//!
//! A proof that is presented and does not hold is never passed over: such a call is refused even where callers without any
//! proof are let in. Who shows both a certificate and a token has to be good by both: the name is the token's, the labels are
//! those of both, and a label with two values is a refusal.

mod certificate;
mod crypto;
mod issuer;
mod keys;
mod static_tokens;
mod token;

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, header};
use quick_cache::sync::Cache;
use sha2::{Digest as _, Sha256};

use self::{
    certificate::{Certified, certified},
    issuer::{Issuer, Proved},
    static_tokens::StaticTokens,
    token::Said,
};
use super::arrived::Arrived;
use crate::{
    model::{Grant, Identity, Permission, Permissions, Unproven},
    record::{Proof, Recorder},
    rpc::status::NotJudged,
    settings::{Anonymous, CertificateSettings, IdentitySettings},
    telemetry::call::{Call, Peer},
};

/// How many tokens are remembered that were found good.
const REMEMBERED: usize = 16_384;

/// The SHA-256 of a token. Tokens themselves are kept nowhere.
type TokenHash = [u8; 32];

/// Tells who calls and what they may do. One for the process.
#[derive(Debug)]
pub struct Authenticator {
    anonymous: Anonymous,
    certificates: CertificateSettings,
    tokens: Option<StaticTokens>,
    issuers: Vec<Issuer>,
    remembered: Cache<TokenHash, Arc<Remembered>>,
    grants: Vec<Grant>,
    recorder: Arc<Recorder>,
}

/// Whoever is at the other end of one connection.
#[derive(Debug)]
pub struct Visitor {
    authenticator: Arc<Authenticator>,
    peer: Peer,
    certified: Option<Result<Certified, Unproven>>,
    /// The token that came last beside the certificate, and whom both are about.
    both: Mutex<Option<(Arc<Identity>, Arc<Identity>)>>,
}

/// Whether it is known who makes a call.
#[derive(Debug)]
pub enum Identified {
    /// It is, or never will be.
    Now(Result<Arc<Identity>, Unproven>),
    /// The keys of an issuer have to be seen first.
    Later(Later),
}

/// A call that waits for the keys of an issuer.
pub struct Later {
    token: HeaderValue,
    now_ms: i64,
    answers: Vec<Answer>,
}

type Answer = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// A token that was found good.
#[derive(Debug)]
struct Remembered {
    proved: Proved,
    /// By which issuer.
    issuer: usize,
}

/// What a token that came is.
enum Checked {
    Good(Arc<Identity>),
    Refused(Unproven),
    /// Newer keys of these issuers may help.
    Waits(Unproven, Vec<usize>),
}

/// Says whether a server could start with these settings.
///
/// # Errors
/// What is wrong with a file that they name, in one line.
pub fn check(settings: &IdentitySettings) -> Result<(), String> {
    settings.tokens_file.as_deref().map(StaticTokens::check).transpose()?;
    settings.issuers.iter().try_for_each(Issuer::check_settings)
}

impl Authenticator {
    /// Reads tokens and keys, and keeps them up to date from then on. Waits for the first answer of each issuer, but not for
    /// ever.
    ///
    /// # Errors
    /// What is wrong with a file that the settings name, in one line.
    pub async fn start(
        settings: &IdentitySettings,
        grants: &[Grant],
        recorder: Arc<Recorder>,
    ) -> Result<Arc<Self>, String> {
        crypto::install();
        let tokens = match settings.tokens_file.clone() {
            Some(path) => Some(StaticTokens::start(path).await?),
            None => None,
        };
        let issuers = settings.issuers.iter().map(|issuer| Issuer::start(issuer.clone(), Arc::clone(&recorder)));
        let issuers = join_all(issuers).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Self {
            anonymous: settings.anonymous,
            certificates: settings.certificates.clone(),
            tokens,
            issuers,
            remembered: Cache::new(REMEMBERED),
            grants: grants.to_vec(),
            recorder,
        }))
    }

    /// Whoever is at the other end of a connection, as far as the connection tells.
    #[must_use]
    pub fn visitor(self: &Arc<Self>, arrived: &Arrived) -> Visitor {
        let own = arrived.certificates.as_ref().and_then(|certificates| certificates.first());
        Visitor {
            authenticator: Arc::clone(self),
            peer: arrived.peer,
            certified: own.map(|certificate| certified(certificate, &self.certificates)),
            both: Mutex::default(),
        }
    }

    /// What does not work, for people: one line each.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let tokens = self.tokens.as_ref().and_then(StaticTokens::trouble);
        tokens.into_iter().chain(self.issuers.iter().filter_map(Issuer::trouble)).collect()
    }

    /// Whose this token is, as far as that was found before.
    fn recall(&self, hash: &TokenHash, now_ms: i64) -> Option<Arc<Identity>> {
        if let Some(identity) = self.tokens.as_ref().and_then(|tokens| tokens.get(hash)) {
            return Some(identity);
        }
        let remembered = self.remembered.get(hash)?;
        // INVARIANT: what an issuer took back, or what is over, is not remembered as good.
        let holds = remembered.proved.until_s > now_ms.div_euclid(1000)
            && self.issuers.get(remembered.issuer)?.generation() == remembered.proved.generation;
        holds.then(|| Arc::clone(&remembered.proved.identity))
    }

    /// Looks at a token that is not remembered.
    fn check(&self, token: &str, hash: TokenHash, now_ms: i64) -> Checked {
        let said = match Said::read(token) {
            Ok(said) => said,
            Err(unproven) => return Checked::Refused(unproven),
        };
        let claims = match said.claims() {
            Ok(claims) => claims,
            Err(unproven) => return Checked::Refused(unproven),
        };
        let name = claims.get("iss").and_then(hookd_json::Json::as_str);
        let mut refused = None;
        let mut waiting = Vec::new();
        let all = self.issuers.iter().enumerate().filter(|(_, issuer)| Some(&*issuer.settings.issuer) == name);
        for (index, issuer) in all {
            match issuer.check(token, &said, &claims, now_ms.div_euclid(1000)) {
                Ok(proved) => {
                    let identity = Arc::clone(&proved.identity);
                    self.remembered.insert(hash, Arc::new(Remembered { proved, issuer: index }));
                    return Checked::Good(identity);
                }
                Err(unproven @ (Unproven::UnknownKey | Unproven::NoKeys)) => {
                    waiting.push(index);
                    refused.get_or_insert(unproven);
                }
                // Of several with the same name this one knows the key, so what it says is told.
                Err(unproven) => refused = Some(unproven),
            }
        }
        let unproven = refused.unwrap_or(Unproven::UnknownIssuer);
        if waiting.is_empty() { Checked::Refused(unproven) } else { Checked::Waits(unproven, waiting) }
    }

    /// What an identity may do that came from `peer`.
    fn permissions(&self, identity: &Identity, peer: Peer) -> Permissions {
        // Whoever is on this machine can come without any proof, and may then do what its owner may.
        if peer == Peer::Local && self.anonymous != Anonymous::Deny {
            return Permissions::ALL;
        }
        Grant::all(&self.grants, &identity.labels)
    }
}

impl Visitor {
    /// Where it came from.
    #[must_use]
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Who makes a call with these headers. Costs nothing where nothing is presented, and a hash and a look-up for a token
    /// that came before.
    pub fn identify(&self, headers: &HeaderMap, call: &Call) -> Identified {
        let mut presented = headers.get_all(header::AUTHORIZATION).iter();
        let Some(presented_first) = presented.next() else { return Identified::Now(self.without_token(call)) };
        if presented.next().is_some() {
            return self.refuse(Proof::Token, Unproven::Authorization("stands there twice"));
        }
        self.identify_by(presented_first, call.now_ms, true)
    }

    /// Who makes a call that had to wait.
    ///
    /// # Errors
    /// Why that is still not known.
    pub async fn identify_later(&self, later: Later) -> Result<Arc<Identity>, Unproven> {
        let Later { token, now_ms, answers } = later;
        join_all(answers).await;
        match self.identify_by(&token, now_ms, false) {
            Identified::Now(identified) => identified,
            Identified::Later(_) => Err(Unproven::UnknownKey),
        }
    }

    /// Lets `call` know its caller, also one who may not make it.
    ///
    /// # Errors
    /// Nobody has proved to be anybody, or somebody who may not do what the call needs.
    pub fn admit(
        &self,
        identified: Result<Arc<Identity>, Unproven>,
        needed: Permission,
        call: &Call,
    ) -> Result<(), NotJudged> {
        let identity = identified.map_err(NotJudged::Unauthenticated)?;
        let may = self.may(&identity, needed);
        call.prove(identity);
        if may { Ok(()) } else { Err(NotJudged::NotPermitted(needed)) }
    }

    fn may(&self, identity: &Identity, permission: Permission) -> bool {
        self.authenticator.permissions(identity, self.peer).has(permission)
    }

    fn without_token(&self, call: &Call) -> Result<Arc<Identity>, Unproven> {
        if let Some(certified) = self.certificate(call.now_ms) {
            let result = certified.as_ref().map_or_else(Unproven::name, |_| "ok");
            self.authenticator.recorder.authenticated(Proof::Certificate, result);
            return certified;
        }
        let enough = match self.authenticator.anonymous {
            Anonymous::Allow => true,
            Anonymous::Loopback => self.peer == Peer::Local,
            Anonymous::Deny => false,
        };
        if enough {
            return Ok(Identity::anonymous());
        }
        self.authenticator.recorder.authenticated(Proof::None, Unproven::Nothing.name());
        Err(Unproven::Nothing)
    }

    /// Whom the client certificate is about. `None`: there is none.
    fn certificate(&self, now_ms: i64) -> Option<Result<Arc<Identity>, Unproven>> {
        Some(match self.certified.as_ref()? {
            Ok(certified) if now_ms <= certified.until_ms => Ok(Arc::clone(&certified.identity)),
            Ok(_) => Err(Unproven::Certificate("has expired since the connection was made")),
            Err(unproven) => Err(unproven.clone()),
        })
    }

    fn identify_by(&self, authorization: &HeaderValue, now_ms: i64, may_wait: bool) -> Identified {
        let authenticator = &self.authenticator;
        let Some(token) = bearer(authorization) else {
            return self.refuse(Proof::Token, Unproven::Authorization("is not one bearer token"));
        };
        let hash = TokenHash::from(Sha256::digest(token));
        let identity = match authenticator.recall(&hash, now_ms) {
            Some(identity) => identity,
            None => match authenticator.check(token, hash, now_ms) {
                Checked::Good(identity) => identity,
                Checked::Refused(unproven) => return self.refuse(Proof::Token, unproven),
                Checked::Waits(unproven, issuers) => {
                    let asked = issuers.into_iter().filter_map(|issuer| authenticator.issuers.get(issuer)?.ask());
                    let answers = asked.map(|answer| Box::pin(answer) as Answer).collect::<Vec<_>>();
                    if answers.is_empty() || !may_wait {
                        return self.refuse(Proof::Token, unproven);
                    }
                    return Identified::Later(Later { token: authorization.clone(), now_ms, answers });
                }
            },
        };
        match self.with_certificate(identity, now_ms) {
            Ok(identity) => {
                authenticator.recorder.authenticated(Proof::Token, "ok");
                Identified::Now(Ok(identity))
            }
            Err(unproven) => self.refuse(Proof::Certificate, unproven),
        }
    }

    /// The identity of a token together with that of the client certificate.
    fn with_certificate(&self, token: Arc<Identity>, now_ms: i64) -> Result<Arc<Identity>, Unproven> {
        let Some(certificate) = self.certificate(now_ms).transpose()? else { return Ok(token) };
        let mut both = self.both.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, merged)) = both.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &token)) {
            let _same = of;
            return Ok(Arc::clone(merged));
        }
        let merged = Arc::new(merged(&token, &certificate)?);
        *both = Some((token, Arc::clone(&merged)));
        Ok(merged)
    }

    fn refuse(&self, proof: Proof, unproven: Unproven) -> Identified {
        self.authenticator.recorder.authenticated(proof, unproven.name());
        Identified::Now(Err(unproven))
    }
}

impl std::fmt::Debug for Later {
    /// The token does not show.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Later").finish_non_exhaustive()
    }
}

/// The token of an `Authorization` header (RFC 6750). The scheme's name is the same in any case.
fn bearer(authorization: &HeaderValue) -> Option<&str> {
    let (scheme, token) = authorization.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    let good = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && !token.contains(' ');
    good.then_some(token)
}

fn merged(token: &Identity, certificate: &Identity) -> Result<Identity, Unproven> {
    let (own, more) = (&token.labels, &certificate.labels);
    let conflict = more.as_slice().iter().find(|(label, value)| own.get(label).is_some_and(|own| own != value));
    if let Some((label, _)) = conflict {
        return Err(Unproven::Conflict(label.clone()));
    }
    let labels = own.as_slice().iter().chain(more.as_slice()).cloned().collect();
    Ok(Identity { name: token.name.clone(), labels })
}

#[cfg(test)]
mod tests;
