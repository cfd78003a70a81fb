//! How a bound connection ends: by its own wish, or because its agent does not start.

use bytes::Bytes;
use serde_json::json;

use super::bound::Bound;
use crate::acp::connection::Connection;
use crate::acp::inbound::{Outcome, result};
use crate::acp::outbound::Out;

/// WebSocket close codes.
const DONE: u16 = 1000;
const AGENT_FAILED: u16 = 1011;

impl Connection {
    /// `session/detach` from the bound session: it is answered, and the connection is closed (rule 4.7).
    pub(in crate::acp) async fn detach_bound(&self, bound: &Bound, id: &Bytes) -> Outcome {
        let known = self.sight().find_by_name(bound.name());
        let session = known.map_or_else(|| bound.name().to_string(), |known| known.id.clone());
        let answer = result(id, &json!({ "sessionId": session, "status": "detached" }));
        let _ = self.out.send(Out::Answer { session: None, frame: answer.into() }).await;
        let _ = self.out.send(Out::Close { code: DONE, reason: "detached" }).await;
        Ok(None)
    }

    pub(in crate::acp) async fn close_failed(&self) {
        let _ = self.out.send(Out::Close { code: AGENT_FAILED, reason: "the agent could not be started" }).await;
    }
}
