//! Server-sent events: what one session does, and the state of all sessions.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    AskOption, AskType, EndCause, RowAppend, RowPage, SessionInfo, SessionStatus, StateChange,
    StoragePause, StreamBeat, StreamGone, StreamReset, TranscriptRow, TurnFailure,
};

words! {
    /// The start or the end of a prompt's turn.
    pub enum TurnStep as "TurnStep" {
        Started = "started",
        Ended = "ended",
    }
}

/// A line of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputLine {
    pub line: String,
    /// `stdout` or `stderr`.
    pub stream: String,
}

impl OutputLine {
    /// The stream of what the agent says.
    pub const STDOUT: &'static str = "stdout";
    /// The stream of what the agent's program writes besides.
    pub const STDERR: &'static str = "stderr";
}

/// The session's status has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusChange {
    pub status: SessionStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub end_reason: Option<EndCause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub exit_code: Option<i32>,
}

/// A prompt's turn has started or ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnChange {
    pub turn: TurnStep,
    pub prompt_id: String,
    /// How it ended: the agent's word, or Wharf's if the agent gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub stop_reason: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<TurnFailure>,
}

/// The agent asks something, or an ask is settled.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskChange {
    pub ask_id: u64,
    pub open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub kind: Option<AskType>,
    /// The choices of a permission that is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub options: Option<Vec<AskOption>>,
    /// The action that an open permission is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tool_call: Option<Value>,
    /// The agent's request, if it is an open elicitation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub params: Option<Value>,
    /// How it was settled: `answered`, `declined`, `cancelled`, `withdrawn` or `agent_gone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub outcome: Option<String>,
    /// The choice that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub option_id: Option<String>,
}

/// The agent is held because the log cannot be written, or goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PauseChange {
    pub paused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub why: Option<StoragePause>,
}

/// The name and the data of each event of `GET /sessions/{id}/stream`.
#[derive(Debug, ToSchema)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
#[schema(as = OutputStreamEvent)]
pub enum OutputStreamSchema {
    Line(OutputLine),
    Status(StatusChange),
    Turn(TurnChange),
    Ask(AskChange),
    Pause(PauseChange),
}

/// An event of `GET /sessions/{id}/stream`.
#[derive(Clone, Debug)]
pub enum StreamEvent {
    Line(OutputLine),
    Status(StatusChange),
    Turn(TurnChange),
    Ask(AskChange),
    Pause(PauseChange),
    /// An event of a newer host.
    Other,
}

impl StreamEvent {
    /// Reads the data of the event that has this name.
    pub fn read<'de, D: Deserializer<'de>>(name: &str, data: D) -> Result<Self, D::Error> {
        Ok(match name {
            "line" => Self::Line(Deserialize::deserialize(data)?),
            "status" => Self::Status(Deserialize::deserialize(data)?),
            "turn" => Self::Turn(Deserialize::deserialize(data)?),
            "ask" => Self::Ask(Deserialize::deserialize(data)?),
            "pause" => Self::Pause(Deserialize::deserialize(data)?),
            _ => Self::Other,
        })
    }

    /// Returns the name of the event, for `event:`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Line(_) => "line",
            Self::Status(_) => "status",
            Self::Turn(_) => "turn",
            Self::Ask(_) => "ask",
            Self::Pause(_) => "pause",
            Self::Other => "other",
        }
    }
}

/// The data alone, for `data:`.
impl Serialize for StreamEvent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Line(data) => data.serialize(serializer),
            Self::Status(data) => data.serialize(serializer),
            Self::Turn(data) => data.serialize(serializer),
            Self::Ask(data) => data.serialize(serializer),
            Self::Pause(data) => data.serialize(serializer),
            Self::Other => serializer.serialize_unit(),
        }
    }
}

/// Every session, at the beginning.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionSnapshot<S = SessionInfo> {
    pub sessions: Vec<S>,
}

/// A session is gone with its history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForgottenSession {
    pub id: String,
}

