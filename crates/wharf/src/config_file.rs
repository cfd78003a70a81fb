//! Changes `config.toml` in place: comments and order stay, an invalid result is refused, and a
//! reader sees the old file or the new one.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use toml_edit::{DocumentMut, Item, Table, TableLike};
use wharf_config::{Config, ConfigKey, ConfigSources};
use wharf_server::AddressOutlook;

use crate::exit::{Exit, Failure};
use crate::start_check::{RunningHost, check_startable};
use crate::toml_mistake::describe_toml_mistake;

/// The mode of a new file: variables of agents in it may be secrets.
const NEW_FILE_MODE: u32 = 0o600;

/// A configuration file that is being changed. Other programs that change it wait until this is
/// dropped.
#[derive(Debug)]
pub(crate) struct ConfigFileEditor {
    path: PathBuf,
    text: String,
    mode: u32,
    _lock: File,
}

impl ConfigFileEditor {
    /// Reads the file, which may be absent, and keeps others from changing it.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        // A link stays a link: its target is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let dir = path
            .parent()
            .filter(|dir| !dir.as_os_str().is_empty())
            .unwrap_or_else(|| Path::new("."));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.with_context(|| format!("making {}", dir.display()))?;
        let lock = File::open(dir).with_context(|| format!("opening {}", dir.display()))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .with_context(|| format!("waiting for others that change {}", path.display()))?;
        let (text, mode) = match fs::read_to_string(&path) {
            Ok(text) => (
                text,
                fs::metadata(&path)
                    .map_or(NEW_FILE_MODE, |known| known.permissions().mode() & 0o777),
            ),
            Err(error) if error.kind() == ErrorKind::NotFound => (String::new(), NEW_FILE_MODE),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        Ok(Self { path, text, mode, _lock: lock })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Sets a key, and leaves all else in the file as it is.
    pub(crate) fn set(&mut self, path: &str, value: &toml_edit::Value) -> anyhow::Result<()> {
        let mut document = self.parse()?;
        let parts: Vec<&str> = path.split('.').collect();
        set_value(document.as_table_mut(), &parts, value);
        self.text = document.to_string();
        Ok(())
    }

    /// Removes a key. Returns false if it was not set.
    pub(crate) fn unset(&mut self, path: &str) -> anyhow::Result<bool> {
        let mut document = self.parse()?;
        let parts: Vec<&str> = path.split('.').collect();
        let removed = remove_value(document.as_table_mut(), &parts);
        self.text = document.to_string();
        Ok(removed)
    }

    pub(crate) fn replace_text(&mut self, text: String) {
        self.text = text;
    }

    fn parse(&self) -> anyhow::Result<DocumentMut> {
        self.text.parse().map_err(|error: toml_edit::TomlError| {
            let why = describe_toml_mistake(&self.text, error.span(), error.message());
            let words = format!(
                "{} is not TOML ({why}); mend it first: wharf config edit",
                self.path.display()
            );
            Failure::new(Exit::Error, words).into()
        })
    }

    /// Checks the whole file as a host would, before anything is written.
    pub(crate) fn check(&self, base: &StartBase) -> Result<AddressOutlook, FileMistake> {
        check_text(&self.text, &self.path, base)
    }

    /// Writes the file: complete and synced before it takes the place of the old one.
    pub(crate) fn save(&self) -> anyhow::Result<()> {
        let written = self.write_beside();
        written.with_context(|| format!("writing {}; it stays as it was", self.path.display()))
    }

    fn write_beside(&self) -> std::io::Result<()> {
        let beside = self.path.with_extension(format!("toml.{}", std::process::id()));
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(self.mode).open(&beside)?;
            // The umask does not count: the mode is that of the file that is replaced.
            file.set_permissions(Permissions::from_mode(self.mode))?;
            file.write_all(self.text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
    }
}

/// The circumstances under which a host would start with a file.
#[derive(Clone, Debug)]
pub(crate) struct StartBase {
    pub(crate) state_dir: PathBuf,
    pub(crate) program: PathBuf,
    /// Of the environment; they count before the file.
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) running: RunningHost,
}

/// The reason why a host could not start with a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileMistake {
    /// A key or a value that no host takes.
    Settings(String),
    /// Each value is right by itself, and all the same no host could start with them here and now.
    Start(String),
}

