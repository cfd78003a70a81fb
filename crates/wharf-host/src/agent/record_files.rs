//! Finds the records of process trees in their directory. Anything else that lies there costs a
//! line in the log and nothing more.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::de::DeserializeOwned;

/// No record is larger. It names each process of a tree in some thirty bytes.
const MAX_RECORD_BYTES: u64 = 4 << 20;
/// The odd files that are named in the log, at each start.
const MAX_NAMED_FILES: usize = 8;
/// The extension of a record that is being written.
pub(super) const UNFINISHED_EXTENSION: &str = "new";
/// The extension of a directory with the [output](super::left_output) that a keeper has left.
pub(super) const LEFT_OUTPUT_EXTENSION: &str = "left";
/// The same while the keeper writes it.
pub(super) const UNFINISHED_OUTPUT_EXTENSION: &str = "leaving";
/// The same if no host can take it in. It is for a person to look at.
pub(super) const UNUSABLE_OUTPUT_EXTENSION: &str = "unusable";
/// The same while a host removes it, whose session needs it no more.
pub(super) const TAKEN_OUTPUT_EXTENSION: &str = "taken";

/// A file whose name and content are those of a record.
#[derive(Debug)]
pub(super) struct RecordFile<R> {
    pub(super) path: PathBuf,
    pub(super) record: R,
}

/// Reads the records of a directory. `keeper_of` returns the keeper's pid, which is the name of a
/// record's file.
pub(super) fn read_records<R: DeserializeOwned>(
    dir: &Path,
    keeper_of: impl Fn(&R) -> u32,
) -> io::Result<Vec<RecordFile<R>>> {
    let mut found = Vec::new();
    let mut odd = Vec::new();
    for path in list_files(dir)? {
        let Some(pid) = pid_of(&path) else {
            odd.extend(
                (!is_known(&path)).then(|| (path, "its name is not that of a record".to_owned())),
            );
            continue;
        };
        match read_record::<R>(&path) {
            Ok(record) if keeper_of(&record) == pid => found.push(RecordFile { path, record }),
            Ok(_) => odd.push((path, "it is the record of another keeper".to_owned())),
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => odd.push((path, error.to_string())),
        }
    }
    report_odd_files(&odd);
    Ok(found)
}

/// Finishes what a host has left that was killed while it wrote a record: a tree without another
/// record keeps the new one. Two records of one keeper would be two agents to take over.
pub(super) fn settle_unfinished_records<R: DeserializeOwned>(
    dir: &Path,
    keeper_of: impl Fn(&R) -> u32,
) -> io::Result<()> {
    for half in list_files(dir)? {
        let record = half.with_extension("");
        if !has_extension(&half, UNFINISHED_EXTENSION) || pid_of(&record).is_none() {
            continue;
        }
        let settled = match read_record::<R>(&half) {
            Ok(found) if Some(keeper_of(&found)) == pid_of(&record) && !exists(&record) => {
                fs::rename(&half, &record)
            }
            Ok(_) => fs::remove_file(&half),
            // The record was cut off, or Wharf did not write this file.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => fs::remove_file(&half),
            Err(error) => Err(error),
        };
        if let Err(error) = settled {
            tracing::warn!(%error, file = %half.display(), "an unfinished record stays");
        }
    }
    Ok(())
}

/// Reads one record, whatever has its name. Fails with `InvalidData` for a regular file that holds
/// no record.
pub(super) fn read_record<R: DeserializeOwned>(path: &Path) -> io::Result<R> {
    let text = read_bounded(path, MAX_RECORD_BYTES)?;
    wharf_json::read_own(&text)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it holds no record"))
}

/// Reads a regular file of at most this size.
pub(super) fn read_bounded(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path, OFlags::RDONLY)?;
    if file.metadata()?.len() > max_bytes {
        return Err(io::Error::other(format!(
            "{} is larger than {max_bytes} bytes",
            path.display()
        )));
    }
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file, whatever has its name: a link is not followed, and a pipe is not waited
/// for.
pub(super) fn open_regular(path: &Path, access: OFlags) -> io::Result<fs::File> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!("{} is no regular file", path.display())));
    }
    Ok(file)
}

/// Returns the pid that is the whole name of a file.
fn pid_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    name.parse().ok().filter(|pid: &u32| pid.to_string() == name)
}

/// Returns true for the other files and directories that Wharf keeps beside the records.
fn is_known(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_unfinished =
        has_extension(path, UNFINISHED_EXTENSION) && pid_of(&path.with_extension("")).is_some();
    name.starts_with("keepers-")
        || is_unfinished
        || (keeper_of_output(path).is_some() && is_dir(path))
}

fn is_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Returns the directories with output that keepers have left, and that have this extension.
/// Directories with names that Wharf does not give are someone else's.
pub(super) fn find_left_outputs(dir: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = list_files(dir)?;
    found.retain(|path| {
        has_extension(path, extension) && keeper_of_output(path).is_some() && is_dir(path)
    });
    Ok(found)
}

