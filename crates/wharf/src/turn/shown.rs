//! A line of a session's output: as it is for a program, safe and in colour for a person.

use crate::look::text::printable_line;
use crate::look::{Screen, Style};

/// What lines begin with that are not the agent's own words, and how they look.
const MARKS: [(&str, Style); 7] = [
    ("[thought]", Style::Faint),
    ("[tool-error]", Style::Bad),
    ("[tool]", Style::Busy),
    ("[plan]", Style::Faint),
    ("[error]", Style::Bad),
    ("[awaiting input]", Style::Wants),
    ("── turn-end", Style::Faint),
];

pub(crate) fn shown(screen: Screen, line: &str) -> String {
    if !screen.terminal && !screen.colour {
        return line.to_owned();
    }
    let clean = printable_line(line);
    let style = MARKS.iter().find(|(mark, _)| clean.starts_with(mark)).map_or(Style::Plain, |(_, style)| *style);
    screen.paint(style, &clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_the_line_itself_a_person_a_safe_one() {
        let hostile = "[tool] \x1b[2Jls";
        assert_eq!(shown(Screen::PIPE, hostile), hostile);
        assert_eq!(shown(Screen::TERMINAL, hostile), "[tool] ls");
        let colour = Screen { colour: true, ..Screen::TERMINAL };
        assert_eq!(shown(colour, hostile), "\x1b[36m[tool] ls\x1b[0m");
        assert_eq!(shown(colour, "words"), "words");
    }
}
