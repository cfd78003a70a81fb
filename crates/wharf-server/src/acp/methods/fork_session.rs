//! `session/fork`: a copy of a session, with an agent of its own (rule 17.10).

use std::path::Path;

use wharf_host::ForkClient;

use super::new_session::join_created;
use crate::acp::connection::Connection;
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::use_cases;

/// Copies a session, joins the copy and answers as to `session/new`.
pub(super) async fn fork_session(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let source = request.session()?;
    let caller = connection.caller_in(&source);
    let info = connection.client.info();
    caller.may_change()?;
    let known = connection.sight().descriptor(&source);
    // The agent that waits is of the connection's adapter; another one's must be started.
    let (spare, prelude) = match known
        .filter(|known| known.forkable && *known.adapter_slug == **connection.agent.adapter())
    {
        Some(known) => {
            (connection.agent.take_for(Path::new(&known.cwd)).await, connection.requests.logins())
        }
        None => (None, Vec::new()),
    };
    let frame = request.frame.clone();
    let capabilities = info.for_agent();
    let env = info.env.as_ref().clone();
    let client = ForkClient { frame, capabilities, env, spare, prelude };
    let created =
        use_cases::fork_for_client(&connection.app, &caller, source.as_str(), client).await;
    join_created(connection, request, created).await
}
