//! Files and terminals that Wharf serves to an agent as its client, when no attached client does
//! (rules 3.8, 12.13).

mod error;
mod files;
mod output;
pub mod outside;
mod request_limits;
mod roots;
mod terminals;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::{Value, json};

pub(crate) use error::ServiceError;
use outside::OutsideFiles;
use request_limits::ServiceLimits;
pub(crate) use roots::Roots;
pub(crate) use terminals::{TerminalSpec, Terminals};

use crate::agent::{AgentExit, Launch};

/// The files and terminals of one agent start. [`FilesAndTerminals::close`] ends the terminals, and
/// so does the last drop.
#[derive(Clone, Debug)]
pub(crate) struct FilesAndTerminals {
    pub(crate) roots: Arc<Roots>,
    pub(crate) terminals: Arc<Terminals>,
    /// The largest text that is read at once.
    pub(crate) max_bytes: usize,
    pub(crate) limits: ServiceLimits,
    outside: Arc<OutsideFiles>,
}

impl FilesAndTerminals {
    /// Serves the agent that was started with `launch` and that has the pid `agent`.
    pub(crate) fn new(roots: Roots, mut launch: Launch, agent: u32) -> Self {
        // The session's log is for the agent's own words.
        launch.log = None;
        // Helpers and terminals end with this host.
        launch.is_kept = false;
        let roots = Arc::new(roots);
        let max_bytes = launch.frame_limit;
        let outside = Arc::new(OutsideFiles::new(launch.clone(), agent));
        let terminals = Arc::new(Terminals::new(launch, Arc::clone(&roots), agent));
        Self {
            roots,
            terminals,
            max_bytes,
            limits: ServiceLimits::new(max_bytes),
            outside,
        }
    }

    /// Ends the terminals, and the file requests that are under way.
    pub(crate) fn close(&self) {
        self.terminals.close();
        self.outside.close();
    }

    /// Reads or writes a file: inside of the session's directories here, outside of them as the
    /// agent's process would.
    async fn serve_file(&self, method: &str, frame: &[u8]) -> Result<String, ServiceError> {
        let request = FileRequest::parse(method, frame)?;
        let roots = Arc::clone(&self.roots);
        let max_bytes = self.max_bytes;
        match run_blocking(move || request.carry_out(&roots, max_bytes)).await {
            Err(ServiceError::Outside { .. }) => self.outside.serve(method, frame).await,
            served => served,
        }
    }
}

/// Tells whether [`answer_request`] serves this method.
pub(crate) fn is_served(method: &str) -> bool {
    matches!(
        method,
        "fs/read_text_file"
            | "fs/write_text_file"
            | "terminal/create"
            | "terminal/output"
            | "terminal/wait_for_exit"
            | "terminal/kill"
            | "terminal/release"
    )
}

/// Tells whether the request of a method can be carried out twice without a change.
pub(crate) fn is_repeatable(method: &str) -> bool {
    matches!(method, "fs/read_text_file" | "terminal/output" | "terminal/wait_for_exit")
}

/// Carries out one request of the agent; `frame` is the JSON-RPC message as it came. May take as
/// long as a terminal runs.
pub(crate) async fn answer_request(
    tools: &FilesAndTerminals,
    method: &str,
    frame: &[u8],
) -> Result<Value, ServiceError> {
    let terminals = &tools.terminals;
    match method {
        "fs/read_text_file" => Ok(json!({ "content": tools.serve_file(method, frame).await? })),
        "fs/write_text_file" => tools.serve_file(method, frame).await.map(|_| json!({})),
        "terminal/create" => {
            let id = terminals.create(parse_params::<CreateParams>(frame)?.into()).await?;
            Ok(json!({ "terminalId": id }))
        }
        "terminal/output" => {
            let shown = terminals.output(&parse_terminal_id(frame)?)?;
            let exit = shown.exit.as_ref().map(exit_status);
            Ok(json!({ "output": shown.output, "truncated": shown.truncated, "exitStatus": exit }))
        }
        "terminal/wait_for_exit" => {
            Ok(exit_status(&terminals.wait_for_exit(&parse_terminal_id(frame)?).await?))
        }
        "terminal/kill" => terminals.kill(&parse_terminal_id(frame)?).map(|()| json!({})),
        "terminal/release" => terminals.release(&parse_terminal_id(frame)?).map(|()| json!({})),
        other => Err(ServiceError::Method(other.to_owned())),
    }
}

