//! Usage, cost and context as agents report them (chapter 15 of the specification). An unknown
//! number is absent, never zero.

use serde::{Deserialize, Serialize};
use wharf_acp::Payload;
use wharf_core::{ReportedCost, ReportedTokens, State};
use wharf_json::Json;

/// The usage of a session: the tokens of its turns, and its cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentUsage {
    /// The number of turns whose answer reported tokens.
    pub turns: u64,
    /// The sum of these turns.
    pub tokens: ReportedTokens,
    /// The newest of these turns.
    pub last_turn: ReportedTokens,
    /// The agent reports only a part of what its turns use.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The log does not say what the agent's numbers mean.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
    /// The cost of the session so far, as the agent reported it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<ReportedCost>,
}

/// The context window: tokens in it, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedContext {
    pub used: u64,
    pub size: u64,
}

impl AgentUsage {
    pub(crate) fn of_state(state: &State) -> Option<Self> {
        let cost = state.cost.clone();
        let wharf_core::SessionTokens { turns, tokens, last_turn, at_least, guessed, .. } =
            state.usage;
        // Without numbers there is nothing to guess.
        let guessed = guessed && turns > 0;
        (turns > 0 || cost.is_some()).then_some(Self {
            turns,
            tokens,
            last_turn,
            at_least,
            guessed,
            cost,
        })
    }
}

impl ReportedContext {
    pub(crate) fn of_state(state: &State) -> Option<Self> {
        let update = reported(state)?;
        let count = |name: &str| update.last_member(name)?.integer()?.try_into().ok();
        Some(Self { used: count("used")?, size: count("size")? })
    }
}

/// Returns the newest `usage_update`.
fn reported(state: &State) -> Option<Json<'_>> {
    let frame = state.latest.usage.as_ref()?;
    Payload::open(frame.as_str()).ok().map(Payload::close)
}

#[cfg(test)]
mod tests {
    use wharf_core::{
        AgentEvent, Event, Millis, Origin, Raw, Seq, Session, SessionEvent, SessionId, Settings,
        UpdateKind,
    };

    use super::*;

    /// Returns the usage of a session whose agent sends these `usage_update`s.
    fn usage_after(updates: &[&str]) -> Option<AgentUsage> {
        let origin = Origin {
            session: SessionId::new("sess_1"),
            adapter: "any".into(),
            workspace: "default".into(),
            cwd: "/w".into(),
            label: None,
            name: None,
            by: None,
            key: None,
            lineage: Vec::new(),
            forked_from: None,
            is_scope_lost: false,
        };
        let updated = |update: &&str| {
            let frame = Raw::new(format!(r#"{{"params":{{"update":{update}}}}}"#)).unwrap();
            Event::Agent(AgentEvent::Updated {
                update: UpdateKind::UsageUpdate,
                frame,
                title: None,
                tool: None,
            })
        };
        let events = std::iter::once(Event::Session(SessionEvent::Created(origin)))
            .chain(updates.iter().map(updated));
        let entries = (1..).zip(events).map(|(seq, event)| (Seq(seq), Millis(seq), event));
        AgentUsage::of_state(Session::restore(Settings::default(), entries).unwrap().state())
    }

    #[test]
    fn cost_stays_that_of_the_last_report_that_has_one() {
        let first =
            r#"{"used":1,"size":9,"cost":{"amount":0.0012000000000000001,"currency":"USD"}}"#;
        let without = [
            r#"{"used":2,"size":9}"#,
            r#"{"used":2,"size":9,"cost":null}"#,
            r#"{"cost":{"amount":1e999}}"#,
        ];
        let cost =
            |usage: Option<AgentUsage>| usage.and_then(|usage| usage.cost).map(|cost| cost.amount);
        assert_eq!(
            cost(usage_after(&[&[first][..], &without].concat())).as_deref(),
            Some("0.0012000000000000001")
        );
        let newer = r#"{"cost":{"amount":0.5,"currency":"USD"}}"#;
        assert_eq!(cost(usage_after(&[first, newer])).as_deref(), Some("0.5"));
        assert_eq!(cost(usage_after(&without)), None);
    }
}