/// The host was told to stop, and ends soon. A host that was killed or has crashed does not send
/// this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostStopping {
    /// The process that ends.
    pub pid: u32,
}

/// All sessions that the reader sees.
#[derive(Debug, ToSchema)]
#[schema(as = SessionSnapshot)]
#[expect(dead_code, reason = "a schema")]
pub struct SnapshotSchema {
    sessions: Vec<SessionInfo>,
}

/// The name and the data of each event of `GET /sessions/stream`. All but the first four come with
/// `rows` alone.
#[derive(Debug, ToSchema)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
#[schema(as = SessionStreamEvent)]
pub enum SessionStreamSchema {
    Snapshot(SnapshotSchema),
    Session(SessionInfo),
    Forgotten(ForgottenSession),
    Stopping(HostStopping),
    Page(RowPage),
    Row(TranscriptRow),
    Append(RowAppend),
    Tail(RowAppend),
    State(StateChange),
    Beat(StreamBeat),
    Reset(StreamReset),
    Gone(StreamGone),
}

/// An event of `GET /sessions/stream`. `S` is how a reader wants a session: as it was written, for
/// example.
#[derive(Clone, Debug)]
pub enum SessionStreamEvent<S = SessionInfo> {
    Snapshot(SessionSnapshot<S>),
    /// A session that is new or has changed, whole.
    Session(S),
    Forgotten(ForgottenSession),
    Stopping(HostStopping),
    /// An event of a newer host.
    Other,
}

impl<S> SessionStreamEvent<S> {
    /// Reads the data of the event that has this name.
    pub fn read<'de, D>(name: &str, data: D) -> Result<Self, D::Error>
    where
        D: Deserializer<'de>,
        S: Deserialize<'de>,
    {
        Ok(match name {
            "snapshot" => Self::Snapshot(Deserialize::deserialize(data)?),
            "session" => Self::Session(Deserialize::deserialize(data)?),
            "forgotten" => Self::Forgotten(Deserialize::deserialize(data)?),
            "stopping" => Self::Stopping(Deserialize::deserialize(data)?),
            _ => Self::Other,
        })
    }

    /// Returns the name of the event, for `event:`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Snapshot(_) => "snapshot",
            Self::Session(_) => "session",
            Self::Forgotten(_) => "forgotten",
            Self::Stopping(_) => "stopping",
            Self::Other => "other",
        }
    }
}

/// The data alone, for `data:`.
impl<S: Serialize> Serialize for SessionStreamEvent<S> {
    fn serialize<T: serde::Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        match self {
            Self::Snapshot(data) => data.serialize(serializer),
            Self::Session(data) => data.serialize(serializer),
            Self::Forgotten(data) => data.serialize(serializer),
            Self::Stopping(data) => data.serialize(serializer),
            Self::Other => serializer.serialize_unit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn event_of_a_newer_host_is_read() {
        let status = json!({ "status": "dreaming", "endReason": "bored", "depth": 3 });
        let StreamEvent::Status(change) = StreamEvent::read("status", status).unwrap() else {
            panic!("no status")
        };
        assert_eq!(change.status, SessionStatus::Other("dreaming".into()));
        assert_eq!(change.end_reason.unwrap().as_str(), "bored");
        assert!(matches!(StreamEvent::read("weather", json!([1])).unwrap(), StreamEvent::Other));
    }

    #[test]
    fn event_is_written_as_it_is_read() {
        for (name, data) in [
            ("line", json!({ "line": "a", "stream": "stdout" })),
            ("status", json!({ "status": "exited", "endReason": "agent_exited", "exitCode": 3 })),
            ("turn", json!({ "turn": "ended", "promptId": "p", "stopReason": "end_turn" })),
            (
                "ask",
                json!({ "askId": 7, "open": false, "kind": "permission", "outcome": "answered", "optionId": "y" }),
            ),
            ("pause", json!({ "paused": true, "why": "storage_full" })),
        ] {
            let event = StreamEvent::read(name, data.clone()).unwrap();
            assert_eq!((event.name(), serde_json::to_value(&event).unwrap()), (name, data));
        }
    }
}
