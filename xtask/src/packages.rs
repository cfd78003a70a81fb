//! Installs the packages of the clients, pinned by their lock files, into cargo's target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{command, run_checked};

/// Copies the files of a client to where its packages and generated files may lie beside them.
/// Packages that are installed there stay from run to run.
pub(crate) fn copy_sources(from: &Path, to: &Path) -> Result<PathBuf> {
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from).with_context(|| format!("listing {}", from.display()))? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(to.to_path_buf())
}

/// Installs the packages of `package-lock.json` into `node_modules`, unless they are there. Returns
/// the folder of their programs, and fails if one of the required paths in `node_modules` is
/// missing: npm does not fail if it cannot install a package of one processor.
pub(crate) fn install_node_packages(dir: &Path, required: &[&str]) -> Result<PathBuf> {
    let list = dir.join("package-lock.json");
    let modules = dir.join("node_modules");
    let stamp = modules.join("installed.json");
    let missing = || required.iter().find(|path| !modules.join(path).exists());
    if is_outdated(&stamp, &list)? || missing().is_some() {
        let flags = ["ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"];
        run_checked(command_in(dir, "npm").args(flags))?;
        if let Some(name) = missing() {
            bail!("npm has not installed {name} in {}; run the command again", modules.display());
        }
        fs::copy(&list, &stamp)?;
    }
    Ok(modules.join(".bin"))
}

/// Installs the packages of a requirements file into a virtual environment of their own, unless
/// they are there. Returns the folder of its programs.
pub(crate) fn install_python_packages(
    dir: &Path,
    requirements: &str,
    venv: &str,
) -> Result<PathBuf> {
    let bin = dir.join(venv).join("bin");
    let list = dir.join(requirements);
    let stamp = dir.join(venv).join("installed.txt");
    if is_outdated(&stamp, &list)? {
        run_checked(command_in(dir, "python3").args(["-m", "venv", "--clear", venv]))?;
        let flags = [
            "install",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
            "--require-hashes",
            "-r",
            requirements,
        ];
        run_checked(command_in(dir, bin.join("pip")).args(flags))?;
        fs::copy(&list, &stamp)?;
    }
    Ok(bin)
}

/// Returns a command that runs in this directory.
pub(crate) fn command_in(dir: &Path, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = command(program);
    command.current_dir(dir);
    command
}

/// Returns true if the packages were not installed from this list.
fn is_outdated(installed: &Path, wanted: &Path) -> Result<bool> {
    let wanted = fs::read(wanted).with_context(|| format!("reading {}", wanted.display()))?;
    Ok(fs::read(installed).ok() != Some(wanted))
}
