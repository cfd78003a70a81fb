//! Keeping the modes of the state directory (rule 10.6). Neither Landlock nor a filter on calls can
//! keep an agent from changing modes of files that its user owns, so they are watched and put back.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::Inner;

/// A process that changes modes again and again is answered this often: well within the second that
/// is promised.
const REPAIR_EVERY: Duration = Duration::from_millis(200);
/// How often the host reports repairs of one path at most.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How often all modes are looked at where the kernel gives no watch.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often a change of the registry is followed at most.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

/// A mode that was put back.
#[derive(Debug, PartialEq, Eq)]
struct Repair {
    path: PathBuf,
    was: u32,
}

/// Puts the modes of the state directory and of its contents back, before the host reads any of
/// them. Fails only if the directory itself cannot be made private.
pub(super) fn repair_at_start(root: &Path) -> io::Result<()> {
    // The directory may be named by a link.
    let root = root.canonicalize()?;
    let mut repairs = Vec::from_iter(repair(&root)?);
    for dir in lasting_directories(&root) {
        repairs.extend(repair_entries(&dir));
    }
    for session in session_directories(&root) {
        for name in ["start.json", "log"] {
            repairs.extend(repair(&session.join(name)).ok().flatten());
        }
    }
    for Repair { path, was } in repairs {
        let path = path.display();
        let was = format!("{was:o}");
        tracing::warn!(%path, was, "the mode had been changed and is put back: what Wharf keeps is yours alone");
    }
    Ok(())
}

/// Watches the modes for as long as the host lives.
pub(super) fn watch(host: &Arc<Inner>) {
    let root = host
        .config
        .state_dir
        .canonicalize()
        .unwrap_or_else(|_| host.config.state_dir.clone());
    let keeper = Keeper { host: Arc::downgrade(host), root, told: HashMap::new() };
    let changes = host.registry.watch_changes();
    tokio::spawn(async move {
        let keeper = match mode_watch::Watch::new() {
            Ok(watch) => return watch.follow(keeper, changes).await,
            Err(error) => {
                tracing::warn!(%error, "the state directory cannot be watched; its modes are looked at twice a second");
                keeper
            }
        };
        drop(changes);
        keeper.look_again_and_again().await;
    });
}

/// Puts modes back while the host runs, and tells of it.
#[derive(Debug)]
struct Keeper {
    host: Weak<Inner>,
    root: PathBuf,
    /// When each path was last told of.
    told: HashMap<PathBuf, Instant>,
}

impl Keeper {
    /// The directories to look into: those that last, and those of sessions that are up. `None`
    /// when the host is gone.
    fn directories(&self) -> Option<HashSet<PathBuf>> {
        let host = self.host.upgrade()?;
        let live = host
            .registry
            .live_sessions()
            .into_iter()
            .map(|handle| host.session_dir(&handle.shared.log_id));
        let live = live.flat_map(|dir| [dir.join("log"), dir]);
        Some(lasting_directories(&self.root).into_iter().chain(live).collect())
    }

    fn repair(&mut self, path: &Path) {
        match repair(path) {
            Ok(None) => {}
            Ok(Some(repaired)) => self.tell(&repaired),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "a mode cannot be put back")
            }
        }
    }

    fn repair_all(&mut self, directories: &HashSet<PathBuf>) {
        // From the top: nothing below a closed directory can be reached.
        let mut directories: Vec<&PathBuf> = directories.iter().collect();
        directories.sort();
        for dir in directories {
            self.repair(dir);
            repair_entries(dir).iter().for_each(|repaired| self.tell(repaired));
        }
    }

    /// Names the sessions whose agents run: one of them has most likely done it.
    fn tell(&mut self, Repair { path, was }: &Repair) {
        self.told.retain(|_, at| at.elapsed() < TELL_EVERY);
        if self.told.contains_key(path) {
            return;
        }
        self.told.insert(path.clone(), Instant::now());
        let live = self
            .host
            .upgrade()
            .map(|host| host.registry.live_sessions())
            .unwrap_or_default();
        let running = live.into_iter().filter(|handle| !handle.shared.keepers().is_empty());
        let sessions: Vec<String> = running.map(|handle| handle.id().to_string()).collect();
        let path = path.display();
        let was = format!("{was:o}");
        let sessions = sessions.join(" ");
        tracing::warn!(%path, was, sessions, "the mode was changed and is put back; these sessions run");
    }

    async fn look_again_and_again(mut self) {
        while let Some(directories) = self.directories() {
            self.repair_all(&directories);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The state directory, the folders of workspaces in it and their folders of sessions: few, however
/// many sessions there are.
fn lasting_directories(root: &Path) -> Vec<PathBuf> {
    let workspaces = root.join("workspaces");
    let mut found = vec![root.to_owned(), root.join("run"), workspaces.clone()];
    for folder in folders(&workspaces) {
        found.extend([folder.join("sessions"), folder]);
    }
    found.retain(|dir| dir.is_dir());
    found.sort();
    found
}

fn session_directories(root: &Path) -> impl Iterator<Item = PathBuf> {
    folders(&root.join("workspaces"))
        .into_iter()
        .flat_map(|folder| folders(&folder.join("sessions")))
}

fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn repair_entries(dir: &Path) -> Vec<Repair> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| repair(&entry.path()).ok().flatten()).collect()
}

/// Gives a directory to its owner alone, and of a file everything to its owner that he needs and
/// nothing to others.
fn repair(path: &Path) -> io::Result<Option<Repair>> {
    let known = fs::symlink_metadata(path)?;
    let was = known.permissions().mode() & 0o777;
    let wanted = match known.file_type() {
        kind if kind.is_symlink() => return Ok(None),
        kind if kind.is_dir() => 0o700,
        _ => was & 0o700 | 0o600,
    };
    if was == wanted {
        return Ok(None);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(wanted))?;
    Ok(Some(Repair { path: path.to_owned(), was }))
}

