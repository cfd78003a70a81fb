//! The event stream of all sessions, for one reader: a snapshot, then the changes, and that the
//! host stops.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, Interval};
use wharf_api::{
    AttentionInfo, ForgottenSession, HostStopping, SessionSnapshot, SessionStreamEvent,
};
use wharf_host::Descriptor;

use super::{ChunkSource, format_event};
use crate::App;
use crate::auth::Identity;
use crate::use_cases::AttentionView;
use crate::visible_sessions::VisibleSessions;

/// How often a silent stream sends a comment. Readers take a stream that is silent for 25 seconds
/// for dead.
const COMMENT_INTERVAL: Duration = Duration::from_secs(10);
/// Changes that come faster are sent together: no person sees more than ten a second.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct SessionListStream {
    visible: VisibleSessions,
    view: AttentionView,
    changes: watch::Receiver<u64>,
    /// True from a change until it is sent.
    has_changes: bool,
    /// Whether the host is stopping; `None` once the stream has reported the stop to the reader.
    stopping: Option<watch::Receiver<bool>>,
    /// Holds the end of the host up until the reader has got that report.
    untold: Option<watch::Receiver<()>>,
    /// The sessions as the reader knows them; `None` before its snapshot.
    known: Option<HashMap<String, (Arc<Descriptor>, AttentionInfo)>>,
    told_at: Instant,
    comment: Interval,
}

impl SessionListStream {
    pub(super) fn new(app: &App, identity: &Identity) -> Self {
        let visible = app.visible_to(identity);
        let view = AttentionView::new(app, identity);
        let mut comment = tokio::time::interval(COMMENT_INTERVAL);
        comment.reset();
        Self {
            changes: visible.changes(),
            has_changes: false,
            stopping: Some(app.stopping.clone()),
            untold: Some(app.stream_readers.subscribe()),
            visible,
            view,
            known: None,
            told_at: Instant::now(),
            comment,
        }
    }

    /// Returns the changes since the last call as events, or the snapshot at the first call.
    fn take_changes(&mut self) -> String {
        self.changes.borrow_and_update();
        let mut now = self.visible.descriptors();
        now.sort_unstable_by(|a, b| b.id.cmp(&a.id));
        self.view.refresh(&now);
        let view = &self.view;
        let mut text = String::new();
        match &mut self.known {
            None => {
                let sessions = now.iter().map(|known| view.session_info(known)).collect();
                text =
                    format_list_event(&SessionStreamEvent::Snapshot(SessionSnapshot { sessions }));
            }
            Some(known) => {
                for (id, session) in now.iter().map(|session| (&session.id, session)) {
                    let is_same = |(before, attention): (Arc<Descriptor>, AttentionInfo)| {
                        has_same_state(&before, session) && attention == view.attention_of(session)
                    };
                    if !known.remove(id).is_some_and(is_same) {
                        text.push_str(&format_list_event(&SessionStreamEvent::Session(
                            view.session_info(session),
                        )));
                    }
                }
                for id in known.keys() {
                    let forgotten = ForgottenSession { id: id.clone() };
                    text.push_str(&format_list_event(&SessionStreamEvent::Forgotten(forgotten)));
                }
            }
        }
        let told = now.into_iter().map(|session| {
            let attention = view.attention_of(&session);
            (session.id.clone(), (session, attention))
        });
        self.known = Some(told.collect());
        text
    }
}

impl ChunkSource for SessionListStream {
    async fn next(&mut self) -> Option<Bytes> {
        if self.stopping.is_none() {
            // The last chunk told the stop, and the connection writes it before it waits again.
            self.untold = None;
        }
        loop {
            if self.known.is_some() {
                let send_at = self.told_at + MIN_UPDATE_INTERVAL;
                tokio::select! {
                    biased;
                    () = await_stop(&mut self.stopping) => {
                        self.stopping = None;
                        let stopping = HostStopping { pid: std::process::id() };
                        return Some(format_list_event(&SessionStreamEvent::Stopping(stopping)).into());
                    }
                    () = tokio::time::sleep_until(send_at), if self.has_changes => {}
                    changed = self.changes.changed(), if !self.has_changes => {
                        changed.ok()?;
                        self.has_changes = true;
                        continue;
                    }
                    _ = self.comment.tick() => return Some(Bytes::from_static(b":\n\n")),
                }
            }
            let text = self.take_changes();
            self.has_changes = false;
            self.told_at = Instant::now();
            if !text.is_empty() {
                self.comment.reset();
                return Some(text.into());
            }
        }
    }
}

/// Waits until the host stops; for ever if the reader knows it already.
async fn await_stop(stopping: &mut Option<watch::Receiver<bool>>) {
    if let Some(stopping) = stopping
        && stopping.wait_for(|stopping| *stopping).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

fn format_list_event(told: &SessionStreamEvent) -> String {
    format_event(told.name(), None, told)
}

/// Returns true if the changes between two states need no event. Output of the agent alone, which
/// changes the last event and the time of the last output, needs none. The use of resources needs
/// an event once it differs visibly.
pub(super) fn has_same_state(before: &Arc<Descriptor>, now: &Arc<Descriptor>) -> bool {
    if Arc::ptr_eq(before, now) {
        return true;
    }
    let mut silent = Descriptor::clone(now);
    silent.last_seq = before.last_seq;
    silent.last_output_at.clone_from(&before.last_output_at);
    if let (Some(used), Some(uses)) = (&before.resources, &now.resources)
        && uses.is_near(used)
    {
        silent.resources = before.resources;
    }
    silent == **before
}
