//! The errors of reading.

use std::fmt;

/// The reason why a value could not be read. Callers report it; they never replace it by a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    NotUtf8,
    /// The text is not one JSON value; holds the parser's message.
    NotJson(String),
    /// A needed member occurs twice, so that two readers may see two values.
    Twice(String),
    /// A needed member has another type.
    WrongKind {
        name: String,
        expected: &'static str,
    },
    /// A needed member is absent or null.
    Missing(String),
    /// The value does not have the requested shape; holds the message of `serde`.
    Unusable(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::NotJson(why) => write!(f, "not JSON: {why}"),
            Self::Twice(name) => write!(f, "`{name}` stands there twice"),
            Self::WrongKind { name, expected } if name.is_empty() => write!(f, "not {expected}"),
            Self::WrongKind { name, expected } => write!(f, "`{name}` is not {expected}"),
            Self::Missing(name) => write!(f, "`{name}` is missing"),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReadError {}

impl serde::de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Unusable(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field.to_owned())
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::Twice(field.to_owned())
    }
}
