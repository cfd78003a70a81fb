//! The adapters of agents that can be started (rule 8.7).

use wharf_api::{AdapterList, AdapterQuery};

use super::{Caller, contract};
use crate::App;
use crate::fault::Fault;

/// Lists the adapters. An agent gets only the adapters that it may start.
pub(crate) async fn list_adapters(app: &App, caller: &Caller, query: &AdapterQuery) -> Result<AdapterList, Fault> {
    let check = query.check.unwrap_or(false);
    if check {
        // The check starts programs.
        caller.may_change()?;
    }
    let mut adapters = app.host.adapters(check).await;
    if let Some(agent) = caller.identity.agent_session() {
        let own = app.host.descriptor(agent).map(|own| own.adapter_slug.clone()).unwrap_or_default();
        adapters.retain(|adapter| app.host.config().delegation.allows(&own, &adapter.slug));
    }
    Ok(AdapterList { adapters: adapters.into_iter().map(contract::to_adapter_description).collect() })
}
