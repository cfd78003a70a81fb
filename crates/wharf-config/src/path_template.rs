//! Path templates of settings and manifests: a path that may begin with `~` or a variable.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::adapters::is_variable_name;

/// The defaults of the XDG variables, relative to the home directory.
const XDG_DEFAULTS: &[(&str, &str)] = &[
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_CACHE_HOME", ".cache"),
];

/// Tells whether the text is a path template. Text that is not must be reported, not left out: it
/// may name a path to hide.
pub(crate) fn is_path_template(written: &str) -> bool {
    let first = written.split('/').next().unwrap_or_default();
    let known = first == "~"
        || first.strip_prefix('$').is_some_and(is_variable_name)
        || written.starts_with('/');
    known
        && !written.contains('\0')
        && !Path::new(written).components().any(|part| part == Component::ParentDir)
}

/// The variables that templates may use: the host's, and those that the adapter sets. Never a
/// caller's, which could name any path.
#[derive(Debug)]
pub struct PathVariables<'a> {
    pub own: &'a BTreeMap<String, String>,
    pub host: fn(&str) -> Option<OsString>,
}

impl PathVariables<'_> {
    fn variable_path(&self, name: &str) -> Option<PathBuf> {
        let set = self
            .own
            .get(name)
            .map(OsString::from)
            .or_else(|| (self.host)(name))
            .map(PathBuf::from);
        let base = || {
            Some(self.home_dir()?.join(XDG_DEFAULTS.iter().find(|(known, _)| *known == name)?.1))
        };
        set.filter(|path| path.is_absolute()).or_else(base)
    }

    fn home_dir(&self) -> Option<PathBuf> {
        let set = self.own.get("HOME").map(OsString::from).or_else(|| (self.host)("HOME"));
        set.map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Returns the absolute path; `None` if its variable is not set, or if the text is not a path
    /// template.
    pub fn expand_path(&self, written: &str) -> Option<PathBuf> {
        if !is_path_template(written) {
            return None;
        }
        let (first, rest) = written.split_once('/').unwrap_or((written, ""));
        let base = match (first, first.strip_prefix('$')) {
            ("", _) => PathBuf::from("/"),
            ("~", _) => self.home_dir()?,
            (_, Some(name)) => self.variable_path(name)?,
            (_, None) => return None,
        };
        Some(base.join(rest.trim_matches('/')).components().collect())
    }

    /// Returns the directory for temporary files.
    pub fn temporary_dir(&self) -> PathBuf {
        self.variable_path("TMPDIR").unwrap_or_else(|| "/tmp".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_settings_may_begin_with_a_home_or_a_variable() {
        let own = BTreeMap::from([
            ("HOME".to_owned(), "/home/me".to_owned()),
            ("AGENT_HOME".to_owned(), "/data/agent".to_owned()),
            ("ODD".to_owned(), "not/absolute".to_owned()),
            ("XDG_DATA_HOME".to_owned(), "/data".to_owned()),
        ]);
        let places = PathVariables {
            own: &own,
            host: |name| (name == "TMPDIR").then(|| "/scratch".into()),
        };
        for (written, expected) in [
            ("~/.agent/", Some("/home/me/.agent")),
            ("~", Some("/home/me")),
            ("/opt/x", Some("/opt/x")),
            ("$AGENT_HOME", Some("/data/agent")),
            ("$AGENT_HOME/sub/", Some("/data/agent/sub")),
            ("$XDG_DATA_HOME/agent", Some("/data/agent")),
            ("$XDG_CONFIG_HOME/agent", Some("/home/me/.config/agent")),
            ("$UNSET/agent", None),
            ("$ODD/agent", None),
            ("relative/path", None),
            ("~other/x", None),
            ("~/../other", None),
            ("", None),
        ] {
            assert_eq!(places.expand_path(written), expected.map(PathBuf::from), "{written}");
        }
        assert_eq!(places.temporary_dir(), PathBuf::from("/scratch"));
    }
}
