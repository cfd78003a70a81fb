//! Forgets sessions by itself: ended sessions that `[retention]` does not keep (rule 2.12), and
//! sessions that were never prompted (rule 2.13). The choice is a pure function of the descriptors.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use wharf_config::{Config, RetentionSettings};
use wharf_core::{EndReason, Millis, SessionId};

use super::{Host, Inner};
use crate::descriptor::Descriptor;
use crate::ids::Now;
use crate::parse_timestamp;
use crate::registry::KnownSession;
use crate::session::handle::CallError;

/// The time between two looks: a share of the shortest time for which something is kept, within
/// these bounds.
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(100);
const MAX_SWEEP_INTERVAL: Duration = Duration::from_secs(600);
const SWEEPS_PER_SHORTEST: u32 = 8;

/// Why a session is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForgetReason {
    /// It ended longer ago than `retention.keep_for`.
    Old,
    /// There are more ended sessions than `retention.keep_sessions`.
    TooMany,
    /// It was never prompted, and had no client for `session.unused_ttl`.
    NeverPrompted,
}

impl ForgetReason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Old => "it ended longer ago than retention.keep_for",
            Self::TooMany => "retention.keep_sessions newer ones have ended",
            Self::NeverPrompted => "never prompted, and without a client for session.unused_ttl",
        }
    }
}

/// A session and the time since which it has no client and no work, if it lives.
struct SweptSession {
    known: Arc<Descriptor>,
    alone_since: Option<Millis>,
}

/// Sweeps for as long as the host lives.
pub(super) fn sweep_sessions(host: &Arc<Inner>) {
    let weak = Arc::downgrade(host);
    tokio::spawn(async move {
        let mut reported = HashSet::new();
        loop {
            let Some(interval) = weak.upgrade().map(|host| sweep_interval(&host.config)) else {
                return;
            };
            tokio::time::sleep(interval).await;
            sweep_once(&weak, &mut reported).await;
        }
    });
}

fn sweep_interval(config: &Config) -> Duration {
    let shortest = config
        .retention
        .shortest()
        .into_iter()
        .chain(config.session.unused_ttl.to_std())
        .min();
    let share = shortest.map_or(MAX_SWEEP_INTERVAL, |shortest| shortest / SWEEPS_PER_SHORTEST);
    share.clamp(MIN_SWEEP_INTERVAL, MAX_SWEEP_INTERVAL)
}

/// Forgets one session after the other. Chooses again for each, since sessions and settings change
/// while others are forgotten. `reported` holds the sessions that a dry run has logged.
async fn sweep_once(host: &Weak<Inner>, reported: &mut HashSet<SessionId>) {
    let Some(inner) = host.upgrade() else { return };
    let host = Host::from_inner(inner);
    let mut tried = HashSet::new();
    while let Some((id, why)) =
        host.choose_now(reported).into_iter().find(|(id, _)| tried.insert(id.clone()))
    {
        host.forget_chosen(&id, why).await;
        // A long sweep leaves room for others, who may change the next choice.
        tokio::task::yield_now().await;
    }
}

impl Host {
    /// Returns the sessions to forget as things are now. Those that a dry run keeps are logged
    /// instead, each once.
    fn choose_now(&self, reported: &mut HashSet<SessionId>) -> Vec<(SessionId, ForgetReason)> {
        let retention = &self.config().retention;
        let session = &self.config().session;
        let unused_ttl = session.unused_ttl.to_millis();
        let mut chosen =
            choose_forgotten(&list_swept(&self.inner), retention, unused_ttl, Now::millis());
        reported.retain(|id| chosen.iter().any(|(known, _)| known == id));
        chosen.retain(|(id, why)| {
            let is_kept = retention.dry_run && *why != ForgetReason::NeverPrompted;
            if is_kept && reported.insert(id.clone()) {
                tracing::info!(session = %id, reason = why.as_str(), "retention.dry_run: this session would be forgotten");
            }
            !is_kept
        });
        chosen
    }

