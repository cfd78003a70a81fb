//! The first exchange with an agent: `initialize`.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use wharf_acp::{Envelope, FrameKind};
use wharf_config::AdapterError;
use wharf_core::{AcceptedContent, AgentTraits, FailureText, Fault, Raw, StartFault, UpdateKind};
use wharf_json::rpc::{self, Salvaged, code, salvage, salvage_head};
use wharf_json::{Json, ReadError};

use super::AgentProcess;
use super::agent_output::AgentOutput;
use super::kept_files::KeptFiles;
use super::launch::{Launch, LaunchedAgent};
use super::ledger::LineNote;
use super::outbox::Outbox;
use super::stderr::StderrTail;
use crate::agent::lines::{FrameLine, FrameReader};

/// Bounds the frames that are kept before `session/new` is answered: several agents send commands
/// and modes early, one of them half a megabyte.
const MAX_EARLY_BYTES: usize = 16 << 20;
/// How long a dead agent's keeper may take to end its tree before the host stops waiting for the
/// exit code.
const EXIT_TIMEOUT: Duration = Duration::from_secs(7);

/// An agent's response to `initialize`.
#[derive(Clone, Debug)]
pub struct InitializeResponse {
    /// The response frame to `initialize` as it came.
    pub frame: Raw,
    pub traits: AgentTraits,
}

impl InitializeResponse {
    /// `answer` is the response frame to `initialize`.
    pub(crate) fn from_frame(answer: Bytes) -> Result<Self, ReadError> {
        Ok(Self {
            traits: read_traits(&answer)?,
            frame: Raw::new_checked_before(answer),
        })
    }

    /// Returns the response for a client before any agent has answered `initialize`: Wharf's own
    /// name, and no capabilities.
    pub fn without_agent() -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let info = format!(r#"{{"name":"wharf","title":"Wharf","version":"{version}"}}"#);
        let result = format!(
            r#"{{"protocolVersion":1,"agentInfo":{info},"agentCapabilities":{{}},"authMethods":[]}}"#
        );
        let frame = rpc::response(rpc::PLACEHOLDER_ID, result);
        Self {
            frame: Raw::new_checked_before(frame),
            traits: AgentTraits::default(),
        }
    }

    /// Returns the version that the agent tells of itself.
    pub(crate) fn agent_version(&self) -> Option<String> {
        let version = Json::parse(self.frame.bytes())
            .ok()?
            .at(&["result", "agentInfo", "version"])
            .ok()??;
        version.text().map(Into::into)
    }
}

/// An agent that has answered `initialize` and has no session yet.
#[derive(Debug)]
pub(crate) struct InitializedAgent {
    pub(crate) process: AgentProcess,
    pub(crate) reader: FrameReader<AgentOutput>,
    pub(crate) outbox: Outbox,
    pub(crate) stderr: StderrTail,
    pub(crate) files: Option<KeptFiles>,
    pub(crate) initialize_response: InitializeResponse,
    pub(crate) early: EarlyFrames,
    pub(super) next_id: u64,
    timeout: Option<Duration>,
    /// The end of the time for the whole start, however many requests that takes.
    deadline: Option<Instant>,
}

/// Frames and faults that arrived while an answer was awaited.
#[derive(Debug, Default)]
pub(crate) struct EarlyFrames {
    pub(crate) frames: Vec<Bytes>,
    pub(crate) faults: Vec<(Fault, String)>,
    bytes: usize,
    /// True while content is dropped because the agent repeats a session that the log has.
    drops_content: bool,
    dropped: usize,
}

/// The reason why an agent could not be started.
#[derive(Clone, Debug)]
pub struct StartFailure {
    pub message: String,
    /// The end of the agent's stderr, if it wrote anything and the failure may have to do with it.
    pub stderr: String,
    pub exit_code: Option<i32>,
    /// Decides whether the start is worth trying again.
    pub cause: StartFault,
    /// The agent's own error response, if it answered with one.
    pub answer: Option<Bytes>,
    /// The adapter's error, if the host did not start a process because of it.
    pub adapter_error: Option<Box<AdapterError>>,
}

