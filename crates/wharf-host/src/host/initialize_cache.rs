//! Remembers the answers of agents to `initialize`, so that the host does not start an agent for a
//! client that only joins a session (rules 3.2, 12.8).
//!
//! An answer belongs to the program that gave it, to its command, to the environment that the host
//! passed on and to the capabilities that it sent. The cache keeps hashes of these with the answers
//! in a private file, which outlives the host.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use wharf_config::{Launchable, write_private};
use wharf_core::{Millis, Raw};
use wharf_json::Json;

use crate::agent::initialize::InitializeResponse;
use crate::ids::Now;

/// Answers that are remembered; each takes some kilobytes.
const MAX_ENTRIES: usize = 64;
/// A larger answer is remembered in memory alone.
const MAX_ANSWER_BYTES_ON_DISK: usize = 256 << 10;
/// How long an answer is believed if a new version of the agent would not be noticed.
const UNCHECKED_TTL: Millis = Millis(60 * 60 * 1_000);
const FILE_VERSION: u32 = 1;

/// Launchers that fetch the agent by themselves.
const FETCHERS: &[&str] = &[
    "npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman", "nerdctl", "npm", "pnpm", "yarn",
    "uv", "nix", "mise",
];
/// Programs that run a script; a version may follow the name.
const INTERPRETERS: &[&str] = &[
    "node", "nodejs", "deno", "bun", "tsx", "ts-node", "electron", "python", "pypy", "ruby",
    "perl", "php", "java", "sh", "bash", "dash", "zsh", "ksh", "env",
];

/// The answers, shared by all who start agents.
#[derive(Debug)]
pub(crate) struct InitializeCache {
    path: PathBuf,
    /// Part of every hash: the environment may hold secrets that are easily guessed.
    salt: String,
    entries: Mutex<Vec<Entry>>,
    /// Held while the file is written, so that the newest answers are written last.
    writing: Mutex<()>,
}

/// The agent that an answer belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheKey {
    /// The hash of all of it.
    whole: String,
    /// The hash of the program and the command alone.
    program: String,
    /// A new version of the agent would change neither the program nor its script.
    unchecked: bool,
    /// The host said to the agent that its client can do logins in a terminal.
    terminal_auth: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    key: String,
    program: String,
    #[serde(default)]
    unchecked: bool,
    #[serde(default)]
    terminal_auth: bool,
    /// When the agent last gave it.
    answered_at: Millis,
    answer: Raw,
}

#[derive(Default, Serialize, Deserialize)]
struct File {
    version: u32,
    entries: Vec<Entry>,
}

impl InitializeCache {
    /// Reads the file. A missing or damaged file counts as empty.
    pub(super) fn load(path: PathBuf, salt: &str) -> Self {
        let file: Option<File> =
            std::fs::read(&path).ok().and_then(|text| wharf_json::read_own(&text).ok());
        let entries = file.filter(|file| file.version == FILE_VERSION).unwrap_or_default().entries;
        Self {
            path,
            salt: salt.to_owned(),
            entries: Mutex::new(entries),
            writing: Mutex::default(),
        }
    }

    /// Returns what the answer of this agent belongs to; `None` if its program is not installed.
    /// `env` is what the agent gets of its caller, `cwd` where it would be started.
    pub(crate) fn key(
        &self,
        agent: &Launchable,
        env: &BTreeMap<String, String>,
        capabilities: &str,
        cwd: Option<&Path>,
    ) -> Option<CacheKey> {
        let program = agent.find_program(env).ok()?;
        let (script, unchecked) = script_of(&agent.command, cwd);
        let mut hash = blake3::Hasher::new();
        let files = [Some(in_directory(&program, cwd)), script].into_iter().flatten();
        add_all(&mut hash, [self.salt.clone(), env!("CARGO_PKG_VERSION").to_owned()]);
        add_all(&mut hash, files.map(|file| file_identity(&file)));
        add_all(&mut hash, agent.command.iter().cloned());
        let program = hash.finalize().to_hex().to_string();
        for variables in [&agent.env, env] {
            add_all(
                &mut hash,
                variables.iter().flat_map(|(name, value)| [name.clone(), value.clone()]),
            );
        }
        add_all(&mut hash, [capabilities.to_owned()]);
        let told = Json::parse(capabilities.as_bytes())
            .and_then(|told| told.bool_at(&["auth", "terminal"]));
        // Capabilities that cannot be read may say so: the answer is then for that client alone.
        let terminal_auth = !matches!(told, Ok(None | Some(false)));
        Some(CacheKey {
            whole: hash.finalize().to_hex().to_string(),
            program,
            unchecked,
            terminal_auth,
        })
    }

