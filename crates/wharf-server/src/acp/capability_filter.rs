//! Leaves out for a client the messages of an agent that it has not said it understands (rule
//! 3.11).

use bytes::Bytes;
use serde_json::Value;
use wharf_acp::{AgentUpdate, Payload};
use wharf_host::core::UpdateKind;
use wharf_json::{Json, ReadError};

/// The messages that ACP lets an agent send only to clients that ask for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CapabilityFilter {
    notices: bool,
    compaction: bool,
    plans: bool,
    subagents: bool,
    /// Options that are on or off.
    booleans: bool,
}

impl CapabilityFilter {
    /// From `clientCapabilities`.
    pub(super) fn of(capabilities: &Value) -> Self {
        let has = |value: &Value| !(value.is_null() || *value == false);
        let session = &capabilities["session"];
        Self {
            notices: has(&session["notices"]),
            compaction: has(&session["compaction"]),
            plans: has(&capabilities["plan"]),
            subagents: has(&capabilities["subagents"]),
            booleans: has(&session["configOptions"]["boolean"]),
        }
    }

    /// Returns true if the client takes ACP's `notice` updates.
    pub(super) fn notices(self) -> bool {
        self.notices
    }

    /// Returns the update as the client is to see it; `None` if it is not to.
    pub(super) fn update(self, kind: UpdateKind, frame: &Bytes) -> Option<Bytes> {
        match kind {
            UpdateKind::Other => self.knows(frame).then(|| frame.clone()),
            UpdateKind::ConfigOptionUpdate if self.may_mind(frame) => {
                let list = Payload::open_bytes(frame)
                    .and_then(|update| update.close().member("configOptions"));
                Some(without_booleans(frame, list))
            }
            UpdateKind::ConfigOptionUpdate
            | UpdateKind::UserMessageChunk
            | UpdateKind::AgentMessageChunk
            | UpdateKind::AgentThoughtChunk
            | UpdateKind::ToolCall
            | UpdateKind::ToolCallUpdate
            | UpdateKind::Plan
            | UpdateKind::AvailableCommandsUpdate
            | UpdateKind::CurrentModeUpdate
            | UpdateKind::SessionInfoUpdate
            | UpdateKind::UsageUpdate => Some(frame.clone()),
        }
    }

    /// Returns the answer to a request that tells the options, as the client is to see it.
    pub(super) fn answer(self, frame: &Bytes) -> Bytes {
        if !self.may_mind(frame) {
            return frame.clone();
        }
        let list = Json::parse(frame).and_then(|answer| answer.at(&["result", "configOptions"]));
        without_booleans(frame, list)
    }

    fn may_mind(self, frame: &[u8]) -> bool {
        !self.booleans && std::str::from_utf8(frame).is_ok_and(|text| text.contains("boolean"))
    }

    /// Returns true if the client understands an update of this kind. Kinds that ACP does not have
    /// are for every client.
    fn knows(self, frame: &[u8]) -> bool {
        if self.notices && self.compaction && self.plans && self.subagents {
            return true;
        }
        let Ok(payload) = Payload::open_bytes(frame) else { return true };
        match payload.of_kind(UpdateKind::Other) {
            AgentUpdate::Notice(_) => self.notices,
            AgentUpdate::Compaction(_) | AgentUpdate::CompactionSummaryChunk(_) => self.compaction,
            AgentUpdate::PlanUpdate(_) | AgentUpdate::PlanRemoved(_) => self.plans,
            AgentUpdate::Subagent(_)
            | AgentUpdate::SessionMessage(_)
            | AgentUpdate::SessionMessageChunk(_) => self.subagents,
            AgentUpdate::UserMessageChunk(_)
            | AgentUpdate::AgentMessageChunk(_)
            | AgentUpdate::AgentThoughtChunk(_)
            | AgentUpdate::ToolCall(_)
            | AgentUpdate::ToolCallUpdate(_)
            | AgentUpdate::Plan(_)
            | AgentUpdate::AvailableCommands(_)
            | AgentUpdate::CurrentMode(_)
            | AgentUpdate::ConfigOptions(_)
            | AgentUpdate::SessionInfo(_)
            | AgentUpdate::Usage(_)
            | AgentUpdate::UserMessage(_)
            | AgentUpdate::AgentMessage(_)
            | AgentUpdate::AgentThought(_)
            | AgentUpdate::State(_)
            | AgentUpdate::ToolCallContentChunk(_)
            | AgentUpdate::Unknown(_) => true,
        }
    }
}

