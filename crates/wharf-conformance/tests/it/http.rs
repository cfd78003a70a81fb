//! The SDK as a client over Streamable HTTP.

use anyhow::Result;
use wharf_testkit::host::TestHost;

use crate::scenario::{self, transport};

fn url(host: &TestHost) -> String {
    format!("{}/acp", host.url())
}

#[tokio::test]
async fn the_sdk_works_over_streamable_http() -> Result<()> {
    scenario::run(|host| transport(host, &url(host), |http| http.http1_only())).await
}

/// The transport's specification asks for HTTP/2, which the SDK uses only on request.
#[tokio::test]
async fn the_sdk_works_over_http2() -> Result<()> {
    scenario::run(|host| transport(host, &url(host), |http| http.http2_prior_knowledge())).await
}
