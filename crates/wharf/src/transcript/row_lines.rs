//! One row of a transcript as lines. Everything that agents and clients wrote is shown without
//! control characters.

use wharf_api::{
    NoticeLevel, RowActor, RowBody, RowNotice, RowPart, RowPlan, RowPlanEntry, RowPrompt, RowTool,
    ToolState, TranscriptRow,
};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{format_ago, format_size, to_printable, to_printable_lines};

use super::ask_lines::{ask_choices, ask_subject, describe_answer};
use super::diff_lines::{diff_lines, last_lines};
use super::markdown::MarkdownStyler;
use super::turn_end_lines::turn_end_lines;
use super::word_wrap::wrap_words;
use crate::format::times::now_millis;

/// The most lines of a tool call's diffs.
const MAX_DIFF_LINES: usize = 40;
/// The most lines of the output of a tool call that failed.
const MAX_OUTPUT_LINES: usize = 10;

/// How rows are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLook {
    pub(crate) screen: Screen,
    /// The time of each row stands before its first line.
    pub(crate) times: bool,
}

/// Returns the lines of a row. A row that is not for people (a notice of level `debug`, an empty
/// thought) has none.
pub(crate) fn render_row(row: &TranscriptRow, look: RowLook) -> Vec<String> {
    let screen = look.screen;
    let mut lines = match &row.body {
        RowBody::Prompt(prompt) => prompt_lines(prompt, &row.at, screen),
        RowBody::Message(text) => markdown_lines(&parts_text(&text.parts), screen),
        RowBody::Thought(text) => thought_lines(&parts_text(&text.parts), screen),
        RowBody::Tool(tool) => tool_lines(tool, &row.summary, screen),
        RowBody::Plan(plan) => plan_lines(plan, screen),
        RowBody::Ask(ask) if row.open => {
            let options =
                ask.options.iter().map(|option| (option.name.as_str(), option.kind.as_str()));
            ask_subject(&ask.subject, screen)
                .into_iter()
                .chain(ask_choices(options))
                .collect()
        }
        RowBody::Ask(ask) => {
            let mark = screen.paint(TextStyle::Wants, "?");
            let title = to_printable(&ask.subject.title);
            vec![format!("{mark} {title} → {}", describe_answer(ask))]
        }
        RowBody::Notice(notice) => notice_line(notice, screen).into_iter().collect(),
        RowBody::TurnEnd(end) => turn_end_lines(end, screen),
        RowBody::Unknown => vec![to_printable(&row.summary)],
    };
    if look.times
        && let Some(first) = lines.first_mut()
    {
        *first = format!("{} {first}", screen.paint(TextStyle::Faint, &to_printable(&row.at)));
    }
    lines
}

fn prompt_lines(prompt: &RowPrompt, at: &str, screen: Screen) -> Vec<String> {
    let when = if screen.terminal { format_ago(at, now_millis()) } else { at.to_owned() };
    let again = if prompt.again { " · again" } else { "" };
    let head = format!("{} · {}{again}", actor_name(&prompt.by), to_printable(&when));
    let text = to_printable_lines(parts_text(&prompt.parts).trim_end());
    let lines = text.lines().map(|line| screen.paint(TextStyle::Strong, &format!("> {line}")));
    std::iter::once(screen.paint(TextStyle::Faint, &head)).chain(lines).collect()
}

/// Returns words for an actor: the session whose agent acts, else the actor's name, else only
/// whether it is an agent or a client.
pub(super) fn actor_name(actor: &RowActor) -> String {
    match (&actor.name, &actor.parent_session, actor.agent) {
        (_, Some(session), _) => {
            format!("the agent of {}", to_printable(crate::session_ref::short_id(session)))
        }
        (Some(name), None, _) => to_printable(name),
        (None, None, true) => "the agent".to_owned(),
        (None, None, false) => "a client".to_owned(),
    }
}

/// Returns the text of the parts; other content is named.
pub(super) fn parts_text(parts: &[RowPart]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            RowPart::Text(part) => {
                text.push_str(&part.text);
                if let Some(cut) = &part.cut {
                    text.push_str(&format!("\n[… {} in all]", format_size(cut.bytes)));
                    text.extend(cut.tail.as_deref().map(|tail| format!("\n{tail}")));
                }
            }
            RowPart::Blob(blob) => {
                let name = blob.name.as_deref().unwrap_or(&blob.media);
                text.push_str(&format!("[{name}, {}, {}]", blob.mime, format_size(blob.bytes)));
            }
            RowPart::File(file) => {
                text.push_str(&format!("[{}]", file.name.as_deref().unwrap_or(&file.uri)))
            }
            RowPart::Unknown => {}
        }
    }
    text
}

