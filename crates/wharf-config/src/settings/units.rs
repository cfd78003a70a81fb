//! Durations and sizes as a person writes them.

use serde::{Deserialize, Deserializer, de};
use wharf_core::Millis;

/// `"100ms"`, `"5s"`, `"2m"`, `"1h"`, `"7d"` or `"never"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration(Option<u64>);

impl Duration {
    pub const NEVER: Self = Self(None);

    pub const fn from_millis(millis: u64) -> Self {
        Self(Some(millis))
    }

    /// Returns the duration; `None` for `"never"`.
    pub fn to_std(self) -> Option<std::time::Duration> {
        self.0.map(std::time::Duration::from_millis)
    }

    pub fn to_millis(self) -> Option<Millis> {
        self.0.map(Millis)
    }
}

impl std::str::FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self::NEVER);
        }
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
        let millis = units.iter().find_map(|(unit, millis)| {
            let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            number.checked_mul(*millis)
        });
        millis.map(Self::from_millis).ok_or_else(|| {
            format!("{text:?} is not a duration; write it like \"100ms\", \"5s\", \"2m\", \"1h\", \"7d\" or \"never\"")
        })
    }
}

/// `"64KiB"`, `"32MiB"`, `"1GiB"`, or plain bytes `"500B"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("B", 0)];
        let bytes = units.iter().find_map(|(unit, shift)| {
            let number: usize = text.strip_suffix(unit)?.trim().parse().ok()?;
            number.checked_mul(1 << shift)
        });
        bytes.map(Self).ok_or_else(|| {
            format!("{text:?} is not a size; write it like \"64KiB\", \"32MiB\" or \"500B\"")
        })
    }
}

/// A cap that can be switched off: `"2GiB"`, or `"never"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cap(pub Option<u64>);

impl std::str::FromStr for Cap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        let Size(bytes) = text.parse().map_err(|why| format!("{why}, or \"never\""))?;
        Ok(Self(Some(bytes as u64)))
    }
}

impl<'de> Deserialize<'de> for Cap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
