//! The update of a `session/update`: the one place that opens it and tells its kinds apart.

use std::borrow::Cow;

use serde_json::Value;
use wharf_core::UpdateKind;
use wharf_json::{Json, NestedMembers, OpenValue, ReadError};

/// The member that names the kind.
const TAG: &str = "sessionUpdate";

/// An update, opened by its kind. Nothing in a payload is read before a caller asks for it.
///
/// Readers that show updates match all kinds, so that the compiler names them for a new one.
#[derive(Clone, Copy, Debug)]
pub enum AgentUpdate<'a> {
    // The kinds that the log names.
    UserMessageChunk(ChunkUpdate<'a>),
    AgentMessageChunk(ChunkUpdate<'a>),
    AgentThoughtChunk(ChunkUpdate<'a>),
    ToolCall(ToolUpdate<'a>),
    ToolCallUpdate(ToolUpdate<'a>),
    Plan(Payload<'a>),
    AvailableCommands(Payload<'a>),
    CurrentMode(Payload<'a>),
    ConfigOptions(Payload<'a>),
    SessionInfo(Payload<'a>),
    Usage(Payload<'a>),
    // The kinds that the log calls `other`: those of ACP v2 and of proposals.
    UserMessage(Payload<'a>),
    AgentMessage(Payload<'a>),
    AgentThought(Payload<'a>),
    State(Payload<'a>),
    ToolCallContentChunk(ToolUpdate<'a>),
    PlanUpdate(Payload<'a>),
    PlanRemoved(Payload<'a>),
    Subagent(Payload<'a>),
    Notice(Payload<'a>),
    Compaction(Payload<'a>),
    CompactionSummaryChunk(Payload<'a>),
    SessionMessage(Payload<'a>),
    SessionMessageChunk(Payload<'a>),
    /// A kind that Wharf does not read.
    Unknown(Payload<'a>),
}

/// The update as it stands in a frame. Its end is not looked for: chunks are many, and one walk
/// finds their members.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    open: OpenValue<'a>,
}

/// A piece of a message, a thought or a prompt.
#[derive(Clone, Copy, Debug)]
pub struct ChunkUpdate<'a> {
    payload: Payload<'a>,
}

/// The members of a chunk.
#[derive(Clone, Debug)]
pub struct ChunkMembers<'a> {
    pub message_id: Option<Json<'a>>,
    pub content: Option<Json<'a>>,
    /// The members `type` and `text` of the content, absent if the content is no object. Holds an
    /// error if one of them occurs twice.
    pub type_and_text: Result<[Option<Json<'a>>; 2], ReadError>,
}

/// News of a tool call: all of it, or the members that have changed.
#[derive(Clone, Copy, Debug)]
pub struct ToolUpdate<'a> {
    payload: Payload<'a>,
}

impl<'a> AgentUpdate<'a> {
    /// Opens the update of a frame that was found to be JSON before. The log or the scanner has
    /// found its kind; the tag is read only where they call it `other`, and fails there if it is
    /// no string.
    pub fn open(kind: UpdateKind, frame: &'a str) -> Result<Self, ReadError> {
        let payload = Payload::open(frame)?;
        Ok(match payload.of_named_kind(kind) {
            Some(update) => update,
            None => Self::of_tag(&payload.tag()?.unwrap_or_default(), payload),
        })
    }

    /// Names a kind that the log does not tell apart.
    fn of_tag(tag: &str, payload: Payload<'a>) -> Self {
        match tag {
            "user_message" => Self::UserMessage(payload),
            "agent_message" => Self::AgentMessage(payload),
            "agent_thought" => Self::AgentThought(payload),
            "state_update" => Self::State(payload),
            "tool_call_content_chunk" => Self::ToolCallContentChunk(ToolUpdate { payload }),
            "plan_update" => Self::PlanUpdate(payload),
            "plan_removed" => Self::PlanRemoved(payload),
            "subagent_update" => Self::Subagent(payload),
            "notice" => Self::Notice(payload),
            "compaction_update" => Self::Compaction(payload),
            "compaction_summary_chunk" => Self::CompactionSummaryChunk(payload),
            "session_message" => Self::SessionMessage(payload),
            "session_message_chunk" => Self::SessionMessageChunk(payload),
            _ => Self::Unknown(payload),
        }
    }

    /// Returns true for a kind that shows that the agent speaks ACP v2.
    pub const fn is_v2(&self) -> bool {
        matches!(
            self,
            Self::AgentMessage(_)
                | Self::AgentThought(_)
                | Self::UserMessage(_)
                | Self::State(_)
                | Self::ToolCallContentChunk(_)
        )
    }
}

impl<'a> Payload<'a> {
    /// Finds the update of a frame that was found to be JSON before.
    pub fn open(frame: &'a str) -> Result<Self, ReadError> {
        let open = Json::checked_before(frame).open_at(&["params", "update"]);
        open.map(|open| Self { open })
            .ok_or_else(|| ReadError::Missing("update".to_owned()))
    }

    /// Finds the update of a frame that came as bytes.
    pub fn open_bytes(frame: &'a [u8]) -> Result<Self, ReadError> {
        Self::open(std::str::from_utf8(frame).map_err(|_| ReadError::NotUtf8)?)
    }

    /// Names the kind. An update whose tag is no string is [`AgentUpdate::Unknown`].
    pub fn of_kind(self, kind: UpdateKind) -> AgentUpdate<'a> {
        self.of_named_kind(kind).unwrap_or_else(|| {
            let tag = self.tag().ok().flatten().unwrap_or_default();
            AgentUpdate::of_tag(&tag, self)
        })
    }

    /// Returns `None` for a kind that the log calls `other`.
    const fn of_named_kind(self, kind: UpdateKind) -> Option<AgentUpdate<'a>> {
        let chunk = ChunkUpdate { payload: self };
        let call = ToolUpdate { payload: self };
        Some(match kind {
            UpdateKind::UserMessageChunk => AgentUpdate::UserMessageChunk(chunk),
            UpdateKind::AgentMessageChunk => AgentUpdate::AgentMessageChunk(chunk),
            UpdateKind::AgentThoughtChunk => AgentUpdate::AgentThoughtChunk(chunk),
            UpdateKind::ToolCall => AgentUpdate::ToolCall(call),
            UpdateKind::ToolCallUpdate => AgentUpdate::ToolCallUpdate(call),
            UpdateKind::Plan => AgentUpdate::Plan(self),
            UpdateKind::AvailableCommandsUpdate => AgentUpdate::AvailableCommands(self),
            UpdateKind::CurrentModeUpdate => AgentUpdate::CurrentMode(self),
            UpdateKind::ConfigOptionUpdate => AgentUpdate::ConfigOptions(self),
            UpdateKind::SessionInfoUpdate => AgentUpdate::SessionInfo(self),
            UpdateKind::UsageUpdate => AgentUpdate::Usage(self),
            UpdateKind::Other => return None,
        })
    }

    /// Reads the members that `T` names.
    pub fn read<T: serde::Deserialize<'a>>(self) -> Result<T, ReadError> {
        wharf_json::read(self.close())
    }

    /// Finds the end of the update.
    pub fn close(self) -> Json<'a> {
        self.open.close()
    }

    /// Returns the member that names the kind, of any type.
    pub fn raw_tag(self) -> Result<Option<Json<'a>>, ReadError> {
        self.close().member(TAG)
    }

    /// Returns the word that names the kind. Anything but a string is an error.
    pub fn tag(self) -> Result<Option<Cow<'a, str>>, ReadError> {
        self.close().text_at(&[TAG])
    }
}

impl<'a> ChunkUpdate<'a> {
    /// Reads the members in one walk.
    pub fn read(self) -> Result<ChunkMembers<'a>, ReadError> {
        let NestedMembers { members: [message_id], nested: content, inner } =
            self.payload.open.nested_members(["messageId"], "content", ["type", "text"])?;
        Ok(ChunkMembers { message_id, content, type_and_text: inner })
    }

    pub fn close(self) -> Json<'a> {
        self.payload.close()
    }
}

impl<'a> ToolUpdate<'a> {
    /// Takes the payload of an update that is known to tell about a tool call.
    pub const fn of(payload: Payload<'a>) -> Self {
        Self { payload }
    }

    /// Returns the id of the tool call. Anything but a string is an error.
    pub fn id(self) -> Result<Option<Cow<'a, str>>, ReadError> {
        self.close().text_at(&["toolCallId"])
    }

    /// Returns the state of the tool call. Anything but a string is an error.
    pub fn status(self) -> Result<Option<Cow<'a, str>>, ReadError> {
        self.close().text_at(&["status"])
    }

    /// Returns all members but the word that names the kind.
    pub fn without_tag(self) -> Value {
        let mut members = self.close().to_value();
        if let Some(members) = members.as_object_mut() {
            members.remove(TAG);
        }
        members
    }

    pub fn close(self) -> Json<'a> {
        self.payload.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The updates of ACP v1, schema 1.15.
    const V1: [&str; 11] = [
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
    ];
    /// The further updates of the draft of ACP v2 in the same schema, and of its proposals.
    const V2: [&str; 15] = [
        "user_message",
        "agent_message",
        "agent_thought",
        "state_update",
        "tool_call_content_chunk",
        "plan_update",
        "plan_removed",
        "subagent_update",
        "notice",
        "compaction_update",
        "compaction_summary_chunk",
        "session_message",
        "session_message_chunk",
        "terminal_update",
        "terminal_output_chunk",
    ];
    const UNREAD: [&str; 2] = ["terminal_update", "terminal_output_chunk"];

    fn frame(update: &str) -> String {
        format!(r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#)
    }

    fn open_tag(tag: &str) -> (UpdateKind, bool) {
        let frame = frame(&format!(r#"{{"sessionUpdate":"{tag}"}}"#));
        let kind = UpdateKind::from_tag(tag);
        let update = AgentUpdate::open(kind, &frame).unwrap();
        (kind, matches!(update, AgentUpdate::Unknown(_)))
    }

    #[test]
    fn every_kind_of_acp_has_its_name_in_the_log_or_its_variant() {
        for tag in V1 {
            let (kind, is_unknown) = open_tag(tag);
            assert_eq!((kind.tag(), is_unknown), (tag, false));
        }
        for tag in V2 {
            let (kind, is_unknown) = open_tag(tag);
            assert_eq!((kind, is_unknown), (UpdateKind::Other, UNREAD.contains(&tag)), "{tag}");
        }
    }

    #[test]
    fn kind_without_a_word_is_unreadable_to_some_and_unknown_to_others() {
        for tag in ["7", "[\"notice\"]", "{}"] {
            let frame = frame(&format!(r#"{{"sessionUpdate":{tag},"message":"a"}}"#));
            assert!(AgentUpdate::open(UpdateKind::Other, &frame).is_err(), "{tag}");
            let lenient = Payload::open(&frame).unwrap().of_kind(UpdateKind::Other);
            assert!(matches!(lenient, AgentUpdate::Unknown(_)), "{tag}");
        }
        for update in ["null", "7"] {
            let frame = frame(update);
            let is_read = Payload::open(&frame).is_ok();
            assert_eq!(is_read, update == "7");
            assert!(AgentUpdate::open(UpdateKind::Other, &frame).is_err(), "{update}");
        }
        let missing = AgentUpdate::open(UpdateKind::Plan, r#"{"params":{}}"#);
        assert_eq!(missing.unwrap_err(), ReadError::Missing("update".to_owned()));
        assert_eq!(Payload::open_bytes(b"\xff").unwrap_err(), ReadError::NotUtf8);
    }

    #[test]
    fn members_of_a_chunk_and_of_a_tool_call_are_found() {
        let frame = frame(
            r#"{"messageId":"m","content":{"type":"text","text":"a"},"toolCallId":"t","status":"failed"}"#,
        );
        let chunk = AgentUpdate::open(UpdateKind::AgentMessageChunk, &frame).unwrap();
        let AgentUpdate::AgentMessageChunk(chunk) = chunk else { panic!("{chunk:?}") };
        let members = chunk.read().unwrap();
        assert_eq!(members.message_id.unwrap().raw(), "\"m\"");
        let [kind, text] = members.type_and_text.unwrap();
        assert_eq!((kind.unwrap().raw(), text.unwrap().raw()), ("\"text\"", "\"a\""));
        let tool = ToolUpdate::of(Payload::open(&frame).unwrap());
        assert_eq!(tool.id().unwrap().as_deref(), Some("t"));
        assert_eq!(tool.status().unwrap().as_deref(), Some("failed"));
    }
}
