//! Tool calls: their rows, which change wherever they stand.

use wharf_api::{FileChangeCount, RowBody, RowTool, ToolState, TranscriptRow};
use wharf_core::{ToolCall, ToolCallState};
use wharf_json::{Json, ReadError};

use crate::fold::FoldStep;
use crate::limits::{MAX_OPEN_TOOLS, MAX_ROW_BYTES, MAX_TITLE_BYTES, MAX_TURN_FILES, MAX_WORD_BYTES};
use crate::messages::end_run;
use crate::plain_text::{clean_line, join_lines};
use crate::text_filter::filter_text;
use crate::tool_content::{put_input, read_content, read_exit_code, read_locations, read_raw_output, show_output};
use crate::tool_summary::summarise_tool;
use crate::{RowKey, RowNumber, RowStore, asks};

/// Takes a `tool_call`: a new one, or one that the agent tells again.
pub(crate) fn tool_call(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
    known: Option<&ToolCall>,
) -> Result<(), ReadError> {
    let Some(id) = read_id(update)? else { return Ok(()) };
    let turn = step.fold.turn.as_ref().map(|turn| turn.prompt_id.clone());
    // Agents begin to count again: a closed call of an earlier turn is another one.
    let same = find_tool(step, &id)
        .filter(|number| step.rows.row_mut(*number).is_some_and(|row| row.open || row.turn == turn));
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
    step.rows.find(&RowKey::ToolCall { start: step.fold.agent.start, id: id.to_owned() })
}