impl StartFailure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        let stderr = String::new();
        Self {
            message,
            stderr,
            exit_code: None,
            cause: StartFault::Other,
            answer: None,
            adapter_error: None,
        }
    }

    /// The failure of which the log tells in this text.
    pub(crate) fn from_log(text: &str) -> Self {
        let FailureText { reason, stderr } = FailureText::parse(text);
        Self { stderr: stderr.to_owned(), ..Self::new(reason) }
    }

    /// A start that would fail again for the same reason.
    pub(crate) fn impossible(message: impl Into<String>) -> Self {
        Self { cause: StartFault::Impossible, ..Self::new(message) }
    }

    /// The agent's own error object, if it answered with one.
    pub fn agent_error(&self) -> Option<serde_json::Value> {
        let frame = Json::parse(self.answer.as_ref()?).ok()?;
        frame.member("error").ok()?.map(Json::to_value)
    }
}

/// Writes the text that the log keeps.
impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        FailureText { reason: &self.message, stderr: &self.stderr }.fmt(f)
    }
}

impl From<AdapterError> for StartFailure {
    fn from(error: AdapterError) -> Self {
        let failure = Self::new(error.to_string());
        Self {
            cause: StartFault::NotInstalled,
            adapter_error: Some(Box::new(error)),
            ..failure
        }
    }
}

/// Starts an agent and sends `initialize`. `capabilities` is the JSON of `clientCapabilities`.
pub(crate) async fn launch_and_initialize(
    launch: &Launch,
    capabilities: &str,
) -> Result<InitializedAgent, StartFailure> {
    launch.check_cwd().map_err(StartFailure::impossible)?;
    let deadline = launch.timeout.map(|limit| Instant::now() + limit);
    let Some(launched) = run_until(deadline, launch.run()).await else {
        return Err(StartFailure::new(describe_timeout("start", launch.timeout)));
    };
    let LaunchedAgent { process, reader, outbox, stderr, files } =
        launched.map_err(StartFailure::new)?;
    let blank = InitializeResponse {
        frame: Raw::new_checked_before(Bytes::new()),
        traits: AgentTraits::default(),
    };
    let early = EarlyFrames::default();
    let next_id = 1;
    let timeout = launch.timeout;
    let mut agent = InitializedAgent {
        process,
        reader,
        outbox,
        stderr,
        files,
        initialize_response: blank,
        early,
        next_id,
        timeout,
        deadline,
    };
    let version = env!("CARGO_PKG_VERSION");
    let params = format!(
        r#"{{"protocolVersion":1,"clientCapabilities":{capabilities},"clientInfo":{{"name":"wharf","title":"Wharf","version":"{version}"}}}}"#
    );
    let answer = agent
        .send_and_wait("initialize", rpc::request(0, "initialize", params), 0)
        .await?;
    agent.initialize_response = InitializeResponse::from_frame(answer).map_err(|error| {
        StartFailure::new(format!("the agent's answer to `initialize` cannot be used: {error}"))
    })?;
    Ok(agent)
}

impl InitializedAgent {
    /// Sends a request and waits for its answer; everything else that comes is kept for later.
    pub(super) async fn send_and_wait(
        &mut self,
        method: &str,
        request: Bytes,
        id: u64,
    ) -> Result<Bytes, StartFailure> {
        if self.outbox.send_frame(request, LineNote::Plain).is_err() {
            return Err(self
                .end_with_failure(&format!("the agent did not read `{method}` from its stdin"))
                .await);
        }
        match run_until(self.deadline, self.wait_for_answer(id)).await {
            Some(Some(AwaitedLine::Answer(FrameKind::Error, frame))) => {
                let cause = if is_login_needed(&frame) {
                    StartFault::LoginNeeded
                } else {
                    StartFault::Other
                };
                Err(StartFailure {
                    cause,
                    answer: Some(frame.clone()),
                    ..StartFailure::new(describe_refusal(method, &frame))
                })
            }
            Some(Some(AwaitedLine::Answer(_, frame))) => Ok(frame),
            Some(Some(AwaitedLine::Malformed(why))) => Err(StartFailure::new(format!(
                "the agent's answer to `{method}` could not be read: {why}"
            ))),
            Some(None) => Err(self
                .end_with_failure(&format!("the agent went away before it answered `{method}`"))
                .await),
            None => {
                let message = describe_timeout(&format!("answer `{method}`"), self.timeout);
                Err(StartFailure { stderr: self.stderr.text(), ..StartFailure::new(message) })
            }
        }
    }

    /// Restarts the time limit for the requests that follow.
    pub(crate) fn restart_deadline(&mut self) {
        self.deadline = self.timeout.map(|limit| Instant::now() + limit);
    }

