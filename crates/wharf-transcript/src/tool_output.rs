//! The output of a tool call's command: whole, or its beginning and its end.

use wharf_api::{RowCut, RowTool, ToolOutput};
use wharf_json::{Json, ReadError, TextChunk};

use crate::limits::{OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES};
use crate::messages::part_address;
use crate::tool_streams::WholeText;

/// The end of an output in a row that has no room for more.
const SHORT_TAIL_BYTES: usize = 1024;
/// The part that holds the whole output.
const OUTPUT_PART: &str = "output";

/// Output that an agent puts beside the content.
pub(crate) enum RawOutput<'a> {
    Whole(String),
    /// They are to be appended.
    Pieces(Vec<TextChunk<'a>>),
}

/// Reads the output that agents put beside the content.
pub(crate) fn read_raw_output(update: Json<'_>) -> Result<Option<RawOutput<'_>>, ReadError> {
    let text = |path: &[&str]| Ok::<_, ReadError>(update.seek(path)?.and_then(Json::text));
    if let Some(piece) = update
        .seek(&["_meta", "terminal_output_delta", "data"])?
        .and_then(Json::text_chunk)
    {
        return Ok(Some(RawOutput::Pieces(vec![piece])));
    }
    // goose tells the output of its own shell so, while a command runs.
    if text(&["_meta", "toolNotification", "type"])?.as_deref() == Some("live_output") {
        let chunks = update.seek(&["_meta", "toolNotification", "params", "chunks"])?;
        let pieces = chunks.into_iter().flat_map(Json::items).filter(|chunk| chunk.is_object());
        let pieces = pieces.map(|chunk| Ok(chunk.member("output")?.and_then(Json::text_chunk)));
        return Ok(Some(RawOutput::Pieces(
            pieces.filter_map(Result::transpose).collect::<Result<_, ReadError>>()?,
        )));
    }
    if let Some(whole) = text(&["rawOutput"])? {
        return Ok(Some(RawOutput::Whole(whole.into_owned())));
    }
    let stdout = text(&["rawOutput", "stdout"])?;
    let stderr = text(&["rawOutput", "stderr"])?;
    let joined: Vec<&str> = [&stdout, &stderr]
        .into_iter()
        .flatten()
        .map(|text| &**text)
        .filter(|text| !text.is_empty())
        .collect();
    Ok((!joined.is_empty()).then(|| RawOutput::Whole(joined.join("\n"))))
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
        if let Some(code) = update
            .seek(path)?
            .and_then(Json::integer)
            .and_then(|code| i64::try_from(code).ok())
        {
            return Ok(Some(code));
        }
    }
    Ok(None)
}

/// Replaces the output of a tool call by a text that is ready to be shown. Without text the output
/// stays.
pub(crate) fn set_output(tool: &mut RowTool, text: String, row_id: &str) -> Option<WholeText> {
    if text.is_empty() {
        return None;
    }
    let was_cut = tool.output.as_ref().is_some_and(|output| output.cut.is_some());
    let shown = show_output(&text, row_id, tool.output.as_ref());
    let is_cut = shown.cut.is_some();
    tool.output = Some(shown);
    (is_cut || was_cut).then(|| WholeText::Set { part: OUTPUT_PART.to_owned(), text })
}

/// Appends a text that is ready to be shown to the output of a tool call. The row is the same as if
/// all of the output had come at once.
pub(crate) fn append_output(tool: &mut RowTool, piece: &str, row_id: &str) -> Option<WholeText> {
    if piece.is_empty() {
        return None;
    }
    let part = OUTPUT_PART.to_owned();
    let output = tool.output.get_or_insert_default();
    let Some(missing) = output.cut.as_ref().map(|cut| cut.missing_lines.unwrap_or_default()) else {
        let text = std::mem::take(&mut output.text) + piece;
        let shown = show_output(&text, row_id, Some(output));
        *output = shown;
        return output.cut.is_some().then_some(WholeText::Set { part, text });
    };
    let has_open_line = !output.text.ends_with('\n');
    let breaks = piece.bytes().filter(|byte| *byte == b'\n').count() as u64;
    output.lines =
        output.lines - u64::from(has_open_line) + breaks + u64::from(!piece.ends_with('\n'));
    output.bytes += piece.len() as u64;
    let (head, tail) = split_at_gap(&output.text, missing);
    let tail = format!("{tail}{piece}");
    // A shorter tail begins where it began: with the first line that the row has room for.
    let tail = if tail.len() < OUTPUT_TAIL_BYTES { &tail } else { take_tail(&tail) };
    let head = head.to_owned();
    show_gap(output, &head, tail, row_id);
    Some(WholeText::Append { part, text: piece.to_owned() })
}

/// Shows a command's output: the whole, or its beginning and its end. The text must be ready to be
/// shown.
fn show_output(text: &str, row_id: &str, before: Option<&ToolOutput>) -> ToolOutput {
    let (exit_code, signal) = before
        .map(|output| (output.exit_code, output.signal.clone()))
        .unwrap_or_default();
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
    show_gap(&mut output, head, take_tail(text), row_id);
    output
}

/// Shows only the last lines of an output, in a row that has no room for more. Returns the whole
/// text if it was in the row.
pub(crate) fn shrink_output(output: &mut ToolOutput, row_id: &str) -> Option<(String, String)> {
    let text = std::mem::take(&mut output.text);
    let missing = output.cut.as_ref().map(|cut| cut.missing_lines.unwrap_or_default());
    let shown = missing.map_or(&*text, |missing| split_at_gap(&text, missing).1);
    show_gap(output, "", last_lines(shown, SHORT_TAIL_BYTES), row_id);
    missing.is_none().then(|| (OUTPUT_PART.to_owned(), text))
}

fn take_tail(text: &str) -> &str {
    last_lines(text, OUTPUT_TAIL_BYTES)
}

/// Returns the last lines of a text, at most `longest` bytes.
fn last_lines(text: &str, longest: usize) -> &str {
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(longest))..];
    tail.find('\n').map_or(tail, |start| &tail[start + 1..])
}

/// Shows the beginning and the end of an output whose bytes and lines are counted.
fn show_gap(output: &mut ToolOutput, head: &str, tail: &str, row_id: &str) {
    let missing = output
        .lines
        .saturating_sub((head.lines().count() + tail.lines().count()) as u64);
    output.text = format!("{head}{}{tail}", gap_line(missing));
    output.cut = Some(RowCut {
        bytes: output.bytes,
        missing_lines: Some(missing),
        tail: None,
        whole: Some(part_address(row_id, OUTPUT_PART)),
    });
}

fn gap_line(missing: u64) -> String {
    format!("[… {missing} lines …]\n")
}

/// Returns the beginning and the end of an output that is shown with a gap.
fn split_at_gap(text: &str, missing: u64) -> (&str, &str) {
    let gap = gap_line(missing);
    // The output itself may contain such a line. The gap is the last such line that can stand after
    // the beginning.
    let end = text.floor_char_boundary(OUTPUT_HEAD_BYTES + gap.len());
    text[..end]
        .rfind(&gap)
        .map_or(("", text), |at| (&text[..at], &text[at + gap.len()..]))
}
