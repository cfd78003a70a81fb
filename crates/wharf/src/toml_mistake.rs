//! Complaints about TOML files that may hold secrets: they name the position of the mistake and
//! show none of the text there.

use std::ops::Range;

/// Describes a mistake in a file's text by its position. `message` is the complaint of the parser.
pub(crate) fn describe_toml_mistake(
    text: &str,
    span: Option<Range<usize>>,
    message: &str,
) -> String {
    let Some(before) = span.and_then(|span| text.get(..span.start)) else {
        return hide_value(message);
    };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    format!("line {line}, column {column}: {}", hide_value(message))
}

/// Returns the complaint without the value that it quotes.
fn hide_value(message: &str) -> String {
    let quotes_value = ["invalid type: ", "invalid value: "]
        .iter()
        .any(|start| message.starts_with(start));
    match message.rsplit_once(", expected ").filter(|_| quotes_value) {
        Some((_, expected)) => {
            format!("a value of another kind was expected: {}", expected.trim_end())
        }
        None => message.trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistake_is_named_by_its_position_without_the_value() {
        let text = "a = 1\nb = \"ü\" 2\n";
        let said = describe_toml_mistake(
            text,
            Some(14..15),
            "invalid type: string \"hush\", expected a boolean\n",
        );
        assert_eq!(said, "line 2, column 8: a value of another kind was expected: a boolean");
        assert_eq!(describe_toml_mistake(text, None, "missing field `url`"), "missing field `url`");
    }
}
