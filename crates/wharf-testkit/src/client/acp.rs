//! The common ACP calls of a client.

use serde_json::{Value, json};

use super::{CallFailure, PendingCall, TestClient};

impl TestClient {
    /// Sends `initialize` as a client that serves neither files nor terminals.
    pub async fn initialize(&self) -> Result<Value, CallFailure> {
        let capabilities =
            json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
        let info = json!({ "name": "wharf-testkit", "version": env!("CARGO_PKG_VERSION") });
        let params =
            json!({ "protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info });
        self.call_method("initialize", params).await
    }

    /// Sends `session/new` and returns the session's id.
    pub async fn new_session(&self, cwd: &str) -> Result<String, CallFailure> {
        let opened =
            self.call_method("session/new", json!({ "cwd": cwd, "mcpServers": [] })).await?;
        Ok(opened["sessionId"].as_str().unwrap_or_default().to_owned())
    }

    /// Sends `session/load`; the replay is in the transcript.
    pub async fn load_session(&self, session: &str, cwd: &str) -> Result<Value, CallFailure> {
        self.call_method(
            "session/load",
            json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] }),
        )
        .await
    }

    /// Sends a prompt without waiting for its end.
    pub async fn start_prompt(&self, session: &str, text: &str) -> PendingCall {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.start_request("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
            .await
    }

    /// Sends a prompt and waits for its end.
    pub async fn send_prompt(&self, session: &str, text: &str) -> Result<Value, CallFailure> {
        self.start_prompt(session, text).await.wait_answer().await
    }

    pub async fn cancel_turn(&self, session: &str) {
        self.send_notification("session/cancel", json!({ "sessionId": session })).await;
    }
}
