//! Labels that shall name one session: who has a label, and whom it goes to, is decided in one step
//! (rule 14.10).

use std::sync::Arc;

use tokio::sync::MutexGuard;
use wharf_core::{Description, Sender, SessionId};

use super::Host;
use crate::descriptor::Descriptor;
use crate::session::handle::{CallError, SessionHandle};

/// Says what happens if another session of the workspace has the label already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelPolicy {
    /// Both have it.
    #[default]
    Share,
    /// The request is refused.
    Refuse,
    /// The other session loses it.
    Take,
    /// The other session is the answer.
    Continue,
}

impl LabelPolicy {
    /// Returns the word of the request.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Refuse => "refuse",
            Self::Take => "take",
            Self::Continue => "continue",
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("session {holder} ({adapter}) has the label {label:?}")]
pub struct LabelInUse {
    pub label: String,
    pub holder: String,
    pub adapter: String,
}

/// The reason why a description was not changed.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    #[error(transparent)]
    Label(#[from] LabelInUse),
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Tells which sessions a caller sees.
pub type Sees<'a> = &'a (dyn Fn(&Descriptor) -> bool + Sync);

/// A wish for a label.
#[derive(Clone, Copy, Debug)]
pub(super) struct LabelWish<'a> {
    pub(super) label: Option<&'a str>,
    pub(super) on_label: LabelPolicy,
    pub(super) workspace: &'a str,
    /// The session that is to have it, if there is one already.
    pub(super) session: Option<&'a SessionId>,
    /// The agent that a session has to have which is continued.
    pub(super) adapter: Option<&'a str>,
}

/// The outcome of a wish. While it is held, no other request decides about a label.
#[derive(Debug)]
pub(super) enum LabelClaim<'a> {
    Granted(GrantedLabel<'a>),
    /// This session has the label, and is to be continued.
    Continued(SessionId),
}

#[derive(Debug)]
pub(super) struct GrantedLabel<'a> {
    _one: Option<MutexGuard<'a, ()>>,
    label: Option<String>,
    /// The sessions that lose the label.
    losers: Vec<SessionId>,
}

impl Host {
    /// Sets the session's title, label or archive mark. `sees` tells which other sessions the
    /// caller sees.
    pub async fn describe(
        &self,
        handle: &SessionHandle,
        description: Description,
        on_label: LabelPolicy,
        sees: Sees<'_>,
    ) -> Result<(), DescribeError> {
        let known = handle.descriptor();
        let label = description.label.clone().flatten();
        let wish = LabelWish {
            label: label.as_deref(),
            on_label,
            workspace: &known.workspace_slug,
            session: Some(handle.id()),
            adapter: None,
        };
        let sender = description.by.clone();
        if let LabelClaim::Granted(granted) = self.claim_label(wish, sees).await? {
            handle.describe(description).await?;
            self.take_from_losers(&granted, &sender).await?;
        }
        Ok(())
    }

    /// Decides about a label. The caller keeps the outcome until the label is where it belongs.
    pub(super) async fn claim_label<'a>(
        &'a self,
        wish: LabelWish<'_>,
        sees: Sees<'_>,
    ) -> Result<LabelClaim<'a>, LabelInUse> {
        let granted = |one, losers| {
            LabelClaim::Granted(GrantedLabel {
                _one: one,
                label: wish.label.map(ToOwned::to_owned),
                losers,
            })
        };
        let Some(label) = wish.label.filter(|_| wish.on_label != LabelPolicy::Share) else {
            return Ok(granted(None, Vec::new()));
        };
        let one = Some(self.inner.locks.labelling.lock().await);
        let holders = self.list_holders(label, wish, sees);
        let Some(holder) = holders.first() else { return Ok(granted(one, Vec::new())) };
        let is_fit = wish.adapter.is_some_and(|adapter| adapter == holder.adapter_slug);
        match wish.on_label {
            LabelPolicy::Take => {
                let losers =
                    holders.iter().map(|holder| SessionId::new(holder.id.as_str())).collect();
                Ok(granted(one, losers))
            }
            LabelPolicy::Continue if is_fit => {
                Ok(LabelClaim::Continued(SessionId::new(holder.id.as_str())))
            }
            LabelPolicy::Share | LabelPolicy::Refuse | LabelPolicy::Continue => Err(LabelInUse {
                label: label.to_owned(),
                holder: holder.id.clone(),
                adapter: holder.adapter_slug.clone(),
            }),
        }
    }

    /// Lists the sessions that have the label and can be prompted: those with an agent first, then
    /// the newest.
    fn list_holders(
        &self,
        label: &str,
        wish: LabelWish<'_>,
        sees: Sees<'_>,
    ) -> Vec<Arc<Descriptor>> {
        let is_holder = |known: &Arc<Descriptor>| {
            known.label.as_deref() == Some(label)
                && known.workspace_slug == wish.workspace
                && !known.archived
                && (known.status.is_alive() || known.resumable)
                && wish.session.is_none_or(|session| session.as_str() != known.id)
                && sees(known)
        };
        let mut holders: Vec<Arc<Descriptor>> =
            self.descriptors().into_iter().filter(is_holder).collect();
        let rank = |known: &Arc<Descriptor>| {
            (known.status.is_alive(), known.started_at.clone(), known.id.clone())
        };
        holders.sort_by_key(|known| std::cmp::Reverse(rank(known)));
        holders
    }

    /// Takes the label from the sessions that had it, after the other session has got it: it is
    /// never lost.
    pub(super) async fn take_from_losers(
        &self,
        granted: &GrantedLabel<'_>,
        by: &Sender,
    ) -> Result<(), CallError> {
        for loser in &granted.losers {
            // A session that is gone meanwhile has no label.
            let Ok(handle) = self.open(loser).await else { continue };
            if handle.descriptor().label != granted.label {
                continue;
            }
            let by = by.clone();
            match handle
                .describe(Description { by, title: None, label: Some(None), archived: None })
                .await
            {
                Err(CallError::Gone | CallError::Left) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
