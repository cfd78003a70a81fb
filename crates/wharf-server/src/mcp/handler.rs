//! Tool calls in, calls on the host out.

use std::sync::Arc;

use axum::http::{header, request};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use wharf_api::mcp::{
    AnswerInput, AnswerOutput, KillInput, KillOutput, LinesOutput, ListInput, OutputInput, PromptInput, PromptOutput,
};
use wharf_api::{AnswerArgs, ErrorCode, OutputQuery, PromptArgs, SessionQuery};

use super::shapes::fitting;
use super::table::{TOOLS, Which, unknown_argument};
use super::wait;
use crate::App;
use crate::auth::Identity;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

const INSTRUCTIONS: &str = "Wharf runs coding agents in sessions that last. Start one with start_agent_session, send it work \
     with prompt_agent_session, then wait_agent_session until the turn ends and read the lines. If the outcome is \
     awaiting_input, look at `asks` and answer with answer_agent_session. End it with kill_agent_session.";

/// Calls under way at once on one connection.
const CALLS: usize = 64;

/// One client's tools.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    app: App,
    /// Who speaks on this connection; over HTTP every request says so itself.
    identity: Option<Identity>,
    /// Places for calls. Over HTTP a handler has one call, and connections and streams are bounded.
    calls: Arc<Semaphore>,
}

