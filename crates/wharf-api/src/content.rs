//! A prompt's content.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema as OpenApiSchema;
use utoipa::{PartialSchema, ToSchema};

/// Holds the JSON of content for the agent: a text, or ACP content blocks, which Wharf passes on
/// unchanged. The server checks which of the two it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Content(Box<RawValue>);

impl Content {
    /// Returns the content that says this text.
    pub fn from_text(text: &str) -> Self {
        let json = RawValue::from_string(serde_json::Value::from(text).to_string());
        // A text always has a JSON form; `null` would be refused by the host.
        Self(json.unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// Returns the JSON as it was sent.
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

/// A text, or ACP content blocks.
#[derive(ToSchema, JsonSchema)]
#[schema(as = Content)]
#[schemars(rename = "Content", untagged)]
#[serde(untagged)]
#[expect(dead_code, reason = "a schema")]
enum ContentShape {
    Text(String),
    Blocks(Vec<ContentBlock>),
}

/// An ACP content block, such as `{"type":"text","text":"hello"}`.
#[derive(ToSchema, JsonSchema)]
#[expect(dead_code, reason = "a schema")]
struct ContentBlock {
    #[serde(rename = "type")]
    kind: String,
}

impl PartialSchema for Content {
    fn schema() -> RefOr<OpenApiSchema> {
        ContentShape::schema()
    }
}

impl ToSchema for Content {
    fn name() -> Cow<'static, str> {
        ContentShape::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<OpenApiSchema>)>) {
        ContentShape::schemas(schemas);
    }
}

impl JsonSchema for Content {
    fn schema_name() -> Cow<'static, str> {
        ContentShape::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ContentShape::json_schema(generator)
    }
}
