//! The cost that the agent reports in `usage_update` (chapter 15 of the specification).

use serde::{Deserialize, Serialize};
use wharf_json::Json;

use crate::Raw;

/// The longest name of a currency. ISO 4217 has three letters; an agent may use credits of its own.
const MAX_CURRENCY_CHARS: usize = 16;

/// An amount of money, as the agent wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCost {
    /// The JSON text of the number.
    pub amount: String,
    pub currency: String,
}

impl ReportedCost {
    /// Reads the cost in a frame with a `usage_update`. Returns `None` if it has none that can be
    /// read.
    pub(super) fn from_frame(frame: &Raw) -> Option<Self> {
        let cost = Json::parse(frame.bytes()).ok()?.at(&["params", "update", "cost"]).ok()??;
        let amount = cost.last_member("amount")?;
        let currency: String =
            cost.last_member("currency")?.text()?.chars().take(MAX_CURRENCY_CHARS).collect();
        let is_readable = amount.float().is_some_and(|amount| amount >= 0.0);
        (is_readable && !currency.is_empty())
            .then(|| Self { amount: amount.raw().to_owned(), currency })
    }
}
