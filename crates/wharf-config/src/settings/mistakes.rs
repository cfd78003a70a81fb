//! Complaints about settings that cannot be read. They go into the host's log and to clients, so
//! they name the position of a mistake instead of its line, and show no value that may be a secret.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::keys::holds_secrets;

/// Describes a mistake in the text of a file by its position and key.
pub(super) fn describe_mistake(text: &str, error: &toml::de::Error) -> String {
    let Some(span) = error.span() else { return hide_value(error.message()) };
    let position = describe_position(text, span.start);
    // Text that is not TOML has no keys, and its complaint names only the expected syntax.
    let Some(path) = find_path(text, span.start) else {
        return format!("{position}: {}", error.message());
    };
    let message =
        if holds_secrets(&path) { hide_value(error.message()) } else { error.message().to_owned() };
    let key = if message.contains(&path) { String::new() } else { format!("{path}: ") };
    format!("{position}: {key}{message}")
}

/// Returns a complaint of the deserializer without the value that it quotes.
pub(super) fn hide_value(message: &str) -> String {
    let quotes_value = ["invalid type: ", "invalid value: ", "unknown variant "]
        .iter()
        .any(|start| message.starts_with(start));
    match message.rsplit_once(", expected ").filter(|_| quotes_value) {
        Some((_, expected)) => format!("a value of the wrong kind, expected {expected}"),
        None if quotes_value => "a value of the wrong kind".to_owned(),
        None => message.to_owned(),
    }
}

fn describe_position(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    format!("line {line}, column {column}")
}

/// Returns the dotted key of the innermost value at a position. Returns `None` if the text is not
/// TOML, or if it has no value there.
fn find_path(text: &str, at: usize) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let mut found = None;
    find_in_table(table.get_ref(), "", at, &mut found);
    found
}

fn find_in_table(table: &DeTable<'_>, above: &str, at: usize, found: &mut Option<String>) {
    let has = |span: Range<usize>| span.contains(&at);
    for (key, value) in table {
        let name = key.get_ref();
        let path = if above.is_empty() { name.to_string() } else { format!("{above}.{name}") };
        let is_deeper = found
            .as_ref()
            .is_none_or(|found| found.split('.').count() <= path.split('.').count());
        if is_deeper && (has(key.span()) || has(value.span())) {
            *found = Some(path.clone());
        }
        // The tables below a heading are not within the span of the heading.
        if let DeValue::Table(inner) = value.get_ref() {
            find_in_table(inner, &path, at, found);
        }
    }
}
