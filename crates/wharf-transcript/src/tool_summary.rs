//! Names tool calls for people: the action and the thing that it affects, in one line.

use wharf_api::{RowTool, ToolState};

use crate::limits::MAX_TITLE_BYTES;
use crate::plain_text::join_lines;
use crate::text_rules::TextRules;

/// The bytes of a failure's reason in a summary.
const MAX_REASON_BYTES: usize = 100;

/// Lists the kinds of tool calls whose names include a path. A search or a command has many paths,
/// which say little.
const FILE_KINDS: [&str; 4] = ["edit", "read", "delete", "move"];

/// Returns the tool call in one line: its name, the lines that it changed, and how it ended.
pub(crate) fn summarise_tool(tool: &RowTool, texts: &TextRules) -> String {
    let name = name_tool(tool, texts);
    let (added, removed) = tool
        .diffs
        .iter()
        .fold((0, 0), |(a, r), diff| (a + diff.added, r + diff.removed));
    let has_failed =
        matches!(tool.state, ToolState::Failed | ToolState::Cancelled | ToolState::CutOff);
    let lines = if has_failed || tool.diffs.is_empty() {
        String::new()
    } else {
        format!(" +{added} −{removed}")
    };
    let end = match &tool.state {
        ToolState::Failed => format!(
            " ({})",
            join_lines(tool.error.as_deref().unwrap_or("failed"), MAX_REASON_BYTES)
        ),
        ToolState::Cancelled => " (cancelled)".to_owned(),
        ToolState::CutOff => " (cut off)".to_owned(),
        ToolState::Paused => " (paused)".to_owned(),
        ToolState::Pending | ToolState::Running | ToolState::Completed | ToolState::Other(_) => {
            let code = tool
                .output
                .as_ref()
                .and_then(|output| output.exit_code)
                .filter(|code| *code != 0);
            code.map(|code| format!(" (exit code {code})")).unwrap_or_default()
        }
    };
    texts.summarise(&format!("{name}{lines}{end}"))
}

/// Returns the name of a tool call. Agents title some calls with the bare name of the tool, with a
/// path or not at all; the command or the path is added then.
pub(crate) fn name_tool(tool: &RowTool, texts: &TextRules) -> String {
    let title = shorten_paths(&tool.title, &texts.cwd);
    if let Some(command) = &tool.command {
        return name_command(tool, &title, &join_lines(command, MAX_TITLE_BYTES));
    }
    let path = first_path(tool).filter(|_| tells_path(tool));
    let Some(path) = path else {
        let others = [tool.name.clone(), verb_of(tool)].into_iter().flatten();
        return [title]
            .into_iter()
            .chain(others)
            .find(|text| !text.is_empty())
            .unwrap_or_else(|| "Tool call".to_owned());
    };
    if title.is_empty() || is_path(&title, &path) {
        return verb_of(tool).map_or_else(|| path.clone(), |verb| format!("{verb} {path}"));
    }
    let file = path.rsplit('/').next().unwrap_or(&path);
    match title.contains(file) {
        true => title,
        false if title.contains(' ') => format!("{title}: {path}"),
        false => format!("{title} {path}"),
    }
}

/// Removes the session's directory from the paths of a title, where a path begins.
fn shorten_paths(title: &str, cwd: &str) -> String {
    let directory = format!("{}/", cwd.trim_end_matches('/'));
    if directory == "/" {
        return title.to_owned();
    }
    let mut short = String::with_capacity(title.len());
    let mut rest = title;
    while let Some(at) = rest.find(&directory) {
        let before = &rest[..at];
        let after = &rest[at + directory.len()..];
        short.push_str(before);
        let begins_path = match before.chars().next_back() {
            Some(c) => c.is_whitespace() || "\"'`([{<".contains(c),
            None => short.is_empty(),
        };
        if !begins_path {
            short.push_str(&directory);
        }
        rest = after;
    }
    short + rest
}

fn name_command(tool: &RowTool, title: &str, command: &str) -> String {
    let is_generic = title.is_empty() || tool.tool_kind.as_deref() == Some(title);
    let beginning = title.trim_end_matches(['…', '.']);
    match is_generic || command.starts_with(beginning) {
        true => command.to_owned(),
        false if join_lines(title, MAX_TITLE_BYTES).contains(command) => title.to_owned(),
        false => format!("{title}: {command}"),
    }
}

fn tells_path(tool: &RowTool) -> bool {
    !tool.diffs.is_empty()
        || tool.tool_kind.as_deref().is_some_and(|kind| FILE_KINDS.contains(&kind))
}

/// Returns the first path that the tool call is about, as rows show it.
fn first_path(tool: &RowTool) -> Option<String> {
    let told = tool
        .diffs
        .first()
        .map(|diff| &diff.path)
        .or(tool.locations.first().map(|location| &location.path));
    told.or(tool.input_path.as_ref()).filter(|path| *path != ".").cloned()
}

/// Returns true if the title is the path, or the end or another spelling of it.
fn is_path(title: &str, path: &str) -> bool {
    title == path
        || path.ends_with(&format!("/{title}"))
        || !title.contains(' ') && title.ends_with(&format!("/{path}"))
}

/// Returns the kind as a word at the beginning of a line.
fn verb_of(tool: &RowTool) -> Option<String> {
    let kind = tool.tool_kind.as_deref().filter(|kind| !matches!(*kind, "" | "other"))?;
    let (first, rest) = kind.split_at(kind.ceil_char_boundary(1));
    Some(format!("{}{rest}", first.to_uppercase()))
}
