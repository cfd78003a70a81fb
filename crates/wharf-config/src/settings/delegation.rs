//! `[delegation]`: which agents may start other agents. Without an entry none may.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Deny by default: without `allow` no agent starts another.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Delegation {
    /// The adapters that the agents of an adapter may start, by the name of the starting adapter.
    pub allow: BTreeMap<String, AllowedAdapters>,
    /// How deep a child may be; a session that a user started has depth 0.
    pub max_depth: usize,
    /// Children of one session that are alive at once.
    pub max_children: usize,
    /// Whether the agent of a session may answer the asks of its children's agents.
    pub answer: bool,
    pub children: Children,
}

/// `"*"` for all, or names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub enum AllowedAdapters {
    All,
    These(Vec<String>),
}

/// Decides about the child sessions when a user ends their parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Children {
    /// They end too.
    #[default]
    End,
    /// They go on; the user has them.
    Keep,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Word(String),
    Names(Vec<String>),
}

impl TryFrom<Written> for AllowedAdapters {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Word(word) if word == "*" => Ok(Self::All),
            Written::Word(word) => {
                Err(format!("write [{word:?}] for one adapter, or \"*\" for all"))
            }
            Written::Names(names) if names.iter().any(|name| name == "*") => Ok(Self::All),
            Written::Names(names) => Ok(Self::These(names)),
        }
    }
}

impl Default for Delegation {
    fn default() -> Self {
        // Children do not delegate further unless that is wanted; four agents keep a person's
        // machine busy.
        Self {
            allow: BTreeMap::new(),
            max_depth: 1,
            max_children: 4,
            answer: false,
            children: Children::End,
        }
    }
}

impl Delegation {
    /// Tells whether an agent of this adapter may start any other agent.
    pub fn lets_start(&self, adapter: &str) -> bool {
        match self.allow.get(adapter) {
            Some(AllowedAdapters::All) => true,
            Some(AllowedAdapters::These(names)) => !names.is_empty(),
            None => false,
        }
    }

    /// Tells whether an agent of the adapter `parent` may start an agent of `child`.
    pub fn allows(&self, parent: &str, child: &str) -> bool {
        match self.allow.get(parent) {
            Some(AllowedAdapters::All) => true,
            Some(AllowedAdapters::These(names)) => names.iter().any(|name| name == child),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Config;

    fn read(text: &str) -> Result<Delegation, String> {
        Config::parse(text).map(|config| config.delegation)
    }

    #[test]
    fn delegation_needs_an_entry_in_the_file() {
        let nothing = read("").unwrap();
        assert!(!nothing.lets_start("claude") && !nothing.allows("claude", "claude"));
        let some =
            read("[delegation]\nmax_depth = 2\nallow = { claude = [\"codex\"], gemini = \"*\", goose = [] }").unwrap();
        assert!(some.allows("claude", "codex") && some.allows("gemini", "anything"));
        assert!(
            !some.allows("claude", "claude")
                && !some.allows("codex", "claude")
                && !some.lets_start("goose")
        );
        assert_eq!((some.max_depth, some.max_children, some.answer), (2, 4, false));
    }

    #[test]
    fn a_name_without_brackets_is_no_list() {
        let error = read("[delegation]\nallow = { claude = \"codex\" }").unwrap_err();
        assert!(error.contains("[\"codex\"]"), "{error}");
        read("[delegation]\nmax_childs = 2").unwrap_err();
    }
}