/// Returns the frame without the options in this list of it that are on or off.
fn without_booleans(frame: &Bytes, list: Result<Option<Json<'_>>, ReadError>) -> Bytes {
    let list = match list {
        Ok(Some(list)) => list,
        Ok(None) => return frame.clone(),
        Err(error) => {
            tracing::warn!(%error, "options are shown as they came: they cannot be read");
            return frame.clone();
        }
    };
    let is_boolean = |option: &Json<'_>| {
        option.text_at(&["type"]).is_ok_and(|kind| kind.as_deref() == Some("boolean"))
    };
    let kept: Vec<&str> =
        list.items().filter(|option| !is_boolean(option)).map(Json::raw).collect();
    let (true, Some(span)) = (kept.len() < list.items().count(), list.span_in(frame)) else {
        return frame.clone();
    };
    let new = format!("[{}]", kept.join(","));
    wharf_acp::splice(frame, &mut [(span, new.as_bytes())]).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update(tag: &str, body: &str) -> Bytes {
        format!(r#"{{"method":"session/update","params":{{"update":{{"sessionUpdate":"{tag}"{body}}}}}}}"#).into()
    }

    #[test]
    fn kinds_that_need_a_word_of_the_client_are_left_out_without_it() {
        let kinds = [
            ("notice", json!({ "session": { "notices": {} } })),
            ("compaction_update", json!({ "session": { "compaction": {} } })),
            ("compaction_summary_chunk", json!({ "session": { "compaction": {} } })),
            ("plan_update", json!({ "plan": {} })),
            ("plan_removed", json!({ "plan": {} })),
            ("subagent_update", json!({ "subagents": {} })),
            ("session_message", json!({ "subagents": {} })),
        ];
        for (tag, able) in kinds {
            let frame = update(tag, "");
            assert_eq!(
                CapabilityFilter::of(&able).update(UpdateKind::Other, &frame),
                Some(frame.clone()),
                "{tag}"
            );
            assert_eq!(
                CapabilityFilter::default().update(UpdateKind::Other, &frame),
                None,
                "{tag}"
            );
        }
        let novel = update("novel", "");
        assert_eq!(CapabilityFilter::default().update(UpdateKind::Other, &novel), Some(novel));
        let refused = json!({ "session": { "notices": null, "compaction": false } });
        assert_eq!(CapabilityFilter::of(&refused), CapabilityFilter::default());
    }

    #[test]
    fn options_that_are_on_or_off_are_taken_out_of_lists_and_nothing_else_is() {
        let select = r#"{ "id":"a","type":"select","n":1.10,"about":"boolean" }"#;
        let boolean = r#"{"type":"boolean","id":"b"}"#;
        for (options, left) in [
            (format!("[{boolean}, {select} ,{boolean}]"), Some(format!("[{select}]"))),
            (format!("[ {boolean} ]"), Some("[]".to_owned())),
            (format!("[ {select} ]"), None),
            ("null".to_owned(), None),
        ] {
            let list = |options: &str| {
                update(
                    "config_option_update",
                    &format!(r#","x":"boolean","configOptions":{options}"#),
                )
            };
            let answer = |options: &str| {
                Bytes::from(format!(r#"{{"id":7,"result":{{"configOptions":{options} }}}}"#))
            };
            let told = list(&options);
            let answered = answer(&options);
            let expected = left.unwrap_or(options);
            let kind = UpdateKind::ConfigOptionUpdate;
            assert_eq!(CapabilityFilter::default().update(kind, &told), Some(list(&expected)));
            assert_eq!(CapabilityFilter::default().answer(&answered), answer(&expected));
            let able =
                CapabilityFilter::of(&json!({ "session": { "configOptions": { "boolean": {} } } }));
            let shown = able.update(kind, &told).unwrap();
            assert_eq!(shown.as_ptr(), told.as_ptr(), "the very bytes");
        }
    }
}