/// What a tool gives, or why not.
type Outcome = Result<CallToolResult, Fault>;

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let wharf = Implementation::new("wharf", env!("CARGO_PKG_VERSION")).with_title("Wharf");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(wharf)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let listed = Which::named(name)?.name();
        TOOLS.iter().find(|tool| tool.name == listed).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(which) = Which::named(&request.name) else {
            let known: Vec<&str> = Which::ALL.into_iter().map(Which::name).collect();
            let shown: String = request.name.chars().take(100).collect();
            let message = format!("no tool {shown:?}; there are: {}", known.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        let Some(caller) = self.caller(&context) else {
            return Err(ErrorData::internal_error("nobody asks", None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let outcome = match self.calls.try_acquire() {
            Ok(_place) => self.call(which, &caller, arguments, &context).await,
            Err(_) => {
                let detail = format!("{CALLS} calls are under way on this connection; wait for the end of one");
                Err(Fault::new(ErrorCode::TOO_MANY_REQUESTS, detail).formerly("too_many_calls"))
            }
        };
        Ok(outcome.unwrap_or_else(|fault| refusal(&fault)).into())
    }
}

impl Handler {
    pub(super) fn new(app: App, identity: Option<Identity>) -> Self {
        Self { app, identity, calls: Arc::new(Semaphore::new(CALLS)) }
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Option<Caller> {
        let request = context.extensions.get::<request::Parts>();
        let identity = match &self.identity {
            Some(identity) => identity.clone(),
            None => request?.extensions.get::<Identity>()?.clone(),
        };
        let client = context.client_info().map(|client| client.name);
        let agent = || request?.headers.get(header::USER_AGENT)?.to_str().ok().map(str::to_owned);
        Some(Caller::new(identity, client.or_else(agent).as_deref()))
    }

    async fn call(
        &self,
        which: Which,
        who: &Caller,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Outcome {
        if let Some((unknown, known)) = unknown_argument(which, &arguments) {
            let shown: String = unknown.chars().take(100).collect();
            let detail = format!("{shown:?} is no argument of {}; it takes: {known}", which.name());
            return Err(Fault::new(ErrorCode::INVALID_PARAMS, detail).formerly("invalid_arguments"));
        }
        match which {
            Which::Start => given(&use_cases::spawn(&self.app, who, read(arguments)?, None, true).await?.answer),
            Which::Prompt => self.prompt(who, read(arguments)?).await,
            Which::List => self.list(who, read(arguments)?),
            Which::Output => self.output(who, read(arguments)?).await,
            Which::Kill => self.kill(who, read(arguments)?).await,
            Which::Wait => given(&wait::wait(&self.app, who, read(arguments)?, context).await?),
            Which::Answer => self.answer(who, read(arguments)?).await,
        }
    }

    async fn prompt(&self, who: &Caller, input: PromptInput) -> Outcome {
        let PromptInput { session_id, prompt, queue, interrupt, idempotency_key } = input;
        let args = PromptArgs { prompt, queue, interrupt };
        let prompted = use_cases::prompt(&self.app, who, &session_id, args, idempotency_key.as_deref()).await?;
        given(&PromptOutput {
            ok: true,
            session_id,
            prompt_id: prompted.prompt_id,
            position: prompted.position,
            duplicate: prompted.duplicate,
        })
    }

    fn list(&self, who: &Caller, input: ListInput) -> Outcome {
        let ListInput { only_alive, workspace_slug, adapter, label, limit, cursor } = input;
        let alive = only_alive.filter(|only| *only);
        let args = SessionQuery { limit, cursor, status: None, workspace: workspace_slug, adapter, label, alive };
        given(&use_cases::list(&self.app, who, &args)?)
    }

    /// The text is the lines themselves: that is what a model reads.
    async fn output(&self, who: &Caller, input: OutputInput) -> Outcome {
        let output =
            use_cases::output(&self.app, who, &input.session_id, &OutputQuery { last_n: input.last_n }).await?;
        let session = use_cases::get(&self.app, who, &input.session_id)?;
        let asks = wait::open_asks(&self.app, who, &session).await?;
        let (lines, over) = fitting(output.lines);
        let truncated = over || output.truncated;
        let text = lines.join("\n");
        let (session_id, status, turn) = (input.session_id, session.status, session.turn);
        let mut result = given(&LinesOutput { session_id, lines, truncated, status, turn, asks })?;
        result.content = vec![ContentBlock::text(text)];
        Ok(result)
    }

    async fn kill(&self, who: &Caller, input: KillInput) -> Outcome {
        let killed = use_cases::kill(&self.app, who, &input.session_id).await?;
        given(&KillOutput { ok: killed.ok, session_id: input.session_id })
    }

    async fn answer(&self, who: &Caller, input: AnswerInput) -> Outcome {
        let AnswerInput { session_id, ask_id, option_id, cancel, action, content } = input;
        who.may_answer_in(&self.app, &session_id)?;
        let ask_id = match ask_id {
            Some(ask_id) => ask_id,
            None => self.only_ask(who, &session_id).await?,
        };
        let args = AnswerArgs { option_id, cancel, action, content: content.map(Value::Object) };
        let answered = use_cases::answer(&self.app, who, &session_id, &ask_id.to_string(), args).await?;
        given(&AnswerOutput { ok: answered.ok, session_id, ask_id: answered.ask_id })
    }

    /// The open ask, if it is clear which is meant.
    async fn only_ask(&self, who: &Caller, session: &str) -> Result<u64, Fault> {
        let open = use_cases::asks(&self.app, who, session).await?.asks;
        match open.as_slice() {
            [ask] => Ok(ask.ask_id),
            [] => Err(Fault::new(ErrorCode::UNKNOWN_ASK, "the agent asks nothing at the moment")),
            several => {
                let ids: Vec<u64> = several.iter().map(|ask| ask.ask_id).collect();
                let detail = format!("askId: {} questions are open; say which: {ids:?}", ids.len());
                Err(Fault::new(ErrorCode::INVALID_PARAMS, detail).formerly("invalid_arguments"))
            }
        }
    }
}

/// The arguments, or what is wrong with them.
fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Fault> {
    // By the framework's reader of bodies: it says which member is wrong.
    let axum::Json(value) =
        axum::Json::from_bytes(Value::Object(arguments).to_string().as_bytes()).map_err(|wrong| {
            let text = wrong.body_text();
            let detail = text.split_once(": ").map_or(text.as_str(), |(_, reason)| reason).to_owned();
            Fault::new(ErrorCode::INVALID_PARAMS, detail).formerly("invalid_arguments")
        })?;
    Ok(value)
}

fn given<T: Serialize>(output: &T) -> Outcome {
    let value = serde_json::to_value(output).map_err(|error| {
        tracing::error!(%error, "a tool's output cannot be written");
        Fault::new(ErrorCode::INTERNAL, "the answer cannot be written")
    })?;
    Ok(CallToolResult::structured(value))
}

/// The problem as text only: a client may hold structured content against the output schema, errors or not.
fn refusal(fault: &Fault) -> CallToolResult {
    let mut body = fault.to_problem();
    if let Value::Object(members) = &mut body {
        // What HTTP needs of it says nothing here.
        members.retain(|member, _| member != "type" && member != "title");
    }
    CallToolResult::error(vec![ContentBlock::text(body.to_string())])
}
