//! The SDK as a client over WebSocket.

use anyhow::{Context, Result};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use wharf_testkit::host::HostOptions;

use crate::editor::Editor;
use crate::scenario::{self, transport};

#[tokio::test]
async fn the_sdk_works_over_websocket() -> Result<()> {
    scenario::run(|host| transport(host, &host.ws_url(), |http| http)).await
}

#[tokio::test]
async fn a_wrong_token_is_refused_with_a_status() -> Result<()> {
    let host = HostOptions::with_scripted_agent(&[])?.start_host()?;
    let wrong = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer wrong"))]);
    let editor =
        Editor::connect(transport(&host, &host.ws_url(), |http| http.default_headers(wrong))?)
            .await?;
    let refused = editor.initialize().await.err().context("a connection with a wrong token")?;
    let why = editor.leave().await.err().map(|error| format!("{error:#}"));
    assert!(why.as_ref().is_some_and(|why| why.contains("401")), "{why:?} {refused:#}");
    Ok(())
}
