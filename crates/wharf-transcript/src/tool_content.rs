//! The content of a tool call: diffs, output, other parts.

use wharf_api::{RowCut, RowPart, RowTextPart, RowTool, ToolLocation, ToolOutput};
use wharf_json::{Json, ReadError};

use crate::RowStore;
use crate::content::{ContentBlock, read_block, text_part};
use crate::diff::{FileTexts, compute_diff};
use crate::limits::{
    MAX_COMMAND_BYTES, MAX_DIFF_BYTES, MAX_DIFFS, MAX_INPUT_BYTES, MAX_LOCATIONS, MAX_PARTS, MAX_PATH_BYTES,
    MAX_TOOL_TEXT_BYTES, OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES,
};
use crate::paths::show_path;
use crate::plain_text::clean_line;
use crate::redact::redact;
use crate::text_filter::filter_text;

/// The content of one update.
#[derive(Default)]
pub(crate) struct ToolContent {
    parts: Vec<RowPart>,
    diffs: Vec<wharf_api::FileDiff>,
    /// The text of terminals, or of the content of a command.
    output: Option<String>,
    /// The whole texts that are cut in the row, by the name of their part.
    pub(crate) whole_texts: Vec<(String, String)>,
}

/// Reads the content list of an update. `is_output` tells that its text is a command's output.
pub(crate) fn read_content(
    content: Json<'_>,
    is_output: bool,
    cwd: &str,
    rows: &mut impl RowStore,
) -> Result<ToolContent, ReadError> {
    let mut found = ToolContent::default();
    let mut text_room = MAX_TOOL_TEXT_BYTES;
    let one = content.is_object().then_some(content);
    for item in one.into_iter().chain(content.items()).filter(|item| item.is_object()) {
        match item.member("type")?.and_then(Json::text).as_deref() {
            Some("diff") => add_diff(&mut found, item, cwd)?,
            Some("terminal") => {}
            Some("content") | None => {
                let Some(block) = item.member("content")? else { continue };
                match read_block(block, cwd, rows)? {
                    Some(ContentBlock::Text(text)) if is_output => add_output(&mut found, &text.text),
                    Some(ContentBlock::Text(text)) if found.parts.len() < MAX_PARTS => {
                        let text = filter_text(strip_fence(&text.text));
                        let (part, used) = text_part(&text, text_room);
                        text_room -= used;
                        if part.cut.is_some() {
                            found.whole_texts.push((found.parts.len().to_string(), text));
                        }
                        found.parts.push(RowPart::Text(part));
                    }
                    Some(ContentBlock::Part(part)) if found.parts.len() < MAX_PARTS => found.parts.push(part),
                    Some(_) | None => {}
                }
            }
            Some(_) => {}
        }
    }
    Ok(found)
}

/// Adds a block of a command's output. The host's own words for a terminal without output are none.
fn add_output(found: &mut ToolContent, text: &str) {
    let is_placeholder = text == "[no output]" || text.starts_with("[terminal ") && text.ends_with(": no output kept]");
    if is_placeholder {
        return;
    }
    let output = found.output.get_or_insert_default();
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    output.push_str(strip_fence(text));
}

/// Removes the fence of a code block that agents put around a result.
fn strip_fence(text: &str) -> &str {
    let inner = text.trim_end().strip_suffix("```").and_then(|text| text.strip_prefix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        Some((language, inner)) if !language.contains(' ') && !inner.contains("```") => inner,
        Some(_) | None => text,
    }
}

/// Adds a diff. Of several for one path the last one counts.
fn add_diff(found: &mut ToolContent, item: Json<'_>, cwd: &str) -> Result<(), ReadError> {
    let text = |name| Ok::<_, ReadError>(item.member(name)?.and_then(Json::text));
    let path = show_path(cwd, &text("path")?.unwrap_or_default());
    let (old, new) = (text("oldText")?, text("newText")?.unwrap_or_default());
    found.diffs.retain(|diff| diff.path != path);
    if found.diffs.len() >= MAX_DIFFS {
        return Ok(());
    }
    let used: usize =
        found.diffs.iter().flat_map(|diff| &diff.hunks).flat_map(|hunk| &hunk.lines).map(String::len).sum();
    let texts = FileTexts { path, old: old.as_deref(), new: &new };
    let diff = compute_diff(&texts, MAX_DIFF_BYTES.saturating_sub(used));
    if diff.cut.is_some() {
        let whole = format!("--- before\n{}\n--- after\n{}", old.as_deref().unwrap_or_default(), new);
        found.whole_texts.push((format!("diff.{}", found.diffs.len()), filter_text(&whole)));
    }
    found.diffs.push(diff);
    Ok(())
}

