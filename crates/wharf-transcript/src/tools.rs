//! Tool calls: their rows, which change wherever they stand.

use wharf_api::{RowBody, RowTool, ToolState, TranscriptRow};
use wharf_core::{ToolCall, ToolCallState};
use wharf_json::{Json, ReadError};

use crate::fold::FoldStep;
use crate::limits::MAX_TITLE_BYTES;
use crate::messages::end_run;
use crate::plain_text::join_lines;
use crate::text_rules::clean_word;
use crate::tool_content::{
    append_text, put_input, read_added_content, read_content, read_locations,
};
use crate::tool_counts::{ToolFacts, count_change, count_in_parent};
use crate::tool_output::{RawOutput, append_output, read_exit_code, read_raw_output, set_output};
use crate::tool_streams::show_held_texts;
use crate::tool_summary::summarise_tool;
use crate::turns::OpenTurn;
use crate::{RowKey, RowNumber, RowStore, asks};

/// Applies a `tool_call` update, for a new tool call or for a known call that the agent repeats.
pub(crate) fn tool_call(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
    known: Option<&ToolCall>,
) -> Result<(), ReadError> {
    let Some(id) = read_id(update)? else { return Ok(()) };
    let turn = step.fold.newest_turn().and_then(OpenTurn::shown_id);
    // Agents begin to count again: a closed call of an earlier turn is another one.
    let same = find_tool(step, &id).filter(|number| {
        step.rows.row_mut(*number).is_some_and(|row| row.open || row.turn == turn)
    });
    let number = same.unwrap_or_else(|| create_tool(step, &id));
    update_tool(step, number, update, known)
}

/// Takes a `tool_call_update`. One for an unknown call creates its row.
pub(crate) fn tool_call_update(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
    known: Option<&ToolCall>,
) -> Result<(), ReadError> {
    let Some(id) = read_id(update)? else { return Ok(()) };
    let number = find_tool(step, &id).unwrap_or_else(|| create_tool(step, &id));
    update_tool(step, number, update, known)
}

fn read_id(update: Json<'_>) -> Result<Option<String>, ReadError> {
    Ok(update.member("toolCallId")?.and_then(Json::text).map(|id| id.into_owned()))
}

/// Returns the row of a tool call of the present agent.
pub(crate) fn find_tool(step: &mut FoldStep<'_, impl RowStore>, id: &str) -> Option<RowNumber> {
    step.rows
        .find(&RowKey::ToolCall { start: step.fold.agent.start, id: id.to_owned() })
}

fn create_tool(step: &mut FoldStep<'_, impl RowStore>, id: &str) -> RowNumber {
    end_run(step);
    let tool = RowTool {
        tool_call_id: clean_word(id),
        name: None,
        title: String::new(),
        tool_kind: None,
        state: ToolState::Pending,
        input: None,
        input_cut: None,
        input_path: None,
        command: None,
        cwd: None,
        locations: Vec::new(),
        diffs: Vec::new(),
        output: None,
        parts: Vec::new(),
        error: None,
        asks: Vec::new(),
        children: None,
        child_session: None,
        started_at: step.time(),
        ended_at: None,
    };
    let number = step.create(RowBody::Tool(Box::new(tool)), "Tool call".to_owned(), true);
    if let Some(turn) = step.fold.newest_turn_mut() {
        turn.tools.count += 1;
    }
    step.rows
        .set_key(RowKey::ToolCall { start: step.fold.agent.start, id: id.to_owned() }, number);
    number
}

