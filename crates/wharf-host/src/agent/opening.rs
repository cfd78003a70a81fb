//! Giving a greeted agent its session: `session/new`, or `session/load` and `session/resume` for one that it had.

use bytes::Bytes;
use serde::Deserialize;
use tokio::process::ChildStdout;
use wharf_core::{AgentTraits, Raw, StartKind};

use super::AgentProcess;
use super::introduction::{Early, Greeted, StartFailure};
use super::outbox::Outbox;
use super::stderr::StderrTail;
use crate::frame::{self, FrameReader};

/// The request id of the opening: 0 was `initialize`, prompts and others count on from 2.
const ID: &[u8] = b"1";

/// How the session is to be opened.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) how: StartKind,
    /// The `session/new` request that the session was created with.
    pub(crate) new_frame: Raw,
    /// The agent's own id of the session, for load and resume.
    pub(crate) agent_session: Option<String>,
}

/// An agent with its session.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) process: AgentProcess,
    pub(crate) reader: FrameReader<ChildStdout>,
    pub(crate) outbox: Outbox,
    pub(crate) stderr: StderrTail,
    pub(crate) agent_session: String,
    pub(crate) traits: AgentTraits,
    pub(crate) answer: Raw,
    /// What came before the answer, to be taken as if it came after it (rule 3.6).
    pub(crate) early: Early,
}

#[derive(Deserialize)]
struct NewAnswer {
    result: NewResult,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewResult {
    session_id: String,
}

/// Opens the session.
pub(crate) async fn open(mut greeted: Greeted, opening: &Opening) -> Result<Opened, StartFailure> {
    let (method, request) = request(opening)?;
    let answer = greeted.exchange(method, request, ID).await?;
    let agent_session = match (&opening.agent_session, frame::peek::<NewAnswer>(&answer)) {
        (_, Some(answer)) => answer.result.session_id,
        // The answers to load and resume need not repeat the id.
        (Some(known), None) => known.clone(),
        (None, None) => return Err(StartFailure::new(format!("the agent answered `{method}` without a sessionId"))),
    };
    let Greeted { process, reader, outbox, stderr, introduction, early, .. } = greeted;
    let traits = introduction.traits;
    if traits.ready {
        let id = serde_json::Value::from(agent_session.as_str());
        let _ = outbox
            .send(format!(r#"{{"jsonrpc":"2.0","method":"session/ready","params":{{"sessionId":{id}}}}}"#).into());
    }
    let answer = Raw::new_checked_before(frame::one_line(answer));
    Ok(Opened { process, reader, outbox, stderr, agent_session, traits, answer, early })
}

fn request(opening: &Opening) -> Result<(&'static str, Bytes), StartFailure> {
    let frame = opening.new_frame.bytes();
    let envelope = frame::scan(frame).map_err(|error| StartFailure::new(format!("session/new: {error}")))?;
    match (opening.how, &opening.agent_session) {
        (StartKind::New, _) => Ok(("session/new", frame::with_id(frame, &envelope, ID))),
        (StartKind::Load, Some(session)) => reopening("session/load", frame, session),
        (StartKind::Resume, Some(session)) => reopening("session/resume", frame, session),
        (StartKind::Load | StartKind::Resume, None) => {
            Err(StartFailure::new("the agent never had this session: it cannot be brought back"))
        }
    }
}

#[derive(Deserialize)]
struct NewRequest {
    params: serde_json::Map<String, serde_json::Value>,
}

/// The same parameters as at the beginning, with the agent's id of the session.
fn reopening(method: &'static str, new_frame: &[u8], session: &str) -> Result<(&'static str, Bytes), StartFailure> {
    let Some(mut request) = frame::peek::<NewRequest>(new_frame) else {
        return Err(StartFailure::new("the session's start parameters cannot be read"));
    };
    request.params.insert("sessionId".to_owned(), session.into());
    let params = serde_json::Value::Object(request.params);
    let frame = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    Ok((method, frame.to_string().into()))
}
