//! Frames as bytes for the terminal: only the cells that have changed, between the marks of one
//! synchronised update.

use std::fmt::Write;
use std::sync::Arc;

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::style::{Color, Modifier};
use wharf_tui::ScreenFrame;

const BEGIN_UPDATE: &str = "\x1b[?2026h\x1b[?25l";
const END_UPDATE: &str = "\x1b[?2026l";

/// The modifiers that are drawn, with their codes.
const MODIFIER_CODES: &[(Modifier, &str)] = &[
    (Modifier::BOLD, "1"),
    (Modifier::DIM, "2"),
    (Modifier::ITALIC, "3"),
    (Modifier::UNDERLINED, "4"),
    (Modifier::REVERSED, "7"),
    (Modifier::CROSSED_OUT, "9"),
];

/// Remembers the cells on the screen.
#[derive(Debug, Default)]
pub(super) struct FramePainter {
    drawn: Option<Arc<ScreenFrame>>,
}

impl FramePainter {
    /// Returns the bytes that turn the screen into this frame, or no bytes if the screen shows it
    /// already.
    pub(super) fn paint(&mut self, frame: Arc<ScreenFrame>) -> Vec<u8> {
        let area = *frame.buffer.area();
        let drawn = self.drawn.take().filter(|drawn| *drawn.buffer.area() == area);
        let mut text = String::new();
        let drawn = drawn.unwrap_or_else(|| {
            // The cells of a screen that was cleared are blank.
            text.push_str("\x1b[0m\x1b[2J");
            Arc::new(ScreenFrame { buffer: Buffer::empty(area), cursor: None })
        });
        let changes = drawn.buffer.diff(&frame.buffer);
        let is_same = changes.is_empty() && text.is_empty() && drawn.cursor == frame.cursor;
        write_cells(&mut text, &changes);
        if let Some(place) = frame.cursor {
            let _ = write!(text, "\x1b[{};{}H\x1b[?25h", place.y + 1, place.x + 1);
        }
        self.drawn = Some(frame);
        if is_same { Vec::new() } else { format!("{BEGIN_UPDATE}{text}{END_UPDATE}").into_bytes() }
    }

    /// Forgets the screen: the next frame is drawn whole.
    pub(super) fn forget(&mut self) {
        self.drawn = None;
    }
}

fn write_cells(text: &mut String, changes: &[(u16, u16, &Cell)]) {
    let mut style = None;
    let mut expected = None;
    for (x, y, cell) in changes {
        if expected != Some((*x, *y)) {
            let _ = write!(text, "\x1b[{};{}H", y + 1, x + 1);
        }
        let wanted = (cell.fg, cell.bg, cell.modifier);
        if style != Some(wanted) {
            write_style(text, cell);
            style = Some(wanted);
        }
        text.push_str(cell.symbol());
        // Terminals differ about the place of the cursor after a character of another width: the
        // next cell sets the cursor again.
        expected = (cell.symbol().len() == 1).then_some((x + 1, *y));
    }
    if style.is_some() {
        text.push_str("\x1b[0m");
    }
}

fn write_style(text: &mut String, cell: &Cell) {
    text.push_str("\x1b[0");
    for (modifier, code) in MODIFIER_CODES {
        if cell.modifier.contains(*modifier) {
            let _ = write!(text, ";{code}");
        }
    }
    write_colour(text, cell.fg, 30);
    write_colour(text, cell.bg, 40);
    text.push('m');
}

/// Writes a colour; `base` is 30 for the text and 40 for its ground.
fn write_colour(text: &mut String, colour: Color, base: u8) {
    let number = match colour {
        Color::Reset => return,
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
        Color::Indexed(index) => {
            let _ = write!(text, ";{};5;{index}", base + 8);
            return;
        }
        Color::Rgb(red, green, blue) => {
            let _ = write!(text, ";{};2;{red};{green};{blue}", base + 8);
            return;
        }
    };
    let _ = write!(text, ";{}", base + number);
}

#[cfg(test)]
mod tests {
    use ratatui_core::layout::Position;
    use ratatui_core::style::Style;

    use super::*;

    fn frame(lines: &[&str], cursor: Option<(u16, u16)>) -> ScreenFrame {
        ScreenFrame {
            buffer: Buffer::with_lines(lines.iter().copied()),
            cursor: cursor.map(Position::from),
        }
    }

    /// Draws the frames one after the other on a terminal and returns its text.
    fn show(frames: Vec<ScreenFrame>) -> (String, (u16, u16)) {
        let area = *frames.last().unwrap().buffer.area();
        let mut terminal = vt100::Parser::new(area.height, area.width, 0);
        let mut painter = FramePainter::default();
        for frame in frames {
            terminal.process(&painter.paint(Arc::new(frame)));
        }
        (terminal.screen().contents().trim_end().to_owned(), terminal.screen().cursor_position())
    }

    #[test]
    fn terminal_shows_the_last_frame_whatever_was_there_before() {
        let frames =
            vec![frame(&["abc  ", "日本 x"], None), frame(&["a c  ", "x日本 "], Some((2, 1)))];
        assert_eq!(show(frames), ("a c\nx日本".to_owned(), (1, 2)));
    }

    #[test]
    fn unchanged_frame_costs_no_bytes() {
        let mut painter = FramePainter::default();
        assert!(!painter.paint(Arc::new(frame(&["abc"], None))).is_empty());
        assert!(painter.paint(Arc::new(frame(&["abc"], None))).is_empty());
        assert!(
            !painter.paint(Arc::new(frame(&["abc"], Some((0, 0))))).is_empty(),
            "the cursor has come"
        );
        painter.forget();
        assert!(!painter.paint(Arc::new(frame(&["abc"], Some((0, 0))))).is_empty());
    }

    #[test]
    fn styles_are_written_as_their_codes() {
        let mut styled = frame(&["ab"], None);
        styled.buffer.set_string(
            0,
            0,
            "a",
            Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        );
        let bytes = String::from_utf8(FramePainter::default().paint(Arc::new(styled))).unwrap();
        assert!(bytes.contains("\x1b[0;1;31ma\x1b[0mb"), "{bytes:?}");
    }
}
