/// Why nobody knows who calls. Its texts hold nothing of the proof itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// Nothing was presented, and callers without proof are not let in.
    #[error("a client certificate or a bearer token is needed")]
    Nothing,
    /// What was presented is not of a kind that is taken here.
    #[error("the authorization {0}")]
    Authorization(&'static str),
    /// The token is none that was given out: neither in the file of tokens nor from an issuer.
    #[error("the token is not known")]
    UnknownToken,
    /// The token's issuer is not one of those in the settings.
    #[error("the issuer of the token is not trusted here")]
    UnknownIssuer,
    /// The token is not signed with any of the issuer's keys, as far as they are known.
    #[error("the token is signed with a key that its issuer does not have")]
    UnknownKey,
    /// The token does not name its key, and more than one of the issuer's fits its algorithm.
    #[error("the token does not say which of its issuer's keys it is signed with (its header has no `kid`)")]
    KeyNotNamed,
    /// The issuer's keys could not be had yet.
    #[error("the keys of the token's issuer could not be had yet")]
    NoKeys,
    /// The token is signed in a way that is not taken from its issuer.
    #[error("the token is signed with an algorithm that is not taken from its issuer")]
    Algorithm,
    /// The signature is not that of the token.
    #[error("the signature of the token is wrong")]
    Signature,
    /// The token was good until a moment that is past.
    #[error("the token has expired")]
    Expired,
    /// The token will be good later.
    #[error("the token is not valid yet")]
    NotYet,
    /// The token is for somebody else.
    #[error("the token is not for this audience")]
    Audience,
    /// A claim of the token is missing or is not what it must be.
    #[error("the claim `{0}` of the token {1}")]
    Claim(String, &'static str),
    /// The client certificate proves nothing that is taken here.
    #[error("the client certificate {0}")]
    Certificate(&'static str),
    /// Two proofs, or two parts of one, give a label different values.
    #[error("the label `{0}` has two values")]
    Conflict(String),
}

impl Unproven {
    /// Its name in metrics, and in upper case the `reason` that callers are told.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.names().0
    }

    /// What callers are told as `reason`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.names().1
    }

    fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Nothing => ("no_proof", "NO_PROOF"),
            Self::Authorization(_) => ("authorization", "AUTHORIZATION"),
            Self::UnknownToken => ("unknown_token", "UNKNOWN_TOKEN"),
            Self::UnknownIssuer => ("unknown_issuer", "UNKNOWN_ISSUER"),
            Self::UnknownKey => ("unknown_key", "UNKNOWN_KEY"),
            Self::KeyNotNamed => ("key_not_named", "KEY_NOT_NAMED"),
            Self::NoKeys => ("no_keys", "NO_KEYS"),
            Self::Algorithm => ("algorithm", "ALGORITHM"),
            Self::Signature => ("signature", "SIGNATURE"),
            Self::Expired => ("expired", "EXPIRED"),
            Self::NotYet => ("not_yet_valid", "NOT_YET_VALID"),
            Self::Audience => ("audience", "AUDIENCE"),
            Self::Claim(..) => ("claim", "CLAIM"),
            Self::Certificate(_) => ("certificate", "CERTIFICATE"),
            Self::Conflict(_) => ("conflict", "CONFLICT"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_names_in_upper_case() {
        for unproven in [
            Unproven::Nothing,
            Unproven::Authorization("is not one bearer token"),
            Unproven::UnknownToken,
            Unproven::UnknownIssuer,
            Unproven::UnknownKey,
            Unproven::KeyNotNamed,
            Unproven::NoKeys,
            Unproven::Algorithm,
            Unproven::Signature,
            Unproven::Expired,
            Unproven::NotYet,
            Unproven::Audience,
            Unproven::Claim("sub".to_owned(), "is missing"),
            Unproven::Certificate("has expired"),
            Unproven::Conflict("tenant".to_owned()),
        ] {
            assert_eq!(unproven.reason(), unproven.name().to_ascii_uppercase());
        }
    }
}
