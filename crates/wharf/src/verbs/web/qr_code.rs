//! A QR code for a terminal: two modules per character cell, black on white whatever the terminal's
//! colours are.

use anyhow::Context;
use qrcode::{Color, EcLevel, QrCode};

/// The white border that scanners need, in modules.
const QUIET_ZONE_MODULES: usize = 2;

/// Returns the lines of the code, with their colours.
pub(super) fn draw_qr_code(text: &str) -> anyhow::Result<Vec<String>> {
    let code =
        QrCode::with_error_correction_level(text, EcLevel::L).context("drawing the QR code")?;
    let width = code.width();
    let colors = code.to_colors();
    let is_dark = |x: usize, y: usize| {
        let inside =
            |place: usize| place.checked_sub(QUIET_ZONE_MODULES).filter(|place| *place < width);
        inside(x)
            .zip(inside(y))
            .is_some_and(|(x, y)| colors.get(y * width + x) == Some(&Color::Dark))
    };
    let side = width + 2 * QUIET_ZONE_MODULES;
    let draw_line = |y: usize| -> String {
        let cells = (0..side).map(|x| match (is_dark(x, y), is_dark(x, y + 1)) {
            (true, true) => '█',
            (true, false) => '▀',
            (false, true) => '▄',
            (false, false) => ' ',
        });
        format!("\x1b[30;107m{}\x1b[0m", cells.collect::<String>())
    };
    Ok((0..side).step_by(2).map(draw_line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qr_code_has_a_border_and_its_corner_marks() {
        let lines = draw_qr_code("https://box.example/#c=K7Q2-9FXM").unwrap();
        let plain: Vec<String> = lines
            .iter()
            .map(|line| line.replace("\x1b[30;107m", "").replace("\x1b[0m", ""))
            .collect();
        let widths: Vec<usize> = plain.iter().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{widths:?}");
        assert_eq!(plain[0].trim(), "", "the border");
        assert!(plain[1].starts_with("  █▀▀▀▀▀█"), "{:?}", plain[1]);
    }
}
