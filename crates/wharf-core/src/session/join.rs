//! Attaching and detaching. Presence is announced, not logged (rule 1.1).

use super::live::Attached;
use super::{Draft, Session};
use crate::{Attachment, Effect, Joined, Member, Millis, Refusal, Reply, Role, Sender, Status};

impl Session {
    /// Attaches a client. A client that attaches again replaces its attachment.
    pub(super) fn attach(&mut self, attachment: Attachment, draft: &mut Draft) -> Reply {
        if self.is_dead_for(&attachment) {
            return Reply::Refused(Refusal::Killed);
        }
        let wakes = self.attaching_wakes(&attachment);
        let Attachment { sender, role, elicits, .. } = attachment;
        let client = sender.clone();
        let is_here = self.live.has_other_connection(&sender);
        let member = Member { sender, role };
        let known = self
            .live
            .attached
            .values()
            .filter(|attached| attached.member.sender.is_same_client(&client));
        let since = known.map(|attached| attached.since).min().unwrap_or(draft.now);
        let attached = Attached { member: member.clone(), elicits, since };
        let replaced = self.live.attached.insert(client.client.clone(), attached);
        // A further connection of an attached client is not announced.
        let is_news = replaced.as_ref().map_or(!is_here, |replaced| replaced.member != member);
        if let Some(replaced) =
            replaced.filter(|replaced| !replaced.member.sender.is_same_client(&client))
        {
            self.announce_gone(replaced.member, draft);
        }
        if is_news {
            draft.act(Effect::AnnouncePresence { member, connected: true });
        }
        self.live.forget_declines_of(&client);
        if wakes {
            self.wake(draft);
        }
        self.review_asks(draft);

        let own = self.live.attached.get(&client.client);
        let sees =
            |kind| role == Role::Observer || own.is_some_and(|attached| attached.can_answer(kind));
        let open_asks = self.state.asks.values().filter(|ask| sees(ask.kind)).cloned().collect();
        let others = self
            .live
            .clients()
            .into_values()
            .filter(|member| !member.sender.is_same_client(&client));
        let others = others.cloned().collect();
        let answer = self.state.answer.clone();
        let latest = self.state.latest.clone();
        let answer_at = self.state.answer_at;
        let settings = self.state.settings.clone();
        let head = self.state.head;
        let turn = self.state.turn();
        let queued = self.state.queue.iter().cloned().collect();
        Reply::Joined(Box::new(Joined {
            head,
            open_asks,
            others,
            answer,
            answer_at,
            settings,
            latest,
            turn,
            queued,
        }))
    }

    /// Returns true if the client needs the agent of a session that a user killed.
    fn is_dead_for(&self, attachment: &Attachment) -> bool {
        let dead = !self.state.status.is_alive() && self.state.killed_by_user();
        attachment.needs_agent && attachment.role == Role::Controller && dead
    }

    /// Returns true if the agent of an ended session is started for the client.
    pub(super) fn attaching_wakes(&self, attachment: &Attachment) -> bool {
        let asks_for_it = attachment.wake && attachment.role == Role::Controller;
        asks_for_it && !self.state.killed_by_user() && self.state.resumable()
    }

    pub(super) fn detach(&mut self, sender: &Sender, draft: &mut Draft) {
        let Some(gone) = self.live.attached.remove(&sender.client) else { return };
        self.announce_gone(gone.member, draft);
        self.review_asks(draft);
    }

    /// Announces that a client has left. A client with another connection has not left, and its
    /// declines stay.
    fn announce_gone(&mut self, gone: Member, draft: &mut Draft) {
        if !self.live.has_other_connection(&gone.sender) {
            self.live.forget_declines_of(&gone.sender);
            draft.act(Effect::AnnouncePresence { member: gone, connected: false });
        }
    }

    /// Returns the number of attached clients. The session's own agent may observe; it is not
    /// counted and does not keep the session awake.
    pub fn clients(&self) -> usize {
        let own = Some(&self.state.origin.session);
        self.live
            .clients()
            .into_values()
            .filter(|member| member.sender.parent.as_ref() != own)
            .count()
    }

    /// Returns true if a client is attached as a controller. The session's own agent does not
    /// count.
    pub fn has_controller(&self) -> bool {
        let own = Some(&self.state.origin.session);
        self.members()
            .any(|member| member.role == Role::Controller && member.sender.parent.as_ref() != own)
    }

    /// Returns since when no client is attached and no work is left.
    pub fn alone_since(&self) -> Option<Millis> {
        self.live.idle_since
    }

    /// Records since when the session has no client and no work.
    pub(super) fn watch_idleness(&mut self, now: Millis) {
        let state = &self.state;
        let idle = state.status == Status::Running
            && state.turns.is_empty()
            && state.queue.is_empty()
            && self.clients() == 0;
        self.live.idle_since = idle.then(|| self.live.idle_since.unwrap_or(now));
    }

    pub(super) fn idle_deadline(&self) -> Option<Millis> {
        Some(self.live.idle_since?.after(self.settings.idle_ttl?))
    }
}
