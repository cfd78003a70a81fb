//! Scopes of systemd for keepers. A service's control group is what systemd ends, limits and
//! counts; a keeper in a scope of its own has no part in that of the host.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use wharf_config::KeeperScope;

const PROGRAM: &str = "systemd-run";

/// Returns the command that starts a keeper in a scope of its own. Fails if its program is not
/// installed. The program is looked for on the host's own path: the path of an agent is its
/// caller's choice.
pub(super) fn scope_command(scope: KeeperScope) -> io::Result<Vec<OsString>> {
    let manager = match scope {
        KeeperScope::None => return Ok(Vec::new()),
        KeeperScope::User => "--user",
        KeeperScope::System => "--system",
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join(PROGRAM))
        .find(|file| file.is_file());
    let program: PathBuf =
        found.ok_or_else(|| io::Error::other(format!("{PROGRAM} is not on the PATH")))?;
    let words = [manager, "--scope", "--quiet", "--collect", "--"].map(OsString::from);
    Ok(std::iter::once(program.into()).chain(words).collect())
}
