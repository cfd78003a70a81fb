//! Facts that a log has lost and that are known beside it. The beginning of a session comes from
//! the file beside the log, from the index, and from the place of the log; the agent's session
//! comes from the index.

use std::sync::Arc;

use ulid::Ulid;
use wharf_core::{AgentTraits, ClientId, Millis, Origin, Sender, Session, SessionId, Status};
use wharf_json::Json;
use wharf_store::LogId;

use super::{Inner, StartInputs};
use crate::descriptor::{Descriptor, SpawnedWith};
use crate::session::LostBeginning;

impl Inner {
    /// Returns all that is known of the beginning of a session. `known` is its row in the index, or
    /// its entry in an earlier list.
    pub(super) fn find_beginning(
        &self,
        log_id: &LogId,
        known: Option<&Descriptor>,
    ) -> LostBeginning {
        let inputs = self.start_inputs(log_id).ok();
        let origin = find_origin(log_id, inputs.as_ref(), known);
        let created_at = read_time(log_id.name());
        tracing::error!(log = %log_id, adapter = %origin.adapter, is_scope_lost = origin.is_scope_lost,
            "the first event of a log is lost; its session was found beside it");
        LostBeginning { origin, created_at }
    }
}

impl Inner {
    /// Notes the agent's session if the log has lost it and `known` tells it. The abilities of the
    /// agent are those that it told another session, as far as they are known.
    pub(super) fn recall_agent(&self, session: &mut Session, known: Option<&Descriptor>) {
        let state = session.state();
        let is_missing = state.agent_session.is_none() || state.status == Status::Starting;
        let Some(known) =
            known.filter(|known| is_missing && known.id == state.origin.session.as_str())
        else {
            return;
        };
        let Some(agent_session) = known.agent_session_id.as_deref() else { return };
        if state.agent_session.as_deref() == Some(agent_session) {
            return;
        }
        let traits = self
            .introduced(&state.origin.adapter)
            .map(|response| response.traits)
            .unwrap_or_default();
        let traits = AgentTraits {
            resume: traits.resume && known.resumable,
            load: (traits.load || !traits.resume) && known.resumable,
            ..traits
        };
        tracing::error!(
            session = known.id,
            agent_session,
            "the log has lost the start of the agent; the agent's session was found in the index"
        );
        session.recall_agent(agent_session.into(), traits);
    }
}

/// The file beside the log has it all if this version or a later one wrote it. The place of the log
/// tells the workspace.
fn find_origin(log_id: &LogId, inputs: Option<&StartInputs>, known: Option<&Descriptor>) -> Origin {
    let session = SessionId::new(log_id.name());
    let kept = inputs.and_then(|inputs| inputs.origin.as_ref());
    if let Some(kept) =
        kept.filter(|kept| kept.session == session && *kept.workspace == *log_id.bucket())
    {
        return kept.clone();
    }
    let known = known
        .filter(|known| known.id == session.as_str() && known.workspace_slug == log_id.bucket());
    let text =
        |text: Option<&String>| -> Option<Arc<str>> { text.map(|text| text.as_str().into()) };
    let cwd = text(known.map(|known| &known.cwd)).filter(|cwd| !cwd.is_empty());
    let spawned = known.and_then(|known| known.spawned.clone());
    Origin {
        session,
        adapter: text(known.map(|known| &known.adapter_slug)).unwrap_or_default(),
        workspace: log_id.bucket().into(),
        cwd: cwd.or_else(|| inputs.and_then(read_cwd)).unwrap_or_default(),
        label: text(known.and_then(|known| known.label.as_ref())),
        name: text(known.and_then(|known| known.name.as_ref())),
        by: spawned.as_ref().map(to_sender),
        key: spawned.map(|spawned| spawned.key),
        lineage: known.map(|known| known.lineage.clone()).unwrap_or_default(),
        forked_from: None,
        is_scope_lost: known.is_none_or(|known| known.is_scope_lost),
    }
}

/// Returns the caller that used a key: only its token matters for a repeat.
fn to_sender(spawned: &SpawnedWith) -> Sender {
    Sender {
        client: ClientId::new("lost"),
        chosen: None,
        name: None,
        version: None,
        token: spawned.token.as_deref().map(Into::into),
        parent: None,
        peer: None,
    }
}

fn read_cwd(inputs: &StartInputs) -> Option<Arc<str>> {
    let frame = Json::parse(inputs.new_frame.bytes()).ok()?;
    let cwd = frame.text_at(&["params", "cwd"]).ok()??;
    cwd.starts_with('/').then(|| (*cwd).into())
}

