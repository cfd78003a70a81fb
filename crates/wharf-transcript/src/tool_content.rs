//! The content of a tool call: diffs, input, other parts.

use wharf_api::{FileDiff, RowCut, RowPart, RowTextPart, RowTool, ToolLocation};
use wharf_json::{Json, ReadError};

use crate::RowStore;
use crate::content::{ContentBlock, Overflow, PartList, extend_text, read_block, set_addresses};
use crate::diff::{FileTexts, compute_diff};
use crate::limits::{
    MAX_COMMAND_BYTES, MAX_DIFF_BYTES, MAX_DIFFS, MAX_INPUT_BYTES, MAX_LOCATIONS, MAX_PARTS,
    MAX_PATH_BYTES, MAX_TOOL_TEXT_BYTES,
};
use crate::messages::{list_outdated, part_address};
use crate::paths::{is_outside, show_path};
use crate::text_rules::TextRules;
use crate::text_stream::TextStream;
use crate::tool_streams::WholeText;

/// The members of a tool's input that name its file.
const PATH_MEMBERS: [&str; 4] = ["path", "file_path", "filePath", "filepath"];

/// The content of one update.
#[derive(Default)]
pub(crate) struct ToolContent {
    parts: PartList,
    diffs: Vec<NewDiff>,
    /// The text of terminals, or of the content of a command.
    output: Option<String>,
}

/// A diff, and the texts of its file if the diff does not show them whole.
struct NewDiff {
    diff: FileDiff,
    whole: Option<String>,
}

/// The rest of a content that is in its row.
pub(crate) struct PlacedContent {
    /// The output that is to be set.
    pub(crate) output: Option<String>,
    pub(crate) whole_texts: Vec<(String, String)>,
}

/// Reads the content list of an update. `is_output` tells that its text is a command's output.
pub(crate) fn read_content(
    content: Json<'_>,
    is_output: bool,
    texts: &TextRules,
    rows: &mut impl RowStore,
) -> Result<ToolContent, ReadError> {
    let mut found = ToolContent {
        parts: PartList::new(MAX_TOOL_TEXT_BYTES),
        ..ToolContent::default()
    };
    let one = content.is_object().then_some(content);
    for item in one.into_iter().chain(content.items()).filter(|item| item.is_object()) {
        match item.member("type")?.and_then(Json::text).as_deref() {
            Some("diff") => add_diff(&mut found, item, texts)?,
            Some("terminal") => {}
            Some("content") | None => {
                let block =
                    item.member("content")?.filter(|block| found.parts.has_room_for(*block));
                match block.map(|block| read_block(block, texts, rows)).transpose()?.flatten() {
                    Some(ContentBlock::Text(text)) if is_output => {
                        add_output(&mut found, &text.text)
                    }
                    Some(ContentBlock::Text(text)) => {
                        found.parts.add_text(&texts.filter_text(strip_fence(&text.text)));
                    }
                    Some(part @ ContentBlock::Part(_)) => found.parts.add(part, texts),
                    None => {}
                }
            }
            Some(_) => {}
        }
    }
    Ok(found)
}

