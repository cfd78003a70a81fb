//! The list of tools.

use std::sync::LazyLock;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;

use wharf_api::mcp::{
    AgentsInput, AgentsOutput, AnswerInput, AnswerOutput, ForkInput, InterruptInput,
    InterruptOutput, KillInput, KillOutput, LinesOutput, ListInput, OutputInput, PromptInput,
    PromptOutput, ResumeInput, SearchInput, StartInput, StartOutput, WaitInput, WaitOutput,
};
use wharf_api::{SearchPage, SessionInfo, SessionPage};

use super::schemas::{input_schema, output_schema};

/// Names a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolName {
    Agents,
    Start,
    Fork,
    Prompt,
    List,
    Output,
    Interrupt,
    Kill,
    Resume,
    Wait,
    Answer,
    Search,
}

impl ToolName {
    pub(super) const ALL: [Self; 12] = [
        Self::Start,
        Self::Prompt,
        Self::List,
        Self::Output,
        Self::Wait,
        Self::Answer,
        Self::Interrupt,
        Self::Kill,
        Self::Resume,
        Self::Search,
        Self::Fork,
        Self::Agents,
    ];

    /// Returns the name under which the tool is listed.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Agents => "list_agents",
            Self::Start => "start_agent_session",
            Self::Fork => "fork_agent_session",
            Self::Prompt => "prompt_agent_session",
            Self::List => "list_agent_sessions",
            Self::Output => "get_agent_session_output",
            Self::Interrupt => "interrupt_agent_session",
            Self::Kill => "kill_agent_session",
            Self::Resume => "resume_agent_session",
            Self::Wait => "wait_agent_session",
            Self::Answer => "answer_agent_session",
            Self::Search => "search_agent_sessions",
        }
    }

    /// Returns the tool of this name, in either family of names. The newer family is not listed:
    /// listing every tool twice would only confuse a model.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let newer = match name {
            "agent_start" => Some(Self::Start),
            "agent_prompt" => Some(Self::Prompt),
            "agent_sessions_list" => Some(Self::List),
            "agent_output" => Some(Self::Output),
            "agent_kill" => Some(Self::Kill),
            _ => None,
        };
        newer.or_else(|| Self::ALL.into_iter().find(|tool| tool.as_str() == name))
    }
}

/// Returns the first of these arguments that the tool does not have, and the names of those that it
/// has.
pub(super) fn find_unknown_argument(
    which: ToolName,
    arguments: &JsonObject,
) -> Option<(&str, String)> {
    let tool = TOOLS.iter().find(|tool| tool.name == which.as_str())?;
    let known = tool.input_schema.get("properties")?.as_object()?;
    let unknown = arguments.keys().find(|name| !known.contains_key(*name))?;
    Some((unknown, known.keys().map(String::as_str).collect::<Vec<_>>().join(", ")))
}

/// Returns the schema that the tool's answers follow.
pub(super) fn get_output_schema(which: ToolName) -> &'static JsonObject {
    static EMPTY: LazyLock<JsonObject> = LazyLock::new(JsonObject::new);
    let tool = TOOLS.iter().find(|tool| tool.name == which.as_str());
    tool.and_then(|tool| tool.output_schema.as_deref()).unwrap_or(&EMPTY)
}

/// The descriptions of all tools.
pub(super) static TOOLS: LazyLock<Vec<Tool>> =
    LazyLock::new(|| ToolName::ALL.into_iter().map(describe_tool).collect());

