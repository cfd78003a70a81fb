//! Colours of lines on a terminal. Lines over REST and MCP have no colours.

use std::borrow::Cow;

const DIM: &str = "\u{1b}[2m";
const CYAN: &str = "\u{1b}[36m";
const RED: &str = "\u{1b}[31m";
const YELLOW: &str = "\u{1b}[33m";
const RESET: &str = "\u{1b}[0m";

/// The beginnings of lines, each with its colour in AIP-46's table (rule 8.4).
const COLOURS: [(&str, &str); 6] = [
    ("[thought]", DIM),
    ("[tool]", CYAN),
    ("[tool-error]", RED),
    ("[awaiting input]", YELLOW),
    ("── turn-end (", DIM),
    ("[error]", RED),
];

/// Returns the line in the colour of its kind. `stderr` is true for a line of that stream.
pub fn paint_line(line: &str, stderr: bool) -> Cow<'_, str> {
    let colour = COLOURS
        .iter()
        .find(|(begins, _)| line.starts_with(begins))
        .map(|(_, colour)| *colour);
    match colour.or(stderr.then_some(RED)) {
        Some(colour) => Cow::Owned(format!("{colour}{line}{RESET}")),
        None => Cow::Borrowed(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_the_colour_of_the_table() {
        for (line, colour) in [
            ("[thought] hm", DIM),
            ("[tool] Read", CYAN),
            ("[tool-error]", RED),
            ("[awaiting input]", YELLOW),
            ("── turn-end (end_turn) ──", DIM),
            ("[error] gone", RED),
        ] {
            assert_eq!(paint_line(line, false), format!("{colour}{line}{RESET}"));
        }
        assert_eq!(paint_line("hello", false), "hello");
        assert_eq!(paint_line("last words", true), format!("{RED}last words{RESET}"));
    }
}
