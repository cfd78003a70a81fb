//! How the host tells of itself: its own output, and metrics sent elsewhere.

use serde::{Deserialize, Deserializer, de};

use super::Duration;

/// How lines of the host's own output look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl std::str::FromStr for LogFormat {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("{word:?} is not a format; write \"text\" or \"json\"")),
        }
    }
}

/// Where metrics and turns are sent, if anywhere.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct OtlpSettings {
    /// `http://127.0.0.1:4318`; `/v1/metrics` and `/v1/traces` come after it.
    #[serde(deserialize_with = "endpoint")]
    pub endpoint: Option<String>,
    pub interval: Duration,
}

impl Default for OtlpSettings {
    fn default() -> Self {
        Self { endpoint: None, interval: Duration::from_millis(30_000) }
    }
}

fn endpoint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let machine = text.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if machine.is_empty() || machine.contains('@') {
        let hint = "write it like \"http://127.0.0.1:4318\"; for a collector elsewhere, or with a key, run one on this machine";
        return Err(de::Error::custom(format!("otlp.endpoint {text:?} is not an http:// address; {hint}")));
    }
    Ok(Some(text))
}
