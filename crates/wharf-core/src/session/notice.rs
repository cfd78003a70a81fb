//! Updates that Wharf makes in the agent's stead.

use serde_json::{Value, json};

use super::{Draft, Session};
use crate::{Event, Raw, UpdateKind};

/// Told when an agent goes on in a session that it does not remember (rule 12.5).
const LOST_MEMORY: &str =
    "The agent was started anew and has lost its memory of this conversation. Prompts that waited go on without it.";

impl Session {
    pub(super) fn tell_of_lost_memory(&mut self, draft: &mut Draft) {
        let update = json!({ "sessionUpdate": "notice", "level": "warning", "message": LOST_MEMORY });
        self.record_update(UpdateKind::Other, &update, draft);
    }

    /// Records a `session/update` that no agent sent.
    fn record_update(&mut self, kind: UpdateKind, update: &Value, draft: &mut Draft) {
        let params = json!({ "sessionId": self.state.origin.session.as_str(), "update": update });
        let frame = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string();
        if let Some(frame) = Raw::new(frame) {
            self.record(Event::AgentUpdated { update: kind, frame, title: None }, draft);
        }
    }
}
