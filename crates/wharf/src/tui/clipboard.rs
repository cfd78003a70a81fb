//! The clipboard: that of the terminal, or the buffer of the tmux around the client.

use base64::Engine;
use tokio::sync::mpsc::Sender;
use wharf_tui::{CopyPlace, TuiInput};

use crate::connect::fill_tmux_buffer;

/// The most bytes that terminals take for the clipboard.
const MAX_COPIED_BYTES: usize = 74_000;

/// Returns true if the client runs in tmux, which by default drops the sequence that sets the
/// clipboard.
pub(super) fn is_in_tmux() -> bool {
    std::env::var_os("TMUX").is_some_and(|value| !value.is_empty())
}

/// Returns the sequence that puts a text into the terminal's clipboard (OSC 52).
pub(super) fn format_clipboard(text: &str) -> Result<String, String> {
    if text.len() > MAX_COPIED_BYTES {
        return Err(format!(
            "not copied: {} bytes are too many for a terminal's clipboard",
            text.len()
        ));
    }
    Ok(format!("\x1b]52;c;{}\x07", base64::engine::general_purpose::STANDARD.encode(text)))
}

/// Puts a text into tmux's buffer while the client goes on, and sends the outcome as an input.
/// `is_sent` is true if the client has sent the text to the terminal too, in case the terminal is
/// not that of this tmux.
pub(super) fn start_tmux_copy(text: String, is_sent: bool, inputs: &Sender<TuiInput>) {
    let inputs = inputs.clone();
    tokio::spawn(async move {
        let outcome = match fill_tmux_buffer(&text).await {
            Ok(()) => Ok(CopyPlace::TmuxBuffer),
            Err(error) if is_sent => {
                Err(format!("{error:#}; the text was sent to the terminal itself"))
            }
            Err(error) => Err(format!("not copied: {error:#}")),
        };
        let _ = inputs.send(TuiInput::Copied(outcome)).await;
    });
}
