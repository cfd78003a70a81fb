//! One-time codes, with which the web page gets a login without a person copying a token (rule
//! 10.2).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;
use wharf_host::random_text;

use super::digest::Digest;
use super::identity::Identity;
use super::terms::TokenTerms;

/// How long a code is valid: long enough to open a page.
pub(crate) const LOGIN_CODE_LIFETIME: Duration = Duration::from_secs(120);
/// The longest that a caller may ask for: long enough to find a phone, unlock it and scan.
pub(crate) const MAX_LOGIN_CODE_LIFETIME: Duration = Duration::from_secs(600);
/// Two groups of four characters of five bits: short enough to type, and with [`MAX_WRONG_GUESSES`]
/// nothing to guess.
const CODE_GROUP_CHARS: usize = 4;
/// A code is void after so many wrong ones: the chance to guess it stays below one in a hundred
/// million.
const MAX_WRONG_GUESSES: u32 = 10_000;
/// Codes of one asker; the oldest is dropped for a new one.
const MAX_CODES_PER_ASKER: usize = 4;
/// Codes of all askers.
const MAX_CODES: usize = 256;
/// How long a code that cannot be used any more is remembered, so that the host can say why it
/// refuses the code.
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);

#[derive(Debug, Default)]
pub(crate) struct LoginCodes(Mutex<Vec<KnownCode>>);

/// A code that can be used, or that could be.
#[derive(Debug)]
struct KnownCode {
    digest: Digest,
    asker: Identity,
    terms: TokenTerms,
    until: Instant,
    is_used: bool,
    wrong_guesses: u32,
}

impl KnownCode {
    fn is_usable(&self, now: Instant) -> bool {
        now < self.until && !self.is_used && self.wrong_guesses < MAX_WRONG_GUESSES
    }
}

/// Too many codes wait to be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyCodes;

/// The reason why a code is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeRefused {
    Used,
    Expired,
    Unknown,
}

impl LoginCodes {
    /// Creates a code for a login on these terms. Only its hash is kept.
    pub(crate) fn create(
        &self,
        asker: Identity,
        terms: TokenTerms,
        lifetime: Duration,
    ) -> Result<String, TooManyCodes> {
        self.create_at(asker, terms, lifetime, Instant::now())
    }

    fn create_at(
        &self,
        asker: Identity,
        terms: TokenTerms,
        lifetime: Duration,
        now: Instant,
    ) -> Result<String, TooManyCodes> {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| now < code.until + REMEMBERED_FOR);
        let is_own = |code: &KnownCode| code.is_usable(now) && code.asker.token == asker.token;
        if codes.iter().filter(|code| is_own(code)).count() >= MAX_CODES_PER_ASKER
            && let Some(oldest) = codes.iter().position(is_own)
        {
            codes.remove(oldest);
        }
        if codes.len() >= MAX_CODES {
            let spent = codes.iter().position(|code| !code.is_usable(now)).ok_or(TooManyCodes)?;
            codes.remove(spent);
        }
        let text = random_text(2 * CODE_GROUP_CHARS);
        let digest = Digest::of(&text);
        codes.push(KnownCode {
            digest,
            asker,
            terms,
            until: now + lifetime,
            is_used: false,
            wrong_guesses: 0,
        });
        let (first, second) = text.split_at(CODE_GROUP_CHARS);
        Ok(format!("{first}-{second}").to_ascii_uppercase())
    }

    /// Uses a code up and returns its asker and terms.
    pub(crate) fn redeem(&self, text: &str) -> Result<(Identity, TokenTerms), CodeRefused> {
        self.redeem_at(text, Instant::now())
    }

    fn redeem_at(&self, text: &str, now: Instant) -> Result<(Identity, TokenTerms), CodeRefused> {
        let given = Digest::of(&normalize_code(text));
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| now < code.until + REMEMBERED_FOR);
        // Every code is compared, so that the time tells nothing about a guess.
        let found = codes
            .iter()
            .map(|code| bool::from(code.digest.ct_eq(&given)))
            .collect::<Vec<_>>();
        let Some(code) = found.into_iter().position(|is| is).and_then(|place| codes.get_mut(place))
        else {
            codes.iter_mut().for_each(|code| code.wrong_guesses += 1);
            return Err(CodeRefused::Unknown);
        };
        if !code.is_usable(now) {
            return Err(if code.is_used { CodeRefused::Used } else { CodeRefused::Expired });
        }
        code.is_used = true;
        Ok((code.asker.clone(), code.terms.clone()))
    }

    /// Withdraws the codes of a caller that were not used. Returns how many there were.
    pub(crate) fn withdraw(&self, asker: &Identity) -> usize {
        let now = Instant::now();
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = codes
            .iter_mut()
            .filter(|code| code.asker.token == asker.token && code.is_usable(now));
        own.map(|code| code.until = now).count()
    }
}

