//! The ways to log in that an agent offers: `authMethods` of its answer to `initialize`.

use serde_json::Value;

/// One way to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoginMethod {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) kind: LoginKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LoginKind {
    /// The agent does it itself after `authenticate`, for example in a browser.
    Agent,
    /// The agent's program does it in a terminal, with these arguments and variables.
    Terminal { arguments: Vec<String>, env: Vec<(String, String)> },
    /// The user sets variables.
    Variables(Vec<String>),
}

impl LoginMethod {
    /// Reads the ways to log in from the result of `initialize`.
    pub(super) fn list(initialized: &Value) -> Vec<Self> {
        initialized["authMethods"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Self::read)
            .collect()
    }

    fn read(method: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let id = text(&method["id"])?;
        let kind = match method["type"].as_str() {
            Some("terminal") => LoginKind::Terminal {
                arguments: method["args"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(text)
                    .collect(),
                env: method["env"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter_map(|(name, value)| Some((name.clone(), text(value)?)))
                    .collect(),
            },
            Some("env_var") => LoginKind::Variables(
                method["vars"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|var| text(&var["name"]))
                    .collect(),
            ),
            Some(_) | None => LoginKind::Agent,
        };
        let name = text(&method["name"]).unwrap_or_else(|| id.clone());
        Some(Self { id, name, description: text(&method["description"]), kind })
    }

    pub(super) fn is_called(&self, word: &str) -> bool {
        self.id == word || self.name.eq_ignore_ascii_case(word)
    }

    pub(super) fn describe(&self) -> String {
        if self.id == self.name { self.id.clone() } else { format!("{} ({})", self.id, self.name) }
    }
}