impl fmt::Display for FileMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(why) => f.write_str(why),
            Self::Start(why) => write!(f, "a host could not start with these settings: {why}"),
        }
    }
}

impl FileMistake {
    pub(crate) fn to_failure(&self) -> Failure {
        Failure::new(Exit::Usage, self.to_string())
    }
}

/// Checks the text of a configuration file at `path`.
pub(crate) fn check_text(
    text: &str,
    path: &Path,
    base: &StartBase,
) -> Result<AddressOutlook, FileMistake> {
    let invalid = |why: String| FileMistake::Settings(format!("{}: {why}", path.display()));
    // By itself first: a variable must not hide a mistake of the file.
    let alone = Config::parse(text).map_err(&invalid)?;
    crate::verbs::serve::parse_log_filter(&alone.log_level)
        .map_err(|error| invalid(format!("{error:#}")))?;
    let config_dir = path.parent().map(Path::to_owned);
    let state_dir = base.state_dir.clone();
    let program = base.program.clone();
    let alone = Config {
        config_dir,
        state_dir: state_dir.clone(),
        program: program.clone(),
        ..alone
    };
    alone.check_agents().map_err(|error| invalid(error.to_string()))?;
    let load = |variables: &[(String, String)]| -> Result<Config, FileMistake> {
        let config = ConfigSources::new(Some(path.to_owned()), true, variables);
        let config = config.and_then(|sources| sources.load_text(text));
        let config = config.map_err(|error| FileMistake::Start(error.to_string()))?;
        let insecure_no_tls = base.running.insecure_no_tls;
        let state_dir = state_dir.clone();
        let program = program.clone();
        Ok(Config {
            state_dir,
            program,
            insecure_no_tls,
            takes_free_port: true,
            ..config
        })
    };
    let outlook = check_startable(&load(&base.variables)?, base.running.address)
        .map_err(|error| FileMistake::Start(format!("{error:#}")))?;
    let (hiding, others): (Vec<_>, Vec<_>) =
        base.variables.iter().cloned().partition(|(name, _)| hides_value(text, name));
    if !hiding.is_empty() {
        let names: Vec<&str> = hiding.iter().map(|(name, _)| name.as_str()).collect();
        let without = |why: String| {
            FileMistake::Start(format!("{why} (hidden here by {})", names.join(", ")))
        };
        wharf_server::check_settings(&load(&others)?)
            .map_err(|error| without(error.to_string()))?;
    }
    Ok(outlook)
}

/// The keys that decide where a host listens, and whether it may.
const ADDRESS_KEYS: [&str; 5] = ["listen", "auth", "public_url", "tls.cert", "tls.key"];

/// Returns true if the variable counts before a value of the file that decides whether a host can
/// start.
fn hides_value(text: &str, variable: &str) -> bool {
    let Ok(document) = text.parse::<DocumentMut>() else { return false };
    let is_set = |key: &&&str| find_item(&document, key).is_some();
    let keys = ADDRESS_KEYS.iter().filter(is_set).filter_map(|key| ConfigKey::find(key));
    keys.map(ConfigKey::variable).any(|name| name == variable)
}

fn find_item<'a>(document: &'a DocumentMut, key: &str) -> Option<&'a Item> {
    let mut parts = key.split('.');
    let first = document.get(parts.next()?)?;
    parts.try_fold(first, |item, part| item.get(part))
}

/// Returns true if the two texts of a file differ in what decides whether a host can start. A text
/// that is not TOML differs.
pub(crate) fn differs_in_address(before: &str, after: &str) -> bool {
    let (Ok(before), Ok(after)) = (before.parse::<DocumentMut>(), after.parse::<DocumentMut>())
    else {
        return true;
    };
    let value = |document: &DocumentMut, key: &str| {
        find_item(document, key)
            .and_then(Item::as_value)
            .map(|value| value.clone().decorated("", "").to_string())
    };
    ADDRESS_KEYS.iter().any(|key| value(&before, key) != value(&after, key))
}

