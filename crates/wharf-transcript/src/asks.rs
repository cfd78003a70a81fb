//! Asks: questions of the agent with their subject. The subject follows the tool call while the ask
//! is open, and is frozen with the answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_api::{
    AskAnswer, AskForm, AskOption, AskState, AskSubject, RowAsk, RowBody, RowPart, RowTool,
};
use wharf_core::{Ask, AskId, AskKind, AskOutcome, Sender};
use wharf_json::{Json, ReadError};

use crate::fold::FoldStep;
use crate::limits::{
    MAX_ASK_OPTIONS, MAX_FORM_BYTES, MAX_MESSAGE_BYTES, MAX_NAMED_ASKS, MAX_OPTION_ID_BYTES,
    MAX_OPTION_IDS_BYTES, MAX_PATH_BYTES, MAX_TITLE_BYTES, MAX_TOOL_TEXT_BYTES,
};
use crate::messages::end_run;
use crate::paths::is_outside;
use crate::plain_text::join_lines;
use crate::prompts::to_actor;
use crate::row_size::json_bytes;
use crate::text_rules::{TextRules, clean_word};
use crate::tool_summary::name_tool;
use crate::{RowNumber, RowStore, tools};

/// The bytes of an ask's subject before its answer.
const MAX_ASKED_BYTES: usize = 150;

/// An ask without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingAsk {
    pub(crate) row: RowNumber,
    tool: Option<RowNumber>,
    opened_at: u64,
}

/// Adds the row of an ask. Its request may tell more of the tool call, which is noted there first.
pub(crate) fn open_ask(step: &mut FoldStep<'_, impl RowStore>, ask: &Ask) {
    end_run(step);
    let params = Json::parse(ask.frame.bytes())
        .and_then(|request| request.member("params"))
        .ok()
        .flatten();
    let tool = match (ask.kind, params) {
        (AskKind::Permission, Some(params)) => note_tool_call(step, params).unwrap_or_default(),
        (AskKind::Permission | AskKind::Elicitation, _) => None,
    };
    let tool_row = tool.and_then(|number| step.rows.row_mut(number)).cloned();
    let subject = match (&tool_row, params) {
        (Some(row), _) => match &row.body {
            RowBody::Tool(tool) => subject_of(tool),
            RowBody::Prompt(_)
            | RowBody::Message(_)
            | RowBody::Thought(_)
            | RowBody::Plan(_)
            | RowBody::Ask(_)
            | RowBody::Notice(_)
            | RowBody::TurnEnd(_)
            | RowBody::Unknown => AskSubject::default(),
        },
        (None, Some(params)) => form_subject(params, &step.fold.texts),
        (None, None) => AskSubject::default(),
    };
    let name = tool_row.as_ref().and_then(|row| name_subject(&row.body, &step.fold.texts));
    let options = params.map(|params| read_options(params, &step.fold.texts).unwrap_or_default());
    let (options, more_options) = options.unwrap_or_default();
    let body = RowAsk {
        ask_id: ask.id.0,
        ask: if ask.kind == AskKind::Permission { "permission" } else { "form" }.to_owned(),
        state: AskState::Open,
        tool: tool_row.map(|row| row.id),
        options,
        more_options,
        form: params
            .filter(|_| ask.kind == AskKind::Elicitation)
            .map(|params| read_form(params, &step.fold.texts)),
        subject,
        answer: None,
    };
    let summary = summarise_ask(&body.subject, name, &step.fold.texts);
    let row = step.create(RowBody::Ask(Box::new(body)), summary, true);
    step.fold.asks.insert(ask.id.0, PendingAsk { row, tool, opened_at: step.at.0 });
    name_ask(step, tool, row);
}

/// Takes the tool call of a permission as an update of it, and returns its row.
fn note_tool_call(
    step: &mut FoldStep<'_, impl RowStore>,
    params: Json<'_>,
) -> Result<Option<RowNumber>, ReadError> {
    let Some(call) = params.member("toolCall")?.filter(|call| call.is_object()) else {
        return Ok(None);
    };
    let Some(id) = call.member("toolCallId")?.and_then(Json::text) else { return Ok(None) };
    tools::tool_call_update(step, call, None)?;
    Ok(tools::find_tool(step, &id))
}

/// Lets the row of the tool call name its ask.
fn name_ask(step: &mut FoldStep<'_, impl RowStore>, tool: Option<RowNumber>, ask: RowNumber) {
    let (Some(tool), Some(id)) = (tool, step.rows.row_mut(ask).map(|row| row.id.clone())) else {
        return;
    };
    step.change(tool, |row| {
        if let RowBody::Tool(tool) = &mut row.body
            && tool.asks.len() < MAX_NAMED_ASKS
        {
            tool.asks.push(id);
        }
    });
}

