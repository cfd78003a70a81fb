//! Ids of requests, as JSON text.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::{Json, Kind, number};

/// The id of a frame that is being made: the JSON text of another program's id as it came, or a
/// number of Wharf's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameId<'a>(Cow<'a, str>);

impl<'a> FrameId<'a> {
    /// Takes the JSON text of an id.
    pub const fn from_text(id: &'a str) -> Self {
        Self(Cow::Borrowed(id))
    }
}

impl<'a> From<&'a str> for FrameId<'a> {
    fn from(id: &'a str) -> Self {
        Self::from_text(id)
    }
}

impl<'a> From<&'a [u8]> for FrameId<'a> {
    fn from(id: &'a [u8]) -> Self {
        Self(String::from_utf8_lossy(id))
    }
}

impl<'a> From<&'a Bytes> for FrameId<'a> {
    fn from(id: &'a Bytes) -> Self {
        Self::from(&id[..])
    }
}

impl From<u64> for FrameId<'_> {
    fn from(id: u64) -> Self {
        Self(Cow::Owned(id.to_string()))
    }
}

impl fmt::Display for FrameId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Json<'_> {
    /// Returns the whole number of an id that came back in another spelling of the number or as a
    /// string.
    pub fn id_number(self) -> Option<u64> {
        let number = match self.kind() {
            Kind::Number => number::integer(self.raw())?,
            Kind::Text => self.text()?.parse::<u64>().ok()?.into(),
            Kind::Null | Kind::Bool | Kind::List | Kind::Object => return None,
        };
        number.try_into().ok()
    }
}

/// Returns true if the returned id (JSON text) is the id that was sent: the same text, another
/// spelling of the same number, or that number as a string.
pub fn is_same_id(sent: &[u8], returned: &[u8]) -> bool {
    let number = |id: &[u8]| Json::parse(id).ok().and_then(Json::id_number);
    sent == returned || number(sent).is_some_and(|sent| number(returned) == Some(sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_id_may_spell_the_number_differently() {
        for returned in ["7", "7.0", "70e-1", "\"7\"", r#""\u0037""#] {
            assert!(is_same_id(b"7", returned.as_bytes()), "{returned}");
        }
        for other in ["8", "-7", "7.5", "null", "\"x\"", "[7]", "7e400", "18446744073709551623", ""]
        {
            assert!(!is_same_id(b"7", other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn ids_that_are_no_numbers_are_compared_by_their_text() {
        for id in ["null", r#""a\"b""#, "1e400", "123456789012345678901234567890", "-1"] {
            assert!(is_same_id(id.as_bytes(), id.as_bytes()), "{id}");
        }
        assert!(!is_same_id(b"null", b"\"null\""));
        assert!(!is_same_id(b"1e400", b"1e401"));
        assert!(!is_same_id(b"-1", b"-1.0"), "Wharf has no such id");
    }

    #[test]
    fn numbers_beyond_u64_are_no_id_of_wharf() {
        for id in
            ["18446744073709551616", "-1", "1.5", "\"18446744073709551616\"", "\" 7\"", "true"]
        {
            assert_eq!(Json::parse(id.as_bytes()).unwrap().id_number(), None, "{id}");
        }
        assert_eq!(Json::parse(b"18446744073709551615").unwrap().id_number(), Some(u64::MAX));
    }
}