/// Adds a block of a command's output. The host's own words for a terminal without output are none.
fn add_output(found: &mut ToolContent, text: &str) {
    let is_placeholder = text == "[no output]"
        || text.starts_with("[terminal ") && text.ends_with(": no output kept]");
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
fn add_diff(found: &mut ToolContent, item: Json<'_>, texts: &TextRules) -> Result<(), ReadError> {
    let text = |name| Ok::<_, ReadError>(item.member(name)?.and_then(Json::text));
    let path = show_path(texts, &text("path")?.unwrap_or_default());
    let old = text("oldText")?;
    let new = text("newText")?.unwrap_or_default();
    found.diffs.retain(|new| new.diff.path != path);
    if found.diffs.len() >= MAX_DIFFS {
        // A path outside of the session's directory must not go unseen.
        let inside = found.diffs.iter().rposition(|new| !is_outside(&new.diff.path));
        let Some(inside) = inside.filter(|_| is_outside(&path)) else { return Ok(()) };
        found.diffs.remove(inside);
    }
    let hunks = found.diffs.iter().flat_map(|new| &new.diff.hunks);
    let used: usize = hunks.flat_map(|hunk| &hunk.lines).map(String::len).sum();
    let file = FileTexts { path, old: old.as_deref(), new: &new };
    let diff = compute_diff(&file, MAX_DIFF_BYTES.saturating_sub(used), texts);
    let whole = diff.cut.is_some().then(|| {
        let old = texts.filter_text(old.as_deref().unwrap_or_default());
        let new = texts.filter_text(&new);
        format!("--- before\n{old}\n--- after\n{new}")
    });
    found.diffs.push(NewDiff { diff, whole });
    Ok(())
}

impl ToolContent {
    /// Puts the content into the row of its tool call. Diffs stay if there are no new ones: agents
    /// show the diff before the edit, and only a word after it.
    pub(crate) fn put_into(self, tool: &mut RowTool, row_id: &str) -> PlacedContent {
        let outdated = list_outdated(&tool.parts, &self.parts.parts);
        tool.parts = self.parts.parts;
        set_addresses(&mut tool.parts, row_id);
        let texts = self.parts.whole_texts.into_iter().chain(outdated);
        let mut whole_texts: Vec<(String, String)> =
            texts.map(|(part, text)| (part.to_string(), text)).collect();
        if !self.diffs.is_empty() {
            tool.diffs.clear();
            whole_texts.append(&mut add_diffs(tool, self.diffs, row_id));
        }
        PlacedContent { output: self.output, whole_texts }
    }
}

/// A piece of content of v2, which adds to the content of its tool call.
#[derive(Default)]
pub(crate) struct AddedContent {
    pieces: Vec<AddedPiece>,
    diffs: ToolContent,
}

/// A piece of content in its order: text that goes on, or a part of its own.
enum AddedPiece {
    Text(String),
    Part(RowPart),
}

/// Reads the content of a chunk. `stream` has the text that the chunks before it left.
pub(crate) fn read_added_content(
    content: Json<'_>,
    stream: &mut Option<TextStream>,
    texts: &TextRules,
    rows: &mut impl RowStore,
) -> Result<AddedContent, ReadError> {
    let mut added = AddedContent::default();
    let one = content.is_object().then_some(content);
    for item in one.into_iter().chain(content.items()).filter(|item| item.is_object()) {
        match item.member("type")?.and_then(Json::text).as_deref() {
            Some("diff") => add_diff(&mut added.diffs, item, texts)?,
            Some("content") | None => {
                let block = item
                    .member("content")?
                    .map(|block| read_block(block, texts, rows))
                    .transpose()?
                    .flatten();
                let mut shown = String::new();
                match block {
                    Some(ContentBlock::Text(chunk)) => {
                        stream
                            .get_or_insert_with(|| TextStream::new(texts))
                            .push(&chunk, &mut shown);
                        added.pieces.push(AddedPiece::Text(shown));
                    }
                    Some(ContentBlock::Part(part)) => {
                        if let Some(mut stream) = stream.take() {
                            stream.finish(&mut shown);
                        }
                        added.pieces.extend([AddedPiece::Text(shown), AddedPiece::Part(part)]);
                    }
                    None => {}
                }
            }
            Some(_) => {}
        }
    }
    Ok(added)
}

impl AddedContent {
    /// Adds the content to that of the tool call. Text that goes on is one part.
    pub(crate) fn add_to(self, tool: &mut RowTool, row_id: &str) -> Vec<WholeText> {
        let mut whole_texts = Vec::new();
        for piece in self.pieces {
            match piece {
                AddedPiece::Text(text) => {
                    whole_texts.extend(append_text(&mut tool.parts, &text, row_id))
                }
                // The last part is kept for text, which is never left out without a word.
                AddedPiece::Part(part) if tool.parts.len() + 1 < MAX_PARTS => tool.parts.push(part),
                AddedPiece::Part(_) => {}
            }
        }
        let diffs = self.diffs.diffs;
        tool.diffs.retain(|old| diffs.iter().all(|new| new.diff.path != old.path));
        let diff_texts = add_diffs(tool, diffs, row_id).into_iter();
        whole_texts.extend(diff_texts.map(|(part, text)| WholeText::Set { part, text }));
        whole_texts
    }
}

/// Appends a text that is ready to be shown to the last part of a tool call, or adds it as a part
/// of its own after other content.
pub(crate) fn append_text(
    parts: &mut Vec<RowPart>,
    piece: &str,
    row_id: &str,
) -> Option<WholeText> {
    if piece.is_empty() {
        return None;
    }
    let texts = parts
        .iter()
        .map(|part| if let RowPart::Text(text) = part { text.text.len() } else { 0 });
    let room = MAX_TOOL_TEXT_BYTES.saturating_sub(texts.sum());
    if !matches!(parts.last(), Some(RowPart::Text(_))) {
        parts.push(RowPart::Text(RowTextPart::default()));
    }
    let index = parts.len() - 1;
    let Some(RowPart::Text(last)) = parts.last_mut() else { return None };
    let change = extend_text(last, piece, room);
    set_addresses(parts, row_id);
    let part = index.to_string();
    match change {
        Overflow::Nothing => None,
        Overflow::Whole(text) => Some(WholeText::Set { part, text }),
        Overflow::More => Some(WholeText::Append { part, text: piece.to_owned() }),
    }
}

/// Adds diffs to those of a tool call. Returns the whole texts of those that are cut, by names that
/// no other diff has.
fn add_diffs(tool: &mut RowTool, diffs: Vec<NewDiff>, row_id: &str) -> Vec<(String, String)> {
    let mut whole_texts = Vec::new();
    for NewDiff { mut diff, whole } in
        diffs.into_iter().take(MAX_DIFFS.saturating_sub(tool.diffs.len()))
    {
        if let (Some(cut), Some(whole)) = (&mut diff.cut, whole) {
            let has_name = |name: &str| {
                let addresses =
                    tool.diffs.iter().filter_map(|diff| diff.cut.as_ref()?.whole.as_ref());
                addresses.into_iter().any(|address| *address == part_address(row_id, name))
            };
            let name = (0..)
                .map(|n| format!("diff.{n}"))
                .find(|name| !has_name(name))
                .unwrap_or_default();
            cut.whole = Some(part_address(row_id, &name));
            whole_texts.push((name, whole));
        }
        tool.diffs.push(diff);
    }
    whole_texts
}

/// Reads the locations of an update.
pub(crate) fn read_locations(
    locations: Json<'_>,
    texts: &TextRules,
) -> Result<Vec<ToolLocation>, ReadError> {
    let mut found: Vec<ToolLocation> = Vec::new();
    let mut inside = 0;
    let mut outside = 0;
    for location in locations.items().filter(|location| location.is_object()) {
        let Some(path) = location.member("path")?.and_then(Json::text) else { continue };
        let path = show_path(texts, &path);
        let count = if is_outside(&path) { &mut outside } else { &mut inside };
        *count += 1;
        if *count <= MAX_LOCATIONS {
            let line = location
                .member("line")?
                .and_then(Json::integer)
                .and_then(|line| u64::try_from(line).ok());
            found.push(ToolLocation { path, line });
        }
    }
    if found.len() > MAX_LOCATIONS {
        // A path outside of the session's directory must not go unseen.
        found.sort_by_key(|location| !is_outside(&location.path));
        found.truncate(MAX_LOCATIONS);
    }
    Ok(found)
}

/// Puts the agent's raw input into the row: as JSON if it is small, and the command and directory
/// that it names.
pub(crate) fn put_input(
    tool: &mut RowTool,
    input: Json<'_>,
    row_id: &str,
    texts: &TextRules,
) -> Result<Option<String>, ReadError> {
    let named = text_member(input, &PATH_MEMBERS)?;
    let is_file_tool = tool.tool_kind.as_deref() != Some("execute") && named.is_some();
    // A file tool's member of this name is its verb.
    if let Some(command) = read_command(input)?.filter(|_| !is_file_tool) {
        tool.command = Some(clean_command(&command, texts));
    }
    tool.input_path = named.map(|path| show_path(texts, &path)).filter(|path| path != ".");
    if let Some(path) = tool.input_path.clone().filter(|_| tool.locations.is_empty()) {
        tool.locations.push(ToolLocation { path, line: None });
    }
    if let Some(cwd) = text_member(input, &["cwd", "workdir", "working_directory"])? {
        tool.cwd = Some(texts.clean_line(&cwd, MAX_PATH_BYTES));
    }
    let value = texts.filter_value(input);
    let text = value.to_string();
    if text.len() <= MAX_INPUT_BYTES {
        (tool.input, tool.input_cut) = (Some(value), None);
        return Ok(None);
    }
    let whole = Some(part_address(row_id, "input"));
    (tool.input, tool.input_cut) = (
        None,
        Some(RowCut {
            bytes: text.len() as u64,
            missing_lines: None,
            tail: None,
            whole,
        }),
    );
    Ok(Some(text))
}

/// Returns a command as it is shown: its lines stay, since their order matters.
fn clean_command(command: &str, texts: &TextRules) -> String {
    let shown = texts.filter_text(command);
    let end = shown.floor_char_boundary(MAX_COMMAND_BYTES);
    if end < shown.len() { format!("{}…", &shown[..end]) } else { shown }
}

/// Reads the command of a tool call's raw input: a line, or a list of arguments.
pub fn read_command(input: Json<'_>) -> Result<Option<String>, ReadError> {
    if !input.is_object() {
        return Ok(None);
    }
    for name in ["command", "cmd", "argv"] {
        let Some(command) = input.member(name)? else { continue };
        if let Some(line) = command.text() {
            return Ok(Some(line.into_owned()));
        }
        let words: Vec<String> =
            command.items().filter_map(Json::text).map(|word| word.into_owned()).collect();
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