impl ToolContent {
    /// Puts the content into the row of its tool call. Diffs stay if there are no new ones: agents show the diff before the edit,
    /// and only a word after it. Returns the output that is to be set.
    pub(crate) fn put_into(self, tool: &mut RowTool, row_id: &str) -> Option<String> {
        tool.parts = self.parts;
        if !self.diffs.is_empty() {
            tool.diffs = self.diffs;
        }
        let address = |name: &str| Some(crate::messages::part_address(row_id, name));
        for (index, part) in tool.parts.iter_mut().enumerate() {
            if let RowPart::Text(text) = part
                && let Some(cut) = &mut text.cut
            {
                cut.whole = address(&index.to_string());
            }
        }
        for (index, diff) in tool.diffs.iter_mut().enumerate() {
            if let Some(cut) = &mut diff.cut {
                cut.whole = address(&format!("diff.{index}"));
            }
        }
        self.output
    }

    /// Adds the content to that of the tool call, as a chunk of v2 does. Text that goes on is one part.
    pub(crate) fn add_to(self, tool: &mut RowTool) {
        for part in self.parts {
            let is_full = tool.parts.len() >= MAX_PARTS;
            match (tool.parts.last_mut(), part) {
                (Some(RowPart::Text(last)), RowPart::Text(next)) => join_texts(last, next),
                (_, part) if !is_full => tool.parts.push(part),
                _ => {}
            }
        }
        tool.diffs.retain(|old| self.diffs.iter().all(|new| new.path != old.path));
        tool.diffs.extend(self.diffs);
        tool.diffs.truncate(MAX_DIFFS);
    }
}

/// Appends a text to another. Beyond the limit of a tool call's text only its bytes are counted.
fn join_texts(last: &mut RowTextPart, next: RowTextPart) {
    let next_bytes = next.cut.map_or(next.text.len() as u64, |cut| cut.bytes);
    let bytes = last.cut.as_ref().map_or(last.text.len() as u64, |cut| cut.bytes) + next_bytes;
    if last.cut.is_none() {
        let room = MAX_TOOL_TEXT_BYTES.saturating_sub(last.text.len());
        last.text.push_str(&next.text[..next.text.floor_char_boundary(room)]);
    }
    if bytes > last.text.len() as u64 {
        last.cut = Some(RowCut { bytes, missing_lines: None, whole: None });
    }
}

/// Shows a command's output: the whole, or its beginning and its end. The text must be ready to be shown.
pub(crate) fn show_output(text: &str, row_id: &str, before: Option<&ToolOutput>) -> ToolOutput {
    let (exit_code, signal) = before.map(|output| (output.exit_code, output.signal.clone())).unwrap_or_default();
    let mut output = ToolOutput {
        bytes: text.len() as u64,
        lines: text.lines().count() as u64,
        exit_code,
        signal,
        ..ToolOutput::default()
    };
    if text.len() <= OUTPUT_HEAD_BYTES + OUTPUT_TAIL_BYTES {
        output.text = text.to_owned();
        return output;
    }
    // The cuts fall between lines where there are some.
    let head = &text[..text.floor_char_boundary(OUTPUT_HEAD_BYTES)];
    let head = head.rfind('\n').map_or(head, |end| &head[..=end]);
    let tail = &text[text.ceil_char_boundary(text.len() - OUTPUT_TAIL_BYTES)..];
    let tail = tail.find('\n').map_or(tail, |start| &tail[start + 1..]);
    let missing = output.lines.saturating_sub((head.lines().count() + tail.lines().count()) as u64);
    output.text = format!("{head}[… {missing} lines …]\n{tail}");
    output.cut = Some(RowCut {
        bytes: output.bytes,
        missing_lines: Some(missing),
        whole: Some(crate::messages::part_address(row_id, "output")),
    });
    output
}

/// Reads the locations of an update.
pub(crate) fn read_locations(locations: Json<'_>, cwd: &str) -> Result<Vec<ToolLocation>, ReadError> {
    let mut found = Vec::new();
    for location in locations.items().filter(|location| location.is_object()).take(MAX_LOCATIONS) {
        let Some(path) = location.member("path")?.and_then(Json::text) else { continue };
        let line = location.member("line")?.and_then(Json::integer).and_then(|line| u64::try_from(line).ok());
        found.push(ToolLocation { path: show_path(cwd, &path), line });
    }
    Ok(found)
}