    async fn wait_for_answer(&mut self, id: u64) -> Option<AwaitedLine> {
        loop {
            while let Some(line) = self.reader.next_line() {
                if let Some(found) =
                    sort_line(line, Some(id), &mut self.early, &self.outbox, &self.stderr)
                {
                    return Some(found);
                }
            }
            match self.reader.fill().await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }

    pub(super) fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    pub(super) fn send_ready(&self, session: &str) {
        let frame = rpc::notification("session/ready", serde_json::json!({ "sessionId": session }));
        let _ = self.outbox.send_frame(frame, LineNote::Plain);
    }

    /// Drops, from now on, the content that an agent repeats when it loads or resumes a session:
    /// the log has it already. State updates are kept.
    pub(super) fn drop_replay(&mut self) {
        self.early.drops_content = true;
    }

    /// Waits for the end of a replay. Some agents replay after their answer, so a replay counts as
    /// over once the agent has sent no part of it for `quiet` (rule 2.6).
    pub(super) async fn wait_for_replay_end(
        &mut self,
        quiet: Duration,
    ) -> Result<(), StartFailure> {
        let mut until = Instant::now() + quiet;
        loop {
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                let message = describe_timeout("finish the replay of its session", self.timeout);
                return Err(StartFailure {
                    stderr: self.stderr.text(),
                    ..StartFailure::new(message)
                });
            }
            // First the lines that were read together with the answer: no further read would return
            // them.
            let before = self.early.dropped;
            while let Some(line) = self.reader.next_line() {
                sort_line(line, None, &mut self.early, &self.outbox, &self.stderr);
            }
            if self.early.dropped > before {
                until = Instant::now() + quiet;
            }
            match tokio::time::timeout_at(until, self.reader.fill()).await {
                Err(_) => break,
                Ok(Ok(1..)) => {}
                Ok(Ok(0) | Err(_)) => {
                    return Err(self
                        .end_with_failure("the agent went away while its session came back")
                        .await);
                }
            }
        }
        self.early.drops_content = false;
        Ok(())
    }

    /// Sends a client's request under an id of the host and returns the answer unchanged.
    pub(crate) async fn forward_request(&mut self, frame: &Bytes) -> Result<Bytes, StartFailure> {
        let envelope =
            wharf_acp::scan(frame).map_err(|error| StartFailure::new(error.to_string()))?;
        let id = self.take_id();
        let method = envelope.method.to_string();
        self.send_and_wait(
            &method,
            wharf_acp::with_id(frame, &envelope, id.to_string().as_bytes()),
            id,
        )
        .await
    }

    /// Ends the process and returns the failure, with the agent's exit and stderr.
    async fn end_with_failure(&mut self, message: &str) -> StartFailure {
        self.process.request_end();
        let exit = tokio::time::timeout(EXIT_TIMEOUT, self.process.wait_for_exit())
            .await
            .unwrap_or_default();
        let message = format!("{message}: {}", exit.describe_exit());
        StartFailure {
            exit_code: exit.code,
            stderr: self.stderr.text(),
            ..StartFailure::new(message)
        }
    }
}

/// Runs `work` until the deadline. Returns `None` if it takes longer.
async fn run_until<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

fn describe_timeout(what: &str, limit: Option<Duration>) -> String {
    format!("the agent did not {what} within {:?} (start_timeout)", limit.unwrap_or_default())
}

/// The awaited answer as it was found.
enum AwaitedLine {
    Answer(FrameKind, Bytes),
    /// It names the request and cannot be read; says why.
    Malformed(String),
}

/// Handles one line while the answer to the request `id` is awaited. Returns the line if it is that
/// answer.
fn sort_line(
    line: FrameLine<'_>,
    id: Option<u64>,
    early: &mut EarlyFrames,
    outbox: &Outbox,
    stderr: &StderrTail,
) -> Option<AwaitedLine> {
    let frame = match line {
        FrameLine::Frame(frame) => frame,
        FrameLine::Oversized { bytes, head } => {
            let detail = format!("a line of {bytes} bytes was skipped (limits.frame)");
            early.faults.push((Fault::Oversized, detail.clone()));
            return is_awaited_answer(&salvage_head(head), id)
                .then_some(AwaitedLine::Malformed(detail));
        }
    };
    let envelope = match wharf_acp::scan(frame) {
        Ok(envelope) => envelope,
        Err(error) => {
            early.add_fault(&error);
            if !error.is_json() {
                stderr.add_stray_line(frame);
            }
            return is_awaited_answer(&salvage(frame), id)
                .then(|| AwaitedLine::Malformed(error.to_string()));
        }
    };
    match envelope.kind {
        FrameKind::Result | FrameKind::Error => {
            let found = envelope.id_number(frame);
            if found.is_none() || found != id {
                return None;
            }
            Some(match clean_answer(frame, &envelope) {
                Ok(frame) => AwaitedLine::Answer(envelope.kind, frame),
                Err(error) => AwaitedLine::Malformed(error.to_string()),
            })
        }
        FrameKind::Notification => {
            early.keep_frame(frame, &envelope);
            None
        }
        FrameKind::Request => {
            let _ = outbox.send_frame(refuse_request(frame, &envelope), LineNote::Plain);
            None
        }
    }
}

