//! JSON text that the core passes on unchanged.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value, byte for byte as received, without line breaks. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(Bytes);

impl Raw {
    /// Takes text that is known to be one JSON value in one line, since the host's scanner has
    /// checked it. Returns `None` if it is not UTF-8 or holds a line break.
    pub fn new(text: impl Into<Bytes>) -> Option<Self> {
        let text = text.into();
        let one_line = !text.contains(&b'\n') && !text.contains(&b'\r');
        (one_line && std::str::from_utf8(&text).is_ok()).then_some(Self(text))
    }

    /// Like [`Raw::new`], for bytes that were already checked as part of a whole record.
    pub fn new_checked_before(text: Bytes) -> Self {
        Self(text)
    }

    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    /// Returns a copy in memory of its own, so that a long-lived value does not keep the read
    /// buffer alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: &RawValue = wharf_json::read_own(&self.0).map_err(serde::ser::Error::custom)?;
        text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::new(Box::<str>::from(text).into_string())
            .ok_or_else(|| serde::de::Error::custom("line break in a payload"))
    }
}
