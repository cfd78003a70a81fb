//! Opens a session in an initialized agent: `session/new`, `session/load` and `session/resume` for
//! a session that it had, or `session/fork` for a copy of one.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use wharf_core::{AgentSetting, AgentTraits, Raw, StartFault, StartKind};
use wharf_json::rpc::{self, code};
use wharf_json::{Json, ReadError};

use super::AgentProcess;
use super::agent_output::AgentOutput;
use super::initialize::{EarlyFrames, InitializedAgent, StartFailure};
use super::kept_files::KeptFiles;
use super::outbox::Outbox;
use super::stderr::StderrTail;
use crate::agent::lines::FrameReader;
use crate::settings::{AgentSettings, Restoration, RestoreStep, SettingRequest};

/// How the session is to be opened.
#[derive(Clone, Debug)]
pub(crate) struct SessionOpening {
    pub(crate) how: StartKind,
    /// The `session/new` request that the session was created with.
    pub(crate) new_frame: Raw,
    /// The agent's own id of the session, for load and resume; of the session to be copied for
    /// fork.
    pub(crate) agent_session: Option<String>,
    /// The settings that must be in force before the first prompt: a session never comes back with
    /// more rights than it had (rule 2.6).
    pub(crate) wanted: Vec<AgentSetting>,
    /// How long the agent must send no part of a replay before the replay counts as over.
    pub(crate) quiet: Duration,
}

/// An agent with its session.
#[derive(Debug)]
pub(crate) struct OpenedAgent {
    pub(crate) process: AgentProcess,
    pub(crate) reader: FrameReader<AgentOutput>,
    pub(crate) outbox: Outbox,
    pub(crate) stderr: StderrTail,
    /// The files for the keeper, if the agent is to outlive the host.
    pub(crate) files: Option<KeptFiles>,
    pub(crate) agent_session: String,
    pub(crate) traits: AgentTraits,
    pub(crate) answer: Raw,
    /// The settings that the agent has now.
    pub(crate) settings: Vec<AgentSetting>,
    /// Frames that came before the answer; they are handled as if they came after it (rule 3.6).
    pub(crate) early: EarlyFrames,
    /// The first request id that is free.
    pub(crate) next_id: u64,
}

/// Opens the session.
pub(crate) async fn open_session(
    mut agent: InitializedAgent,
    opening: &SessionOpening,
) -> Result<OpenedAgent, StartFailure> {
    if opening.how == StartKind::Fork && !agent.initialize_response.traits.fork {
        return Err(StartFailure::impossible(
            "the agent cannot copy a session any more (`sessionCapabilities.fork`)",
        ));
    }
    let id = agent.take_id();
    let (method, request) = build_open_request(opening, id)?;
    if opening.how != StartKind::New {
        agent.drop_replay();
    }
    let answer = agent
        .send_and_wait(method, request, id)
        .await
        .map_err(|failure| explain_unknown_session(failure, opening.how))?;
    let told = read_session_id(&answer).map_err(|error| {
        StartFailure::new(format!("the agent's answer to `{method}` cannot be used: {error}"))
    })?;
    let agent_session = match (&opening.agent_session, told) {
        (Some(source), Some(told)) if opening.how == StartKind::Fork && *source == told => {
            return Err(StartFailure::new(
                "the agent answered `session/fork` with the session that was to be copied",
            ));
        }
        (_, Some(told)) => told,
        // The answers to load and resume need not repeat the id.
        (Some(known), None) if opening.how != StartKind::Fork => known.clone(),
        (_, None) => {
            return Err(StartFailure::new(format!(
                "the agent answered `{method}` without a sessionId"
            )));
        }
    };
    if agent.initialize_response.traits.ready {
        agent.send_ready(&agent_session);
    }
    if opening.how != StartKind::New {
        agent.early.drop_outdated_settings(&answer);
        agent.wait_for_replay_end(opening.quiet).await?;
    }
    // Also for a fresh session, which replaces another one.
    let settings =
        restore_settings(&mut agent, &agent_session, &answer, opening.wanted.clone()).await?;
    let InitializedAgent {
        process,
        reader,
        outbox,
        stderr,
        files,
        initialize_response,
        early,
        next_id,
        ..
    } = agent;
    let answer = Raw::new_checked_before(wharf_acp::one_line(answer));
    let traits = initialize_response.traits;
    Ok(OpenedAgent {
        process,
        reader,
        outbox,
        stderr,
        files,
        agent_session,
        traits,
        answer,
        settings,
        early,
        next_id,
    })
}

