//! Files outside of the session's directories. The host does not touch them: a short-lived process
//! does, started as the agent's terminals are, in its sandbox. So the agent gets what its own
//! process may do, and not what the host may do (rule 12.13).
//!
//! The process is `wharf __files PID METHOD BYTES`. It reads the agent's request from stdin and
//! writes one byte that says how it went, and then the text of the file or the error.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use wharf_core::FailureText;

use super::{FileRequest, Roots, ServiceError};
use crate::agent::Launch;

const FILES_VERB: &str = "__files";
const DONE_BYTE: u8 = b'+';
const FAILED_BYTE: u8 = b'-';
/// A file may be on a slow disk or network; a process that takes longer hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Room for an error: its message names the path, which may be escaped.
const ERROR_BYTES: usize = 64 << 10;

/// Starts the processes that serve files outside of a session's directories.
#[derive(Debug)]
pub(super) struct OutsideFiles {
    launch: Launch,
    /// The pid of the agent, whose `/proc/self` is meant.
    agent: u32,
    max_bytes: usize,
    /// True once the agent is gone: processes that still work are ended.
    closed: watch::Sender<bool>,
}

/// An error on its way from the process to the agent.
#[derive(Debug, Serialize, Deserialize)]
struct Failure {
    code: i32,
    message: String,
    data: Option<Value>,
}

impl OutsideFiles {
    /// `launch` is the agent's.
    pub(super) fn new(launch: Launch, agent: u32) -> Self {
        Self {
            max_bytes: launch.frame_limit,
            launch,
            agent,
            closed: watch::Sender::new(false),
        }
    }

    /// Ends all requests that are under way, and refuses new ones.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Carries out a request for a file; returns the text that was read.
    pub(super) async fn serve(&self, method: &str, frame: &[u8]) -> Result<String, ServiceError> {
        let mut closed = self.closed.subscribe();
        let answer = tokio::select! {
            answer = tokio::time::timeout(ANSWER_TIMEOUT, self.ask_process(method, frame)) => answer,
            _ = closed.wait_for(|closed| *closed) => {
                return Err(ServiceError::Failed("the agent is ending; no file is read or written".to_owned()));
            }
        };
        let limit = ANSWER_TIMEOUT.as_secs();
        let answer = answer.map_err(|_| {
            ServiceError::Failed(format!("the file was not read or written within {limit} s"))
        })?;
        self.read_answer(answer?)
    }

    /// Starts a process, hands it the request and waits for its answer. Dropping this ends the
    /// process.
    async fn ask_process(&self, method: &str, frame: &[u8]) -> Result<Vec<u8>, ServiceError> {
        let mut launch = self.launch.clone();
        let program = launch.program.to_string_lossy().into_owned();
        launch.command =
            [&program, FILES_VERB, &self.agent.to_string(), method, &self.max_bytes.to_string()]
                .map(ToOwned::to_owned)
                .to_vec();
        // A tag that begins with the agent's: a sweep after the agent finds this process too.
        launch.tag = format!("{}.file_{}", launch.tag, crate::ids::random_text(8));
        let (_process, mut stdin, stdout, stderr) =
            launch.run_piped().await.map_err(ServiceError::Failed)?;
        let failed = |error: std::io::Error| {
            let message = format!(
                "the process that serves files outside of the session's directories failed: {error}"
            );
            ServiceError::Failed(
                FailureText { reason: &message, stderr: &stderr.text() }.to_string(),
            )
        };
        stdin.write_all(frame).await.map_err(failed)?;
        drop(stdin);
        let mut answer = Vec::new();
        let most = self.max_bytes.max(ERROR_BYTES) as u64 + 1;
        stdout.take(most).read_to_end(&mut answer).await.map_err(failed)?;
        if answer.is_empty() {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(answer)
    }

    fn read_answer(&self, mut answer: Vec<u8>) -> Result<String, ServiceError> {
        let done = answer.remove(0) == DONE_BYTE;
        let odd = || {
            ServiceError::Failed("the process that serves files gave an invalid answer".to_owned())
        };
        if done {
            return String::from_utf8(answer).map_err(|_| odd());
        }
        let Failure { code, message, data } = wharf_json::read_own(&answer).map_err(|_| odd())?;
        Err(ServiceError::Outsiders { code, message, data })
    }
}

/// Runs the process; `args` are those after its verb.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter().filter_map(|arg| arg.into_string().ok());
    let agent = args.next().and_then(|pid| pid.parse().ok());
    let method = args.next();
    let max_bytes = args.next().and_then(|bytes| bytes.parse().ok());
    let (Some(agent), Some(method), Some(max_bytes)) = (agent, method, max_bytes) else {
        return ExitCode::from(64);
    };
    let answer = match serve_request(agent, &method, max_bytes) {
        Ok(text) => [&[DONE_BYTE], text.as_bytes()].concat(),
        Err(error) => {
            let failure = Failure {
                code: error.code(),
                message: error.to_string(),
                data: error.data(),
            };
            [&[FAILED_BYTE], serde_json::to_string(&failure).unwrap_or_default().as_bytes()]
                .concat()
        }
    };
    match std::io::stdout().write_all(&answer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve_request(agent: u32, method: &str, max_bytes: usize) -> Result<String, ServiceError> {
    let mut frame = Vec::new();
    std::io::stdin()
        .read_to_end(&mut frame)
        .map_err(|error| ServiceError::Failed(format!("the request cannot be read: {error}")))?;
    FileRequest::parse(method, &frame)?.carry_out(&Roots::whole_file_system(agent), max_bytes)
}
