//! A disk small enough for a test to fill. Mounting one needs privileges that some users lack.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::program;

/// A file system in memory, mounted for the lifetime of this value.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk. `size` has the form of `mount`, such as `8m`.
    pub fn mount(path: &Path, size: &str) -> Result<Self> {
        fs::create_dir_all(path)?;
        run_on_path(
            &["mount", "-t", "tmpfs", "-o", &format!("size={size},mode=0700"), "tmpfs"],
            path,
        )?;
        Ok(Self { path: path.to_owned() })
    }

    /// Returns true if a disk can be mounted here, and reports a skipped test otherwise.
    pub fn is_possible() -> bool {
        let tried = || -> Result<()> {
            let dir = TempDir::new().context("making a directory")?;
            Self::mount(dir.path(), "64k").map(drop)
        };
        let tried = tried();
        if let Err(error) = &tried {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: this test needs a disk of its own. {error:#}"
            );
        }
        tried.is_ok()
    }

    /// Makes the disk read-only.
    pub fn make_read_only(&self) -> Result<()> {
        run_on_path(&["mount", "-o", "remount,ro"], &self.path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = run_on_path(&["umount", "-l"], &self.path);
    }
}

fn run_on_path(command: &[&str], path: &Path) -> Result<()> {
    let (program, arguments) = command.split_first().context("no program")?;
    let output = program::new_command(program)
        .args(arguments)
        .arg(path)
        .output()
        .context("starting mount")?;
    if !output.status.success() {
        bail!(
            "{} {}: {}",
            command.join(" "),
            path.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// A file that takes all free space; dropping it frees the space.
#[derive(Debug)]
pub struct DiskFiller {
    path: PathBuf,
    file: File,
}

impl DiskFiller {
    pub fn fill_disk(folder: &Path) -> Result<Self> {
        let path = folder.join("filler");
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let mut filler = Self { path, file };
        filler.take_rest();
        Ok(filler)
    }

    /// Takes the space that has become free since.
    pub fn take_rest(&mut self) {
        for size in [64 << 10, 4 << 10, 1] {
            while self.file.write_all(&vec![0; size]).is_ok() {}
        }
    }
}

impl Drop for DiskFiller {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
