//! One-time codes, by which the web page gets a login without anyone copying a token (rule 10.2).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;
use wharf_host::random_text;

use super::digest::Digest;
use super::identity::Identity;
use super::terms::Terms;

/// Long enough to open a page.
pub(crate) const GOOD_FOR: Duration = Duration::from_secs(60);
/// 26 characters of five bits: nothing to guess in a minute.
const LENGTH: usize = 26;
/// Of one asker; the oldest goes when another comes.
const MOST_OF_ONE: usize = 4;
/// In all.
const MOST: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Codes(Mutex<Vec<Code>>);

#[derive(Debug)]
struct Code {
    digest: Digest,
    asker: Identity,
    terms: Terms,
    until: Instant,
}

/// There are too many codes that nobody has used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Codes {
    /// A code for a login on these terms. It is nowhere else.
    pub(crate) fn make(&self, asker: Identity, terms: Terms) -> Result<String, TooMany> {
        self.make_at(asker, terms, Instant::now())
    }

    fn make_at(&self, asker: Identity, terms: Terms, now: Instant) -> Result<String, TooMany> {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| now < code.until);
        let of_asker = |code: &Code| code.asker.token == asker.token;
        if codes.iter().filter(|code| of_asker(code)).count() >= MOST_OF_ONE
            && let Some(oldest) = codes.iter().position(of_asker)
        {
            codes.remove(oldest);
        }
        if codes.len() >= MOST {
            return Err(TooMany);
        }
        let text = random_text(LENGTH);
        codes.push(Code { digest: Digest::of(&text), asker, terms, until: now + GOOD_FOR });
        Ok(text)
    }

    /// Uses a code up: who asked for it, and the terms. `None` if there is no such code, or not any more.
    pub(crate) fn take(&self, text: &str) -> Option<(Identity, Terms)> {
        self.take_at(text, Instant::now())
    }

    fn take_at(&self, text: &str, now: Instant) -> Option<(Identity, Terms)> {
        let given = Digest::of(text.trim());
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| now < code.until);
        // All are looked at: how long it takes does not tell how near one was.
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
    fn a_code_is_good_once_and_for_a_minute() {
        let (codes, now) = (Codes::default(), Instant::now());
        let make = || codes.make_at(asker("tok_a"), Terms::new(Access::Observer), now).unwrap();
        let (first, second) = (make(), make());
        assert!(codes.take_at("guess", now).is_none());
        let (by, terms) = codes.take_at(&first, now).unwrap();
        assert_eq!((by, terms.access), (asker("tok_a"), Access::Observer));
        assert!(codes.take_at(&first, now).is_none(), "a second time");
        assert!(codes.take_at(&second, now + GOOD_FOR).is_none(), "a minute later");
    }

    #[test]
    fn nobody_pushes_the_codes_of_others_out() {
        let (codes, now) = (Codes::default(), Instant::now());
        let make = |id: &str| codes.make_at(asker(id), Terms::new(Access::Observer), now);
        let mine = make("tok_mine").unwrap();
        for _ in 0..1_000 {
            make("tok_other").unwrap();
        }
        assert_eq!(codes.0.lock().unwrap().len(), 1 + MOST_OF_ONE);
        for number in 0..MOST - 1 - MOST_OF_ONE {
            make(&format!("tok_{number}")).unwrap();
        }
        assert_eq!(make("tok_late"), Err(TooMany));
        assert!(codes.take_at(&mine, now).is_some());
    }
}
