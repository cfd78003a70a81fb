//! The SDK as a client over stdio, as an editor starts `wharf acp`.

use agent_client_protocol::{AcpAgent, AcpAgentConfig, DynConnectTo};
use anyhow::{Context, Result};
use wharf_testkit::program;

use crate::scenario;

#[tokio::test]
async fn the_sdk_works_over_wharf_acp() -> Result<()> {
    scenario::run(|host| {
        let state_dir = host.state_dir();
        let state_dir = state_dir.to_str().context("the directory's name is not UTF-8")?;
        let bridge = AcpAgentConfig::new(program::find_wharf()?)
            .arg("acp")
            .env("WHARF_STATE_DIR", state_dir);
        Ok(DynConnectTo::new(AcpAgent::new(bridge)))
    })
    .await
}