/// Returns the session's id in the answer, and checks that what Wharf reads of the answer later
/// stands there once.
fn read_session_id(answer: &[u8]) -> Result<Option<String>, ReadError> {
    let Some(result) = Json::parse(answer)?.member("result")? else { return Ok(None) };
    if !result.is_object() {
        return Ok(None);
    }
    for (list, current) in [("modes", "currentModeId"), ("models", "currentModelId")] {
        if let Some(list) = result.member(list)?.filter(|list| list.is_object()) {
            list.member(current)?;
        }
    }
    for option in result
        .member("configOptions")?
        .into_iter()
        .flat_map(Json::items)
        .filter(|item| item.is_object())
    {
        option.member("id")?;
        option.member("currentValue")?;
    }
    Ok(result.member("sessionId")?.and_then(Json::text).map(Cow::into_owned))
}

/// Rewrites the failure if the agent does not know its session any more.
fn explain_unknown_session(failure: StartFailure, how: StartKind) -> StartFailure {
    let answer = failure.answer.as_deref().map(wharf_acp::to_value);
    if how == StartKind::New
        || answer.is_none_or(|answer| answer["error"]["code"] != code::RESOURCE_NOT_FOUND)
    {
        return failure;
    }
    let message = match how {
        StartKind::Fork => format!(
            "the agent does not know the session that is to be copied ({})",
            failure.message
        ),
        StartKind::New | StartKind::Load | StartKind::Resume => format!(
            "the agent does not know this session any more; its log can still be read; start a new session to go on ({})",
            failure.message
        ),
    };
    StartFailure { message, cause: StartFault::SessionUnknown, ..failure }
}

fn build_open_request(
    opening: &SessionOpening,
    id: u64,
) -> Result<(&'static str, Bytes), StartFailure> {
    let frame = opening.new_frame.bytes();
    let envelope = wharf_acp::scan(frame)
        .map_err(|error| StartFailure::impossible(format!("session/new: {error}")))?;
    match (opening.how, &opening.agent_session) {
        (StartKind::New, _) => {
            Ok(("session/new", wharf_acp::with_id(frame, &envelope, id.to_string().as_bytes())))
        }
        (StartKind::Load, Some(session)) => {
            build_reopen_request("session/load", frame, session, id)
        }
        (StartKind::Resume, Some(session)) => {
            build_reopen_request("session/resume", frame, session, id)
        }
        (StartKind::Fork, Some(source)) => build_reopen_request("session/fork", frame, source, id),
        (StartKind::Load | StartKind::Resume | StartKind::Fork, None) => Err(
            StartFailure::impossible("the agent never had this session: it cannot be brought back"),
        ),
    }
}

/// Builds a request with the parameters of the original `session/new`, byte for byte, and the
/// agent's id of the session.
fn build_reopen_request(
    method: &'static str,
    frame: &[u8],
    session: &str,
    id: u64,
) -> Result<(&'static str, Bytes), StartFailure> {
    let params = Json::parse(frame).and_then(|request| {
        let params = request
            .member("params")?
            .ok_or_else(|| ReadError::Missing("params".to_owned()))?;
        wharf_json::set(params, &["sessionId"], &Value::from(session).to_string())
    });
    let params = params.map_err(|error| {
        StartFailure::impossible(format!("the session's start parameters cannot be read: {error}"))
    })?;
    Ok((method, wharf_acp::one_line(rpc::request(id, method, params))))
}

