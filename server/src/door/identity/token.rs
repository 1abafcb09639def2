//! One signed token (JWT): what it says, and whether that holds.

use hookd_json::Json;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, dangerous, decode, decode_header};
use serde_json::value::RawValue;

use crate::{
    model::{Identity, Labels, Unproven},
    settings::{IssuerSettings, is_label_value},
};

/// Longest token that is looked at, in bytes.
pub(super) const MAX_TOKEN_BYTES: usize = 16 << 10;

/// What a token says. Nothing of it is proved.
pub(super) struct Said {
    pub(super) algorithm: Algorithm,
    /// The name of the key that it is signed with.
    pub(super) kid: Option<String>,
    /// Its claims, an object of JSON.
    claims: Box<RawValue>,
}

impl Said {
    /// Reads a token.
    ///
    /// # Errors
    /// [`Unproven::UnknownToken`] where it is none of this kind.
    pub(super) fn read(token: &str) -> Result<Self, Unproven> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Unproven::Authorization("is too long"));
        }
        let unknown = |_| Unproven::UnknownToken;
        // An algorithm that does not exist (`none` among them) ends here, with whatever else cannot be read.
        let header = decode_header(token).map_err(unknown)?;
        let claims = dangerous::insecure_decode_claims::<Box<RawValue>>(token).map_err(unknown)?;
        Ok(Self { algorithm: header.alg, kid: header.kid, claims })
    }

    /// The claims. Keys that come twice are an error, so that nobody can read them in another way.
    ///
    /// # Errors
    /// [`Unproven::UnknownToken`] where they are no strict JSON.
    pub(super) fn claims(&self) -> Result<Json<'_>, Unproven> {
        hookd_json::read(self.claims.get()).map_err(|_| Unproven::UnknownToken)
    }
}

/// Whether `token` is signed with this key in this way. Its claims are not looked at: the library reads numbers in a way
/// that does not go together with keeping their digits.
pub(super) fn is_signed(token: &str, algorithm: Algorithm, key: &DecodingKey) -> bool {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    decode::<Box<RawValue>>(token, key, &validation).is_ok()
}

/// Whom claims are about whose signature has been checked, and until when they count, in seconds since 1970, with the
/// skew of clocks in it.
///
/// # Errors
/// The first thing that does not hold.
pub(super) fn proved(claims: &Json<'_>, issuer: &IssuerSettings, now_s: i64) -> Result<(Identity, i64), Unproven> {
    let claim = |name: &str, why| Unproven::Claim(name.to_owned(), why);
    let is_for_us = |name: &str| issuer.audiences.iter().any(|audience| audience == name);
    let for_us = match claims.get("aud") {
        Some(Json::Text(one)) => is_for_us(one),
        Some(Json::List(all)) => all.iter().filter_map(Json::as_str).any(is_for_us),
        _ => false,
    };
    if !for_us {
        return Err(Unproven::Audience);
    }
    let skew = i64::try_from(issuer.clock_skew.as_secs()).unwrap_or(0);
    let until = time(claims, "exp")?.ok_or_else(|| claim("exp", "is missing"))?.saturating_add(skew);
    if now_s >= until {
        return Err(Unproven::Expired);
    }
    if time(claims, "nbf")?.is_some_and(|from| from > now_s.saturating_add(skew)) {
        return Err(Unproven::NotYet);
    }
    let subject = claims.get("sub").and_then(Json::as_str).filter(|subject| is_label_value(subject));
    let subject = subject.ok_or_else(|| claim("sub", "is not a text without control characters"))?;
    Ok((Identity { name: format!("{}/{subject}", issuer.name), labels: labels(claims, issuer)? }, until))
}

/// A time in seconds since 1970; what is below the second is cut.
fn time(claims: &Json<'_>, name: &str) -> Result<Option<i64>, Unproven> {
    let wrong = || Unproven::Claim(name.to_owned(), "is not a time");
    match claims.get(name) {
        None => Ok(None),
        Some(Json::Number(digits)) => {
            let seconds =
                digits.parse::<f64>().ok().filter(|seconds| (0.0..1e15).contains(seconds)).ok_or_else(wrong)?;
            #[expect(clippy::cast_possible_truncation, reason = "bounded above")]
            Ok(Some(seconds as i64))
        }
        Some(_) => Err(wrong()),
    }
}

fn labels(claims: &Json<'_>, issuer: &IssuerSettings) -> Result<Labels, Unproven> {
    let mut labels = issuer.fixed_labels.as_slice().to_vec();
    for (label, path) in &issuer.labels {
        let found = path.iter().try_fold(claims, |at, name| at.get(name));
        let value = match found {
            Some(Json::Text(text)) => text.to_string(),
            Some(Json::Number(digits)) => (*digits).to_owned(),
            Some(Json::Bool(yes)) => yes.to_string(),
            // A label that is not there is the business of whoever needs it.
            None | Some(Json::Null | Json::List(_) | Json::Object(_)) => continue,
        };
        if value.is_empty() {
            continue;
        }
        if !is_label_value(&value) {
            return Err(Unproven::Claim(path.join("/"), "is too long for a label, or holds control characters"));
        }
        labels.push((label.clone(), value));
    }
    Ok(labels.into_iter().collect())
}

#[cfg(test)]
mod tests;