/// Returns true if a line that cannot be read holds the answer to the awaited request.
fn is_awaited_answer(found: &[Salvaged], id: Option<u64>) -> bool {
    id.is_some_and(|id| found.iter().any(|message| message.may_answer(id)))
}

/// Returns the answer without null members, and with room for Wharf's own members in its `_meta`
/// (rule 12.11).
fn clean_answer(frame: &[u8], envelope: &Envelope<'_>) -> Result<Bytes, ReadError> {
    let plain = if envelope.has_null_members {
        wharf_acp::without_null_members(frame, envelope.kind)?
    } else {
        Bytes::copy_from_slice(frame)
    };
    let plain = if envelope.has_odd_meta { wharf_acp::wrap_odd_meta(&plain)? } else { plain };
    if envelope.has_wharf_meta { wharf_acp::rename_wharf_meta(&plain) } else { Ok(plain) }
}

impl EarlyFrames {
    fn keep_frame(&mut self, frame: &[u8], envelope: &Envelope<'_>) {
        let is_content = envelope.method == "session/update"
            && !envelope.update.is_some_and(UpdateKind::is_state);
        if self.drops_content && is_content {
            self.dropped += 1;
            return;
        }
        self.bytes += frame.len();
        if self.bytes <= MAX_EARLY_BYTES {
            self.frames.push(Bytes::copy_from_slice(frame));
        } else if self.faults.len() < 100 {
            self.faults.push((
                Fault::Oversized,
                "too many updates before the session was open".to_owned(),
            ));
        }
    }

    /// Drops reports of settings that came before the answer to a load or resume which tells them
    /// too: the answer is newer, but they would be taken as if they came after it.
    pub(super) fn drop_outdated_settings(&mut self, answer: &[u8]) {
        let result = Json::parse(answer).and_then(|answer| answer.member("result")).ok().flatten();
        let tells =
            |name: &str| result.is_some_and(|result| matches!(result.member(name), Ok(Some(_))));
        let modes = tells("modes");
        let options = tells("configOptions");
        self.frames.retain(|frame| {
            match wharf_acp::scan(frame).ok().and_then(|envelope| envelope.update) {
                Some(UpdateKind::CurrentModeUpdate) => !modes,
                Some(UpdateKind::ConfigOptionUpdate) => !options,
                _ => true,
            }
        });
    }

    pub(crate) fn add_fault(&mut self, error: &wharf_acp::ScanError) {
        if self.faults.len() < 100 {
            self.faults.push(classify_fault(error));
        }
    }
}

/// Returns the log's entry for a line that could not be read.
pub(crate) fn classify_fault(error: &wharf_acp::ScanError) -> (Fault, String) {
    let kind = match error {
        wharf_acp::ScanError::NotUtf8 => Fault::NotUtf8,
        wharf_acp::ScanError::NotJson(_)
        | wharf_acp::ScanError::Batch
        | wharf_acp::ScanError::NotMessage(_) => Fault::Malformed,
    };
    (kind, error.to_string())
}

/// Returns the error response to a request that Wharf does not serve.
pub(crate) fn refuse_request(frame: &[u8], envelope: &Envelope<'_>) -> Bytes {
    let message = format!("{} is not available here", envelope.method);
    rpc::error_response(envelope.id_text(frame), rpc::error(code::METHOD_NOT_FOUND, &message, None))
}

fn is_login_needed(frame: &[u8]) -> bool {
    let code = Json::parse(frame).and_then(|answer| answer.at(&["error", "code"]));
    code.is_ok_and(|code| code.and_then(Json::integer) == Some(code::AUTH_REQUIRED.into()))
}

/// How much of an agent's `error.data` is shown.
const MAX_ERROR_DATA_CHARS: usize = 2_000;