/// Returns the subject of a permission about a tool call.
fn subject_of(tool: &RowTool) -> AskSubject {
    let mut paths: Vec<String> =
        tool.locations.iter().map(|location| location.path.clone()).collect();
    for diff in tool
        .diffs
        .iter()
        .filter(|diff| !tool.locations.iter().any(|location| location.path == diff.path))
    {
        paths.push(diff.path.clone());
    }
    // It may differ from the locations that the agent tells.
    paths.extend(tool.input_path.clone().filter(|path| !paths.contains(path)));
    let outside = paths.iter().filter(|path| is_outside(path)).cloned().collect();
    let shown = tool.parts.iter().filter_map(|part| match part {
        RowPart::Text(text) => Some(text.text.as_str()),
        RowPart::Blob(_) | RowPart::File(_) | RowPart::Unknown => None,
    });
    let text = shown
        .chain(tool.output.iter().map(|output| output.text.as_str()))
        .collect::<Vec<_>>()
        .join("\n");
    let has_other = tool.command.is_some() || !tool.diffs.is_empty();
    let text = Some(text)
        .filter(|text| !text.trim().is_empty())
        .or_else(|| describe_input(tool).filter(|_| !has_other));
    let text = text.map(|text| text[..text.floor_char_boundary(MAX_TOOL_TEXT_BYTES)].to_owned());
    let title = [&tool.title, tool.command.as_ref().unwrap_or(&tool.title)]
        .into_iter()
        .find(|text| !text.is_empty());
    let detailed =
        tool.command.is_some() || !tool.diffs.is_empty() || text.is_some() || !paths.is_empty();
    AskSubject {
        title: title.cloned().unwrap_or_else(|| "Tool call".to_owned()),
        command: tool.command.clone(),
        cwd: tool.cwd.clone(),
        paths,
        diffs: tool.diffs.clone(),
        text,
        outside,
        detailed,
    }
}

/// Returns a tool call's input as lines for a person: all that is known of a call without a
/// command, a diff or text.
fn describe_input(tool: &RowTool) -> Option<String> {
    if let Some(cut) = &tool.input_cut {
        let address = cut.whole.as_deref().unwrap_or_default();
        return Some(format!("[the input has {} bytes; all of it is at {address}]", cut.bytes));
    }
    let input = match tool.input.as_ref()? {
        Value::Object(members) => members,
        Value::Null => return None,
        Value::Array(items) if items.is_empty() => return None,
        Value::String(text) => return Some(text.clone()).filter(|text| !text.trim().is_empty()),
        other @ (Value::Array(_) | Value::Number(_) | Value::Bool(_)) => {
            return Some(other.to_string());
        }
    };
    let line = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) if text.contains('\n') => format!("{name}:\n{text}"),
        Some(text) => format!("{name}: {text}"),
        None => format!("{name}: {value}"),
    };
    let lines: Vec<String> = input.iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns the name of the tool call that an ask is about.
fn name_subject(body: &RowBody, texts: &TextRules) -> Option<String> {
    if let RowBody::Tool(tool) = body { Some(name_tool(tool, texts)) } else { None }
}

/// Returns the subject of a form: its message.
fn form_subject(params: Json<'_>, texts: &TextRules) -> AskSubject {
    let message = params.text_at(&["message"]).ok().flatten().unwrap_or_default();
    let text = texts.filter_start(&message, MAX_MESSAGE_BYTES);
    let title = texts.clean_line(&message, MAX_TITLE_BYTES);
    AskSubject {
        title,
        detailed: !text.is_empty(),
        text: (!text.is_empty()).then_some(text),
        ..AskSubject::default()
    }
}

/// Reads the options of a permission, and counts those that a row has no room for.
fn read_options(params: Json<'_>, texts: &TextRules) -> Result<(Vec<AskOption>, u64), ReadError> {
    let mut found = Vec::new();
    let mut more = 0;
    let Some(options) = params.member("options")? else { return Ok((found, more)) };
    let mut room = MAX_OPTION_IDS_BYTES;
    for option in options.items().filter(|option| option.is_object()) {
        let word = |name| {
            Ok::<_, ReadError>(option.member(name)?.and_then(Json::text).unwrap_or_default())
        };
        let id = option.member("optionId")?.and_then(Json::text_or_number).unwrap_or_default();
        // The id is sent back as it is, so it cannot be cut. A choice that cannot be made is not
        // offered.
        let bytes = json_bytes(&id);
        if found.len() >= MAX_ASK_OPTIONS || bytes > room.min(MAX_OPTION_ID_BYTES) {
            more += 1;
            continue;
        }
        room -= bytes;
        let kind = clean_word(&word("kind")?);
        let name = name_option(&texts.clean_line(&word("name")?, MAX_PATH_BYTES), &kind);
        found.push(AskOption { option_id: id.into_owned(), name, kind });
    }
    Ok((found, more))
}

