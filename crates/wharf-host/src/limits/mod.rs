//! Limits: permits by count, by key, by size and by priority, a rate, and the budget of bytes on
//! their way.
//!
//! A permit gives its share back when it is dropped. A caller that reaches a limit decides on the
//! answer: the types here know no error codes.

mod byte_budget;
mod count;
mod keyed;
mod priority;
mod rate;
mod request;

pub use byte_budget::{BudgetFull, ByteBudget, ByteHolder, BytePermit, Direction};
pub use count::{CountLimit, CountPermit};
pub use keyed::{KeyedLimit, KeyedPermit, LimitReached};
pub(crate) use priority::{PriorityLimit, PriorityPermit};
pub use rate::{RateExceeded, RateLimit, Refill};
pub use request::{RequestLimit, RequestPermit};

/// Polls a future once, without waiting for it.
#[cfg(test)]
pub(crate) async fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    tokio::select! {
        biased;
        done = future => Some(done),
        () = std::future::ready(()) => None,
    }
}
