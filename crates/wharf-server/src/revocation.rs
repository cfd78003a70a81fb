//! Ends requests and connections within a second when their token is revoked or expires, or the
//! agent that it belongs to has ended.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use futures_util::StreamExt as _;
use wharf_host::Host;

use crate::App;
use crate::auth::{Identity, Scope, TokenEnd, Tokens};

/// A revoked or expired token is noticed within this time.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Checks the tokens again and again, and removes persons that have no token left; never returns.
pub(crate) async fn watch_tokens(tokens: Arc<Tokens>, host: Host) {
    let mut reads = None;
    let mut ticks = tokio::time::interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let tokens = Arc::clone(&tokens);
        let host = host.clone();
        // A file system may be slow.
        let check = move || {
            tokens.check_for_ends();
            let mut reads = reads;
            if let Some(persons) = tokens.persons_since(&mut reads) {
                host.retain_persons(&persons);
            }
            reads
        };
        reads = tokio::task::spawn_blocking(check).await.unwrap_or(reads);
    }
}

/// Completes when the identity's token is no longer valid.
pub(crate) async fn wait_for_end(app: &App, identity: &Identity) -> TokenEnd {
    match &identity.scope {
        Scope::Session(badge) => {
            app.host.wait_for_agent_token_end(badge).await;
            TokenEnd::AgentGone
        }
        Scope::Host | Scope::Workspace(_) if Tokens::revocable_id(identity).is_some() => {
            app.tokens.wait_for_end(identity).await
        }
        Scope::Host | Scope::Workspace(_) => std::future::pending().await,
    }
}

/// Waits for the response while the token is valid. Once it is not, a response that is under way is
/// given up with the error, and a stream ends.
pub(crate) async fn answer_while_valid(
    app: &App,
    identity: Identity,
    answer: impl Future<Output = Response>,
) -> Result<Response, TokenEnd> {
    if Tokens::revocable_id(&identity).is_none() && identity.agent_session().is_none() {
        return Ok(answer.await);
    }
    let response = tokio::select! {
        biased;
        response = answer => response,
        ending = wait_for_end(app, &identity) => return Err(ending),
    };
    // A complete body needs no watching.
    if response.body().size_hint().exact().is_some() {
        return Ok(response);
    }
    let app = app.clone();
    let over = Box::pin(async move { wait_for_end(&app, &identity).await });
    Ok(response.map(|body| Body::from_stream(body.into_data_stream().take_until(over))))
}
