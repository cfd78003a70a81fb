//! Named hosts: `contexts.toml` beside the configuration file, for its owner alone since it may
//! hold tokens.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use wharf_render::text::quote;

use crate::exit::{Exit, Failure};
use crate::toml_mistake::describe_toml_mistake;

/// The name of the host of this machine, which needs no entry.
pub(crate) const LOCAL_CONTEXT: &str = "local";

/// A host that has a name.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostContext {
    pub(crate) url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// A file that holds the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) insecure_plain_http: bool,
}

/// Does not show the token.
impl std::fmt::Debug for HostContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostContext").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The file's content.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contexts {
    /// The context of verbs that name none; the host of this machine if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, HostContext>,
}

impl Contexts {
    /// Reads the file. Refuses a file that other users could read.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error)
                if error.kind() == ErrorKind::NotFound
                    || error.kind() == ErrorKind::NotADirectory =>
            {
                return Ok(Self::default());
            }
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let mode = fs::metadata(path).map_or(0, |known| known.mode());
        if mode & 0o077 != 0 {
            let path = path.display();
            let words = format!(
                "{path} can be read by others, and it may hold tokens; first: chmod 600 {path}"
            );
            return Err(Failure::new(Exit::Refused, words).into());
        }
        toml_edit::de::from_str(&text).map_err(|error| {
            let why = describe_toml_mistake(&text, error.span(), error.message());
            anyhow::anyhow!("{} cannot be read; mend or remove it: {why}", path.display())
        })
    }

    /// Writes the file, complete before it takes the place of the old one.
    pub(crate) fn save(&self, path: &Path) -> anyhow::Result<()> {
        let text = toml_edit::ser::to_string_pretty(self).context("writing the contexts")?;
        let writing = || format!("writing {}", path.display());
        if let Some(dir) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)
                .with_context(writing)?;
        }
        let beside = path.with_extension(format!("toml.{}", std::process::id()));
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(
                b"# Written by `wharf context`. It may hold tokens: keep it to yourself.\n",
            )?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)
        };
        let written: std::io::Result<()> = write();
        written
            .inspect_err(|_| {
                let _ = fs::remove_file(&beside);
            })
            .with_context(writing)
    }

    pub(crate) fn find(&self, name: &str) -> anyhow::Result<&HostContext> {
        self.contexts.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
            let words = format!(
                "no context is called {name} (known: {known}); add it: wharf context add {name} --url URL",
                name = quote(name)
            );
            Failure::new(Exit::NotFound, words).into()
        })
    }
}

/// Refuses a name that could not be typed or would be taken for an option.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name == LOCAL_CONTEXT {
        return Err(Failure::new(
            Exit::Usage,
            "\"local\" is the host of this machine; choose another name",
        ));
    }
    if name.is_empty() || name.starts_with(['-', '.']) || !name.chars().all(plain) {
        let words = format!(
            "{name} is not a name for a context; use letters, digits, dashes, dots and underscores",
            name = quote(name)
        );
        return Err(Failure::new(Exit::Usage, words));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn contexts_are_kept_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wharf/contexts.toml");
        assert_eq!(Contexts::load(&path).unwrap(), Contexts::default());
        let context = HostContext {
            url: "https://box".into(),
            token: Some("t".into()),
            ..HostContext::default()
        };
        let contexts = Contexts {
            current: Some("box".into()),
            contexts: [("box".into(), context)].into(),
        };
        contexts.save(&path).unwrap();
        contexts.save(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Contexts::load(&path).unwrap(), contexts);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Contexts::load(&path).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn message_about_a_broken_file_names_the_place_and_shows_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("contexts.toml");
        fs::write(&path, "[contexts.box]\nurl = \"https://box\"\ntoken = \"secret-1\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let said = format!("{:#}", Contexts::load(&path).unwrap_err());
        assert!(said.contains("line 3, column") && !said.contains("secret-1"), "{said}");
        fs::write(&path, "[contexts.box]\nurl = 5\ntoken = \"secret-1\"\n").unwrap();
        let said = format!("{:#}", Contexts::load(&path).unwrap_err());
        assert!(said.contains("line 2, column") && !said.contains("secret-1"), "{said}");
    }

    #[test]
    fn names_that_cannot_be_typed_are_refused() {
        for name in ["", "-x", ".", "a b", "local", "a/b"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name("box.example-2_a").is_ok());
    }
}