mod mode_watch {
    use std::collections::HashSet;
    use std::ffi::OsStr;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
    use tokio::io::unix::AsyncFd;
    use tokio::sync::watch::Receiver;

    use super::{FOLLOW_EVERY, HashMap, Keeper, PathBuf, REPAIR_EVERY, io};

    /// The kernel's word on every change of a mode in some directories.
    #[derive(Debug)]
    pub(super) struct Watch {
        inotify: AsyncFd<OwnedFd>,
        directories: HashMap<i32, PathBuf>,
    }

    impl Watch {
        #[expect(
            unsafe_code,
            reason = "the one way to wait for a descriptor that is no socket and no pipe"
        )]
        pub(super) fn new() -> io::Result<Self> {
            let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            // SAFETY: an `OwnedFd` is the same open descriptor until it is dropped, and only this
            // value owns it.
            let inotify = unsafe { AsyncFd::register(inotify) }?;
            Ok(Self { inotify, directories: HashMap::new() })
        }

        pub(super) async fn follow(mut self, mut keeper: Keeper, mut changes: Receiver<u64>) {
            loop {
                changes.borrow_and_update();
                let Some(wanted) = keeper.directories() else { return };
                self.watch_only(&wanted, &mut keeper);
                // Sessions come and go; modes are put back meanwhile.
                let next = async {
                    tokio::time::sleep(FOLLOW_EVERY).await;
                    changes.changed().await
                };
                tokio::select! {
                    changed = next => if changed.is_err() {
                        return;
                    },
                    read = self.read() => match read {
                        Ok(changed) => {
                            self.repair(changed, &mut keeper);
                            // Then around again: what could not be reached before can be now.
                            tokio::time::sleep(REPAIR_EVERY).await;
                        }
                        Err(error) => {
                            tracing::warn!(%error, "the modes of the state directory are no longer watched");
                            return;
                        }
                    },
                }
            }
        }

        /// Watches these directories and no others. Looks at the contents of a new directory at
        /// once.
        fn watch_only(&mut self, wanted: &HashSet<PathBuf>, keeper: &mut Keeper) {
            let inotify = self.inotify.get_ref();
            self.directories.retain(|watch, dir| {
                let stays = wanted.contains(dir);
                if !stays {
                    let _ = inotify::remove_watch(inotify, *watch);
                }
                stays
            });
            let watched: HashSet<PathBuf> = self.directories.values().cloned().collect();
            let new: HashSet<PathBuf> = wanted.difference(&watched).cloned().collect();
            for dir in &new {
                match inotify::add_watch(inotify, dir, WatchFlags::ATTRIB | WatchFlags::ONLYDIR) {
                    Ok(watch) => drop(self.directories.insert(watch, dir.clone())),
                    Err(error) => {
                        tracing::debug!(dir = %dir.display(), %error, "a directory cannot be watched")
                    }
                }
            }
            keeper.repair_all(&new);
        }

        /// The paths whose attributes have changed; `None`: so many that the kernel has lost count.
        async fn read(&self) -> io::Result<Option<HashSet<PathBuf>>> {
            let mut ready = self.inotify.readable().await?;
            let mut changed = HashSet::new();
            let mut lost = false;
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut events = inotify::Reader::new(self.inotify.get_ref(), &mut buffer);
            loop {
                match events.next() {
                    Ok(event) => {
                        lost |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                        if let Some(dir) = self.directories.get(&event.wd()) {
                            let name =
                                event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                            changed.insert(name.map_or_else(|| dir.clone(), |name| dir.join(name)));
                        }
                    }
                    Err(rustix::io::Errno::WOULDBLOCK) => break,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            ready.clear_ready();
            Ok((!lost).then_some(changed))
        }

        fn repair(&self, changed: Option<HashSet<PathBuf>>, keeper: &mut Keeper) {
            match changed {
                None => keeper.repair_all(&self.directories.values().cloned().collect()),
                Some(paths) => {
                    let mut paths: Vec<PathBuf> = paths.into_iter().collect();
                    // From the top: nothing below a closed directory can be reached.
                    paths.sort();
                    paths.iter().for_each(|path| keeper.repair(path));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn start_puts_every_level_back_and_follows_no_link() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("state");
        let outside = temp.path().join("outside");
        let session = root.join("workspaces/default/sessions/sess_1");
        fs::create_dir_all(session.join("log")).unwrap();
        fs::write(&outside, "").unwrap();
        set(&outside, 0o644);
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        let files = [root.join("token"), session.join("start.json")];
        for file in &files {
            fs::write(file, "").unwrap();
            set(file, 0o644);
        }
        fs::write(root.join("tool"), "").unwrap();
        set(&root.join("tool"), 0o755);
        // From the bottom, as nothing below a closed directory can be reached.
        let directories = [session.join("log"), session, root.join("workspaces"), root.clone()];
        for (dir, changed) in directories.iter().zip([0, 0o755, 0, 0o775]) {
            set(dir, changed);
        }
        std::os::unix::fs::symlink(&root, temp.path().join("way")).unwrap();
        repair_at_start(&temp.path().join("way")).unwrap();
        assert_eq!(directories.each_ref().map(|dir| mode(dir)), [0o700; 4]);
        assert_eq!(files.each_ref().map(|file| mode(file)), [0o600; 2]);
        assert_eq!(mode(&root.join("tool")), 0o700, "what its owner may do with it stays");
        assert_eq!(mode(&outside), 0o644);
    }
}
