//! The name of a workspace. It becomes the name of a directory, so it has no separators.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, de};
use wharf_api::quote_visibly;

/// The longest slug.
const MAX_SLUG_BYTES: usize = 64;

/// `^[a-z0-9][a-z0-9-_]{0,63}$`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Slug(Arc<str>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{quoted} is not a slug; use up to 64 of a-z, 0-9, - and _, beginning with a letter or a digit",
    quoted = quote_visibly(_0)
)]
pub struct BadSlug(String);

impl Slug {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Slug {
    type Err = BadSlug;

    fn from_str(text: &str) -> Result<Self, BadSlug> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = text.len() <= MAX_SLUG_BYTES
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'_'));
        // The quotation in the error is bounded too.
        if fits {
            Ok(Self(text.into()))
        } else {
            Err(BadSlug(text.chars().take(MAX_SLUG_BYTES + 1).collect()))
        }
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Slug {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
