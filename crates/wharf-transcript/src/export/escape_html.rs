//! Keeps HTML in Markdown from being live: outside of code, every `<` is escaped.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

/// How often a text is parsed again because an escape has changed what its other parts are.
const MAX_PASSES: usize = 32;

/// Returns a piece of a Markdown document that has no HTML: each `<` outside of code is escaped,
/// and a fence that is open at the end is closed, so that it does not turn the code of later pieces
/// inside out.
///
/// An escape may change where code is: HTML hides a fence that counts once the HTML is text. So the
/// beginnings of HTML are escaped first, and the result is parsed again until nothing changes.
pub(super) fn escape_html(piece: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(piece);
    if !["<", "```", "~~~"].iter().any(|mark| text.contains(mark)) {
        return text;
    }
    for _ in 0..MAX_PASSES {
        let html = find_html(&text);
        let changed = if html.is_empty() {
            let code = find_code(&text);
            let after = |at: usize| code.get(code.partition_point(|range| range.end <= at));
            escape_where(&text, |at| after(at).is_none_or(|range| range.start > at))
        } else {
            escape_where(&text, |at| html.contains(&at))
        };
        match close_fence(&changed) {
            Some(closed) => text = Cow::Owned(closed),
            None if html.is_empty() && changed == *text => return text,
            None => text = Cow::Owned(changed),
        }
    }
    // The text still changes after `MAX_PASSES`, so it was made to resist. Escape `<` in its code
    // too.
    Cow::Owned(text.replace('<', "&lt;"))
}

/// The extensions of Markdown that change where code is, and none: readers differ.
const READERS: [Options; 2] = [
    Options::empty(),
    Options::ENABLE_TABLES
        .union(Options::ENABLE_FOOTNOTES)
        .union(Options::ENABLE_TASKLISTS),
];

/// Returns where HTML begins for any reader.
fn find_html(text: &str) -> BTreeSet<usize> {
    let events = READERS
        .into_iter()
        .flat_map(|options| Parser::new_ext(text, options).into_offset_iter());
    let is_html =
        |event: &Event<'_>| matches!(event, Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_));
    let html = events.filter(|(event, _)| is_html(event));
    html.filter_map(|(_, range)| Some(range.start + text.get(range)?.find('<')?))
        .collect()
}

/// Returns the parts of the text that are code for every reader. A cell of a table cuts code in
/// two, for example.
fn find_code(text: &str) -> Vec<Range<usize>> {
    let is_code =
        |event: &Event<'_>| matches!(event, Event::Code(_) | Event::Start(Tag::CodeBlock(_)));
    let [plain, extended] = READERS.map(|options| {
        let events = Parser::new_ext(text, options).into_offset_iter();
        events
            .filter(|(event, _)| is_code(event))
            .map(|(_, range)| range)
            .collect::<Vec<_>>()
    });
    let mut common = Vec::new();
    let mut passed = 0;
    for code in plain {
        passed += extended.iter().skip(passed).take_while(|other| other.end <= code.start).count();
        for other in extended.iter().skip(passed).take_while(|other| other.start < code.end) {
            common.push(code.start.max(other.start)..code.end.min(other.end));
        }
    }
    common
}

/// Escapes each of the chosen `<` that is not escaped already.
fn escape_where(text: &str, is_chosen: impl Fn(usize) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if c == '<' && !is_escaped && is_chosen(at) {
            out.push('\\');
        }
        is_escaped = c == '\\' && !is_escaped;
        out.push(c);
    }
    out
}

/// Returns the text with the end of the fence that is open at its end; `None` if there is none.
fn close_fence(text: &str) -> Option<String> {
    let probe = format!("{text}\n\nx");
    let mut events = Parser::new(&probe).into_offset_iter();
    let is_open = |(event, range): &(Event<'_>, Range<usize>)| {
        matches!(event, Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))))
            && range.end >= probe.len()
    };
    let (_, range) = events.find(is_open)?;
    let block = text.get(range.start..)?.trim_start();
    let mark = block.chars().next()?;
    let length = block.chars().take_while(|c| *c == mark).count();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    Some(format!("{text}{end}{}\n", String::from(mark).repeat(length)))
}
