//! Looks at the keepers of a state directory from outside, for `wharf doctor`. Works without a
//! host.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::kept_files::{create_file, file_position, move_bytes};
use super::process_records::read_kept_records;

/// The keepers of a state directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeeperReport {
    /// The versions of the programs that keepers of kept agents run, one for each agent.
    pub versions: Vec<String>,
    /// Sockets of keepers that are gone.
    pub stale_sockets: Vec<PathBuf>,
}

/// Reads the records and sockets of a state directory. Changes nothing.
pub fn inspect_keepers(state_dir: &Path) -> KeeperReport {
    let run = state_dir.join("run");
    let kept = read_kept_records(&run);
    let living: HashSet<String> = kept.iter().map(|(pid, _)| pid.to_string()).collect();
    let list =
        |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_named = |path: &Path, fits: &dyn Fn(&str) -> bool| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(fits)
    };
    let folders = list(&run).filter(|path| is_named(path, &|name| name.starts_with("keepers-")));
    let sockets = folders.flat_map(|folder| list(&folder));
    let mut stale_sockets: Vec<PathBuf> =
        sockets.filter(|path| !is_named(path, &|name| living.contains(name))).collect();
    stale_sockets.sort();
    let mut versions: Vec<String> = kept.into_iter().map(|(_, record)| record.version).collect();
    versions.sort();
    KeeperReport { versions, stale_sockets }
}

/// Tries what keepers and hosts do with an agent's pipes: files in memory, and `splice` to and from
/// them.
pub fn check_keeper_support() -> io::Result<()> {
    let (file, (reader, mut writer)) = (create_file("wharf-doctor")?, io::pipe()?);
    writer.write_all(b"x")?;
    let moved = move_bytes(&reader, &file, 1)?;
    if moved != 1 || file_position(&file)? != 1 {
        return Err(io::Error::other("splice does not count what it moves"));
    }
    // The next host follows a keeper by a pidfd, since the keeper is not its child.
    rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::directory_identity::DirectoryIdentity;
    use super::super::process_records::{KeptRecord, ProcessRecords};
    use super::*;

    #[test]
    fn sockets_without_a_living_keeper_are_stale() {
        let temp = tempfile::tempdir().unwrap();
        let identity = DirectoryIdentity::load_or_create(temp.path()).unwrap();
        let records = ProcessRecords::new(temp.path().join("run"), identity);
        let own = std::process::id();
        records.add(own, "tag", None);
        assert_eq!(
            inspect_keepers(temp.path()),
            KeeperReport::default(),
            "an agent that ends with its host"
        );
        let session = "sess_1".to_owned();
        let version = "0.0.9".to_owned();
        let secret = "s".to_owned();
        records
            .note_kept(
                own,
                KeptRecord {
                    session,
                    start: 1,
                    protocol: 1,
                    version,
                    secret,
                    limits: None,
                },
            )
            .unwrap();
        let sockets = records.socket_dir(1);
        fs::create_dir_all(&sockets).unwrap();
        for name in [own.to_string(), "1".to_owned()] {
            fs::write(sockets.join(name), "").unwrap();
        }
        let expected = KeeperReport {
            versions: vec!["0.0.9".to_owned()],
            stale_sockets: vec![sockets.join("1")],
        };
        assert_eq!(inspect_keepers(temp.path()), expected);
    }

    #[test]
    fn this_kernel_has_files_in_memory_and_splice() {
        check_keeper_support().unwrap();
    }
}