fn markdown_lines(text: &str, screen: Screen) -> Vec<String> {
    let mut styler = MarkdownStyler::new(screen);
    let mut styled = styler.feed(&to_printable_lines(text.trim_end()));
    styled.push_str(&styler.finish());
    wrap_words(&styled, screen).lines().map(str::to_owned).collect()
}

fn thought_lines(text: &str, screen: Screen) -> Vec<String> {
    let text = wrap_words(&format!("[thought] {}", to_printable_lines(text.trim())), screen);
    text.lines().map(|line| screen.paint(TextStyle::Faint, line)).collect()
}

/// Returns a tool call: its name and end, its diffs, and the end of its output if it failed.
fn tool_lines(tool: &RowTool, summary: &str, screen: Screen) -> Vec<String> {
    let code = tool.output.as_ref().and_then(|output| output.exit_code).unwrap_or_default();
    let failed = tool.state == ToolState::Failed || code != 0;
    let (mark, style) = match &tool.state {
        _ if failed => ("✗", TextStyle::Bad),
        ToolState::Completed => ("●", TextStyle::Good),
        ToolState::Cancelled | ToolState::CutOff => ("–", TextStyle::Faint),
        ToolState::Pending
        | ToolState::Running
        | ToolState::Paused
        | ToolState::Failed
        | ToolState::Other(_) => ("○", TextStyle::Busy),
    };
    let mut lines = vec![format!("{} {}", screen.paint(style, mark), to_printable(summary))];
    lines.extend(diff_lines(&tool.diffs, screen, MAX_DIFF_LINES));
    if failed {
        let output = tool
            .output
            .as_ref()
            .map(|output| output.text.clone())
            .filter(|text| !text.trim().is_empty());
        let said = output.unwrap_or_else(|| parts_text(&tool.parts));
        lines.extend(last_lines(&said, MAX_OUTPUT_LINES, screen));
    }
    lines
}

fn plan_lines(plan: &RowPlan, screen: Screen) -> Vec<String> {
    let head = screen.paint(TextStyle::Strong, &format!("Plan {}/{}", plan.done, plan.total));
    std::iter::once(head)
        .chain(plan.entries.iter().map(|entry| plan_entry(entry, screen)))
        .collect()
}

/// Returns one step of a plan with its state.
pub(super) fn plan_entry(entry: &RowPlanEntry, screen: Screen) -> String {
    let (mark, style) = match entry.status.as_str() {
        "completed" => ("✓", TextStyle::Faint),
        "in_progress" => ("▸", TextStyle::Busy),
        _ => ("·", TextStyle::Plain),
    };
    screen.paint(style, &format!("  {mark} {}", to_printable(&entry.text)))
}

fn notice_line(notice: &RowNotice, screen: Screen) -> Option<String> {
    let style = match notice.level {
        NoticeLevel::Debug => return None,
        NoticeLevel::Warning => TextStyle::Wants,
        NoticeLevel::Error => TextStyle::Bad,
        NoticeLevel::Info | NoticeLevel::Other(_) => TextStyle::Faint,
    };
    let by = notice
        .by
        .as_ref()
        .map(|by| format!(" ({})", actor_name(by)))
        .unwrap_or_default();
    Some(screen.paint(style, &format!("-- {}{by}", to_printable(&notice.text))))
}

