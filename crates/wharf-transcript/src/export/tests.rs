//! Exports of one transcript in every format.

use pulldown_cmark::{Event, Options, Parser};
use serde_json::{Value, json};
use wharf_core::{Ask, AskEvent, AskId, AskKind};

use super::*;
use crate::tests::properties::{Dice, read_seeds};
use crate::tests::{Transcript, raw};

fn transcript() -> Transcript {
    let mut log = Transcript::started();
    log.prompt("prm_1", "Say <script>alert(1)</script>");
    log.think("A thought");
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Edit a.txt", "kind": "edit",
        "status": "completed",
        "content": [{ "type": "diff", "path": "/w/blog/a.txt", "oldText": null, "newText": "```\n</pre>\n" },
            { "type": "content", "content": { "type": "text", "text": "see\n```\ncode\n```" } }] }));
    let ask = log.ask(&json!({ "toolCallId": "c1" }));
    log.answer(ask);
    log.say("Bidi \u{202e}txt.exe, done <b>");
    log.end("prm_1", json!({ "stopReason": "end_turn", "usage": { "inputTokens": 3 } }));
    log
}

fn export(format: ExportFormat) -> String {
    let log = transcript();
    let head = ExportHead {
        session: "sess_1".into(),
        agent: "demo".into(),
        ..ExportHead::default()
    };
    let rows = log.rows().iter().enumerate().map(|(index, row)| format.row(row, index == 0));
    format!("{}{}{}", format.begin(&head), rows.collect::<String>(), format.end())
}

#[test]
fn json_export_holds_all_rows() {
    let value: Value = serde_json::from_str(&export(ExportFormat::Json)).unwrap();
    let kinds: Vec<_> = value["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["prompt", "thought", "tool", "ask", "message", "turn_end"]);
    assert_eq!((&value["fold"], &value["session"]), (&json!(crate::FOLD_NUMBER), &json!("sess_1")));
}

#[test]
fn end_of_a_turn_has_marked_numbers_and_its_cost_as_people_read_it() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    let cost = json!({ "amount": 0.011999999999999999, "currency": "USD" });
    log.update(json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost }));
    log.end("prm_1", json!({ "stopReason": "end_turn", "usage": { "inputTokens": 3 } }));
    let row = log.rows().last().unwrap();
    let RowBody::TurnEnd(end) = &row.body else { panic!("{row:?}") };
    assert_eq!(describe_end(end), "3 input tokens · 0.0120 USD");
    let mut doubtful = end.clone();
    doubtful.usage.as_mut().unwrap().guessed = true;
    doubtful.usage.as_mut().unwrap().at_least = true;
    assert_eq!(describe_end(&doubtful), "≥3? input tokens · 0.0120 USD");
}

#[test]
fn html_export_is_inert() {
    let html = export(ExportFormat::Html);
    assert!(!html.contains("<script") && !html.contains("</pre>\n</pre>"), "{html}");
    assert!(
        html.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && html.contains("[U+202E]txt.exe"),
        "{html}"
    );
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn html_export_spells_out_every_character_that_changes_the_direction_of_text() {
    let mut log = Transcript::started();
    log.say("a\u{200e}b\u{200f}c\u{61c}d\u{202a}e\u{2069}f");
    let html = ExportFormat::Html.row(&log.rows()[0], true);
    assert!(html.contains("a[U+200E]b[U+200F]c[U+061C]d[U+202A]e[U+2069]f"), "{html}");
}

#[test]
fn markdown_export_fences_code_that_holds_fences() {
    let text = export(ExportFormat::Markdown);
    assert!(
        text.contains(
            "```diff\n--- a.txt\n+++ a.txt\n@@ -0,0 +1,2 @@\n+```\n+</pre>\n```\n\n````\nsee\n```\ncode\n```\n````"
        ),
        "{text}"
    );
    assert!(
        text.contains(r"> Say \<script>")
            && text.contains("**Asks: Edit a.txt (Allow)** by phone after 1.0 s\n")
            && text.contains("3 input tokens"),
        "{text}"
    );
}

#[test]
fn answer_stands_once_in_an_export() {
    for format in [ExportFormat::Markdown, ExportFormat::Html] {
        assert_eq!(export(format).matches("Allow").count(), 1, "{format:?}");
    }
}

#[test]
fn exports_for_people_leave_out_noise() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "run `a_b` <now>\n\n");
    log.update(json!({ "sessionUpdate": "of_the_future" }));
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "ls *_a", "kind": "execute",
        "status": "completed", "rawInput": { "command": "ls *_a" } }));
    log.say("done\n\n");
    log.update(
        json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": { "amount": 0, "currency": "USD" } }),
    );
    log.end(
        "prm_1",
        json!({ "stopReason": "end_turn", "usage": { "inputTokens": 0, "outputTokens": 7 } }),
    );
    let write = |format: ExportFormat| {
        log.rows().iter().map(|row| format.row(row, false)).collect::<String>()
    };
    let expected = "\n## zed · 1970-01-01 00:00:04 UTC\n\n> run `a_b` \\<now>\n\n**ls \\*\\_a**\n\ndone\n\n\
        *Finished in 5.0 s · 7 output tokens*\n\n---\n";
    assert_eq!(write(ExportFormat::Markdown), expected);
    let html = write(ExportFormat::Html);
    assert!(
        !html.contains("of_the_future") && html.contains("<span class=\"line\">ls *_a</span>"),
        "{html}"
    );
    assert!(write(ExportFormat::Json).contains("of_the_future"), "programs get every row");
}

