//! The end of what a token opened: when it is revoked or expires, what is under way with it is over within a second.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use futures_util::StreamExt as _;

use crate::auth::{Ending, Identity, Tokens};

/// A revocation is noticed within this time, as is an end that has come.
const LOOK: Duration = Duration::from_millis(250);

/// Looks at the tokens for as long as it is let.
pub(crate) async fn watch(tokens: Arc<Tokens>) {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let tokens = Arc::clone(&tokens);
        // A file system may be slow.
        let _ = tokio::task::spawn_blocking(move || tokens.look()).await;
    }
}

/// Done when this identity's token is not good any more.
pub(crate) async fn ended(tokens: &Tokens, identity: &Identity) -> Ending {
    match Tokens::can_end(identity) {
        Some(_) => tokens.ended(identity).await,
        None => std::future::pending().await,
    }
}

/// Answers for as long as the token is good: an answer that takes long is given up with the error, a stream ends.
pub(crate) async fn while_good(
    tokens: &Arc<Tokens>,
    identity: Identity,
    answer: impl Future<Output = Response>,
) -> Result<Response, Ending> {
    if Tokens::can_end(&identity).is_none() {
        return Ok(answer.await);
    }
    let response = tokio::select! {
        biased;
        response = answer => response,
        ending = tokens.ended(&identity) => return Err(ending),
    };
    // What is there already needs no watching.
    if response.body().size_hint().exact().is_some() {
        return Ok(response);
    }
    let tokens = Arc::clone(tokens);
    let over = Box::pin(async move { tokens.ended(&identity).await });
    Ok(response.map(|body| Body::from_stream(body.into_data_stream().take_until(over))))
}
