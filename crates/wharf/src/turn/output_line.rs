//! Formats a line of a session's output: without control characters, and in colour for a person.

use wharf_render::style::{Screen, paint_line};
use wharf_render::text::to_printable_line;

/// Returns the line as it is printed; `stderr` is true for a line of that stream. A program gets it
/// without control characters too, since it may show the line on a terminal; `--json` has the
/// unchanged line.
pub(crate) fn format_output_line(screen: Screen, line: &str, stderr: bool) -> String {
    let clean = to_printable_line(line);
    if screen.colour { paint_line(&clean, stderr).into_owned() } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_people_get_a_safe_line() {
        let hostile = "[tool] \x1b[2Jls";
        assert_eq!(format_output_line(Screen::PIPE, hostile, false), "[tool] ls");
        assert_eq!(format_output_line(Screen::PIPE, "a\tb", false), "a\tb");
        assert_eq!(format_output_line(Screen::TERMINAL, hostile, false), "[tool] ls");
        let colour = Screen { colour: true, ..Screen::TERMINAL };
        assert_eq!(format_output_line(colour, hostile, false), "\x1b[36m[tool] ls\x1b[0m");
        assert_eq!(format_output_line(colour, "words", false), "words");
    }
}
