//! Translates tool calls into calls of use cases.

use axum::http::{header, request};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::Value;
use wharf_api::mcp::{
    AnswerInput, AnswerOutput, ForkInput, InterruptInput, InterruptOutput, KillInput, KillOutput,
    LinesOutput, ListInput, OutputFormat, OutputInput, PromptInput, PromptOutput, ResumeInput,
    SearchInput, StartKey, StartOutput,
};
use wharf_api::{
    AnswerArgs, ErrorCode, ForkArgs, InterruptArgs, OutputQuery, PromptArgs, ResumeArgs,
    SessionQuery,
};
use wharf_host::{CountLimit, SpawnedAs};

use super::agents;
use super::answer::{ToolAnswer, ToolOutcome};
use super::schemas::keep_newest_lines;
use super::search;
use super::tools::{TOOLS, ToolName, find_unknown_argument, get_output_schema};
use super::wait;
use super::{changed_files, rows};
use crate::App;
use crate::auth::Identity;
use crate::fault::Fault;
use crate::request_values::{UnfitValues, read_object};
use crate::use_cases::{self, Caller};

const INSTRUCTIONS: &str = "Wharf runs coding agents in sessions that last. Start one with start_agent_session, send it work \
     with prompt_agent_session, then wait_agent_session until the turn ends and read the lines. If the outcome is \
     awaiting_input, look at `asks` and answer with answer_agent_session. End it with kill_agent_session. list_agents \
     says which agents there are.";

/// The most calls at the same time on one connection.
const MAX_CALLS_PER_CONNECTION: usize = 64;

/// The tools as one client sees them.
#[derive(Clone, Debug)]
pub(crate) struct McpHandler {
    app: App,
    /// The identity of the connection; `None` over HTTP, where every request has its own.
    identity: Option<Identity>,
    /// Limits the calls. Over HTTP a handler has one call, and connections and streams are bounded
    /// elsewhere.
    calls: CountLimit,
}