async fn run_blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
) -> Result<T, ServiceError> {
    tokio::task::spawn_blocking(run)
        .await
        .unwrap_or_else(|error| Err(ServiceError::Failed(error.to_string())))
}

#[derive(serde::Deserialize)]
struct RequestParams<P> {
    params: P,
}

/// A request of the agent for a file.
enum FileRequest {
    Read(Read),
    Write(Write),
}

impl FileRequest {
    fn parse(method: &str, frame: &[u8]) -> Result<Self, ServiceError> {
        match method {
            "fs/read_text_file" => parse_params(frame).map(Self::Read),
            "fs/write_text_file" => parse_params(frame).map(Self::Write),
            other => Err(ServiceError::Method(other.to_owned())),
        }
    }

    /// Returns the text that was read; of a write the empty text.
    fn carry_out(self, roots: &Roots, max_bytes: usize) -> Result<String, ServiceError> {
        match self {
            Self::Read(Read { path, line, limit }) => {
                files::read_text(roots, &path, line, limit, max_bytes)
            }
            Self::Write(Write { path, content }) => {
                files::write_text(roots, &path, &content).map(|()| String::new())
            }
        }
    }
}

#[derive(serde::Deserialize)]
struct Read {
    path: PathBuf,
    #[serde(default, deserialize_with = "deserialize_leniently")]
    line: Option<u32>,
    #[serde(default, deserialize_with = "deserialize_leniently")]
    limit: Option<u32>,
}

#[derive(serde::Deserialize)]
struct Write {
    path: PathBuf,
    content: String,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateParams {
    command: String,
    #[serde(default, deserialize_with = "deserialize_leniently")]
    args: Vec<Value>,
    #[serde(default, deserialize_with = "deserialize_leniently")]
    env: Vec<Value>,
    #[serde(default, deserialize_with = "deserialize_leniently")]
    cwd: Option<PathBuf>,
    #[serde(default, deserialize_with = "deserialize_leniently")]
    output_byte_limit: Option<u64>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminalParams {
    terminal_id: String,
}

impl From<CreateParams> for TerminalSpec {
    fn from(create: CreateParams) -> Self {
        let variable = |value: &Value| {
            Some((value["name"].as_str()?.to_owned(), value["value"].as_str()?.to_owned()))
        };
        Self {
            command: create.command,
            args: create.args.iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect(),
            env: create.env.iter().filter_map(variable).collect(),
            cwd: create.cwd,
            output_limit: create.output_byte_limit,
        }
    }
}

fn parse_params<P: DeserializeOwned>(frame: &[u8]) -> Result<P, ServiceError> {
    let request = wharf_acp::peek::<RequestParams<P>>(frame);
    request
        .map(|request| request.params)
        .map_err(|error| ServiceError::Params(error.to_string()))
}

fn parse_terminal_id(frame: &[u8]) -> Result<String, ServiceError> {
    parse_params::<TerminalParams>(frame).map(|terminal| terminal.terminal_id)
}

/// Reads a field for which the schema says that a bad value counts as absent.
fn deserialize_leniently<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(wharf_json::read(wharf_json::Json::deserialize(from)?).unwrap_or_default())
}

fn exit_status(exit: &AgentExit) -> Value {
    json!({ "exitCode": exit.code, "signal": exit.signal.map(signal_name) })
}

/// Names a signal whose number is the same on every system.
fn signal_name(signal: i32) -> String {
    let known = [
        (1, "HUP"),
        (2, "INT"),
        (3, "QUIT"),
        (4, "ILL"),
        (5, "TRAP"),
        (6, "ABRT"),
        (8, "FPE"),
        (9, "KILL"),
    ];
    let more = [(11, "SEGV"), (13, "PIPE"), (14, "ALRM"), (15, "TERM")];
    let name = known.iter().chain(&more).find(|(number, _)| *number == signal);
    name.map_or_else(|| format!("signal {signal}"), |(_, name)| format!("SIG{name}"))
}