/// Returns a code as it was made, from what a person typed: the letters that are missing in codes
/// stand for digits.
fn normalize_code(text: &str) -> String {
    let typed = text
        .chars()
        .filter(|char| !char.is_whitespace() && *char != '-')
        .map(|char| char.to_ascii_lowercase());
    let typed = typed.map(|char| match char {
        'o' => '0',
        'i' | 'l' => '1',
        other => other,
    });
    typed.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::auth::{Access, Scope};

    fn asker(id: &str) -> Identity {
        Identity {
            token: Some(Arc::from(id)),
            access: Access::Observer,
            scope: Scope::Host,
        }
    }

    fn make_code(codes: &LoginCodes, id: &str, now: Instant) -> Result<String, TooManyCodes> {
        codes.create_at(asker(id), TokenTerms::new(Access::Observer), LOGIN_CODE_LIFETIME, now)
    }

    #[test]
    fn code_is_valid_once_and_for_its_lifetime() {
        let codes = LoginCodes::default();
        let now = Instant::now();
        let make = || make_code(&codes, "tok_a", now).unwrap();
        let first = make();
        let second = make();
        assert_eq!(codes.redeem_at("guess", now).unwrap_err(), CodeRefused::Unknown);
        let (by, terms) = codes.redeem_at(&first, now).unwrap();
        assert_eq!((by, terms.access), (asker("tok_a"), Access::Observer));
        assert_eq!(codes.redeem_at(&first, now).unwrap_err(), CodeRefused::Used);
        let late = now + LOGIN_CODE_LIFETIME;
        assert_eq!(codes.redeem_at(&second, late).unwrap_err(), CodeRefused::Expired);
        assert_eq!(
            codes.redeem_at(&second, late + REMEMBERED_FOR).unwrap_err(),
            CodeRefused::Unknown
        );
    }

    #[test]
    fn code_can_be_typed_in_any_case_and_without_its_hyphen() {
        let codes = LoginCodes::default();
        let now = Instant::now();
        for change in [
            |code: &str| code.to_lowercase(),
            |code: &str| code.replace('-', ""),
            |code: &str| format!(" {} ", code.replace('-', " ")),
            |code: &str| code.replace('0', "O").replace('1', "l"),
        ] {
            let code = make_code(&codes, "tok_a", now).unwrap();
            assert_eq!((code.len(), code.chars().nth(4)), (9, Some('-')));
            assert!(codes.redeem_at(&change(&code), now).is_ok(), "{code}");
        }
    }

    #[test]
    fn code_is_void_after_many_wrong_guesses() {
        let codes = LoginCodes::default();
        let now = Instant::now();
        let code = make_code(&codes, "tok_a", now).unwrap();
        for _ in 0..MAX_WRONG_GUESSES {
            assert!(codes.redeem_at("wrong", now).is_err());
        }
        assert_eq!(codes.redeem_at(&code, now).unwrap_err(), CodeRefused::Expired);
    }

    #[test]
    fn asker_does_not_push_out_the_codes_of_others() {
        let codes = LoginCodes::default();
        let now = Instant::now();
        let mine = make_code(&codes, "tok_mine", now).unwrap();
        for _ in 0..1_000 {
            make_code(&codes, "tok_other", now).unwrap();
        }
        assert_eq!(codes.0.lock().unwrap().len(), 1 + MAX_CODES_PER_ASKER);
        for number in 0..MAX_CODES - 1 - MAX_CODES_PER_ASKER {
            make_code(&codes, &format!("tok_{number}"), now).unwrap();
        }
        assert_eq!(make_code(&codes, "tok_late", now), Err(TooManyCodes));
        assert!(codes.redeem_at(&mine, now).is_ok());
        assert!(make_code(&codes, "tok_late", now).is_ok(), "a used code gives way");
    }

    #[test]
    fn withdrawn_code_is_not_taken() {
        let codes = LoginCodes::default();
        let code = make_code(&codes, "tok_a", Instant::now()).unwrap();
        assert_eq!(codes.withdraw(&asker("tok_b")), 0);
        assert_eq!(codes.withdraw(&asker("tok_a")), 1);
        assert_eq!(codes.redeem(&code).unwrap_err(), CodeRefused::Expired);
    }
}