fn describe_tool(which: ToolName) -> Tool {
    match which {
        ToolName::Agents => build_tool::<AgentsInput, AgentsOutput>(
            which,
            "List agents",
            "Lists the agents that can be started, whether their programs are there and logged in, and their modes.",
            read_only_hints(),
        ),
        ToolName::Start => build_tool::<StartInput, StartOutput>(
            which,
            "Start an agent session",
            "Starts a coding agent in a directory and returns its session. With `prompt` its first turn begins at \
             once: read it with get_agent_session_output or wait_agent_session. Set `idempotencyKey` if you may repeat \
             the call.",
            acting_hints(),
        ),
        ToolName::Fork => build_tool::<ForkInput, SessionInfo>(
            which,
            "Fork an agent session",
            "Copies a session with its conversation so far into a new one, and returns that; only where `forkable` is true \
             and no turn runs. The source stays as it is.",
            acting_hints(),
        ),
        ToolName::Prompt => build_tool::<PromptInput, PromptOutput>(
            which,
            "Prompt an agent session",
            "Sends the agent a prompt and returns at once; wait_agent_session waits for the turn's end. While a turn \
             runs this is refused (turn_in_progress) unless `queue` or `interrupt` is set.",
            acting_hints(),
        ),
        ToolName::List => build_tool::<ListInput, SessionPage>(
            which,
            "List agent sessions",
            "Lists sessions, the newest first, with their status and whether a turn runs.",
            read_only_hints(),
        ),
        ToolName::Output => build_tool::<OutputInput, LinesOutput>(
            which,
            "Read an agent session's output",
            "Returns the newest lines of what the agent said and did, and what it asks. A line `── turn-end (…) ──` \
             ends each turn. With `format: \"rows\"`: the transcript in rows, by turn and kind, in one line each or whole. \
             With `format: \"changes\"`: the files that it changed.",
            read_only_hints(),
        ),
        ToolName::Wait => build_tool::<WaitInput, WaitOutput>(
            which,
            "Wait for an agent session",
            "Waits until no turn runs, until the agent asks something, or for timeoutSeconds; then returns the \
             newest lines. Sends progress while it waits.",
            read_only_hints(),
        ),
        ToolName::Answer => build_tool::<AnswerInput, AnswerOutput>(
            which,
            "Answer an agent's question",
            "Answers what the agent asks: a permission with `optionId`, a form with `action` and `content`, either \
             with `cancel`. The open questions are in `asks` of get_agent_session_output and wait_agent_session.",
            acting_hints(),
        ),
        ToolName::Interrupt => build_tool::<InterruptInput, InterruptOutput>(
            which,
            "Interrupt an agent session",
            "Ends the turn that runs; the session goes on, and waiting prompts stay in its queue. Does nothing if no turn \
             runs.",
            acting_hints(),
        ),
        ToolName::Kill => build_tool::<KillInput, KillOutput>(
            which,
            "Kill an agent session",
            "Ends the session and its agent's processes. Its output stays readable. Killing it again does nothing.",
            acting_hints().idempotent(true).open_world(false),
        ),
        ToolName::Resume => build_tool::<ResumeInput, SessionInfo>(
            which,
            "Resume an agent session",
            "Brings an ended session back with its conversation, also one that was killed, and returns it once its agent \
             runs. Refused (not_resumable) if the agent cannot do that. A session that runs stays as it is.",
            acting_hints().idempotent(true),
        ),
        ToolName::Search => build_tool::<SearchInput, SearchPage>(
            which,
            "Search agent sessions",
            "Finds prompts, messages, tool calls and questions of all sessions by their words, the newest first. Read a \
             hit's turn with get_agent_session_output, `format: \"rows\"` and `turn`.",
            read_only_hints(),
        ),
    }
}

fn build_tool<I: JsonSchema, O: JsonSchema>(
    which: ToolName,
    title: &'static str,
    description: &'static str,
    annotations: ToolAnnotations,
) -> Tool {
    Tool::new(which.as_str(), description, input_schema::<I>())
        .with_title(title)
        .with_raw_output_schema(output_schema::<O>())
        .with_annotations(annotations)
}

fn read_only_hints() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true).open_world(false)
}

/// Returns the hints of a tool that sets an agent to work, which may change anything that it can
/// reach.
fn acting_hints() -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(false)
        .destructive(true)
        .idempotent(false)
        .open_world(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_that_a_tool_does_not_have_is_found() {
        let arguments = |text: &str| serde_json::from_str::<JsonObject>(text).unwrap();
        for which in ToolName::ALL {
            let given = arguments(r#"{"sessionID":"s"}"#);
            let (unknown, known) = find_unknown_argument(which, &given).unwrap();
            assert_eq!(unknown, "sessionID", "{which:?}");
            assert!(!known.is_empty(), "{which:?}");
        }
        assert_eq!(find_unknown_argument(ToolName::Kill, &arguments(r#"{"sessionId":"s"}"#)), None);
        assert_eq!(
            find_unknown_argument(
                ToolName::Start,
                &arguments(r#"{"adapter":"a","cwd":"/","prompt":"x"}"#)
            ),
            None
        );
    }
}
