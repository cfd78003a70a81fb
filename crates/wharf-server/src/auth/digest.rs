//! The hash of a token, compared in constant time and never shown.

use serde::{Deserialize, Serialize};
use subtle::{Choice, ConstantTimeEq};

/// Tokens are 260 random bits: a plain hash is enough, there is nothing to guess that salt or
/// slowness would protect.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Digest(blake3::Hash);

impl Digest {
    pub(super) fn of(token: &str) -> Self {
        Self(blake3::hash(token.as_bytes()))
    }
}

impl ConstantTimeEq for Digest {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.as_bytes().ct_eq(other.0.as_bytes())
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest(…)")
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0.to_hex().as_str().to_owned()
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        blake3::Hash::from_hex(text)
            .map(Self)
            .map_err(|_| "a hash is not 64 hexadecimal digits")
    }
}
