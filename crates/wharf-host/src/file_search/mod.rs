//! Finds files and directories by a part of their name, for completion in a prompt (rule 17.6).
//!
//! A search walks breadth first, leaves out everything that ignore files leave out, never follows a
//! link to a directory, and ends after a short time with the matches so far. It runs on a blocking
//! thread.

mod ignore_rules;
mod matching;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use ignore_rules::{IgnoreRules, MAX_IGNORE_FILE_BYTES};
use matching::{BestMatches, FileNameQuery};

/// The time that a search may take.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(40);
/// The time after which the caller gets the matches found so far, even if the file system hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(50);
/// Entries that one search looks at.
const MAX_ENTRIES: usize = 200_000;
/// Directories that wait to be read: they are what a search keeps in memory.
const MAX_WAITING_DIRECTORIES: usize = 20_000;
/// How deep a search goes.
const MAX_DEPTH: usize = 40;
/// Directories above a root that are looked at for ignore files.
const MAX_PARENTS: usize = 20;
/// Searches at the same time; each may occupy a blocking thread for as long as a file system hangs.
const MAX_SEARCHES: usize = 4;
/// Ignore files, in the order in which they are read: later rules win.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// Directories of version control, which no prompt is about.
const HIDDEN_DIRECTORIES: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

static SEARCHES: Semaphore = Semaphore::const_new(MAX_SEARCHES);

/// A file or directory that fits the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Relative to the first root, absolute beneath the others.
    pub path: String,
    pub absolute: PathBuf,
    pub is_directory: bool,
}

/// The result of a search, the best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundFiles {
    pub files: Vec<FoundFile>,
    /// True if the search did not see everything.
    pub partial: bool,
}

/// Finds files beneath the roots, which are resolved already. Returns within 50 ms.
pub(crate) async fn find_files(roots: Vec<PathBuf>, query: &str, limit: usize) -> FoundFiles {
    let began = Instant::now();
    let Ok(Ok(permit)) = tokio::time::timeout(ANSWER_TIMEOUT, SEARCHES.acquire()).await else {
        return FoundFiles { partial: true, ..FoundFiles::default() };
    };
    let search =
        Arc::new(Search::new(roots, FileNameQuery::new(query), limit, began + SEARCH_TIMEOUT));
    let walk = Arc::clone(&search);
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        walk.run();
    });
    let is_done = tokio::time::timeout(ANSWER_TIMEOUT.saturating_sub(began.elapsed()), done)
        .await
        .is_ok();
    search.stopped.store(true, Ordering::Relaxed);
    search.take_found(!is_done)
}

/// One search.
#[derive(Debug)]
struct Search {
    roots: Vec<PathBuf>,
    query: FileNameQuery,
    deadline: Instant,
    /// The caller waits no more.
    stopped: AtomicBool,
    found: Mutex<BestMatches>,
}

/// A directory that waits to be read.
struct Waiting {
    path: PathBuf,
    /// The names below the root.
    names: Vec<String>,
    root: usize,
    /// The rules of this directory's parents.
    rules: Vec<Arc<DirectoryRules>>,
}

/// The rules of one directory.
#[derive(Debug)]
struct DirectoryRules {
    rules: IgnoreRules,
    /// The names between that directory and the root, for one above it.
    above: Vec<String>,
    /// How many names below the root it has.
    depth: usize,
}

impl Search {
    fn new(roots: Vec<PathBuf>, query: FileNameQuery, limit: usize, deadline: Instant) -> Self {
        let found = Mutex::new(BestMatches::new(limit));
        Self {
            roots,
            query,
            deadline,
            stopped: AtomicBool::new(false),
            found,
        }
    }

    fn is_over(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }

    fn take_found(&self, is_cut: bool) -> FoundFiles {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let partial = is_cut || found.is_partial;
        FoundFiles { files: found.take(), partial }
    }

