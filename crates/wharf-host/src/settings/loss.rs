//! Settings that the log does not tell any more (rule 2.6): an agent comes back only on terms that
//! a person has chosen.

use wharf_core::{SettingsLoss, StartFault};

use super::{AgentSettings, ReturnTerms, SettingSources};
use crate::agent::initialize::StartFailure;

/// Returns true if settings may have been in force that the log has lost.
pub(crate) fn are_settings_lost<'a>(
    loss: SettingsLoss,
    sources: impl Into<SettingSources<'a>>,
) -> bool {
    let sources = sources.into();
    match loss {
        SettingsLoss::None => false,
        SettingsLoss::Certain => true,
        // An agent that has told that it has no settings cannot have lost any.
        SettingsLoss::Possible => {
            sources.answer.is_none() || !AgentSettings::from_sources(sources).in_force().is_empty()
        }
    }
}

/// Checks the terms of a return after settings were lost. The host then sets only the settings that
/// the terms name: the settings from before the loss may allow the agent more than those that were
/// in force last.
pub(crate) fn check_terms_after_loss(terms: &mut ReturnTerms) -> Result<(), StartFailure> {
    if terms.session_mode.is_none() && !terms.accept_agent_settings {
        let message = "the log has lost the settings that were in force last, and without them the agent might do more than \
             it was allowed to. To go on, choose a mode with `wharf resume --session-mode MODE`, or accept the settings that \
             the agent has with `wharf resume --accept-agent-settings`";
        return Err(StartFailure {
            cause: StartFault::SettingRefused,
            ..StartFailure::new(message)
        });
    }
    terms.accept_agent_settings = true;
    Ok(())
}