/// Returns the name of an option: the agent's, or words for its kind if the agent repeats that or
/// gives no name.
fn name_option(name: &str, kind: &str) -> String {
    let words = match kind {
        "allow_once" => "Allow once",
        "allow_always" => "Always allow",
        "reject_once" => "Reject",
        "reject_always" => "Always reject",
        _ => name,
    };
    if name.is_empty() || name == kind { words } else { name }.to_owned()
}

fn read_form(params: Json<'_>, texts: &TextRules) -> AskForm {
    let schema = params
        .member("requestedSchema")
        .ok()
        .flatten()
        .filter(|schema| schema.raw().len() <= MAX_FORM_BYTES);
    let url = params
        .member("url")
        .ok()
        .flatten()
        .and_then(Json::text)
        .map(|url| texts.clean_line(&url, MAX_MESSAGE_BYTES));
    let schema = schema.map(|schema| texts.filter_value(schema));
    AskForm {
        schema: schema.filter(|schema| schema.to_string().len() <= MAX_FORM_BYTES),
        url,
    }
}

/// Returns an open ask in one line; `name` is that of its tool call.
fn summarise_ask(subject: &AskSubject, name: Option<String>, texts: &TextRules) -> String {
    let subject = subject.command.clone().or(name).unwrap_or_else(|| subject.title.clone());
    texts.summarise(&format!("Asks: {subject}"))
}

/// Returns the summary of an open ask with its answer.
fn summarise_answer(summary: &str, ask: &RowAsk, texts: &TextRules) -> String {
    let state = ask.state.as_str().replace('_', " ");
    let answer = ask.answer.as_ref().and_then(|answer| answer.name.clone()).unwrap_or(state);
    // The subject may fill the line; the answer is worth more than its end.
    let subject = join_lines(summary, MAX_ASKED_BYTES);
    texts.summarise(&format!("{subject} ({answer})"))
}

/// Renews the subjects of the open asks about a tool call that has changed.
pub(crate) fn follow_tool(step: &mut FoldStep<'_, impl RowStore>, tool: RowNumber) {
    let open: Vec<RowNumber> = step
        .fold
        .asks
        .values()
        .filter(|ask| ask.tool == Some(tool))
        .map(|ask| ask.row)
        .collect();
    if open.is_empty() {
        return;
    }
    let texts = &step.fold.texts;
    let (subject, name) = match step.rows.row_mut(tool).map(|row| &row.body) {
        Some(body @ RowBody::Tool(tool)) => (subject_of(tool), name_subject(body, texts)),
        Some(_) | None => return,
    };
    let summary = summarise_ask(&subject, name, texts);
    for number in open {
        step.change(number, |row| {
            if let RowBody::Ask(ask) = &mut row.body {
                ask.subject.clone_from(&subject);
                row.summary.clone_from(&summary);
            }
        });
    }
}

/// Settles an ask: its subject stays as the person who answered could see it.
pub(crate) fn resolve_ask(
    step: &mut FoldStep<'_, impl RowStore>,
    ask: AskId,
    outcome: &AskOutcome,
    by: Option<&Sender>,
) {
    let Some(open) = step.fold.asks.remove(&ask.0) else { return };
    let (state, option) = match outcome {
        AskOutcome::Answered { option, .. } => (AskState::Answered, option.as_deref()),
        AskOutcome::Declined { .. } => (AskState::Declined, None),
        AskOutcome::Cancelled => (AskState::Cancelled, None),
        AskOutcome::Withdrawn => (AskState::Withdrawn, None),
        AskOutcome::AgentGone => (AskState::AgentGone, None),
    };
    let at = step.time();
    let after = step.at.0.saturating_sub(open.opened_at);
    let texts = step.fold.texts.clone();
    step.change(open.row, |row| {
        row.open = false;
        if let RowBody::Ask(ask) = &mut row.body {
            let chosen =
                option.and_then(|id| ask.options.iter().find(|option| option.option_id == id));
            let name = chosen.map(|option| option.name.clone());
            let is_answer = matches!(state, AskState::Answered | AskState::Declined);
            ask.answer = is_answer.then(|| AskAnswer {
                option: option
                    .filter(|id| json_bytes(id) <= MAX_OPTION_ID_BYTES)
                    .map(str::to_owned),
                name,
                by: by.map(to_actor),
                at,
                after,
            });
            ask.state = state;
            row.summary = summarise_answer(&row.summary, ask, &texts);
        }
    });
}