/// Changes the row of a tool call by the members that an update has.
pub(crate) fn update_tool(
    step: &mut FoldStep<'_, impl RowStore>,
    number: RowNumber,
    update: Json<'_>,
    known: Option<&ToolCall>,
) -> Result<(), ReadError> {
    let texts = step.fold.texts.clone();
    let Some(mut row) = step.rows.row_mut(number).cloned() else { return Ok(()) };
    let before = ToolFacts::of_row(&row);
    let RowBody::Tool(tool) = &mut row.body else { return Ok(()) };
    let mut whole_texts = Vec::new();
    let word = |name| Ok::<_, ReadError>(update.member(name)?.and_then(Json::text));
    if let Some(title) = word("title")?.filter(|title| !title.trim().is_empty()) {
        tool.title = texts.clean_line(&title, MAX_TITLE_BYTES);
    }
    if let Some(kind) = word("kind")? {
        tool.tool_kind = Some(clean_word(&kind));
    }
    if let Some(name) = word("name")? {
        tool.name = Some(clean_word(&name));
    }
    let was_open = tool.state.is_open();
    let status = word("status")?;
    if let Some(status) = &status {
        tool.state = state_of(status);
    }
    if known.is_some_and(|known| known.state == ToolCallState::Cut) {
        tool.state = ToolState::CutOff;
    }
    if let Some(input) = update.member("rawInput")? {
        whole_texts.extend(
            put_input(tool, input, &row.id, &texts)?.map(|text| ("input".to_owned(), text)),
        );
    }
    if let Some(locations) = update.member("locations")? {
        tool.locations = read_locations(locations, &texts)?;
    }
    let terminals = update.seek(&["_meta", "wharf", "terminals"])?.is_some();
    let mut output = None;
    let mut has_content = false;
    if let Some(content) = update.member("content")? {
        has_content = true;
        // Text that comes before a command runs describes it.
        let is_output = terminals || runs_command(tool) && tool.state != ToolState::Pending;
        let mut placed =
            read_content(content, is_output, &texts, step.rows)?.put_into(tool, &row.id);
        whole_texts.append(&mut placed.whole_texts);
        output = placed.output;
    }
    let raw = read_raw_output(update)?.filter(|_| runs_command(tool) && output.is_none());
    // A late piece of a tool call that has ended may be the first half of a secret.
    let ends = !tool.state.is_open() && (was_open || status.is_some());
    let news = ToolNews {
        output: output.map(RawOutput::Whole).or(raw),
        has_content,
        ends,
    };
    put_texts(step, number, tool, &row.id, news);
    if let Some(code) = read_exit_code(update)? {
        tool.output.get_or_insert_default().exit_code = Some(code);
    }
    finish_tool(tool, step.time());
    row.open = tool.state.is_open();
    row.summary = summarise_tool(tool, &texts);
    if row.parent.is_none() {
        row.parent = read_parent(step, update)?.filter(|parent| *parent != row.id);
    }
    step.change(number, |old| {
        *old = TranscriptRow { rev: old.rev, changed_at: old.changed_at.clone(), ..row }
    });
    for (part, text) in whole_texts {
        step.rows.set_whole_text(number, &part, &text);
    }
    count_change(step, number, &before);
    asks::follow_tool(step, number);
    Ok(())
}

/// The texts of an update.
struct ToolNews<'a> {
    output: Option<RawOutput<'a>>,
    /// True if the content of the tool call was replaced.
    has_content: bool,
    /// True if the agent says that the tool call has ended.
    ends: bool,
}

/// Takes the texts of an update, and shows those that were held back if the tool call ends.
fn put_texts(
    step: &mut FoldStep<'_, impl RowStore>,
    number: RowNumber,
    tool: &mut RowTool,
    row_id: &str,
    news: ToolNews<'_>,
) {
    let texts = &step.fold.texts;
    let mut streamed = step.fold.tool_texts.take(number);
    if news.has_content {
        streamed.content = None;
    }
    let mut whole_texts = Vec::new();
    let mut piece = String::new();
    let mut content = String::new();
    match news.output {
        Some(RawOutput::Whole(whole)) => {
            whole_texts.extend(set_output(tool, streamed.set_output(&whole, texts), row_id));
        }
        Some(RawOutput::Pieces(chunks)) => {
            chunks
                .iter()
                .for_each(|chunk| piece.push_str(&streamed.add_output(chunk, texts)));
        }
        None => {}
    }
    if news.ends {
        streamed.flush(&mut piece, &mut content);
    }
    whole_texts.extend(append_output(tool, &piece, row_id));
    whole_texts.extend(append_text(&mut tool.parts, &content, row_id));
    step.fold.tool_texts.keep(number, streamed, tool.state.is_open());
    whole_texts.into_iter().for_each(|text| text.store(step.rows, number));
}

/// Returns true if the tool call runs a command, so that its text is output.
fn runs_command(tool: &RowTool) -> bool {
    tool.tool_kind.as_deref() == Some("execute") || tool.command.is_some()
}

/// Ends the open tool calls of a turn that did not end well: the agent says no more of them.
pub(crate) fn close_tools(
    step: &mut FoldStep<'_, impl RowStore>,
    turn: &mut OpenTurn,
    state: &ToolState,
) {
    let now = step.time();
    let texts = step.fold.texts.clone();
    for number in std::mem::take(&mut turn.open_tools) {
        let Some(before) = step.rows.row_mut(number).map(|row| ToolFacts::of_row(row)) else {
            continue;
        };
        if !before.is_open {
            continue;
        }
        show_held_texts(step, number);
        step.change(number, |row| {
            if let RowBody::Tool(tool) = &mut row.body {
                tool.state = state.clone();
                finish_tool(tool, now.clone());
                row.open = false;
                row.summary = summarise_tool(tool, &texts);
            }
        });
        count_in_parent(step, number, &before);
        asks::follow_tool(step, number);
    }
}

fn state_of(status: &str) -> ToolState {
    match status {
        "in_progress" => ToolState::Running,
        other => ToolState::from(&*clean_word(other)),
    }
}

