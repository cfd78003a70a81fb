//! `wharf export`: a session's whole transcript as a document.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use wharf_render::text::to_printable_lines;

use crate::client::{HostCall, url_path};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::{output, session_ref};

#[derive(Debug, Args)]
pub(crate) struct ExportVerb {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
    /// Markdown, the rows as JSON, or one HTML file without scripts.
    #[arg(long, value_name = "FORMAT", default_value = "md")]
    format: DocumentFormat,
    /// Write it to this file, which only you can read [default: stdout].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long, requires = "output")]
    force: bool,
    /// Leave text in that looks like a secret.
    #[arg(long)]
    raw: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DocumentFormat {
    Md,
    Json,
    Html,
}

impl DocumentFormat {
    const fn word(self) -> &'static str {
        match self {
            Self::Md => "md",
            Self::Json => "json",
            Self::Html => "html",
        }
    }
}

pub(crate) async fn run(global: &GlobalOptions, verb: ExportVerb) -> anyhow::Result<Exit> {
    if let Some(path) = verb
        .output
        .as_deref()
        .filter(|path| !verb.force && path.symlink_metadata().is_ok())
    {
        return Err(file_exists(path).into());
    }
    let client = global.connect_client().await?;
    let session = session_ref::find_session(&client, verb.id.as_deref()).await?;
    let path = url_path(&["sessions", &session.id, "export"]);
    let format = verb.format.word();
    let call = HostCall::get(format!("{path}?format={format}&raw={}", verb.raw));
    match &verb.output {
        Some(path) => {
            let mut document = DocumentFile::create(path)?;
            client.download(&call, |piece| document.write_piece(piece)).await?;
            document.finish(verb.force)?;
            output::print_note(&format!("wrote {}", path.display()));
        }
        None => {
            let mut printer =
                DocumentPrinter { is_terminal: global.screen().terminal, line: Vec::new() };
            match client.download(&call, |piece| printer.print_piece(piece)).await {
                Err(error) if is_reader_gone(&error) => {}
                Err(error) => return Err(error),
                Ok(()) => printer.finish(),
            }
        }
    }
    Ok(Exit::Ok)
}

fn file_exists(path: &Path) -> Failure {
    let words = format!(
        "{} exists already; choose another name, or replace it with --force",
        path.display()
    );
    Failure::new(Exit::Usage, words)
}

/// A file that gets its name when it is complete. Dropped before that, it is deleted.
#[derive(Debug)]
struct DocumentFile {
    path: PathBuf,
    part_path: PathBuf,
    file: File,
}

impl DocumentFile {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let mut part = path
            .file_name()
            .with_context(|| format!("{} is no file name", path.display()))?
            .to_owned();
        part.push(format!(".{}.part", wharf_host::random_text(8)));
        let part_path = path.with_file_name(part);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part_path);
        let file = file.with_context(|| format!("making {}", part_path.display()))?;
        Ok(Self { path: path.to_owned(), part_path, file })
    }

    fn write_piece(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        self.file
            .write_all(piece)
            .with_context(|| format!("writing {}", self.part_path.display()))
    }

    /// Gives the file its name. Without `force` a file that came meanwhile is not replaced.
    fn finish(self, force: bool) -> anyhow::Result<()> {
        self.file
            .sync_all()
            .with_context(|| format!("writing {}", self.part_path.display()))?;
        if force {
            let renamed = std::fs::rename(&self.part_path, &self.path);
            return renamed.with_context(|| format!("writing {}", self.path.display()));
        }
        match std::fs::hard_link(&self.part_path, &self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(file_exists(&self.path).into())
            }
            // Some file systems have no hard links.
            Err(_) if self.path.symlink_metadata().is_err() => {
                let renamed = std::fs::rename(&self.part_path, &self.path);
                renamed.with_context(|| format!("writing {}", self.path.display()))
            }
            linked => linked.with_context(|| format!("writing {}", self.path.display())),
        }
    }
}

impl Drop for DocumentFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.part_path);
    }
}

/// Prints a document: as it is into a pipe, line by line without control characters on a terminal.
#[derive(Debug)]
struct DocumentPrinter {
    is_terminal: bool,
    /// The beginning of a line.
    line: Vec<u8>,
}

impl DocumentPrinter {
    fn print_piece(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        if !self.is_terminal {
            return output::try_print_bytes(piece).context("writing to stdout");
        }
        self.line.extend_from_slice(piece);
        let whole = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.line.split_off(whole);
        let lines = to_printable_lines(&String::from_utf8_lossy(&self.line));
        self.line = rest;
        output::try_print_bytes(lines.as_bytes()).context("writing to stdout")
    }

    fn finish(self) {
        if !self.line.is_empty() {
            output::print_line(&to_printable_lines(&String::from_utf8_lossy(&self.line)));
        }
    }
}

/// Returns true if the reader of stdout is gone, which does not count as an error. A full disk
/// does.
fn is_reader_gone(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn file_is_private_complete_or_absent_and_never_replaced_by_accident() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("docs.md");
        let list = || std::fs::read_dir(folder.path()).unwrap().count();
        let mut document = DocumentFile::create(&path)?;
        document.write_piece(b"half")?;
        drop(document);
        assert_eq!(list(), 0, "a document that was cut off leaves nothing");
        let mut document = DocumentFile::create(&path)?;
        document.write_piece(b"first")?;
        document.finish(false)?;
        assert_eq!(std::fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
        let mut document = DocumentFile::create(&path)?;
        document.write_piece(b"second")?;
        assert_eq!(Failure::exit_of(&document.finish(false).unwrap_err()), Exit::Usage);
        assert_eq!(std::fs::read(&path)?, b"first");
        let mut document = DocumentFile::create(&path)?;
        document.write_piece(b"third")?;
        document.finish(true)?;
        assert_eq!((std::fs::read(&path)?, list()), (b"third".to_vec(), 1));
        Ok(())
    }
}