    fn mark_partial(&self) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).is_partial = true;
    }

    fn run(&self) {
        let roots = self.roots.iter().enumerate();
        let mut waiting: VecDeque<Waiting> = roots
            .map(|(root, path)| Waiting {
                path: path.clone(),
                names: Vec::new(),
                root,
                rules: rules_above(path),
            })
            .collect();
        let mut left = MAX_ENTRIES;
        while let Some(next) = waiting.pop_front() {
            if self.is_over() || left == 0 {
                return self.mark_partial();
            }
            self.read_directory(next, &mut waiting, &mut left);
        }
    }

    fn read_directory(
        &self,
        directory: Waiting,
        waiting: &mut VecDeque<Waiting>,
        left: &mut usize,
    ) {
        let Waiting { path, names, root, mut rules } = directory;
        // A directory that cannot be read has nothing to offer.
        let Ok(entries) = std::fs::read_dir(&path) else { return };
        rules.extend(own_rules(&path, names.len()).map(Arc::new));
        for entry in entries.filter_map(Result::ok) {
            if *left == 0 || (left.is_multiple_of(64) && self.is_over()) {
                return self.mark_partial();
            }
            *left -= 1;
            // A name that is not UTF-8 cannot be written in a prompt.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Some(is_directory) = self.kind_of(&entry) else { continue };
            if is_directory && HIDDEN_DIRECTORIES.contains(&name.as_str()) {
                continue;
            }
            let names: Vec<String> = names.iter().cloned().chain([name]).collect();
            if is_left_out(&rules, &names, is_directory) {
                continue;
            }
            self.take(root, &names, entry.path(), is_directory);
            if !is_directory {
                continue;
            }
            if names.len() >= MAX_DEPTH || waiting.len() >= MAX_WAITING_DIRECTORIES {
                self.mark_partial();
            } else {
                waiting.push_back(Waiting {
                    path: entry.path(),
                    names,
                    root,
                    rules: rules.clone(),
                });
            }
        }
    }

    /// Returns whether the entry is a directory; `None` if it is not offered: it is neither file
    /// nor directory, or a link that leads to a directory or out of the roots.
    fn kind_of(&self, entry: &std::fs::DirEntry) -> Option<bool> {
        let kind = entry.file_type().ok()?;
        if kind.is_symlink() {
            let target = entry.path().canonicalize().ok()?;
            let is_inside = self.roots.iter().any(|root| target.starts_with(root));
            return (is_inside && target.is_file()).then_some(false);
        }
        (kind.is_dir() || kind.is_file()).then_some(kind.is_dir())
    }

    fn take(&self, root: usize, names: &[String], absolute: PathBuf, is_directory: bool) {
        let Some(rank) = self.query.rank(names) else { return };
        // Other roots have no short form: they may lie anywhere.
        let path = if root == 0 { names.join("/") } else { absolute.display().to_string() };
        let file = FoundFile { path, absolute, is_directory };
        self.found.lock().unwrap_or_else(PoisonError::into_inner).push(rank, file);
    }
}

fn is_left_out(rules: &[Arc<DirectoryRules>], names: &[String], is_directory: bool) -> bool {
    let judged = rules.iter().rev().find_map(|of_directory| {
        let above = of_directory.above.iter().map(String::as_str);
        let path: Vec<&str> =
            above.chain(names[of_directory.depth..].iter().map(String::as_str)).collect();
        of_directory.rules.judge(&path, is_directory)
    });
    judged.unwrap_or(false)
}

fn read_rules(path: &Path) -> Option<IgnoreRules> {
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    let text = (size <= MAX_IGNORE_FILE_BYTES).then(|| std::fs::read(path).ok()).flatten()?;
    Some(IgnoreRules::parse(&String::from_utf8_lossy(&text)))
}

/// Returns the rules in a directory's own ignore files.
fn own_rules(directory: &Path, depth: usize) -> Option<DirectoryRules> {
    let mut rules = IgnoreRules::default();
    for found in IGNORE_FILES.iter().filter_map(|name| read_rules(&directory.join(name))) {
        rules.append(found);
    }
    (!rules.is_empty()).then_some(DirectoryRules { rules, above: Vec::new(), depth })
}

/// Returns the rules that a root inherits: those of the directories above it, up to the directory
/// that holds the repository.
fn rules_above(root: &Path) -> Vec<Arc<DirectoryRules>> {
    let is_repository = |directory: &Path| directory.join(".git").exists();
    let Some(top) = root.ancestors().take(MAX_PARENTS).position(is_repository) else {
        return Vec::new();
    };
    let mut inherited = Vec::new();
    for (at, directory) in root.ancestors().take(top + 1).enumerate() {
        let above = root.strip_prefix(directory).unwrap_or(Path::new("")).iter();
        let above: Vec<String> = above.map(|name| name.to_string_lossy().into_owned()).collect();
        if at > 0
            && let Some(own) = own_rules(directory, 0)
        {
            inherited.push(DirectoryRules { above: above.clone(), ..own });
        }
        if at == top
            && let Some(rules) = read_rules(&directory.join(".git/info/exclude"))
        {
            inherited.push(DirectoryRules { rules, above, depth: 0 });
        }
    }
    inherited.into_iter().rev().map(Arc::new).collect()
}
