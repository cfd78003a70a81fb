//! A line of a session's output: without what a terminal would act on, and in colour for a person.

use crate::look::Screen;
use crate::look::text::printable_line;

/// The `line` event or line of output; `stderr`: it came from there. A program gets a safe one too: it may well show it
/// on a terminal, and `--json` has the line itself.
pub(crate) fn shown(screen: Screen, line: &str, stderr: bool) -> String {
    let clean = printable_line(line);
    if screen.colour { wharf_server::paint(&clean, stderr).into_owned() } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_people_get_a_safe_line() {
        let hostile = "[tool] \x1b[2Jls";
        assert_eq!(shown(Screen::PIPE, hostile, false), "[tool] ls");
        assert_eq!(shown(Screen::PIPE, "a\tb", false), "a\tb");
        assert_eq!(shown(Screen::TERMINAL, hostile, false), "[tool] ls");
        let colour = Screen { colour: true, ..Screen::TERMINAL };
        assert_eq!(shown(colour, hostile, false), "\x1b[36m[tool] ls\x1b[0m");
        assert_eq!(shown(colour, "words", false), "words");
    }
}
