//! The mode and options that a session has now, to be had again by an agent that comes back.

use serde_json::Value;
use wharf_core::{Raw, State};

use crate::agent::InForce;
use crate::frame;

/// From the latest updates, else from the agent's last answer.
pub(super) fn in_force(state: &State) -> InForce {
    let told = state.answer.as_ref().map(|answer| InForce::of_answer(answer.bytes())).unwrap_or_default();
    let mode = update(state.latest.mode.as_ref())["currentModeId"].as_str().map(ToOwned::to_owned);
    let options = InForce::options(&update(state.latest.config.as_ref())["configOptions"]);
    InForce { mode: mode.or(told.mode), options: if options.is_empty() { told.options } else { options } }
}

fn update(frame: Option<&Raw>) -> Value {
    let mut frame = frame.map(|frame| frame::to_value(frame.bytes())).unwrap_or_default();
    frame["params"]["update"].take()
}
