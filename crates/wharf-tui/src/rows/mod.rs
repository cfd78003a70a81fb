//! The rows of one session as a reader holds them. `wharf chat` and `wharf output` use them too.

mod row_set;

pub use row_set::{OlderRows, RowEffect, RowPlace, RowSet, text_part};