    /// Returns the answer to exactly this, if it is still believed.
    pub(crate) fn find(&self, key: &CacheKey) -> Option<InitializeResponse> {
        self.newest(|entry| entry.key == key.whole)
    }

    /// Returns an answer of the same program and command, whatever environment and capabilities it
    /// was given for, but none that offers logins in a terminal.
    pub(crate) fn find_any(&self, key: &CacheKey) -> Option<InitializeResponse> {
        self.newest(|entry| entry.program == key.program && !entry.terminal_auth)
    }

    /// Remembers what an agent answered that was really started. Returns when it is on disk, or
    /// cannot be.
    pub(crate) async fn store(self: &Arc<Self>, key: CacheKey, introduction: &InitializeResponse) {
        let entry = Entry {
            key: key.whole,
            program: key.program,
            unchecked: key.unchecked,
            terminal_auth: key.terminal_auth,
            answered_at: Now::millis(),
            answer: introduction.frame.clone(),
        };
        if !self.insert(entry) {
            return;
        }
        let cache = Arc::clone(self);
        let _ = tokio::task::spawn_blocking(move || cache.write()).await;
    }

    /// Returns whether the file has to be written: for an answer that is new, or whose age matters.
    fn insert(&self, entry: Entry) -> bool {
        let mut entries = self.lock();
        let before = entries
            .iter()
            .position(|known| known.key == entry.key)
            .map(|at| entries.remove(at));
        if entries.len() >= MAX_ENTRIES {
            entries.remove(0);
        }
        let changed = entry.unchecked || before.is_none_or(|before| before.answer != entry.answer);
        entries.push(entry);
        changed
    }

    fn newest(&self, fits: impl Fn(&Entry) -> bool) -> Option<InitializeResponse> {
        let now = Now::millis();
        let entries = self.lock();
        let entry = entries.iter().rev().find(|entry| fits(entry) && entry.is_believed(now))?;
        InitializeResponse::from_frame(entry.answer.bytes().clone()).ok()
    }

