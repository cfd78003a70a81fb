//! Updates that Wharf makes on the agent's behalf.

use serde_json::{Value, json};
use wharf_json::rpc;

use super::{Draft, Session};
use crate::{AgentEvent, Raw, ToolCall, ToolCallState, UpdateKind};

/// The notice for clients when an agent goes on in a session that it does not remember (rule 12.5).
const LOST_MEMORY: &str = "The agent was started anew and has lost its memory of this conversation. Prompts that waited go on without it.";

impl Session {
    pub(super) fn tell_of_lost_memory(&mut self, draft: &mut Draft) {
        let update =
            json!({ "sessionUpdate": "notice", "level": "warning", "message": LOST_MEMORY });
        self.record_update(UpdateKind::Other, &update, None, draft);
    }

    /// Reports the failure of every tool call that the interrupted turns leave open (rule 12.16).
    pub(super) fn fail_open_tools(&mut self, draft: &mut Draft) {
        if self.state.turns.is_empty() {
            return;
        }
        for id in self.state.open_tools.clone() {
            let update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": &*id, "status": "failed" });
            let tool = ToolCall { id, state: ToolCallState::Cut };
            self.record_update(UpdateKind::ToolCallUpdate, &update, Some(tool), draft);
        }
    }

    /// Records a `session/update` that no agent sent.
    fn record_update(
        &mut self,
        kind: UpdateKind,
        update: &Value,
        tool: Option<ToolCall>,
        draft: &mut Draft,
    ) {
        let params = json!({ "sessionId": self.state.origin.session.as_str(), "update": update });
        if let Some(frame) = Raw::new(rpc::notification("session/update", params)) {
            self.record(AgentEvent::Updated { update: kind, frame, title: None, tool }, draft);
        }
    }
}
