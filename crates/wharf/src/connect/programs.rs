//! Programs that a verb runs and waits for: the system's service manager, the user's editor, the
//! opener of addresses.

use std::fs::DirBuilder;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::io::AsyncWriteExt;

/// The editor of a user who has named none.
const DEFAULT_EDITOR: &str = "vi";
/// The pager of a user who has named none.
const DEFAULT_PAGER: &str = "less";
/// How long tmux may take for a text.
const TMUX_TIMEOUT: Duration = Duration::from_secs(5);

/// The output of a program of the service manager.
#[derive(Debug)]
pub(crate) struct ManagerOutput {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program and waits for its end. Returns `None` if this machine does not have it.
#[expect(clippy::disallowed_methods, reason = "programs that a verb waits for are run from here")]
pub(crate) fn run_manager(
    program: &str,
    arguments: &[&str],
) -> anyhow::Result<Option<ManagerOutput>> {
    match Command::new(program).args(arguments).stdin(Stdio::null()).output() {
        Ok(output) => Ok(Some(ManagerOutput {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).trim_end().to_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
        })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("running {program}")),
    }
}

/// Opens a file in the user's editor and waits until it is closed.
#[expect(clippy::disallowed_methods, reason = "programs that a verb waits for are run from here")]
pub(crate) fn run_editor(file: &Path) -> anyhow::Result<()> {
    let named = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let line = named.unwrap_or_else(|| DEFAULT_EDITOR.to_owned());
    let words =
        wharf_host::split_command(&line).with_context(|| format!("reading the editor {line:?}"))?;
    let (program, arguments) = words.split_first().context("no editor is named; set EDITOR")?;
    let status = Command::new(program).args(arguments).arg(file).status();
    let status = status
        .with_context(|| format!("running the editor {program}; set EDITOR to another one"))?;
    ensure!(status.success(), "the editor {program} failed ({status}); nothing is changed");
    Ok(())
}

/// Opens an address in the user's browser through the desktop. Returns false without a desktop, or
/// if the opener fails.
#[expect(clippy::disallowed_methods, reason = "programs that a verb waits for are run from here")]
pub(crate) fn open_in_browser(address: &str) -> bool {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    if !has_desktop {
        return false;
    }
    let mut opener = Command::new("xdg-open");
    opener
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    opener.status().is_ok_and(|status| status.success())
}

/// Shows a text in the user's pager and waits until it is closed.
#[expect(clippy::disallowed_methods, reason = "programs that a verb waits for are run from here")]
pub(crate) fn run_pager(text: &str) -> anyhow::Result<()> {
    let line = std::env::var("PAGER").ok().filter(|value| !value.is_empty());
    let line = line.unwrap_or_else(|| DEFAULT_PAGER.to_owned());
    let words =
        wharf_host::split_command(&line).with_context(|| format!("reading the pager {line:?}"))?;
    let (program, arguments) = words.split_first().context("no pager is named; set PAGER")?;
    let child = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn();
    let mut child =
        child.with_context(|| format!("running the pager {program}; set PAGER to another one"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A pager that is closed early does not read the rest.
        let _ = stdin.write_all(text.as_bytes());
    }
    child.wait().with_context(|| format!("waiting for the pager {program}"))?;
    Ok(())
}

/// Puts a text into the buffer of the tmux around this process. tmux hands it on to the clipboard
/// of its terminal.
#[expect(clippy::disallowed_methods, reason = "programs that a verb waits for are run from here")]
pub(crate) async fn fill_tmux_buffer(text: &str) -> anyhow::Result<()> {
    // tmux before version 3.2 knows no -w: then the text is in its buffer alone.
    for arguments in [&["load-buffer", "-w", "-"][..], &["load-buffer", "-"]] {
        let mut tmux = tokio::process::Command::new("tmux");
        tmux.args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = tmux.spawn().context("running tmux load-buffer")?;
        let fed = async {
            if let Some(mut stdin) = child.stdin.take() {
                // A tmux that ends early does not read the rest.
                let _ = stdin.write_all(text.as_bytes()).await;
            }
            child.wait().await
        };
        let status = tokio::time::timeout(TMUX_TIMEOUT, fed)
            .await
            .context("tmux does not answer")??;
        if status.success() {
            return Ok(());
        }
    }
    bail!("tmux load-buffer failed")
}

/// A folder for its owner alone, which is removed with its files when this is dropped.
#[derive(Debug)]
pub(crate) struct PrivateFolder(PathBuf);

impl PrivateFolder {
    pub(crate) fn create(name: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("{name}-{}", wharf_host::random_text(12)));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