    fn write(&self) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = self.lock().clone();
        entries.retain(|entry| entry.answer.bytes().len() <= MAX_ANSWER_BYTES_ON_DISK);
        let text = serde_json::to_vec(&File { version: FILE_VERSION, entries })
            .map_err(std::io::Error::other);
        if let Err(error) = text.and_then(|text| write_private(&self.path, &text)) {
            tracing::warn!(path = %self.path.display(), %error, "the answers of agents to `initialize` cannot be kept");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// A clock that was set back does not make an answer younger: one from the future is not
    /// believed.
    fn is_believed(&self, now: Millis) -> bool {
        let age = now.0.checked_sub(self.answered_at.0);
        !self.unchecked || age.is_some_and(|age| age < UNCHECKED_TTL.0)
    }
}

/// Returns the script that the command gives to an interpreter, and whether a new version of the
/// agent would go unnoticed: the command fetches the agent, or names no file that would change.
fn script_of(command: &[String], cwd: Option<&Path>) -> (Option<PathBuf>, bool) {
    let Some((program, arguments)) = command.split_first() else { return (None, false) };
    let name = Path::new(program)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if FETCHERS.contains(&name) {
        return (None, true);
    }
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if !INTERPRETERS.contains(&name) {
        return (None, false);
    }
    let files = arguments.iter().filter(|argument| !argument.starts_with('-'));
    let script = files.map(|file| in_directory(Path::new(file), cwd)).find(|file| file.is_file());
    let unchecked = script.is_none();
    (script, unchecked)
}

fn in_directory(path: &Path, cwd: Option<&Path>) -> PathBuf {
    cwd.map_or_else(|| path.to_owned(), |cwd| cwd.join(path))
}

/// A text that differs if the file was replaced or written.
fn file_identity(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match real.metadata() {
        Ok(file) => {
            let ctime = file.ctime();
            let nanos = file.ctime_nsec();
            format!(
                "{}:{}:{}:{}:{ctime}.{nanos:09}",
                real.display(),
                file.dev(),
                file.ino(),
                file.size()
            )
        }
        Err(_) => format!("{}: missing", real.display()),
    }
}

/// Adds a list to a hash, so that no other list gives the same.
fn add_all(hash: &mut blake3::Hasher, parts: impl IntoIterator<Item = String>) {
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hash.update(&u64::MAX.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(ToOwned::to_owned).collect()
    }

    fn entry(key: &str, answer: &str, unchecked: bool, answered_at: Millis) -> Entry {
        let frame =
            wharf_json::rpc::response(0, serde_json::json!({ "agentInfo": { "version": answer } }));
        let key = key.to_owned();
        let program = "program".to_owned();
        Entry {
            key,
            program,
            unchecked,
            terminal_auth: false,
            answered_at,
            answer: Raw::new(frame).unwrap(),
        }
    }

    fn key(whole: &str) -> CacheKey {
        let whole = whole.to_owned();
        let program = "program".to_owned();
        CacheKey { whole, program, unchecked: false, terminal_auth: false }
    }

    #[test]
    fn scripts_of_interpreters_are_found_and_fetchers_are_known() {
        let temp = tempfile::tempdir().unwrap();
        let script = temp.path().join("agent.js");
        std::fs::write(&script, "").unwrap();
        let cwd = Some(temp.path());
        let found = |line: &str| script_of(&words(line), cwd);
        assert_eq!(
            found(&format!("/usr/bin/node --acp {}", script.display())),
            (Some(script.clone()), false)
        );
        assert_eq!(found("python3.12 agent.js --flag"), (Some(script.clone()), false));
        assert_eq!(found("env A=1 deno run agent.js"), (Some(script), false));
        assert_eq!(found("python3 -m agent"), (None, true), "no file tells of a new version");
        for line in ["npx -y agent@latest", "/usr/local/bin/uvx agent", "docker run agent"] {
            assert_eq!(found(line), (None, true), "{line}");
        }
        assert_eq!(found("goose acp agent.js"), (None, false), "it is no interpreter");
    }

    #[test]
    fn an_answer_that_cannot_be_checked_is_believed_for_an_hour() {
        let at = Millis(10_000_000);
        let fetched = entry("k", "1", true, at);
        assert!(fetched.is_believed(at) && fetched.is_believed(Millis(at.0 + UNCHECKED_TTL.0 - 1)));
        assert!(!fetched.is_believed(Millis(at.0 + UNCHECKED_TTL.0)));
        assert!(!fetched.is_believed(Millis(at.0 - 1)), "from the future");
        assert!(entry("k", "1", false, at).is_believed(Millis(at.0 + UNCHECKED_TTL.0)));
    }

    #[test]
    fn a_replaced_or_rewritten_file_has_another_identity() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        let link = temp.path().join("link");
        std::fs::write(&file, "one").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let before = file_identity(&link);
        assert_eq!(file_identity(&file), before, "the real path counts");
        std::fs::write(temp.path().join("new"), "two").unwrap();
        std::fs::rename(temp.path().join("new"), &file).unwrap();
        assert_ne!(file_identity(&link), before);
    }

    #[test]
    fn entries_are_bounded_and_survive_in_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("cache.json");
        let cache = InitializeCache::load(path.clone(), "salt");
        let now = Now::millis();
        for number in 0..=MAX_ENTRIES {
            assert!(cache.insert(entry(&number.to_string(), "1", false, now)));
        }
        assert!(!cache.insert(entry("7", "1", false, now)), "nothing new");
        assert!(cache.insert(entry("7", "2", false, now)));
        assert!(cache.insert(entry("large", &"x".repeat(MAX_ANSWER_BYTES_ON_DISK), false, now)));
        cache.write();
        let again = InitializeCache::load(path.clone(), "salt");
        assert!(again.find(&key("0")).is_none(), "the oldest made room");
        assert!(cache.find(&key("large")).is_some() && again.find(&key("large")).is_none());
        let found = again.find(&key("7")).unwrap();
        assert!(found.frame.as_str().contains(r#""version":"2""#));
        std::fs::write(&path, "{").unwrap();
        assert!(
            InitializeCache::load(path, "salt").find(&key("7")).is_none(),
            "a damaged file is an empty one"
        );
    }
}
