//! Tokens, context and cost, as agents report them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Tokens that an agent reported. A number that it did not report is null, never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cached: Option<u64>,
    pub total: Option<u64>,
    pub cost: Option<UsageCost>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
pub struct UsageCost {
    pub amount: f64,
    pub currency: String,
}

/// How full the model's context is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
pub struct ContextUse {
    pub used: u64,
    pub size: u64,
}
