//! A line of a session's output: as it is for a program, safe and in colour for a person.

use crate::look::Screen;
use crate::look::text::printable_line;

/// The `line` event or line of output; `stderr`: it came from there.
pub(crate) fn shown(screen: Screen, line: &str, stderr: bool) -> String {
    if !screen.terminal && !screen.colour {
        return line.to_owned();
    }
    let clean = printable_line(line);
    if screen.colour { wharf_server::paint(&clean, stderr).into_owned() } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_the_line_itself_a_person_a_safe_one() {
        let hostile = "[tool] \x1b[2Jls";
        assert_eq!(shown(Screen::PIPE, hostile, false), hostile);
        assert_eq!(shown(Screen::TERMINAL, hostile, false), "[tool] ls");
        let colour = Screen { colour: true, ..Screen::TERMINAL };
        assert_eq!(shown(colour, hostile, false), "\x1b[36m[tool] ls\x1b[0m");
        assert_eq!(shown(colour, "words", false), "words");
    }
}
