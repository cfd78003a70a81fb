//! `cargo xtask picture` turns a captured terminal screen into an SVG picture. It reads what `tmux
//! capture-pane -ep` prints: lines of text with colours and styles (SGR sequences), and nothing
//! else. The pictures in docs/images are made with it:
//!
//! ```sh
//! tmux new-session -d -x 90 -y 40 -s tour 'wharf run demo tour; cat'      # answer the question, wait for the end
//! tmux capture-pane -ep -t tour | cargo xtask picture > docs/images/tour.svg
//! tmux new-session -d -x 120 -y 36 -s terminal wharf      # start `tour` with the demo agent, queue a prompt, press Ctrl-G
//! tmux capture-pane -ep -t terminal | cargo xtask picture > docs/images/terminal.svg
//! ```

use std::fmt::Write as _;
use std::io::Read as _;

use anyhow::{Context as _, Result, bail, ensure};

use crate::output::print_line;

/// The size of a character cell in pixels: that of a 14 pixel monospace font in all usual browsers.
const CELL_WIDTH_PX: f32 = 8.4;
const LINE_HEIGHT_PX: f32 = 19.0;
const MARGIN_PX: f32 = 16.0;
/// The narrowest picture: that of a usual terminal.
const MIN_COLUMNS: usize = 80;
/// The largest screen that is read.
const MAX_INPUT_BYTES: u64 = 1024 * 1024;
/// The eight colours of a terminal, dark and bright, on the picture's dark background.
const COLOURS: [&str; 16] = [
    "#45475a", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#f5c2e7", "#94e2d5", "#bac2de",
    "#6c7086", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#f5c2e7", "#94e2d5", "#ffffff",
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    ensure!(
        args.is_empty(),
        "picture takes no argument: it reads a screen from stdin and writes an SVG to stdout"
    );
    let mut screen = String::new();
    std::io::stdin()
        .take(MAX_INPUT_BYTES)
        .read_to_string(&mut screen)
        .context("reading the screen from stdin")?;
    print_line(&draw_screen(&screen)?);
    Ok(())
}

/// The style of a run of characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Style {
    colour: Option<usize>,
    bold: bool,
    faint: bool,
    italic: bool,
    underlined: bool,
}

impl Style {
    /// Applies the numbers of one SGR sequence. Unknown ones are passed over.
    fn apply(&mut self, numbers: &[u16]) {
        let mut rest = numbers.iter();
        while let Some(number) = rest.next() {
            match *number {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.faint = true,
                3 => self.italic = true,
                4 => self.underlined = true,
                22 => (self.bold, self.faint) = (false, false),
                23 => self.italic = false,
                24 => self.underlined = false,
                30..=37 => self.colour = Some(usize::from(number - 30)),
                90..=97 => self.colour = Some(usize::from(number - 82)),
                39 => self.colour = None,
                // A colour of the palette follows; only the first sixteen have a name here.
                38 => {
                    rest.next();
                    self.colour = rest
                        .next()
                        .map(|colour| usize::from(*colour))
                        .filter(|colour| *colour < COLOURS.len());
                }
                _ => {}
            }
        }
    }

    fn to_attributes(self) -> String {
        let mut attributes = String::new();
        if let Some(colour) = self.colour.and_then(|colour| COLOURS.get(colour)) {
            let _ = write!(attributes, " fill=\"{colour}\"");
        }
        for (set, attribute) in [
            (self.bold, " font-weight=\"bold\""),
            (self.faint, " opacity=\"0.6\""),
            (self.italic, " font-style=\"italic\""),
            (self.underlined, " text-decoration=\"underline\""),
        ] {
            attributes.push_str(if set { attribute } else { "" });
        }
        attributes
    }
}

/// Returns the screen as an SVG picture.
fn draw_screen(screen: &str) -> Result<String> {
    let lines: Vec<&str> = screen.trim_end().lines().collect();
    let (mut style, mut body, mut columns) = (Style::default(), String::new(), MIN_COLUMNS);
    for (index, line) in lines.iter().enumerate() {
        let y = MARGIN_PX + LINE_HEIGHT_PX * (index as f32 + 0.75);
        let mut column = 0;
        for (text, of_text) in split_runs(line, &mut style)? {
            let x = MARGIN_PX + CELL_WIDTH_PX * column as f32;
            column += text.chars().count();
            if !text.trim().is_empty() {
                let attributes = of_text.to_attributes();
                let _ = writeln!(
                    body,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\"{attributes}>{}</text>",
                    escape_xml(&text)
                );
            }
        }
        columns = columns.max(column);
    }
    let width = MARGIN_PX.mul_add(2.0, CELL_WIDTH_PX * columns as f32);
    let height = MARGIN_PX.mul_add(2.0, LINE_HEIGHT_PX * lines.len() as f32);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1e1e2e\"/>\n\
         <g fill=\"#cdd6f4\" font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"14\">\n{body}</g>\n</svg>"
    ))
}

/// Splits a line into runs of one style each. The style goes on from line to line, as on a
/// terminal.
fn split_runs(line: &str, style: &mut Style) -> Result<Vec<(String, Style)>> {
    let mut runs = Vec::new();
    let mut pieces = line.split('\u{1b}');
    if let Some(first) = pieces.next() {
        runs.push((first.to_owned(), *style));
    }
    for piece in pieces {
        // The other character set, which tmux uses for lines of boxes, ends at once.
        if let Some(text) = piece.strip_prefix("(B") {
            runs.push((text.to_owned(), *style));
            continue;
        }
        let Some((numbers, text)) = piece.strip_prefix('[').and_then(|piece| piece.split_once('m'))
        else {
            bail!(
                "the screen has a sequence that is no colour or style: {piece:?}; capture it with tmux capture-pane -ep"
            );
        };
        let numbers: Vec<u16> =
            numbers.split(';').map(|number| number.parse().unwrap_or_default()).collect();
        style.apply(&numbers);
        runs.push((text.to_owned(), *style));
    }
    Ok(runs)
}

/// Returns the text for an element. Blanks stay as wide as they are: browsers join them otherwise.
fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_keep_their_place_style_and_text() {
        let drawn = draw_screen("ok \u{1b}[1;32m<done>\u{1b}[0m\n\u{1b}[38;5;9mred\n").unwrap();
        let texts: Vec<&str> = drawn.lines().filter(|line| line.starts_with("<text")).collect();
        assert_eq!(
            texts,
            [
                "<text x=\"16.0\" y=\"30.2\">ok\u{a0}</text>",
                "<text x=\"41.2\" y=\"30.2\" fill=\"#a6e3a1\" font-weight=\"bold\">&lt;done&gt;</text>",
                "<text x=\"16.0\" y=\"49.2\" fill=\"#f38ba8\">red</text>",
            ]
        );
    }

    #[test]
    fn screen_with_other_sequences_is_refused() {
        assert!(draw_screen("a\u{1b}[2Jb").is_err());
    }
}
