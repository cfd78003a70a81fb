//! Programs that get the terminal for a while: the editor, the pager, and an agent's login.

use std::path::Path;

use anyhow::Context;
use wharf_tui::ProgramEnd;

use crate::connect::{PrivateFolder, run_editor, run_in_terminal, run_pager};
use crate::global::GlobalOptions;

/// Opens the text in the person's editor.
pub(super) async fn edit_text(text: String) -> ProgramEnd {
    let edited = run_blocking(move || {
        let folder =
            PrivateFolder::create("wharf-prompt").context("making a file for the editor")?;
        let file = folder.path().join("prompt.md");
        write_and_edit(&file, &text)
    });
    ProgramEnd::Editor(edited.await)
}

fn write_and_edit(file: &Path, text: &str) -> anyhow::Result<String> {
    std::fs::write(file, text).context("writing the text for the editor")?;
    run_editor(file)?;
    std::fs::read_to_string(file).context("reading the text from the editor")
}

/// Shows the text in the person's pager.
pub(super) async fn page_text(text: String) -> ProgramEnd {
    ProgramEnd::Pager(run_blocking(move || run_pager(&text)).await)
}

/// Logs an agent in.
pub(super) async fn log_agent_in(global: GlobalOptions, adapter: String) -> ProgramEnd {
    let login = run_blocking(move || {
        let command = global.own_command(&["login".to_owned(), adapter])?;
        let status = run_in_terminal(&command, &[])?;
        anyhow::ensure!(status.success(), "the login did not succeed ({status})");
        Ok(())
    });
    ProgramEnd::Login(login.await)
}

/// Runs a program beside the streams, which go on.
async fn run_blocking<T: Send + 'static>(
    program: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(program).await {
        Ok(outcome) => outcome.map_err(|error| format!("{error:#}")),
        Err(error) => Err(error.to_string()),
    }
}
