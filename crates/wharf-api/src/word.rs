//! Words that a newer host may add to.

/// Defines an enum whose values are words on the wire. A word that this version does not know is
/// kept as `Other`; the schema lists the known ones.
macro_rules! words {
    (
        $(#[doc = $doc:literal])+
        pub enum $name:ident as $schema:literal {
            $($(#[doc = $variant_doc:literal])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $variant_doc])* $variant,)+
            /// A word of a newer host.
            Other(Box<str>),
        }

        impl $name {
            /// The words that this version knows.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Returns the word as it is on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => Self::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Ok(Self::from(&*word))
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let words = utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some($crate::word::join_lines(&[$($doc),+])))
                    .enum_values(Some(Self::WORDS.iter().copied()));
                words.into()
            }
        }

        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                $schema.into()
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let about = $crate::word::join_lines(&[$($doc),+]);
                schemars::json_schema!({ "description": about, "type": "string", "enum": Self::WORDS })
            }
        }
    };
}

/// Returns the text of a doc comment.
pub(crate) fn join_lines(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}

/// Reads a word that a caller sends. Fails if this version does not know the word, whereas an
/// unknown word from a host is accepted.
pub(crate) fn read_known_word<'de, D, W>(
    deserializer: D,
    words: &'static [&'static str],
) -> Result<Option<W>, D::Error>
where
    D: serde::Deserializer<'de>,
    W: for<'a> From<&'a str>,
{
    let word =
        <Option<std::borrow::Cow<'de, str>> as serde::Deserialize>::deserialize(deserializer)?;
    match word {
        Some(word) if !words.contains(&&*word) => {
            Err(serde::de::Error::unknown_variant(&word, words))
        }
        Some(word) => Ok(Some(W::from(&*word))),
        None => Ok(None),
    }
}