/// Sets every setting that differs from the wanted ones until none differs. Returns the settings
/// that the agent has then.
async fn restore_settings(
    agent: &mut InitializedAgent,
    session: &str,
    answer: &[u8],
    wanted: Vec<AgentSetting>,
) -> Result<Vec<AgentSetting>, StartFailure> {
    let mut reported = AgentSettings::default();
    reported.take_answer(answer);
    let mut restoration = Restoration::new(wanted);
    let mut looked_at = 0;
    loop {
        for frame in agent.early.frames.iter().skip(looked_at) {
            if let Some(kind) = wharf_acp::scan(frame).ok().and_then(|envelope| envelope.update) {
                // A report that cannot be read is a fault of the agent, which the session's task
                // notes.
                let _ = reported.take_update(kind, frame);
            }
        }
        looked_at = agent.early.frames.len();
        match restoration.next(&reported) {
            RestoreStep::Done => return Ok(reported.into_in_force()),
            RestoreStep::Set(request) => {
                let answer = agent.require_setting(&request, session).await?;
                let result =
                    Json::parse(&answer).and_then(|answer| answer.at(&["result", "configOptions"]));
                match result {
                    Ok(Some(list)) => reported.take_options(list),
                    Ok(None) | Err(_) => reported.take_set(&request),
                }
            }
            RestoreStep::NotKept(request) => {
                let message = describe_refused_setting(
                    &request,
                    "the agent agreed to it and then reported another value",
                );
                return Err(StartFailure {
                    cause: StartFault::SettingRefused,
                    ..StartFailure::new(message)
                });
            }
        }
    }
}

impl InitializedAgent {
    /// Has the agent delete one of its sessions.
    pub(crate) async fn delete_session(&mut self, session: &str) -> Result<(), StartFailure> {
        let id = self.take_id();
        let request = rpc::request(id, "session/delete", json!({ "sessionId": session }));
        self.send_and_wait("session/delete", request, id).await.map(drop)
    }

    /// Sends a setting without which the session must not come back.
    async fn require_setting(
        &mut self,
        request: &SettingRequest,
        session: &str,
    ) -> Result<Bytes, StartFailure> {
        let id = self.take_id();
        self.send_and_wait(request.method(), request.frame(session, id), id)
            .await
            .map_err(|failure| StartFailure {
                // An agent that went away or said nothing may do better the next time.
                cause: if failure.answer.is_some() {
                    StartFault::SettingRefused
                } else {
                    failure.cause
                },
                message: describe_refused_setting(request, &failure.message),
                ..failure
            })
    }
}

/// Names the setting, the agent's reason, and the user's options.
fn describe_refused_setting(request: &SettingRequest, reason: &str) -> String {
    format!(
        "the agent did not accept the former {}, and without it might do more than it was allowed to: \
         {reason}. To go on, choose a mode with `wharf resume --session-mode MODE`, or accept the settings that the \
         agent has with `wharf resume --accept-agent-settings`",
        request.describe()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_parameters_keep_every_byte_whatever_they_hold() {
        let params = r#"{"z":1.50,"x":1e400 ,"cut":"\ud83d","cwd":"/a","_meta":{"b":1,"a":2},"mcpServers":[ ]}"#;
        let frame =
            format!(r#"{{"jsonrpc":"2.0","id":"x","method":"session/new","params":{params}}}"#);
        let (_, sent) =
            build_reopen_request("session/load", frame.as_bytes(), "agent's", 7).unwrap();
        let expected = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"session/load","params":{},"sessionId":"agent's"}}}}"#,
            params.strip_suffix('}').unwrap()
        );
        assert_eq!(sent, expected);
        let twice = br#"{"params":{"cwd":"/a"},"params":{"cwd":"/b"}}"#;
        build_reopen_request("session/load", twice, "agent's", 7).unwrap_err();
    }
}
