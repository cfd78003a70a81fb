//! The updates that tell one client of what others do (rule 4.5). Each carries its tag twice, since
//! the drafts and the field disagree about the name of the tag.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};
use wharf_host::core::{
    Ask, AskId, AskKind, AskOutcome, Member, PromptEnd, Raw, Sender, SessionId,
};
use wharf_json::{Json, rpc};

use super::capability_filter::CapabilityFilter;
use crate::use_cases::prompt_text;

pub(super) fn update(session: &SessionId, tag: &str, mut body: Value) -> Bytes {
    body["type"] = tag.into();
    body["sessionUpdate"] = tag.into();
    let params = json!({ "sessionId": session.as_str(), "update": body });
    rpc::notification("session/update", params)
}

/// `{clientId, name, version}`.
pub(super) fn who(sender: &Sender) -> Value {
    json!({ "clientId": sender.shown_id(), "name": sender.name, "version": sender.version })
}

/// The beginning of a prompt's text, for lists.
pub(super) fn prompt_preview(prompt: &Raw) -> String {
    const MAX_PREVIEW_CHARS: usize = 120;
    prompt_text(prompt).chars().take(MAX_PREVIEW_CHARS).collect()
}

/// Returns a message that this client alone is to see: ACP's own update if the client understands
/// it, else an extension.
pub(super) fn notice(
    session: &SessionId,
    understood: CapabilityFilter,
    message: &str,
    reason: &str,
) -> Bytes {
    let body =
        json!({ "level": "info", "message": message, "_meta": { "wharf": { "reason": reason } } });
    let (method, params) = if understood.notices() {
        let mut update = body;
        update["sessionUpdate"] = "notice".into();
        ("session/update", json!({ "sessionId": session.as_str(), "update": update }))
    } else {
        let mut params = body;
        params["sessionId"] = session.as_str().into();
        ("_wharf/notice", params)
    };
    rpc::notification(method, params)
}

/// Tells of a prompt, with its content as the sender wrote it and as the agent gets it.
pub(super) fn prompt_received(session: &SessionId, prompt: &Raw, sender: &Sender) -> Bytes {
    let frame =
        update(session, "prompt_received", json!({ "prompt": null, "sentBy": who(sender) }));
    let content = Json::parse(prompt.bytes()).and_then(|request| request.at(&["params", "prompt"]));
    let Ok(Some(content)) = content else { return frame };
    let filled = Json::parse(&frame).and_then(|frame| {
        wharf_json::set(frame, &["params", "update", "prompt"], content.raw()).map(Bytes::from)
    });
    filled.unwrap_or(frame)
}

pub(super) fn turn_complete(session: &SessionId, end: &PromptEnd) -> Bytes {
    update(session, "turn_complete", json!({ "stopReason": end.stop_reason() }))
}

/// Tells of the end of an ask, in the words for its kind. `request` is the number under which the
/// client knows the request; it is also told the answer itself then.
pub(super) fn ask_resolved(
    session: &SessionId,
    ask: &Ask,
    outcome: &AskOutcome,
    by: Option<&Sender>,
    request: Option<AskId>,
) -> Bytes {
    let chosen = match outcome {
        AskOutcome::Answered { option, .. } => option.as_deref(),
        AskOutcome::Declined { .. }
        | AskOutcome::Cancelled
        | AskOutcome::Withdrawn
        | AskOutcome::AgentGone => None,
    };
    if ask.kind == AskKind::Elicitation {
        let body = json!({ "action": action(outcome), "outcome": outcome_word(outcome), "resolvedBy": by.map(who) });
        return update(session, "elicitation_resolved", body);
    }
    let mut body = json!({
        "toolCallId": ask.tool_call,
        "chosenOptionId": chosen,
        "outcome": outcome_word(outcome),
        "resolvedBy": by.map(who),
    });
    if let Some(AskId(request)) = request {
        body["requestId"] = request.into();
        if let AskOutcome::Answered { answer, .. } | AskOutcome::Declined { answer } = outcome
            && let Ok(Some(result)) =
                wharf_json::Json::parse(answer.bytes()).and_then(|answer| answer.member("result"))
        {
            body["result"] = result.to_value();
        }
    }
    update(session, "permission_resolved", body)
}

/// Returns the action in the answer that the agent got to its elicitation: the same word that the
/// log has.
fn action(outcome: &AskOutcome) -> String {
    match outcome {
        AskOutcome::Answered { answer, .. } | AskOutcome::Declined { answer } => {
            let action = Json::parse(answer.bytes())
                .and_then(|answer| answer.text_at(&["result", "action"]));
            action.ok().flatten().map_or_else(|| "cancel".to_owned(), Cow::into_owned)
        }
        AskOutcome::Cancelled | AskOutcome::Withdrawn | AskOutcome::AgentGone => {
            "cancel".to_owned()
        }
    }
}

pub(super) fn presence(session: &SessionId, member: &Member, connected: bool) -> Bytes {
    let tag = if connected { "client_connected" } else { "client_disconnected" };
    update(
        session,
        tag,
        json!({ "client": who(&member.sender), "timestamp": wharf_host::format_timestamp(wharf_host::Now::millis()) }),
    )
}

fn outcome_word(outcome: &AskOutcome) -> &'static str {
    match outcome {
        AskOutcome::Answered { .. } => "selected",
        AskOutcome::Declined { .. } | AskOutcome::Cancelled => "cancelled",
        AskOutcome::Withdrawn => "withdrawn",
        AskOutcome::AgentGone => "agent_gone",
    }
}