    async fn forget_chosen(&self, id: &SessionId, why: ForgetReason) {
        let reason = why.as_str();
        if why == ForgetReason::NeverPrompted && !self.end_unused(id).await {
            return;
        }
        match self.forget_unused(id).await {
            Ok(Some(_)) => tracing::info!(session = %id, reason, "a session was forgotten"),
            Ok(None) => {
                tracing::debug!(session = %id, reason, "a session is not forgotten: it is in use, or gone")
            }
            Err(error) => {
                tracing::warn!(session = %id, reason, %error, "a session could not be forgotten")
            }
        }
    }

    /// Ends the agent of a session that was never prompted. Returns false if the session has got
    /// something to do.
    async fn end_unused(&self, id: &SessionId) -> bool {
        let Some(KnownSession::Live(handle)) = self.inner.registry.get(id) else { return true };
        if !handle.descriptor().status.is_alive() {
            return true;
        }
        let ended =
            handle.sleep(EndReason::Idle, ForgetReason::NeverPrompted.as_str().into()).await;
        match ended {
            Ok(()) | Err(CallError::Gone) => true,
            Err(error) => {
                tracing::debug!(session = %id, %error, "a session that was never prompted is not ended");
                false
            }
        }
    }
}

fn list_swept(host: &Inner) -> Vec<SweptSession> {
    let mut sessions = Vec::new();
    host.registry.for_each_session(|known| {
        let alone_since = match known {
            KnownSession::Live(handle) => handle.shared.rest().alone_since,
            KnownSession::Cold { .. } => None,
        };
        sessions.push(SweptSession { known: known.descriptor(), alone_since });
    });
    sessions
}

/// Returns the sessions to forget, each with the reason.
fn choose_forgotten(
    sessions: &[SweptSession],
    retention: &RetentionSettings,
    unused_ttl: Option<Millis>,
    now: Millis,
) -> Vec<(SessionId, ForgetReason)> {
    // A session whose children work or ask is not over.
    let busy: HashSet<&SessionId> = sessions
        .iter()
        .filter(|session| session.known.status.is_alive() || session.known.attention.asks > 0)
        .flat_map(|session| session.known.lineage())
        .collect();
    let is_free = |session: &&SweptSession| {
        let known = &session.known;
        let is_wanted =
            known.clients > 0 || known.queued > 0 || known.attention.asks > 0 || known.archived;
        !is_wanted && !busy.contains(&SessionId::new(known.id.as_str()))
    };
    let mut chosen: Vec<(SessionId, ForgetReason)> = Vec::new();
    let mut ended: BTreeMap<&str, Vec<(Millis, &Descriptor)>> = BTreeMap::new();
    for session in sessions.iter().filter(is_free) {
        let known = &*session.known;
        let ended_at = known
            .ended_at
            .as_deref()
            .and_then(parse_timestamp)
            .filter(|_| !known.status.is_alive());
        let is_past = |since: Option<Millis>, ttl: Option<Millis>| {
            since
                .zip(ttl)
                .is_some_and(|(since, ttl)| now.0.saturating_sub(since.0) >= ttl.0)
        };
        if known.unused && is_past(session.alone_since.or(ended_at), unused_ttl) {
            chosen.push((SessionId::new(known.id.as_str()), ForgetReason::NeverPrompted));
        } else if let Some(ended_at) = ended_at {
            ended.entry(&known.workspace_slug).or_default().push((ended_at, known));
        }
    }
    for (workspace, mut ended) in ended {
        let (keep_for, keep_sessions) = retention.of_workspace(workspace);
        ended.sort_by(|(a_at, a), (b_at, b)| (b_at, &b.id).cmp(&(a_at, &a.id)));
        for (place, (ended_at, known)) in ended.into_iter().enumerate() {
            let is_old = keep_for
                .to_millis()
                .is_some_and(|keep_for| now.0.saturating_sub(ended_at.0) >= keep_for.0);
            let is_beyond = keep_sessions.is_some_and(|count| place >= count);
            let why = if is_old {
                Some(ForgetReason::Old)
            } else {
                is_beyond.then_some(ForgetReason::TooMany)
            };
            chosen.extend(why.map(|why| (SessionId::new(known.id.as_str()), why)));
        }
    }
    chosen
}

#[cfg(test)]
mod tests;