/// Returns the pid of the keeper that has left output under this name: `PID.MILLIS.left`, or with
/// another of the extensions. Returns `None` for every other name.
pub(super) fn keeper_of_output(path: &Path) -> Option<u32> {
    let extensions = [
        LEFT_OUTPUT_EXTENSION,
        UNFINISHED_OUTPUT_EXTENSION,
        UNUSABLE_OUTPUT_EXTENSION,
        TAKEN_OUTPUT_EXTENSION,
    ];
    let mut parts = path.file_name()?.to_str()?.splitn(3, '.');
    let pid = parts.next()?;
    let millis = parts.next()?;
    let extension = parts.next()?;
    let left_at: u64 = millis.parse().ok()?;
    let keeper: u32 = pid.parse().ok()?;
    let is_own = left_at.to_string() == millis
        && keeper.to_string() == pid
        && extensions.contains(&extension);
    is_own.then_some(keeper)
}

/// Lists a directory. A directory that does not exist counts as empty.
fn list_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn report_odd_files(odd: &[(PathBuf, String)]) {
    for (path, why) in odd.iter().take(MAX_NAMED_FILES) {
        tracing::warn!(file = %path.display(), why, "a file among the records of processes is left alone");
    }
    if odd.len() > MAX_NAMED_FILES {
        let more = odd.len() - MAX_NAMED_FILES;
        tracing::warn!(more, "more files among the records of processes are left alone");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::{Value, json};

    use super::*;

    fn keeper_of(record: &Value) -> u32 {
        record["keeper"]
            .as_u64()
            .and_then(|pid| u32::try_from(pid).ok())
            .unwrap_or_default()
    }

    fn names_of(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = read_records(dir, keeper_of)
            .unwrap()
            .into_iter()
            .filter_map(|file| Some(file.path.file_name()?.to_str()?.to_owned()))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn odd_files_among_the_records_are_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let record = json!({ "keeper": 71 }).to_string();
        fs::write(at("71"), &record).unwrap();
        for copy in ["72", "071", "+71", "71.copy", "71~", "copy of 71"] {
            fs::write(at(copy), &record).unwrap();
        }
        fs::hard_link(at("71"), at("73")).unwrap();
        symlink(at("71"), at("74")).unwrap();
        symlink("/nonexistent", at("75")).unwrap();
        symlink(temp.path(), at("76")).unwrap();
        fs::create_dir(at("77")).unwrap();
        fs::create_dir(at("78.new")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("79"), Mode::RWXU).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("80.new"), Mode::RWXU).unwrap();
        fs::File::create(at("81")).unwrap().set_len(64 << 20).unwrap();
        fs::write(at("82"), "x".repeat(1 << 20)).unwrap();
        let before = list_files(temp.path()).unwrap().len();
        settle_unfinished_records(temp.path(), keeper_of).unwrap();
        assert_eq!(names_of(temp.path()), ["71"]);
        assert_eq!(list_files(temp.path()).unwrap().len(), before, "nothing was removed");
    }

    #[test]
    fn unfinished_record_of_another_keeper_does_not_become_one() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("71.new"), json!({ "keeper": 72 }).to_string()).unwrap();
        fs::write(temp.path().join("73.new"), "{\"keep").unwrap();
        fs::write(temp.path().join("74.new"), json!({ "keeper": 74 }).to_string()).unwrap();
        settle_unfinished_records(temp.path(), keeper_of).unwrap();
        assert_eq!(names_of(temp.path()), ["74"]);
        assert_eq!(list_files(temp.path()).unwrap().len(), 1);
    }

    #[test]
    fn only_directories_with_names_of_left_output_are_taken_for_it() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::create_dir(at("keepers-1")).unwrap();
        for extension in ["left", "leaving", "taken", "unusable"] {
            let own = at(&format!("71.1700000000000.{extension}"));
            fs::create_dir(&own).unwrap();
            let foreign =
                ["notes", "71", "71.x", "x.5", "071.5", "71.05", "71.5.6", ".5", "71.", "71.-5"];
            let mut odd: Vec<PathBuf> =
                foreign.iter().map(|name| at(&format!("{name}.{extension}"))).collect();
            odd.iter().for_each(|path| fs::create_dir(path).unwrap());
            let file = at(&format!("72.5.{extension}"));
            let link = at(&format!("73.5.{extension}"));
            fs::write(&file, "mine").unwrap();
            symlink(&own, &link).unwrap();
            odd.extend([file, link]);
            assert_eq!(
                find_left_outputs(temp.path(), extension).unwrap(),
                std::slice::from_ref(&own)
            );
            assert!(is_known(&own));
            let taken: Vec<&PathBuf> = odd.iter().filter(|path| is_known(path)).collect();
            assert_eq!(taken, Vec::<&PathBuf>::new(), "the log of the host does not name them");
        }
        assert!(is_known(&at("keepers-1")));
    }

    #[test]
    fn directory_that_cannot_be_listed_is_not_taken_for_an_empty_one() {
        let temp = tempfile::tempdir().unwrap();
        let run = temp.path().join("run");
        assert_eq!(find_left_outputs(&run, LEFT_OUTPUT_EXTENSION).unwrap(), Vec::<PathBuf>::new());
        // No directory can be listed here, as with a failing disk.
        fs::write(&run, "").unwrap();
        assert!(find_left_outputs(&run, LEFT_OUTPUT_EXTENSION).is_err());
        assert!(read_records(&run, keeper_of).is_err());
        assert!(settle_unfinished_records(&run, keeper_of).is_err());
    }
}