fn create_tool(step: &mut FoldStep<'_, impl RowStore>, id: &str) -> RowNumber {
    end_run(step);
    let tool = RowTool {
        tool_call_id: clean_line(id, MAX_WORD_BYTES),
        name: None,
        title: String::new(),
        tool_kind: None,
        state: ToolState::Pending,
        input: None,
        input_cut: None,
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
    if let Some(turn) = &mut step.fold.turn {
        turn.tools.count += 1;
    }
    step.rows.set_key(RowKey::ToolCall { start: step.fold.agent.start, id: id.to_owned() }, number);
    number
}

/// Changes the row of a tool call by the members that an update has.
pub(crate) fn update_tool(
    step: &mut FoldStep<'_, impl RowStore>,
    number: RowNumber,
    update: Json<'_>,
    known: Option<&ToolCall>,
) -> Result<(), ReadError> {
    let cwd = step.fold.agent.cwd.clone();
    let Some(mut row) = step.rows.row_mut(number).cloned() else { return Ok(()) };
    let RowBody::Tool(tool) = &mut row.body else { return Ok(()) };
    let before = tool.state.clone();
    let mut whole_texts = Vec::new();
    let word = |name| Ok::<_, ReadError>(update.member(name)?.and_then(Json::text));
    if let Some(title) = word("title")?.filter(|title| !title.trim().is_empty()) {
        tool.title = clean_line(&title, MAX_TITLE_BYTES);
    }
    if let Some(kind) = word("kind")? {
        tool.tool_kind = Some(clean_line(&kind, MAX_WORD_BYTES));
    }
    if let Some(name) = word("name")? {
        tool.name = Some(clean_line(&name, MAX_WORD_BYTES));
    }
    if let Some(status) = word("status")? {
        tool.state = state_of(&status);
    }
    if known.is_some_and(|known| known.state == ToolCallState::Cut) {
        tool.state = ToolState::CutOff;
    }
    if let Some(input) = update.member("rawInput")? {
        whole_texts.extend(put_input(tool, input, &row.id)?.map(|text| ("input".to_owned(), text)));
    }
    if let Some(locations) = update.member("locations")? {
        tool.locations = read_locations(locations, &cwd)?;
    }
    let terminals = update.seek(&["_meta", "wharf", "terminals"])?.is_some();
    let mut output = None;
    if let Some(content) = update.member("content")? {
        // Text that comes before a command runs describes it.
        let is_output = terminals || runs_command(tool) && tool.state != ToolState::Pending;
        let mut found = read_content(content, is_output, &cwd, step.rows)?;
        whole_texts.append(&mut found.whole_texts);
        output = found.put_into(tool, &row.id);
    }
    if let Some((raw, is_piece)) = read_raw_output(update)?.filter(|_| runs_command(tool) && output.is_none()) {
        let before = if is_piece { tool.output.as_ref().map(|output| output.text.clone()) } else { None };
        output = Some(before.unwrap_or_default() + &raw);
    }
    if let Some(text) = output.map(|text| filter_text(&text)).filter(|text| !text.is_empty()) {
        let shown = show_output(&text, &row.id, tool.output.as_ref());
        if shown.cut.is_some() {
            whole_texts.push(("output".to_owned(), text));
        }
        tool.output = Some(shown);
    }
    if let Some(code) = read_exit_code(update)? {
        tool.output.get_or_insert_default().exit_code = Some(code);
    }
    finish_tool(tool, step.time());
    row.open = tool.state.is_open();
    row.summary = summarise_tool(tool, &cwd);
    let (is_open, has_ended) = (tool.state.is_open(), before.is_open() && !tool.state.is_open());
    let (failed, diffs) = (tool.state == ToolState::Failed, tool.diffs.iter().map(FileChangeCount::from).collect());
    fit_row(&mut row);
    row.parent = row.parent.take().or(read_parent(step, update)?);
    let parent = row.parent.clone();
    let summary = row.summary.clone();
    step.change(number, |old| *old = TranscriptRow { rev: old.rev, changed_at: old.changed_at.clone(), ..row });
    for (part, text) in whole_texts {
        step.rows.set_whole_text(number, &part, &text);
    }
    note_open(step, number, is_open);
    if has_ended {
        count_end(step, failed, diffs);
    }
    if let Some(parent) = parent {
        count_child(step, &parent, number, has_ended, failed, &summary);
    }
    asks::follow_tool(step, number);
    Ok(())
}

/// Returns true if the tool call runs a command, so that its text is output.
fn runs_command(tool: &RowTool) -> bool {
    tool.tool_kind.as_deref() == Some("execute") || tool.command.is_some()
}

/// Remembers the open tool calls of the running turn, which may end with it.
fn note_open(step: &mut FoldStep<'_, impl RowStore>, number: RowNumber, is_open: bool) {
    let Some(turn) = &mut step.fold.turn else { return };
    if !is_open {
        turn.open_tools.remove(&number);
    } else if turn.open_tools.len() < MAX_OPEN_TOOLS {
        turn.open_tools.insert(number);
    }
}

/// Ends the open tool calls of a turn that did not end well: the agent says no more of them.
pub(crate) fn close_tools(step: &mut FoldStep<'_, impl RowStore>, state: &ToolState) {
    let open = step.fold.turn.as_mut().map(|turn| std::mem::take(&mut turn.open_tools)).unwrap_or_default();
    let (now, cwd) = (step.time(), step.fold.agent.cwd.clone());
    for number in open {
        step.change(number, |row| {
            if let RowBody::Tool(tool) = &mut row.body
                && tool.state.is_open()
            {
                tool.state = state.clone();
                finish_tool(tool, now.clone());
                row.open = false;
                row.summary = summarise_tool(tool, &cwd);
            }
        });
        asks::follow_tool(step, number);
    }
}

fn state_of(status: &str) -> ToolState {
    match status {
        "in_progress" => ToolState::Running,
        other => ToolState::from(&*clean_line(other, MAX_WORD_BYTES)),
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
    let texts = tool
        .parts
        .iter()
        .filter_map(|part| if let wharf_api::RowPart::Text(text) = part { Some(text.text.as_str()) } else { None });
    let texts = texts.chain(tool.output.iter().map(|output| output.text.as_str()));
    let mut lines =
        texts.flat_map(str::lines).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("```"));
    join_lines(strip_tag(lines.next().unwrap_or("failed")), MAX_TITLE_BYTES)
}

/// Returns the line without the tag that some agents put around an error.
fn strip_tag(line: &str) -> &str {
    let inner = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    match inner {
        Some((tag, inner))
            if tag.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') && !inner.is_empty() =>
        {
            inner.strip_suffix(&*format!("</{tag}>")).unwrap_or(inner)
        }
        Some(_) | None => line,
    }
}

/// Counts a tool call that has ended for the end of its turn.
fn count_end(step: &mut FoldStep<'_, impl RowStore>, failed: bool, diffs: Vec<FileChangeCount>) {
    let Some(turn) = &mut step.fold.turn else { return };
    turn.tools.failed += u64::from(failed);
    if failed {
        return;
    }
    for diff in diffs {
        if let Some(file) = turn.files.iter_mut().find(|file| file.path == diff.path) {
            (file.added, file.removed) = (file.added + diff.added, file.removed + diff.removed);
        } else if turn.files.len() < MAX_TURN_FILES {
            turn.files.push(diff);
        }
    }
}

/// Returns the row of the tool call that this one belongs to, if the agent names one.
fn read_parent(step: &mut FoldStep<'_, impl RowStore>, update: Json<'_>) -> Result<Option<String>, ReadError> {
    for path in [&["_meta", "claudeCode", "parentToolUseId"][..], &["_meta", "parentToolCallId"], &["parentToolCallId"]]
    {
        if let Some(id) = update.seek(path)?.and_then(Json::text)
            && let Some(number) = find_tool(step, &id)
        {
            return Ok(step.rows.row_mut(number).map(|row| row.id.clone()));
        }
    }
    Ok(None)
}

/// Counts a row below its parent.
fn count_child(
    step: &mut FoldStep<'_, impl RowStore>,
    parent: &str,
    child: RowNumber,
    has_ended: bool,
    failed: bool,
    summary: &str,
) {
    let is_new = step.rows.row_mut(child).is_some_and(|row| row.id.starts_with(&step.id.to_string()));
    let Some(number) = step.rows.find(&RowKey::Id(parent.to_owned())) else { return };
    step.change(number, |row| {
        if let RowBody::Tool(tool) = &mut row.body {
            let children = tool.children.get_or_insert_default();
            children.count += u64::from(is_new);
            children.open = (children.open + u64::from(is_new)).saturating_sub(u64::from(has_ended));
            children.failed += u64::from(has_ended && failed);
            summary.clone_into(&mut children.latest);
        }
    });
}

/// Takes a `tool_call_content_chunk` of v2, which adds to the content instead of replacing it.
pub(crate) fn append_content(step: &mut FoldStep<'_, impl RowStore>, update: Json<'_>) -> Result<(), ReadError> {
    let (Some(id), Some(content)) = (read_id(update)?, update.member("content")?) else { return Ok(()) };
    let cwd = step.fold.agent.cwd.clone();
    let number = find_tool(step, &id).unwrap_or_else(|| create_tool(step, &id));
    let found = read_content(content, false, &cwd, step.rows)?;
    step.change(number, |row| {
        if let RowBody::Tool(tool) = &mut row.body {
            found.add_to(tool);
            row.summary = summarise_tool(tool, &cwd);
        }
        fit_row(row);
    });
    asks::follow_tool(step, number);
    Ok(())
}

/// Takes a `subagent_update`: the tool call that started the subagent names its session.
pub(crate) fn subagent_update(step: &mut FoldStep<'_, impl RowStore>, update: Json<'_>) -> Result<(), ReadError> {
    let word = |name| Ok::<_, ReadError>(update.member(name)?.and_then(Json::text).map(|word| word.into_owned()));
    let Some(child) = word("sessionId")?.or(word("childSessionId")?) else { return Ok(()) };
    let id = word("toolCallId")?.unwrap_or_else(|| format!("subagent {child}"));
    let number = find_tool(step, &id).unwrap_or_else(|| create_tool(step, &id));
    let title = word("title")?.or(word("name")?);
    let state = word("status")?.map(|status| state_of(&status));
    let (now, cwd) = (step.time(), step.fold.agent.cwd.clone());
    step.change(number, |row| {
        if let RowBody::Tool(tool) = &mut row.body {
            tool.child_session = Some(clean_line(&child, MAX_WORD_BYTES));
            if let Some(title) = title.filter(|_| tool.title.is_empty()) {
                tool.title = clean_line(&title, MAX_TITLE_BYTES);
            }
            if let Some(state) = state {
                tool.state = state;
            }
            finish_tool(tool, now);
            row.open = tool.state.is_open();
            row.summary = summarise_tool(tool, &cwd);
        }
    });
    Ok(())
}

/// Leaves out what makes a row larger than its limit: first the input, then parts, then lines of diffs, then output. Each can
/// be had whole.
pub(crate) fn fit_row(row: &mut TranscriptRow) {
    for round in 0..4 {
        if row_bytes(row) <= MAX_ROW_BYTES {
            return;
        }
        let id = row.id.clone();
        let RowBody::Tool(tool) = &mut row.body else { return };
        match round {
            0 => tool.input = None,
            1 => tool.parts.truncate(1),
            2 => {
                for (index, diff) in tool.diffs.iter_mut().enumerate() {
                    diff.hunks.clear();
                    let whole = Some(crate::messages::part_address(&id, format!("diff.{index}")));
                    diff.cut.get_or_insert_default().whole = whole;
                }
            }
            _ => tool.output = None,
        }
    }
}

fn row_bytes(row: &TranscriptRow) -> usize {
    serde_json::to_vec(row).map_or(usize::MAX, |json| json.len())
}
