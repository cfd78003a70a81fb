//! One-time codes, with which the web page gets a login without a person copying a token (rule 10.2).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;
use wharf_host::random_text;

use super::digest::Digest;
use super::identity::Identity;
use super::terms::TokenTerms;

/// How long a code is valid: long enough to open a page.
pub(crate) const LOGIN_CODE_LIFETIME: Duration = Duration::from_secs(60);
/// 26 characters of five bits: nothing to guess in a minute.
const CODE_CHARS: usize = 26;
/// Codes of one asker; the oldest is dropped for a new one.
const MAX_CODES_PER_ASKER: usize = 4;
/// Codes of all askers.
const MAX_CODES: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct LoginCodes(Mutex<Vec<PendingCode>>);

#[derive(Debug)]
struct PendingCode {
    digest: Digest,
    asker: Identity,
    terms: TokenTerms,
    until: Instant,
}

/// Too many codes wait to be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyCodes;

impl LoginCodes {
    /// Creates a code for a login on these terms. Only its hash is kept.
    pub(crate) fn create(&self, asker: Identity, terms: TokenTerms) -> Result<String, TooManyCodes> {
        self.create_at(asker, terms, Instant::now())
    }

    fn create_at(&self, asker: Identity, terms: TokenTerms, now: Instant) -> Result<String, TooManyCodes> {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| now < code.until);
        let of_asker = |code: &PendingCode| code.asker.token == asker.token;
        if codes.iter().filter(|code| of_asker(code)).count() >= MAX_CODES_PER_ASKER
            && let Some(oldest) = codes.iter().position(of_asker)
        {
            codes.remove(oldest);
        }
        if codes.len() >= MAX_CODES {
            return Err(TooManyCodes);
        }
        let text = random_text(CODE_CHARS);
        codes.push(PendingCode { digest: Digest::of(&text), asker, terms, until: now + LOGIN_CODE_LIFETIME });
        Ok(text)
    }

    /// Uses a code up and returns its asker and terms. Returns `None` if the code is unknown, used or expired.
    pub(crate) fn redeem(&self, text: &str) -> Option<(Identity, TokenTerms)> {
        self.redeem_at(text, Instant::now())
    }

    fn redeem_at(&self, text: &str, now: Instant) -> Option<(Identity, TokenTerms)> {
        let given = Digest::of(text.trim());
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| now < code.until);
        // Every code is compared, so that the time tells nothing about a guess.
        let found = codes.iter().map(|code| bool::from(code.digest.ct_eq(&given))).collect::<Vec<_>>();
        let code = codes.remove(found.into_iter().position(|is| is)?);
        Some((code.asker, code.terms))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::auth::{Access, Scope};

    fn asker(id: &str) -> Identity {
        Identity { token: Some(Arc::from(id)), access: Access::Observer, scope: Scope::Host }
    }

    #[test]
    fn code_is_valid_once_and_for_a_minute() {
        let (codes, now) = (LoginCodes::default(), Instant::now());
        let make = || codes.create_at(asker("tok_a"), TokenTerms::new(Access::Observer), now).unwrap();
        let (first, second) = (make(), make());
        assert!(codes.redeem_at("guess", now).is_none());
        let (by, terms) = codes.redeem_at(&first, now).unwrap();
        assert_eq!((by, terms.access), (asker("tok_a"), Access::Observer));
        assert!(codes.redeem_at(&first, now).is_none(), "a second time");
        assert!(codes.redeem_at(&second, now + LOGIN_CODE_LIFETIME).is_none(), "a minute later");
    }

    #[test]
    fn asker_does_not_push_out_the_codes_of_others() {
        let (codes, now) = (LoginCodes::default(), Instant::now());
        let make = |id: &str| codes.create_at(asker(id), TokenTerms::new(Access::Observer), now);
        let mine = make("tok_mine").unwrap();
        for _ in 0..1_000 {
            make("tok_other").unwrap();
        }
        assert_eq!(codes.0.lock().unwrap().len(), 1 + MAX_CODES_PER_ASKER);
        for number in 0..MAX_CODES - 1 - MAX_CODES_PER_ASKER {
            make(&format!("tok_{number}")).unwrap();
        }
        assert_eq!(make("tok_late"), Err(TooManyCodes));
        assert!(codes.redeem_at(&mine, now).is_some());
    }
}
