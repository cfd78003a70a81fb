//! Explains the refusal of a label that another session has: which session that is, and what to do
//! next.

use wharf_api::{EndCause, ErrorCode, SessionInfo};
use wharf_render::text::quote;

use crate::client::{HostCall, HostClient, url_path};
use crate::exit::{Exit, Failure};
use crate::session_ref;

/// The session that has a label.
struct LabelHolder {
    session: SessionInfo,
    /// The name of the session in a command.
    name: String,
}

impl LabelHolder {
    /// Reads the session that the refusal names. Returns `None` if the error is not about a label,
    /// or if the session is gone.
    async fn find(client: &HostClient, error: &anyhow::Error) -> Option<Self> {
        let is_refused_label = Failure::code_of(error) == Some(ErrorCode::LABEL_IN_USE);
        let id = Failure::session_of(error).filter(|_| is_refused_label)?;
        let session: SessionInfo =
            client.fetch_json(&HostCall::get(url_path(&["sessions", id]))).await.ok()?;
        let name = session_ref::find_hint_name(client, &session).await;
        Some(Self { session, name })
    }

    fn describe(&self) -> String {
        let label = quote(self.session.label.as_deref().unwrap_or_default());
        format!("session {} ({}) has the label {label}", self.session.id, self.session.adapter_slug)
    }

    /// Returns the message about a label that is wanted for another session.
    fn describe_ways_on(&self) -> String {
        let name = &self.name;
        let holder = self.describe();
        let move_label = "or move the label to this one: --take-label";
        if is_killed(&self.session) {
            return format!(
                "{holder}, and was killed; bring it back: wharf resume {name}, {move_label}"
            );
        }
        format!("{holder}; go on with it: wharf prompt {name} TEXT, {move_label}")
    }
}

/// Returns true if a person has killed the session: a prompt does not bring it back.
pub(super) fn is_killed(session: &SessionInfo) -> bool {
    !session.status.is_alive() && session.end_reason == Some(EndCause::User)
}

/// Replaces the message about a label that another session has with a message that says how to go
/// on.
pub(super) async fn explain_label_in_use(
    client: &HostClient,
    error: anyhow::Error,
) -> anyhow::Error {
    match LabelHolder::find(client, &error).await {
        Some(holder) => Failure::new(Exit::Refused, holder.describe_ways_on()).into(),
        None => error,
    }
}

/// Replaces the message about a label whose session has another agent than the one to start.
pub(super) async fn explain_other_agent(
    client: &HostClient,
    error: anyhow::Error,
    agent: &str,
) -> anyhow::Error {
    let Some(holder) = LabelHolder::find(client, &error).await else { return error };
    let advice = "name its own agent, or choose another label";
    let words = format!("{}, and its agent is not {agent}; {advice}", holder.describe());
    Failure::new(Exit::Refused, words).into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn holder(changes: &Value) -> LabelHolder {
        let mut session = json!({
            "id": "sess_1", "adapterSlug": "demo", "workspaceSlug": "default", "cwd": "/w", "status": "running",
            "startedAt": "2026-11-15T20:34:05.123Z", "turn": "idle", "queued": 0, "clients": 0, "lastSeq": 1,
            "resumable": true, "label": "docs",
        });
        let members = changes.as_object().unwrap().clone();
        session.as_object_mut().unwrap().extend(members);
        LabelHolder {
            session: serde_json::from_value(session).unwrap(),
            name: "docs".to_owned(),
        }
    }

    #[test]
    fn advice_about_a_label_fits_the_state_of_its_session() {
        let prompt =
            "go on with it: wharf prompt docs TEXT, or move the label to this one: --take-label";
        let resume =
            "bring it back: wharf resume docs, or move the label to this one: --take-label";
        for (changes, ending) in [
            (json!({}), format!("\"docs\"; {prompt}")),
            (json!({ "status": "exited", "endReason": "finished" }), format!("\"docs\"; {prompt}")),
            (
                json!({ "status": "killed", "endReason": "user" }),
                format!("\"docs\", and was killed; {resume}"),
            ),
            (json!({ "label": "a;b\u{200b}" }), format!("\"a;b[U+200B]\"; {prompt}")),
        ] {
            let told = holder(&changes).describe_ways_on();
            assert_eq!(told, format!("session sess_1 (demo) has the label {ending}"));
        }
    }
}