impl ServerHandler for McpHandler {
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
        let listed = ToolName::from_name(name)?.as_str();
        TOOLS.iter().find(|tool| tool.name == listed).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(which) = ToolName::from_name(&request.name) else {
            let known: Vec<&str> = ToolName::ALL.into_iter().map(ToolName::as_str).collect();
            let shown: String = request.name.chars().take(100).collect();
            let message = format!("no tool {shown:?}; there are: {}", known.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        let Some(caller) = self.identify_caller(&context) else {
            return Err(ErrorData::internal_error("the request has no identity", None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let outcome = match self.calls.try_acquire() {
            Some(_permit) => self.call_use_case(which, &caller, arguments, &context).await,
            None => {
                let detail = format!(
                    "{MAX_CALLS_PER_CONNECTION} calls are under way on this connection; wait for the end of one"
                );
                Err(Fault::new(ErrorCode::TOO_MANY_REQUESTS, detail)
                    .with_legacy_code("too_many_calls"))
            }
        };
        let result = match outcome {
            Ok(answer) => answer.into_result(get_output_schema(which)),
            Err(fault) => to_error_result(&fault),
        };
        Ok(result.into())
    }
}

impl McpHandler {
    pub(super) fn new(app: App, identity: Option<Identity>) -> Self {
        Self {
            app,
            identity,
            calls: CountLimit::new(MAX_CALLS_PER_CONNECTION),
        }
    }

    fn identify_caller(&self, context: &RequestContext<RoleServer>) -> Option<Caller> {
        let request = context.extensions.get::<request::Parts>();
        let identity = match &self.identity {
            Some(identity) => identity.clone(),
            None => request?.extensions.get::<Identity>()?.clone(),
        };
        let client = context.client_info().map(|client| client.name);
        let agent = || request?.headers.get(header::USER_AGENT)?.to_str().ok().map(str::to_owned);
        Some(Caller::new(identity, client.or_else(agent).as_deref()))
    }

    async fn call_use_case(
        &self,
        which: ToolName,
        caller: &Caller,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> ToolOutcome {
        if let Some((unknown, known)) = find_unknown_argument(which, &arguments) {
            let shown: String = unknown.chars().take(100).collect();
            let detail =
                format!("{shown:?} is no argument of {}; it takes: {known}", which.as_str());
            return Err(
                Fault::new(ErrorCode::INVALID_PARAMS, detail).with_legacy_code("invalid_arguments")
            );
        }
        match which {
            ToolName::Agents => {
                agents::list_agents(&self.app, caller, read_arguments(arguments)?).await
            }
            ToolName::Start => self.start_session(caller, arguments).await,
            ToolName::Fork => self.fork_session(caller, read_arguments(arguments)?).await,
            ToolName::Prompt => self.send_prompt(caller, read_arguments(arguments)?).await,
            ToolName::List => self.list_sessions(caller, read_arguments(arguments)?),
            ToolName::Output => self.read_output(caller, read_arguments(arguments)?).await,
            ToolName::Interrupt => self.interrupt_turn(caller, read_arguments(arguments)?).await,
            ToolName::Kill => self.kill_session(caller, read_arguments(arguments)?).await,
            ToolName::Resume => self.resume_session(caller, read_arguments(arguments)?).await,
            ToolName::Wait => ToolAnswer::new(
                &wait::wait_for_turn(&self.app, caller, read_arguments(arguments)?, context)
                    .await?,
            ),
            ToolName::Answer => self.answer_ask(caller, read_arguments(arguments)?).await,
            ToolName::Search => self.search_rows(caller, read_arguments(arguments)?).await,
        }
    }

    async fn start_session(&self, caller: &Caller, mut arguments: JsonObject) -> ToolOutcome {
        // The key is read on its own, so that a fault in any argument is reported with its path.
        let key = arguments.remove_entry("idempotencyKey");
        let StartKey { idempotency_key } = read_arguments(key.into_iter().collect())?;
        let session = read_arguments(arguments)?;
        let started =
            use_cases::spawn_session(&self.app, caller, session, idempotency_key.as_deref(), true)
                .await?;
        let duplicate = started.spawned_as == SpawnedAs::Repeat;
        ToolAnswer::new(&StartOutput { session: started.answer, duplicate })
    }

    async fn fork_session(&self, caller: &Caller, input: ForkInput) -> ToolOutcome {
        let ForkInput { session_id, title, label, on_label } = input;
        let args = ForkArgs { title, label, on_label };
        ToolAnswer::new(
            &use_cases::fork_session(&self.app, caller, &session_id, args, None, true)
                .await?
                .session,
        )
    }

    async fn send_prompt(&self, caller: &Caller, input: PromptInput) -> ToolOutcome {
        let PromptInput { session_id, prompt, queue, interrupt, idempotency_key } = input;
        let args = PromptArgs { prompt, queue, interrupt };
        let prompted = use_cases::send_prompt(
            &self.app,
            caller,
            &session_id,
            args,
            idempotency_key.as_deref(),
        )
        .await?;
        ToolAnswer::new(&PromptOutput {
            ok: true,
            session_id,
            prompt_id: prompted.prompt_id,
            position: prompted.position,
            duplicate: prompted.duplicate,
        })
    }

    fn list_sessions(&self, caller: &Caller, input: ListInput) -> ToolOutcome {
        let ListInput { only_alive, workspace_slug, adapter, label, limit, cursor } = input;
        let alive = only_alive.filter(|only| *only);
        let args = SessionQuery {
            limit,
            cursor,
            workspace: workspace_slug,
            adapter,
            label,
            alive,
            ..SessionQuery::default()
        };
        ToolAnswer::new(&use_cases::list_sessions(&self.app, caller, &args)?)
    }

    /// Returns the newest lines. The text of the result is the lines themselves, since that is what
    /// a model reads.
    async fn read_output(&self, caller: &Caller, input: OutputInput) -> ToolOutcome {
        let is_rows = input.format == Some(OutputFormat::Rows);
        if is_rows || input.format == Some(OutputFormat::Changes) {
            let (output, text) = match is_rows {
                true => rows::read_rows(&self.app, caller, input).await?,
                false => changed_files::read_changed_files(&self.app, caller, input).await?,
            };
            return Ok(ToolAnswer::new(&output)?.with_text(text));
        }
        rows::refuse_row_arguments(&input)?;
        let output = use_cases::read_output(
            &self.app,
            caller,
            &input.session_id,
            &OutputQuery { last_n: input.last_n, include: None },
        )
        .await?;
        let session = use_cases::get_session(&self.app, caller, &input.session_id)?;
        let asks = wait::list_open_asks(&self.app, caller, &session).await?;
        let (lines, over) = keep_newest_lines(output.lines);
        let truncated = over || output.truncated;
        let text = lines.join("\n");
        let session_id = input.session_id;
        let status = session.status;
        let turn = session.turn;
        let answer = ToolAnswer::new(&LinesOutput {
            session_id,
            lines,
            rows: None,
            changes: None,
            before: None,
            truncated,
            status,
            turn,
            asks,
        })?;
        Ok(answer.with_text(text))
    }

    async fn search_rows(&self, caller: &Caller, input: SearchInput) -> ToolOutcome {
        let page =
            use_cases::search_rows(&self.app, caller, &search::to_search_args(input)?).await?;
        Ok(ToolAnswer::new(&page)?.with_text(search::show_page(&page)))
    }

    async fn interrupt_turn(&self, caller: &Caller, input: InterruptInput) -> ToolOutcome {
        let InterruptInput { session_id, force } = input;
        let done =
            use_cases::interrupt_turn(&self.app, caller, &session_id, InterruptArgs { force })
                .await?;
        ToolAnswer::new(&InterruptOutput { ok: done.ok, session_id, was_busy: done.was_busy })
    }

    async fn resume_session(&self, caller: &Caller, input: ResumeInput) -> ToolOutcome {
        let ResumeInput { session_id, session_mode, accept_agent_settings } = input;
        let args = ResumeArgs { session_mode, accept_agent_settings };
        ToolAnswer::new(&use_cases::resume_session(&self.app, caller, &session_id, args).await?)
    }

    async fn kill_session(&self, caller: &Caller, input: KillInput) -> ToolOutcome {
        let killed = use_cases::kill_session(&self.app, caller, &input.session_id).await?;
        ToolAnswer::new(&KillOutput { ok: killed.ok, session_id: input.session_id })
    }

    async fn answer_ask(&self, caller: &Caller, input: AnswerInput) -> ToolOutcome {
        let AnswerInput { session_id, ask_id, option_id, cancel, action, content } = input;
        caller.may_answer_in(&self.app, &session_id)?;
        let ask_id = match ask_id {
            Some(ask_id) => ask_id,
            None => self.find_only_ask(caller, &session_id).await?,
        };
        let args = AnswerArgs {
            option_id,
            cancel,
            action,
            content: content.map(Value::Object),
        };
        let answered =
            use_cases::answer_ask(&self.app, caller, &session_id, &ask_id.to_string(), args)
                .await?;
        ToolAnswer::new(&AnswerOutput { ok: answered.ok, session_id, ask_id: answered.ask_id })
    }

    /// Returns the id of the open ask if there is exactly one.
    async fn find_only_ask(&self, caller: &Caller, session: &str) -> Result<u64, Fault> {
        let open = use_cases::list_bare_asks(&self.app, caller, session).await?;
        match open.as_slice() {
            [ask] => Ok(ask.ask_id),
            [] => Err(Fault::new(ErrorCode::UNKNOWN_ASK, "the agent has no open question")),
            several => {
                let ids: Vec<u64> = several.iter().map(|ask| ask.ask_id).collect();
                let detail = format!("askId: {} questions are open; say which: {ids:?}", ids.len());
                Err(Fault::new(ErrorCode::INVALID_PARAMS, detail)
                    .with_legacy_code("invalid_arguments"))
            }
        }
    }
}

/// Reads a tool's arguments.
fn read_arguments<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Fault> {
    read_object(Value::Object(arguments).to_string().as_bytes()).map_err(|why| {
        let (UnfitValues::NotJson(detail) | UnfitValues::Member(detail)) = why;
        Fault::new(ErrorCode::INVALID_PARAMS, detail).with_legacy_code("invalid_arguments")
    })
}

/// Returns the fault as text only: clients may check structured content against the output schema,
/// even of errors.
fn to_error_result(fault: &Fault) -> CallToolResult {
    let mut body = fault.to_problem();
    if let Value::Object(members) = &mut body {
        // These members are of use over HTTP only.
        members.retain(|member, _| member != "type" && member != "title");
    }
    CallToolResult::error(vec![ContentBlock::text(body.to_string())])
}