/// Returns the time in a session's id.
fn read_time(id: &str) -> Millis {
    let ulid = id.strip_prefix("sess_").and_then(|text| Ulid::from_string(text).ok());
    Millis(ulid.map(|ulid| ulid.timestamp_ms()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use wharf_core::{Raw, SpawnKey};

    use super::*;
    use crate::attention::Attention;

    const ID: &str = "sess_01k9z0000000000000000000000";

    fn inputs(origin: Option<&Origin>) -> StartInputs {
        let frame = r#"{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#;
        let file = serde_json::json!({ "version": 1, "capabilities": "{}", "new_frame": Raw::new(frame).unwrap(),
            "origin": origin });
        wharf_json::read_own(file.to_string().as_bytes()).unwrap()
    }

    fn log_id() -> LogId {
        LogId::new("docs", ID).unwrap()
    }

    #[test]
    fn without_index_only_the_place_and_the_directory_are_known() {
        let origin = find_origin(&log_id(), Some(&inputs(None)), None);
        assert_eq!((&*origin.adapter, &*origin.workspace, &*origin.cwd), ("", "docs", "/w"));
        assert!(origin.is_scope_lost);
        assert_eq!(&*find_origin(&log_id(), None, None).cwd, "");
    }

    #[test]
    fn file_beside_the_log_knows_all_if_it_is_of_this_session() {
        let lost = find_origin(&log_id(), None, None);
        let kept = Origin {
            adapter: "demo".into(),
            cwd: "/w".into(),
            lineage: vec![SessionId::new("sess_0")],
            is_scope_lost: false,
            ..lost
        };
        assert_eq!(find_origin(&log_id(), Some(&inputs(Some(&kept))), None), kept);
        for other in [
            Origin { session: SessionId::new("sess_other"), ..kept.clone() },
            Origin { workspace: "secret".into(), ..kept.clone() },
        ] {
            let found = find_origin(&log_id(), Some(&inputs(Some(&other))), None);
            assert!(found.is_scope_lost && found.lineage.is_empty(), "{found:?}");
        }
    }

    /// Returns the row of the session in the index, with these members changed.
    fn indexed(changes: serde_json::Value) -> Descriptor {
        let mut row = serde_json::json!({ "id": ID, "adapterSlug": "demo", "workspaceSlug": "docs", "cwd": "/index",
            "status": "running", "startedAt": "2026-11-19T20:00:00Z", "turn": "idle", "queued": 0, "clients": 0,
            "lastSeq": 7, "resumable": true, "attention": Attention::default(), "label": "docs", "name": "worker",
            "spawned": { "token": "tok_a", "key": "k1", "digest": "d1" }, "lineage": ["sess_0", "sess_1"] });
        row.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        Descriptor::from_summary(row.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn index_knows_all_if_the_file_beside_the_log_has_no_origin() {
        let known = indexed(serde_json::json!({}));
        let expected = Origin {
            session: SessionId::new(ID),
            adapter: "demo".into(),
            workspace: "docs".into(),
            cwd: "/index".into(),
            label: Some("docs".into()),
            name: Some("worker".into()),
            by: Some(Sender {
                client: ClientId::new("lost"),
                chosen: None,
                name: None,
                version: None,
                token: Some("tok_a".into()),
                parent: None,
                peer: None,
            }),
            key: Some(SpawnKey { key: "k1".into(), digest: "d1".into() }),
            lineage: vec![SessionId::new("sess_0"), SessionId::new("sess_1")],
            forked_from: None,
            is_scope_lost: false,
        };
        assert_eq!(find_origin(&log_id(), Some(&inputs(None)), Some(&known)), expected);
        assert_eq!(find_origin(&log_id(), None, Some(&known)), expected);
    }

    #[test]
    fn scope_that_the_index_does_not_know_stays_lost() {
        let known = indexed(serde_json::json!({ "is_scope_lost": true, "lineage": [] }));
        let origin = find_origin(&log_id(), Some(&inputs(None)), Some(&known));
        assert!(origin.is_scope_lost);
        assert_eq!((&*origin.adapter, origin.label.as_deref()), ("demo", Some("docs")));
    }

    #[test]
    fn directory_comes_from_the_start_parameters_if_the_index_has_none() {
        let known = indexed(serde_json::json!({ "cwd": "" }));
        let origin = find_origin(&log_id(), Some(&inputs(None)), Some(&known));
        assert_eq!((&*origin.cwd, &*origin.adapter), ("/w", "demo"));
    }

    #[test]
    fn row_of_another_session_or_workspace_is_not_used() {
        let unknown = find_origin(&log_id(), Some(&inputs(None)), None);
        for other in [
            serde_json::json!({ "id": "sess_other" }),
            serde_json::json!({ "workspaceSlug": "secret" }),
        ] {
            let known = indexed(other);
            assert_eq!(find_origin(&log_id(), Some(&inputs(None)), Some(&known)), unknown);
        }
        assert!(unknown.is_scope_lost);
    }
}
