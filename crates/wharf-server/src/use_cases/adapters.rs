//! The adapters of agents that can be started (rule 8.7).

use std::sync::Arc;

use wharf_api::{AdapterList, AdapterQuery, LoginState};
use wharf_host::Descriptor;

use super::{Caller, contract, visible_sessions};
use crate::App;
use crate::fault::Fault;

/// Lists the adapters. An agent gets only the adapters that it may start.
pub(crate) async fn list_adapters(
    app: &App,
    caller: &Caller,
    query: &AdapterQuery,
) -> Result<AdapterList, Fault> {
    let check = query.check.unwrap_or(false);
    if check {
        // The check starts programs.
        caller.may_change()?;
    }
    let mut adapters = app.host.adapters(check).await;
    if let Some(agent) = caller.identity.agent_session() {
        let own = app
            .host
            .descriptor(agent)
            .map(|own| own.adapter_slug.clone())
            .unwrap_or_default();
        adapters.retain(|adapter| app.host.config().delegation.allows(&own, &adapter.slug));
    }
    let mut adapters: Vec<_> = adapters.into_iter().map(contract::to_adapter_description).collect();
    let sessions = visible_sessions(app, caller);
    for adapter in adapters.iter_mut().filter(|adapter| adapter.login == LoginState::Unknown) {
        // Sessions that the caller does not see tell nothing; an admin sees all, also those that
        // are forgotten since.
        let last_start = app.host.known_login(&adapter.slug).filter(|_| caller.identity.is_admin());
        adapter.login = match last_start {
            Some(true) => LoginState::Yes,
            Some(false) => LoginState::No,
            None => login_state(&sessions, &adapter.slug),
        };
    }
    Ok(AdapterList { adapters })
}

/// Returns whether an agent is logged in, as far as the newest of these sessions tells: it has
/// opened its session, or its start failed for want of a login.
fn login_state(sessions: &[Arc<Descriptor>], adapter: &str) -> LoginState {
    // The agent's error code for this is part of the message.
    let login_needed = format!("({}", wharf_json::rpc::code::AUTH_REQUIRED);
    let newest = sessions
        .iter()
        .filter(|known| known.adapter_slug == adapter)
        .max_by(|a, b| a.id.cmp(&b.id));
    match newest {
        Some(known) if known.agent_session_id.is_some() => LoginState::Yes,
        Some(known)
            if known.message.as_deref().is_some_and(|message| message.contains(&login_needed)) =>
        {
            LoginState::No
        }
        Some(_) | None => LoginState::Unknown,
    }
}