/// Returns a row of this kind with these members, for tests.
#[cfg(test)]
pub(crate) fn test_row(
    kind: &str,
    open: bool,
    summary: &str,
    members: serde_json::Value,
) -> TranscriptRow {
    let at = "2026-11-17T19:24:20.000Z";
    let mut whole = serde_json::json!({ "id": "1-2", "rev": 3, "at": at, "changedAt": at, "turn": "prm_1",
        "parent": null, "open": open, "summary": summary, "kind": kind });
    whole.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{test_row as row, *};

    fn plain(row: &TranscriptRow) -> Vec<String> {
        render_row(row, RowLook { screen: Screen::PIPE, times: false })
    }

    fn text(text: &str) -> Value {
        json!({ "parts": [{ "type": "text", "text": text }] })
    }

    #[test]
    fn prompt_has_sender_and_time() {
        let mut members = text("fix\nthe\u{1b}[2J header\n");
        members["by"] = json!({ "name": "zed" });
        members["acceptedAt"] = Value::Null;
        let told = plain(&row("prompt", false, "fix", members));
        assert_eq!(told, ["zed · 2026-11-17T19:24:20.000Z", "> fix", "> the header"]);
    }

    #[test]
    fn texts_are_plain_in_a_pipe_and_the_time_stands_first() {
        assert_eq!(plain(&row("message", false, "", text("# a\n**b**\n"))), ["# a", "**b**"]);
        assert_eq!(plain(&row("thought", false, "", text("why\nnot"))), ["[thought] why", "not"]);
        let timed = render_row(
            &row("message", false, "", text("a")),
            RowLook { screen: Screen::PIPE, times: true },
        );
        assert_eq!(timed, ["2026-11-17T19:24:20.000Z a"]);
    }

    #[test]
    fn failed_tool_call_shows_the_end_of_its_output_and_a_good_one_only_its_diff() {
        let mut tool = json!({ "toolCallId": "t", "title": "x", "state": "completed", "startedAt": "", "endedAt": null,
            "output": { "text": "a\nb\n", "bytes": 4, "lines": 2, "exitCode": 0, "signal": null } });
        assert_eq!(plain(&row("tool", false, "cargo test", tool.clone())), ["● cargo test"]);
        tool["output"]["exitCode"] = json!(101);
        let summary = "cargo test (exit code 101)";
        assert_eq!(
            plain(&row("tool", false, summary, tool.clone())),
            ["✗ cargo test (exit code 101)", "  | a", "  | b"]
        );
        tool["state"] = json!("running");
        tool["output"] = Value::Null;
        assert_eq!(plain(&row("tool", true, "cargo test", tool)), ["○ cargo test"]);
    }

    #[test]
    fn plan_shows_the_state_of_each_step() {
        let plan = json!({ "done": 1, "total": 3, "entries": [
            { "text": "look", "status": "completed" }, { "text": "do", "status": "in_progress" },
            { "text": "test", "status": "pending" }] });
        assert_eq!(
            plain(&row("plan", true, "", plan)),
            ["Plan 1/3", "  ✓ look", "  ▸ do", "  · test"]
        );
    }

    #[test]
    fn open_ask_shows_its_subject_and_answers_and_an_answered_one_its_answer() {
        let option = |id: &str, name: &str| json!({ "optionId": id, "name": name, "kind": id });
        let mut ask = json!({ "askId": 7, "ask": "permission", "state": "open", "tool": null, "answer": null,
            "options": [option("allow_once", "Yes"), option("allow_always", "Always"), option("reject_once", "No")],
            "subject": { "title": "Run it", "command": "rm -rf build\necho", "cwd": "/w", "paths": ["a", "/etc/x"],
                "diffs": [], "text": null, "outside": ["/etc/x"], "detailed": true } });
        let told = plain(&row("ask", true, "Run it", ask.clone()));
        assert_eq!(
            told,
            [
                "? Run it",
                "  $ rm -rf build",
                "    echo",
                "  in /w",
                "  a",
                "  OUTSIDE the session's directory: /etc/x",
                "  1) Yes (y)",
                "  2) Always (always)",
                "  3) No (n)"
            ]
        );
        ask["subject"] = json!({ "title": "May I?", "command": null, "cwd": null, "paths": [], "diffs": [],
            "text": null, "outside": [], "detailed": false });
        assert_eq!(
            plain(&row("ask", true, "May I?", ask.clone()))[..2],
            ["? May I?", "  The agent sent no details."]
        );
        ask["state"] = json!("answered");
        ask["answer"] = json!({ "option": "allow_once", "name": "Yes", "by": { "name": "phone" }, "at": "", "after": 4200 });
        assert_eq!(
            plain(&row("ask", false, "May I?", ask)),
            ["? May I? → Yes (phone, after 4.2s)"]
        );
    }

    #[test]
    fn debug_notices_are_left_out_and_unknown_rows_show_their_summary() {
        let notice = |level: &str| json!({ "what": "mode", "level": level, "text": "mode: a → b" });
        assert_eq!(plain(&row("notice", false, "", notice("debug"))), Vec::<String>::new());
        assert_eq!(plain(&row("notice", false, "", notice("info"))), ["-- mode: a → b"]);
        assert_eq!(
            plain(&row("hologram", false, "a \u{1b}[2Jnew thing", json!({}))),
            ["a new thing"]
        );
    }
}