/// Reads a value of this key for the file.
pub(crate) fn read_value(key: &ConfigKey, text: &str) -> Result<toml_edit::Value, Failure> {
    let usage = |why: String| Failure::new(Exit::Usage, why);
    let value = wharf_config::parse_value(key, text).map_err(usage)?;
    value
        .to_string()
        .parse()
        .map_err(|error: toml_edit::TomlError| usage(error.message().to_owned()))
}

fn set_value(table: &mut dyn TableLike, parts: &[&str], value: &toml_edit::Value) {
    let Some((first, rest)) = parts.split_first() else { return };
    if rest.is_empty() {
        let mut value = value.clone();
        // A comment after the value stays.
        if let Some(old) = table.get(first).and_then(Item::as_value) {
            *value.decor_mut() = old.decor().clone();
        }
        match table.get_mut(first) {
            Some(item) => *item = Item::Value(value),
            None => drop(table.insert(first, Item::Value(value))),
        }
        return;
    }
    if table.get(first).and_then(Item::as_table_like).is_none() {
        let mut inner = Table::new();
        // A table that holds only tables has no heading of its own.
        inner.set_implicit(rest.len() > 1);
        table.insert(first, Item::Table(inner));
    }
    if let Some(inner) = table.get_mut(first).and_then(Item::as_table_like_mut) {
        set_value(inner, rest, value);
    }
}

