//! Checks of this machine. Each finding states a fact, and what to do if it is a problem.

mod agents;
mod keepers;
mod state;
mod system;
#[cfg(test)]
mod tests;

use serde::Serialize;
use wharf_config::Config;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Ok,
    /// All is well, but the user should know the finding.
    Note,
    /// It works, but may fail later or for other users.
    Warning,
    /// It does not work.
    Broken,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    pub(crate) says: String,
    /// The next step for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, says: says.into(), advice: None }
    }

    pub(crate) fn note(check: &'static str, says: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::ok(check, says) }
    }

    pub(crate) fn warning(
        check: &'static str,
        says: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Warning,
            advice: Some(advice.into()),
            ..Self::ok(check, says)
        }
    }

    pub(crate) fn broken(
        check: &'static str,
        says: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { level: Level::Broken, ..Self::warning(check, says, advice) }
    }
}

/// Runs all checks that need no host. `config` is the configuration that a host would start with.
pub(crate) fn examine_machine(config: &Config) -> Vec<Finding> {
    let mut findings = system::check_system(config);
    findings.extend(state::check_state_dir(&config.state_dir));
    findings.extend(keepers::check_keepers(config));
    findings.extend(agents::check_agents(config));
    findings
}