/// Puts the agent's raw input into the row: as JSON if it is small, and the command and directory that it names.
pub(crate) fn put_input(tool: &mut RowTool, input: Json<'_>, row_id: &str) -> Result<Option<String>, ReadError> {
    let is_file_tool = tool.tool_kind.as_deref() != Some("execute")
        && text_member(input, &["path", "file_path", "filePath", "filepath"])?.is_some();
    // A file tool's member of this name is its verb.
    if let Some(command) = read_command(input)?.filter(|_| !is_file_tool) {
        tool.command = Some(clean_command(&command));
    }
    if let Some(cwd) = text_member(input, &["cwd", "workdir", "working_directory"])? {
        tool.cwd = Some(clean_line(&cwd, MAX_PATH_BYTES));
    }
    let text = redact(input.raw());
    // Redaction may cut into JSON; the input is then shown as the text that it is.
    let value = Json::parse(text.as_bytes()).map_or_else(|_| text.clone().into(), Json::to_value);
    if text.len() <= MAX_INPUT_BYTES {
        (tool.input, tool.input_cut) = (Some(value), None);
        return Ok(None);
    }
    let whole = Some(crate::messages::part_address(row_id, "input"));
    (tool.input, tool.input_cut) = (None, Some(RowCut { bytes: text.len() as u64, missing_lines: None, whole }));
    Ok(Some(text))
}

/// Returns a command as it is shown: its lines stay, since their order matters.
fn clean_command(command: &str) -> String {
    let shown = filter_text(command);
    let end = shown.floor_char_boundary(MAX_COMMAND_BYTES);
    if end < shown.len() { format!("{}…", &shown[..end]) } else { shown }
}

/// Reads the command of a raw input: a line, or a list of arguments.
fn read_command(input: Json<'_>) -> Result<Option<String>, ReadError> {
    if !input.is_object() {
        return Ok(None);
    }
    for name in ["command", "cmd", "argv"] {
        let Some(command) = input.member(name)? else { continue };
        if let Some(line) = command.text() {
            return Ok(Some(line.into_owned()));
        }
        let words: Vec<String> = command.items().filter_map(Json::text).map(|word| word.into_owned()).collect();
        if !words.is_empty() {
            return Ok(Some(words.join(" ")));
        }
    }
    Ok(None)
}

fn text_member(object: Json<'_>, names: &[&str]) -> Result<Option<String>, ReadError> {
    if !object.is_object() {
        return Ok(None);
    }
    for name in names {
        if let Some(text) = object.member(name)?.and_then(Json::text) {
            return Ok(Some(text.into_owned()));
        }
    }
    Ok(None)
}

/// Reads the exit code from the places where agents put it.
pub(crate) fn read_exit_code(update: Json<'_>) -> Result<Option<i64>, ReadError> {
    for path in [
        &["_meta", "terminal_exit", "exit_code"][..],
        &["_meta", "wharf", "exitCode"],
        &["rawOutput", "exit_code"],
        &["rawOutput", "exitCode"],
        &["rawOutput", "metadata", "exit"],
    ] {
        if let Some(code) = update.seek(path)?.and_then(Json::integer).and_then(|code| i64::try_from(code).ok()) {
            return Ok(Some(code));
        }
    }
    Ok(None)
}

/// Reads the output that agents put beside the content: whole, or a piece that is to be appended.
pub(crate) fn read_raw_output(update: Json<'_>) -> Result<Option<(String, bool)>, ReadError> {
    let text = |path: &[&str]| Ok::<_, ReadError>(update.seek(path)?.and_then(Json::text));
    if let Some(piece) = text(&["_meta", "terminal_output_delta", "data"])? {
        return Ok(Some((piece.into_owned(), true)));
    }
    if let Some(whole) = text(&["rawOutput"])? {
        return Ok(Some((whole.into_owned(), false)));
    }
    let (stdout, stderr) = (text(&["rawOutput", "stdout"])?, text(&["rawOutput", "stderr"])?);
    let joined: Vec<&str> =
        [&stdout, &stderr].into_iter().flatten().map(|text| &**text).filter(|text| !text.is_empty()).collect();
    Ok((!joined.is_empty()).then(|| (joined.join("\n"), false)))
}
