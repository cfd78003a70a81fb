//! The export for a browser: one file, no script, nothing loaded. All text of agents is escaped.

use wharf_api::{
    FileDiff, InvisibleFinder, NoticeLevel, RowBody, RowTool, ToolState, TranscriptRow,
    TurnOutcome, name_character,
};

use super::markdown::diff_text;
use super::{
    ExportHead, actor_name, command_beside, describe_answer, describe_end, parts_text, show_time,
};

const STYLE: &str = ":root{color-scheme:light dark;--fg:#1c1c1c;--bg:#fff;--soft:#666;--box:#f4f4f4;--line:#ddd;--mark:#2a6df4;\
--add:#116329;--addbg:#e6f6ea;--del:#a40e26;--delbg:#ffebe9;--bad:#b3261e;--ask:#8a5a00}\
@media(prefers-color-scheme:dark){:root{--fg:#e6e6e6;--bg:#161616;--soft:#9a9a9a;--box:#222;--line:#3a3a3a;--mark:#6ea0ff;\
--add:#7ee2a0;--addbg:#14301d;--del:#ff9a9a;--delbg:#3a1a1c;--bad:#ff8a80;--ask:#e8b45a}}\
body{font:16px/1.5 system-ui,sans-serif;margin:0;color:var(--fg);background:var(--bg)}\
main{max-width:52rem;margin:0 auto;padding:1rem}header{border-bottom:1px solid var(--line);margin-bottom:1rem}\
h1{font-size:1.5rem;margin:.5rem 0;overflow-wrap:anywhere}article{margin:.8rem 0}\
pre{font:.85rem/1.45 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;background:var(--box);padding:.6rem;\
border-radius:6px;margin:.4rem 0}pre span{display:block;margin:0 -.6rem;padding:0 .6rem}\
.add{color:var(--add);background:var(--addbg)}.del{color:var(--del);background:var(--delbg)}.hunk{color:var(--soft)}\
summary{cursor:pointer;overflow-wrap:anywhere}.tool summary,.tool .line{font:.9rem/1.5 ui-monospace,monospace}\
.prompt{border-left:4px solid var(--mark);padding:.1rem 0 .1rem .8rem;margin-top:1.6rem}\
.text{white-space:pre-wrap;overflow-wrap:anywhere}.meta{color:var(--soft);font-size:.85rem;margin:0 0 .3rem}\
.thought,.notice,.turn_end{color:var(--soft)}.turn_end,.notice{font-size:.9rem}.ask b{color:var(--ask)}\
.child{margin-left:1.6rem}.bad,.bad summary{color:var(--bad)}.plan ul{margin:.2rem 0;padding-left:1.4rem}\
.turn_end{border-bottom:1px solid var(--line);padding-bottom:.8rem}";

pub(super) fn begin(head: &ExportHead) -> String {
    let title = escape(if head.title.is_empty() { &head.session } else { &head.title });
    let about = escape(&format!(
        "{} in {}, started {}",
        head.agent,
        head.directory,
        show_time(&head.started_at)
    ));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body><main>\
         <header><h1>{title}</h1><p class=\"meta\">{about}</p></header>\n"
    )
}