/// Returns the HTML that readers of Markdown find in a text, with the usual extensions and without.
fn find_html(markdown: &str) -> Vec<String> {
    let options = [Options::empty(), Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES];
    let events = options.into_iter().flat_map(|options| Parser::new_ext(markdown, options));
    let html = |event| {
        let (Event::Html(html) | Event::InlineHtml(html)) = event else { return None };
        Some(html.into_string())
    };
    events.filter_map(html).collect()
}

#[test]
fn markdown_export_holds_no_live_html() {
    let mut log = Transcript::started();
    let evil = "<script>alert(1)</script> <img src=x onerror=alert(1)> a < b `<i>`";
    let code = "```html\n<b>code</b>\n```";
    log.prompt("prm_1", &format!("{evil}\n\n{code}\n{evil}"));
    log.think(evil);
    let entries = json!([{ "content": evil, "priority": "low", "status": "pending" }]);
    log.update(json!({ "sessionUpdate": "plan", "entries": entries }));
    log.update(
        json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": evil, "kind": "other" }),
    );
    let schema = json!({ "type": "object", "properties": {} });
    log.add(AskEvent::Opened(Ask {
        id: AskId(log.log.len() as u64 + 1),
        kind: AskKind::Elicitation,
        agent_request: raw(&json!(0)),
        frame: raw(&json!({ "params": { "message": format!("Which?\n{evil}"), "requestedSchema": schema } })),
        options: Vec::new(),
        tool_call: None,
        prompt: None,
    }));
    log.say(&format!("{evil}\n\n{code}\n{evil}"));
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    let head = ExportHead {
        session: "sess_1".into(),
        title: evil.into(),
        agent: evil.into(),
        directory: "/w/`<b>`".into(),
        ..ExportHead::default()
    };
    let rows: String =
        log.rows().iter().map(|row| ExportFormat::Markdown.row(row, false)).collect();
    let text = format!("{}{rows}", ExportFormat::Markdown.begin(&head));
    assert_eq!(find_html(&text), Vec::<String>::new(), "{text}");
    assert!(
        text.contains("> <b>code</b>\n") && text.contains("\n<b>code</b>\n"),
        "code stays as it is: {text}"
    );
    assert_eq!(text.matches("`<i>`").count(), 7, "{text}");
    assert!(text.contains(r"\<script>alert(1)\</script>") && text.contains(r"a \< b"), "{text}");
}

#[test]
fn html_hides_no_code_that_comes_alive_when_it_is_escaped() {
    for evil in [
        "<div>\n```\n\n```\n<script>\n```",
        "```\nnever closed <b>",
        "~~~~ <i>\n```\n<b>",
        "- ```\n  <b>\n\n<i>",
        r"\<a> \\<b> \\\<i>",
        "| `a | <b> `|\n|---|---|\n| `a | <img onerror=x> `|",
        "[^1]: a\n\n    <b>\n\n[^1]",
        "a\r```\r<b>\r```\r<i>",
        "\t<b>",
        "<!-- `\n\n` <b> -->",
        "`<b>\n\n`<i>`",
        "<a title=\"`\"> `<b>`",
    ] {
        let mut log = Transcript::started();
        log.prompt("prm_1", evil);
        log.say(evil);
        log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "x", "kind": "other",
            "status": "completed", "content": [{ "type": "content", "content": { "type": "text", "text": evil } }] }));
        log.say(evil);
        let text: String =
            log.rows().iter().map(|row| ExportFormat::Markdown.row(row, false)).collect();
        assert_eq!(find_html(&text), Vec::<String>::new(), "{evil:?}\n{text}");
    }
}

#[test]
fn random_markdown_holds_no_live_html() {
    const PIECES: [&str; 24] = [
        "<b>", "</b>", "<!--", "-->", "<div>\n", "`", "``", "```", "```\n", "~~~\n", "\n", "\n\n",
        "    ", "\t", "> ", "- ", "1. ", "\\", "|", "|---|\n", "[^1]: ", "<script>", "a", "\r",
    ];
    for seed in read_seeds(0..3_000) {
        let mut dice = Dice::new(seed);
        let mut log = Transcript::started();
        for round in 0..3 {
            let text: String =
                (0..=dice.roll(24)).map(|_| PIECES[dice.roll(24) as usize]).collect();
            match dice.roll(3) {
                0 => log.say(&text),
                1 => log.think(&text),
                _ => log.prompt(&format!("prm_{round}"), &text),
            }
        }
        let text: String =
            log.rows().iter().map(|row| ExportFormat::Markdown.row(row, false)).collect();
        assert_eq!(find_html(&text), Vec::<String>::new(), "WHARF_WALK_SEED={seed}\n{text:?}");
    }
}