/// Completes the members that depend on the state.
fn finish_tool(tool: &mut RowTool, now: String) {
    if let Some(output) = &mut tool.output {
        output.live = tool.state.is_open();
    }
    if tool.state.is_open() {
        tool.ended_at = None;
        return;
    }
    tool.ended_at.get_or_insert(now);
    tool.error = (tool.state == ToolState::Failed).then(|| failure_line(tool));
}

/// Returns the first line that tells why a tool call failed.
fn failure_line(tool: &RowTool) -> String {
    let code = tool.output.as_ref().and_then(|output| output.exit_code);
    if let Some(code) = code {
        return format!("exit code {code}");
    }
    let texts = tool.parts.iter().filter_map(|part| {
        if let wharf_api::RowPart::Text(text) = part { Some(text.text.as_str()) } else { None }
    });
    let texts = texts.chain(tool.output.iter().map(|output| output.text.as_str()));
    let mut lines = texts
        .flat_map(str::lines)
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("```"));
    join_lines(strip_tag(lines.next().unwrap_or("failed")), MAX_TITLE_BYTES)
}

/// Returns the line without the tag that some agents put around an error.
fn strip_tag(line: &str) -> &str {
    let inner = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    match inner {
        Some((tag, inner))
            if tag.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
                && !inner.is_empty() =>
        {
            inner.strip_suffix(&*format!("</{tag}>")).unwrap_or(inner)
        }
        Some(_) | None => line,
    }
}

/// Returns the row of the tool call that this one belongs to, if the agent names one.
fn read_parent(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
) -> Result<Option<String>, ReadError> {
    for path in [
        &["_meta", "claudeCode", "parentToolUseId"][..],
        &["_meta", "parentToolCallId"],
        &["parentToolCallId"],
    ] {
        if let Some(id) = update.seek(path)?.and_then(Json::text)
            && let Some(number) = find_tool(step, &id)
        {
            return Ok(step.rows.row_mut(number).map(|row| row.id.clone()));
        }
    }
    Ok(None)
}

/// Takes a `tool_call_content_chunk` of v2, which adds to the content instead of replacing it.
pub(crate) fn append_content(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
) -> Result<(), ReadError> {
    let (Some(id), Some(content)) = (read_id(update)?, update.member("content")?) else {
        return Ok(());
    };
    let texts = step.fold.texts.clone();
    let number = find_tool(step, &id).unwrap_or_else(|| create_tool(step, &id));
    let mut streamed = step.fold.tool_texts.take(number);
    let added = read_added_content(content, &mut streamed.content, &texts, step.rows);
    step.fold.tool_texts.keep(number, streamed, true);
    let added = added?;
    let before = step.rows.row_mut(number).map(|row| ToolFacts::of_row(row)).unwrap_or_default();
    let mut whole_texts = Vec::new();
    step.change(number, |row| {
        if let RowBody::Tool(tool) = &mut row.body {
            whole_texts = added.add_to(tool, &row.id);
            row.summary = summarise_tool(tool, &texts);
        }
    });
    whole_texts.into_iter().for_each(|text| text.store(step.rows, number));
    count_change(step, number, &before);
    asks::follow_tool(step, number);
    Ok(())
}

/// Takes a `subagent_update`: the tool call that started the subagent names its session.
pub(crate) fn subagent_update(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
) -> Result<(), ReadError> {
    let word = |name| {
        Ok::<_, ReadError>(update.member(name)?.and_then(Json::text).map(|word| word.into_owned()))
    };
    let Some(child) = word("sessionId")?.or(word("childSessionId")?) else { return Ok(()) };
    let id = word("toolCallId")?.unwrap_or_else(|| format!("subagent {child}"));
    let number = find_tool(step, &id).unwrap_or_else(|| create_tool(step, &id));
    let title = word("title")?.or(word("name")?);
    let state = word("status")?.map(|status| state_of(&status));
    let now = step.time();
    let texts = step.fold.texts.clone();
    let before = step.rows.row_mut(number).map(|row| ToolFacts::of_row(row)).unwrap_or_default();
    step.change(number, |row| {
        if let RowBody::Tool(tool) = &mut row.body {
            tool.child_session = Some(clean_word(&child));
            if let Some(title) = title.filter(|_| tool.title.is_empty()) {
                tool.title = texts.clean_line(&title, MAX_TITLE_BYTES);
            }
            if let Some(state) = state {
                tool.state = state;
            }
            finish_tool(tool, now);
            row.open = tool.state.is_open();
            row.summary = summarise_tool(tool, &texts);
        }
    });
    if step.rows.row_mut(number).is_some_and(|row| !row.open) {
        show_held_texts(step, number);
    }
    count_change(step, number, &before);
    Ok(())
}