pub(super) fn row(row: &TranscriptRow) -> String {
    let inner = match &row.body {
        RowBody::Prompt(prompt) => {
            let again = if prompt.again { " (again)" } else { "" };
            let by = format!("{}{again} · {}", actor_name(&prompt.by), show_time(&row.at));
            format!(
                "<p class=\"meta\">{}</p>{}",
                escape(&by),
                text_block(&parts_text(&prompt.parts))
            )
        }
        RowBody::Message(text) => text_block(&parts_text(&text.parts)),
        RowBody::Thought(text) => details("Thought", &text_block(&parts_text(&text.parts))),
        RowBody::Tool(tool) => details(&row.summary, &tool_details(tool, &row.summary)),
        RowBody::Plan(plan) => {
            let mark = |status: &str| if status == "completed" { '☑' } else { '☐' };
            let entries = plan
                .entries
                .iter()
                .map(|entry| format!("{} {}\n", mark(&entry.status), entry.text));
            format!("<b>{}</b>{}", escape(&row.summary), text_block(&entries.collect::<String>()))
        }
        RowBody::Ask(ask) => {
            let detail = ask.subject.text.as_deref().filter(|_| ask.tool.is_none());
            let detail = detail
                .filter(|text| !row.summary.contains(text.trim()))
                .map(text_block)
                .unwrap_or_default();
            format!("<b>{}</b> {}{detail}", escape(&row.summary), escape(&describe_answer(ask)))
        }
        RowBody::Notice(_) | RowBody::Unknown => escape(&row.summary),
        RowBody::TurnEnd(end) => {
            let more = describe_end(end);
            let more =
                if more.is_empty() { String::new() } else { format!(" · {}", escape(&more)) };
            let stderr = end.stderr.as_deref().map(pre).unwrap_or_default();
            format!("{}{more}{stderr}", escape(&row.summary))
        }
    };
    format!("<article class=\"{}\" id=\"r{}\">{inner}</article>\n", class_of(row), escape(&row.id))
}

/// Returns the classes of a row: its kind, whether it failed, whether it belongs under another row.
fn class_of(row: &TranscriptRow) -> String {
    let is_bad = match &row.body {
        RowBody::Tool(tool) => matches!(tool.state, ToolState::Failed | ToolState::CutOff),
        RowBody::TurnEnd(end) => matches!(end.outcome, TurnOutcome::Failed | TurnOutcome::CutOff),
        RowBody::Notice(notice) => {
            matches!(notice.level, NoticeLevel::Error | NoticeLevel::Warning)
        }
        RowBody::Prompt(_)
        | RowBody::Message(_)
        | RowBody::Thought(_)
        | RowBody::Plan(_)
        | RowBody::Ask(_)
        | RowBody::Unknown => false,
    };
    let more = [(is_bad, " bad"), (row.parent.is_some(), " child")];
    let more: String =
        more.into_iter().filter(|(is_so, _)| *is_so).map(|(_, class)| class).collect();
    format!("{}{more}", row.body.kind())
}

fn tool_details(tool: &RowTool, summary: &str) -> String {
    let mut more = String::new();
    more.extend(command_beside(tool, summary).map(pre));
    more.extend(tool.diffs.iter().map(diff_block));
    more.extend(
        tool.output
            .as_ref()
            .filter(|output| !output.text.is_empty())
            .map(|output| pre(&output.text)),
    );
    let parts = parts_text(&tool.parts);
    more.extend((!parts.trim().is_empty()).then(|| pre(&parts)));
    more
}

/// Returns a diff with a colour for each side.
fn diff_block(diff: &FileDiff) -> String {
    let mut lines = String::new();
    for (index, line) in diff_text(diff).lines().enumerate() {
        let class = match line.as_bytes().first() {
            Some(b'-' | b'+') if index < 2 => "hunk",
            Some(b'@') => "hunk",
            Some(b'+') => "add",
            Some(b'-') => "del",
            Some(_) | None => "same",
        };
        lines.push_str(&format!("<span class=\"{class}\">{}</span>", escape(line)));
    }
    format!("<pre>{lines}</pre>")
}

/// Returns a line that opens, or the line alone if there is nothing below it.
fn details(summary: &str, inner: &str) -> String {
    if inner.is_empty() {
        return format!("<span class=\"line\">{}</span>", escape(summary));
    }
    format!("<details><summary>{}</summary>{inner}</details>", escape(summary))
}

fn text_block(text: &str) -> String {
    format!("<div class=\"text\">{}</div>", escape(text.trim()))
}

fn pre(text: &str) -> String {
    format!("<pre>{}</pre>", escape(text.trim_end()))
}

/// Escapes text for HTML. Shows invisible characters by their names (rule 19.5), because they can
/// disguise the text.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut finder = InvisibleFinder::default();
    for c in text.chars() {
        let is_hidden = finder.is_invisible(c);
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_hidden => out.push_str(&name_character(c)),
            c => out.push(c),
        }
    }
    out
}