/// Removes the value, and tables that are empty without it and have no comment.
fn remove_value(table: &mut dyn TableLike, parts: &[&str]) -> bool {
    match parts {
        [] => false,
        [last] => table.remove(last).is_some(),
        [first, rest @ ..] => {
            let Some(inner) = table.get_mut(first).and_then(Item::as_table_like_mut) else {
                return false;
            };
            let removed = remove_value(inner, rest);
            if removed && inner.is_empty() {
                table.remove(first);
            }
            removed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# Mine.\nask_timeout = \"1h\" # lunch\n\n[limits] # little\nqueue = 5\n\n# Agents\n[agents.mine]\ncommand = [\"a\"]\nenv = { A = \"1\" }\n";

    fn base() -> StartBase {
        let state_dir = PathBuf::from("/nonexistent");
        let program = PathBuf::from("/bin/sh");
        StartBase {
            state_dir,
            program,
            variables: Vec::new(),
            running: RunningHost::default(),
        }
    }

    fn edited(text: &str, change: impl FnOnce(&mut ConfigFileEditor)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        fs::write(&path, text).unwrap();
        let mut editor = ConfigFileEditor::open(&path).unwrap();
        change(&mut editor);
        editor.check(&base()).unwrap();
        editor.save().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the file is left");
        fs::read_to_string(&path).unwrap()
    }

    fn set(editor: &mut ConfigFileEditor, path: &str, text: &str) {
        editor
            .set(path, &read_value(ConfigKey::find(path).unwrap(), text).unwrap())
            .unwrap();
    }

    #[test]
    fn changed_keys_keep_comments_and_order() {
        let text = edited(FILE, |editor| {
            set(editor, "ask_timeout", "2h");
            set(editor, "limits.queue", "7");
            set(editor, "limits.asks", "8");
            set(editor, "hosts", "a.example");
            set(editor, "agents.mine.env.B", "2");
            set(editor, "agents.other.command", "b");
            set(editor, "turn.deadline", "1h");
        });
        let expected = "# Mine.\nask_timeout = \"2h\" # lunch\nhosts = [\"a.example\"]\n\n[limits] # little\nqueue = 7\nasks = 8\n\n# Agents\n[agents.mine]\ncommand = [\"a\"]\nenv = { A = \"1\" , B = \"2\" }\n\n[agents.other]\ncommand = [\"b\"]\n\n[turn]\ndeadline = \"1h\"\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn message_about_a_broken_file_names_the_place_and_shows_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        fs::write(&path, "[agents.mine]\ncommand = [\"a\"]\nenv = { KEY = \"secret-1 }\n").unwrap();
        let mut editor = ConfigFileEditor::open(&path).unwrap();
        let said = editor.unset("limits.queue").unwrap_err().to_string();
        assert!(said.contains("line 3, column") && !said.contains("secret-1"), "{said}");
    }

    #[test]
    fn removed_keys_take_their_empty_tables_with_them() {
        let text = edited(FILE, |editor| {
            assert!(editor.unset("limits.queue").unwrap());
            assert!(!editor.unset("limits.queue").unwrap());
            assert!(editor.unset("agents.mine.env.A").unwrap());
        });
        assert!(
            !text.contains("[limits]") && !text.contains("env") && text.contains("command"),
            "{text}"
        );
    }

    #[test]
    fn invalid_settings_are_refused_before_the_file_is_written() {
        for (path, value) in [
            ("ask_timeout", "soon"),
            ("default_agent", "nobody"),
            ("log_level", "loud=verbose"),
            ("limits.headers", "1B"),
            ("agents.new.env.A", "1"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("config.toml");
            let mut editor = ConfigFileEditor::open(&file).unwrap();
            set(&mut editor, path, value);
            let mistake = editor.check(&base()).unwrap_err();
            assert!(matches!(mistake, FileMistake::Settings(_)), "{path}: {mistake}");
        }
    }

    #[test]
    fn settings_that_no_host_could_start_with_are_mistakes_of_the_start() {
        let program = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = program.local_addr().unwrap();
        let check = |text: &str, running| {
            check_text(text, Path::new("/x/config.toml"), &StartBase { running, ..base() })
        };
        let on_taken = format!("listen = \"{taken}\"");
        let half = "[tls]\ncert = \"box.pem\"";
        let absent = "[tls]\ncert = \"box.pem\"\nkey = \"box.key\"";
        for (text, word) in [
            ("listen = \"127.0.0.1\"", "\"127.0.0.1\" is not an address"),
            ("listen = \"0.0.0.0:0\"", "not a loopback address"),
            (half, "tls.key is not set"),
            (absent, "/x/box.pem"),
            (&on_taken, "another program"),
        ] {
            let mistake = check(text, RunningHost::default()).unwrap_err();
            assert!(
                matches!(&mistake, FileMistake::Start(why) if why.contains(word)),
                "{text}: {mistake}"
            );
        }
        let own = RunningHost { address: Some(taken), ..RunningHost::default() };
        assert!(check(&on_taken, own).unwrap().is_own);
        let open = RunningHost { insecure_no_tls: true, ..RunningHost::default() };
        check("listen = \"0.0.0.0:0\"", open).unwrap();
    }

    #[test]
    fn variable_hides_no_mistake_of_the_file() {
        let check = |text: &str, name: &str, value: &str| {
            let variables = vec![(name.to_owned(), value.to_owned())];
            check_text(text, Path::new("/x/config.toml"), &StartBase { variables, ..base() })
        };
        // The usual port may be that of another program on this machine.
        let open_host =
            "listen = \"127.0.0.1:0\"\nauth = \"none\"\npublic_url = \"https://box.example\"";
        for (text, name, value, word) in [
            (
                "listen = \"127.0.0.1\"",
                "WHARF_LISTEN",
                "127.0.0.1:0",
                "\"127.0.0.1\" is not an address",
            ),
            ("listen = \"0.0.0.0:0\"", "WHARF_LISTEN", "127.0.0.1:0", "not a loopback address"),
            (open_host, "WHARF_AUTH", "token", "every session"),
        ] {
            let mistake = check(text, name, value).unwrap_err();
            let told = mistake.to_string();
            assert!(
                matches!(&mistake, FileMistake::Start(_))
                    && told.contains(word)
                    && told.contains(name),
                "{text}: {told}"
            );
        }
        check("listen = \"127.0.0.1:0\"", "WHARF_LISTEN", "127.0.0.1:0").unwrap();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let on_taken = format!("listen = \"{}\"", taken.local_addr().unwrap());
        check(&on_taken, "WHARF_LISTEN", "127.0.0.1:0").unwrap();
    }

    #[test]
    fn mode_and_link_of_the_file_stay() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target.toml");
        let link = folder.path().join("config.toml");
        fs::write(&target, "").unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut editor = ConfigFileEditor::open(&link).unwrap();
        set(&mut editor, "limits.queue", "3");
        editor.save().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_to_string(&target).unwrap(), "[limits]\nqueue = 3\n");
    }
}
