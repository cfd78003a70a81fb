//! The export for a browser: one file, no script, nothing loaded. All text of agents is escaped.

use wharf_api::{RowBody, TranscriptRow};

use super::markdown::diff_text;
use super::{ExportHead, actor_name, describe_answer, describe_end, parts_text};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:0;color:#1c1c1c;background:#fff}\
main{max-width:52rem;margin:0 auto;padding:1rem}header{border-bottom:1px solid #ccc;margin-bottom:1rem}\
article{margin:.8rem 0}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f4f4f4;padding:.6rem;border-radius:4px}\
.prompt{border-left:4px solid #2a6df4;padding-left:.8rem}.thought,.notice,.turn_end{color:#666}\
.text{white-space:pre-wrap;overflow-wrap:anywhere}.meta{color:#666;font-size:.85rem}\
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}pre{background:#242424}\
.thought,.notice,.turn_end,.meta{color:#9a9a9a}}";

pub(super) fn begin(head: &ExportHead) -> String {
    let title = escape(if head.title.is_empty() { &head.session } else { &head.title });
    let about = escape(&format!("{} in {}, started {}", head.agent, head.directory, head.started_at));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body><main>\
         <header><h1>{title}</h1><p class=\"meta\">{about}</p></header>\n"
    )
}

pub(super) fn row(row: &TranscriptRow) -> String {
    let kind = row.body.kind();
    let inner = match &row.body {
        RowBody::Prompt(prompt) => {
            let by = format!("{} · {}", actor_name(&prompt.by), row.at);
            format!("<p class=\"meta\">{}</p>{}", escape(&by), text_block(&parts_text(&prompt.parts)))
        }
        RowBody::Message(text) => text_block(&parts_text(&text.parts)),
        RowBody::Thought(text) => details("Thought", &text_block(&parts_text(&text.parts))),
        RowBody::Tool(tool) => {
            let mut more = String::new();
            more.extend(tool.command.as_deref().map(pre));
            more.extend(tool.diffs.iter().map(|diff| pre(&diff_text(diff))));
            more.extend(tool.output.as_ref().map(|output| pre(&output.text)));
            let parts = parts_text(&tool.parts);
            more.extend((!parts.trim().is_empty()).then(|| pre(&parts)));
            details(&row.summary, &more)
        }
        RowBody::Plan(plan) => {
            let lines: Vec<String> =
                plan.entries.iter().map(|entry| format!("{}: {}", entry.status, entry.text)).collect();
            format!("<b>{}</b>{}", escape(&row.summary), pre(&lines.join("\n")))
        }
        RowBody::Ask(ask) => format!("<b>{}</b>: {}", escape(&row.summary), escape(&describe_answer(ask))),
        RowBody::Notice(_) | RowBody::Unknown => escape(&row.summary),
        RowBody::TurnEnd(end) => {
            let stderr = end.stderr.as_deref().map(pre).unwrap_or_default();
            format!("{} {}{stderr}<hr>", escape(&row.summary), escape(&describe_end(end)))
        }
    };
    format!("<article class=\"{kind}\" id=\"r{}\">{inner}</article>\n", escape(&row.id))
}

fn details(summary: &str, inner: &str) -> String {
    format!("<details><summary>{}</summary>{inner}</details>", escape(summary))
}

fn text_block(text: &str) -> String {
    format!("<div class=\"text\">{}</div>", escape(text))
}

fn pre(text: &str) -> String {
    format!("<pre>{}</pre>", escape(text))
}

/// Escapes text for HTML. Characters that change the direction of text are made visible: they can disguise what is written.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push_str(&format!("[U+{:04X}]", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}