/// Describes the agent's error with its own message, code and data.
fn describe_refusal(method: &str, frame: &[u8]) -> String {
    let error = Json::parse(frame).and_then(|frame| frame.member("error")).ok().flatten();
    let member = |name: &str| error.and_then(|error| error.member(name).ok()?);
    let shown = |json: Json<'_>| json.text().map_or_else(|| json.raw().to_owned(), Into::into);
    let Some(message) = member("message") else { return format!("the agent refused `{method}`") };
    let code = member("code").map(|code| code.raw().to_owned());
    let data = member("data").map(|data| shown(data).chars().take(MAX_ERROR_DATA_CHARS).collect());
    let details: Vec<String> = code.into_iter().chain(data).collect();
    format!("the agent refused `{method}`: {} ({})", shown(message), details.join("; "))
}

/// Returns the capabilities that decide what the core may do. A capability of another type than
/// ACP's counts as absent; a capability that stands there twice is an error.
fn read_traits(answer: &[u8]) -> Result<AgentTraits, ReadError> {
    let answer = Json::parse(answer)?;
    let has = |path: &[&str]| {
        answer
            .seek(path)
            .map(|value| value.is_some_and(|value| value.bool() != Some(false)))
    };
    let is_true =
        |path: &[&str]| answer.seek(path).map(|value| value.and_then(Json::bool) == Some(true));
    let session = |name| ["result", "agentCapabilities", "sessionCapabilities", name];
    let prompt = |name| ["result", "agentCapabilities", "promptCapabilities", name];
    Ok(AgentTraits {
        load: is_true(&["result", "agentCapabilities", "loadSession"])?,
        resume: has(&session("resume"))?,
        close: has(&session("close"))?,
        delete: has(&session("delete"))?,
        fork: has(&session("fork"))?,
        queues: has(&session("promptQueueing"))?
            || is_true(&["result", "agentCapabilities", "_meta", "claudeCode", "promptQueueing"])?,
        ready: has(&session("ready"))? || is_true(&["result", "capabilities", "session", "ready"])?,
        accepts: Some(AcceptedContent {
            image: is_true(&prompt("image"))?,
            audio: is_true(&prompt("audio"))?,
            embedded: is_true(&prompt("embeddedContext"))?,
        }),
        // The adapter says it, not the agent.
        usage: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_whatever_stands_beside_them() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for odd in ["1e400", r#""\ud83d""#, &deep] {
            let answer = format!(
                r#"{{"id":0,"x":{odd},"result":{{"x":{odd},"agentCapabilities":{{"loadSession":true,"x":{odd},"promptCapabilities":{{"image":true,"audio":{odd}}},"sessionCapabilities":{{"resume":{{"x":{odd}}},"close":{odd},"promptQueueing":null,"ready":false}}}}}}}}"#
            );
            let accepts = Some(AcceptedContent { image: true, audio: false, embedded: false });
            let expected = AgentTraits {
                load: true,
                resume: true,
                close: true,
                accepts,
                ..AgentTraits::default()
            };
            assert_eq!(
                read_traits(answer.as_bytes()),
                Ok(expected),
                "{}",
                &odd[..odd.len().min(10)]
            );
        }
    }

    #[test]
    fn a_capability_that_stands_twice_is_an_error() {
        let answer =
            br#"{"result":{"agentCapabilities":{"loadSession":true,"loadSession":false}}}"#;
        assert_eq!(read_traits(answer), Err(ReadError::Twice("loadSession".to_owned())));
    }

    #[test]
    fn reports_before_an_answer_are_dropped_when_the_answer_tells_the_same_setting() {
        let report = |kind: &str| {
            Bytes::from(format!(
                r#"{{"method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"{kind}"}}}}}}"#
            ))
        };
        let kinds = ["current_mode_update", "config_option_update", "available_commands_update"];
        for (told, kept) in [
            (r#"{"modes":{}}"#, &kinds[1..]),
            (r#"{"configOptions":[]}"#, &[kinds[0], kinds[2]][..]),
            (r#"{"modes":null}"#, &kinds[..]),
            ("{}", &kinds[..]),
        ] {
            let mut early =
                EarlyFrames { frames: kinds.map(report).to_vec(), ..EarlyFrames::default() };
            early.drop_outdated_settings(format!(r#"{{"id":1,"result":{told}}}"#).as_bytes());
            assert_eq!(
                early.frames,
                kept.iter().map(|kind| report(kind)).collect::<Vec<_>>(),
                "{told}"
            );
        }
    }
}
