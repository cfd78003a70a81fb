//! Checks of the state directory: its permissions, its free space, and the speed of synced writes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::getuid;
use wharf_config::Workspaces;
use wharf_host::SET_ASIDE_SUFFIX;

use super::Finding;

/// The longest path of a socket that every system accepts.
const MAX_SOCKET_PATH_BYTES: usize = 103;
/// Less free space than this is used up in days; less than the next in minutes.
const LOW_SPACE_BYTES: u64 = 1 << 30;
const MIN_SPACE_BYTES: u64 = 64 << 20;
/// A synced write that takes longer is reported: every prompt waits for one.
const SLOW_SYNC: Duration = Duration::from_millis(250);

pub(super) fn check_state_dir(dir: &Path) -> Vec<Finding> {
    let mut findings = vec![check_socket(dir)];
    match fs::metadata(dir) {
        Ok(known) if known.is_dir() => {
            findings.push(check_privacy(dir, &known));
            findings.extend(check_open_files(dir));
            findings.extend(check_set_aside(dir));
            findings.push(check_sync(dir));
            findings.push(check_space(dir));
            if let Err(error) = Workspaces::of(dir).list() {
                findings.push(Finding::broken(
                    "workspaces",
                    error.to_string(),
                    "mend the file, or remove it",
                ));
            }
        }
        Ok(_) => findings.push(Finding::broken(
            "state",
            format!("{} is not a directory", dir.display()),
            "remove it, or choose another --state-dir",
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            findings.push(Finding::note(
                "state",
                format!("{} will be made by the first host", dir.display()),
            ));
            if let Some(above) = dir.ancestors().find(|above| above.is_dir()) {
                findings.push(check_sync(above));
                findings.push(check_space(above));
            }
        }
        Err(error) => findings.push(Finding::broken(
            "state",
            format!("{} cannot be looked at: {error}", dir.display()),
            "give yourself access, or choose another --state-dir",
        )),
    }
    findings
}

fn check_socket(dir: &Path) -> Finding {
    let path = dir.join("wharf.sock");
    if path.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
        let says = format!(
            "the path of the socket has more than {MAX_SOCKET_PATH_BYTES} bytes: {}",
            path.display()
        );
        return Finding::broken("socket", says, "choose a --state-dir with a shorter path");
    }
    Finding::ok("socket", path.display().to_string())
}

fn check_privacy(dir: &Path, known: &fs::Metadata) -> Finding {
    if known.uid() != getuid().as_raw() {
        let says = format!("{} belongs to another user", dir.display());
        return Finding::broken("state", says, "choose another --state-dir, or run as that user");
    }
    if known.mode() & 0o077 != 0 {
        let says = format!("{} is open to others ({:o})", dir.display(), known.mode() & 0o777);
        return Finding::warning("state", says, format!("chmod 700 {}", dir.display()));
    }
    Finding::ok("state", format!("{} is yours alone", dir.display()))
}

/// Returns a finding for each file in the directory that other users could read if the directory
/// were open to them.
fn check_open_files(dir: &Path) -> Vec<Finding> {
    let mut open: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    open.retain(|path| {
        fs::symlink_metadata(path)
            .is_ok_and(|known| known.mode() & 0o077 != 0 && !known.is_symlink())
    });
    open.sort();
    let told = |path: &PathBuf| {
        let says = format!("{} is open to others", path.display());
        let advice = format!("chmod go= {}", path.display());
        let secret = path.file_name().is_some_and(|name| name == "token" || name == "tokens.json");
        let finding = if secret { Finding::broken } else { Finding::warning };
        finding("state", says, advice)
    };
    open.iter().map(told).collect()
}

/// Returns a finding for each damaged file that a host has moved away.
pub(super) fn check_set_aside(dir: &Path) -> Vec<Finding> {
    let names = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.contains(SET_ASIDE_SUFFIX)).collect();
    names.sort();
    names
        .iter()
        .map(|name| describe_set_aside(&dir.join(name).display().to_string(), name))
        .collect()
}

fn describe_set_aside(path: &str, name: &str) -> Finding {
    let says = |lost: &str| format!("{lost}; the damaged file is kept as {path}");
    if name.starts_with("tokens.json") {
        let lost = "tokens.json was damaged: all tokens but the host's own are refused";
        let advice = format!("make new tokens with `wharf token create`, then remove {path}");
        return Finding::warning("tokens", says(lost), advice);
    }
    let lost = "a file of the host was damaged and was made again";
    Finding::warning(
        "state",
        says(lost),
        format!("look for the cause (disk, memory), then remove {path}"),
    )
}

/// Writes and syncs a file as the log is written, and removes it.
fn check_sync(dir: &Path) -> Finding {
    let path = dir.join(format!("doctor-{}", std::process::id()));
    let since = Instant::now();
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| {
            file.write_all(&[b'.'; 4096])?;
            file.sync_all()
        });
    let took = since.elapsed();
    let _ = fs::remove_file(&path);
    match written {
        Ok(()) if took > SLOW_SYNC => Finding::warning(
            "disk",
            format!(
                "a synced write in {} took {took:.0?}: every prompt waits for one",
                dir.display()
            ),
            "use a local disk for --state-dir",
        ),
        Ok(()) => Finding::ok("disk", format!("a synced write took {took:.1?}")),
        Err(error) => Finding::broken(
            "disk",
            format!("{} cannot be written: {error}", dir.display()),
            "make room or mend the access, or choose another --state-dir",
        ),
    }
}

fn check_space(dir: &Path) -> Finding {
    let free = rustix::fs::statvfs(dir).map(|known| known.f_bavail.saturating_mul(known.f_frsize));
    match free {
        Ok(free) => judge_space(dir, free),
        Err(error) => {
            Finding::note("space", format!("it cannot be told how much is free: {error}"))
        }
    }
}

pub(super) fn judge_space(dir: &Path, free: u64) -> Finding {
    let says = format!("{} MiB are free on the disk of {}", free >> 20, dir.display());
    let advice = "make room: `wharf forget` frees what a session holds";
    match free {
        ..MIN_SPACE_BYTES => Finding::broken("space", says, advice),
        MIN_SPACE_BYTES..LOW_SPACE_BYTES => Finding::warning("space", says, advice),
        LOW_SPACE_BYTES.. => Finding::ok("space", says),
    }
}
