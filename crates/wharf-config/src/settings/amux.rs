//! Settings for amux clients (rule 9.5).

use serde::{Deserialize, Deserializer, de};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AmuxSettings {
    /// How much of the past a client that comes late is shown.
    pub replay_turns: ReplayTurns,
}

/// The newest so many turns, or all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayTurns {
    #[default]
    Unbounded,
    Last(usize),
}

impl std::fmt::Display for ReplayTurns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unbounded => f.write_str("unbounded"),
            Self::Last(turns) => turns.fmt(f),
        }
    }
}

impl std::str::FromStr for ReplayTurns {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if word == "unbounded" {
            return Ok(Self::Unbounded);
        }
        let turns = word.parse().map_err(|_| {
            format!("{word:?} is not a number of turns; write \"unbounded\", 0 or more")
        })?;
        Ok(Self::Last(turns))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(usize),
    Word(String),
}

impl<'de> Deserialize<'de> for ReplayTurns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Number(turns) => Ok(Self::Last(turns)),
            Written::Word(word) => word.parse().map_err(de::Error::custom),
        }
    }
}
