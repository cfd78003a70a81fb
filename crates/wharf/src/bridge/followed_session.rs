//! A session of the client: how far the client has seen it, and which of its prompts are the
//! client's own.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use wharf_host::core::EventId;
use wharf_json::Json;

/// The most own prompts that are remembered. They are forgotten at the first update after their
/// answer, so more would need an agent that answers so many prompts without a single update.
const MAX_OWN_PROMPTS: usize = 256;

/// A session that the client has created, loaded, resumed or attached to.
#[derive(Debug, Default)]
pub(super) struct FollowedSession {
    /// The last event that the client has seen.
    last: Option<EventId>,
    /// The number of frames of that event that the client has seen: a prompt of several blocks has
    /// several.
    frames: u32,
    /// The events up to this one, and so many frames of it, are not shown again.
    skip: Option<(EventId, u32)>,
    /// The client created or loaded the session, so it sees all of it, from its beginning.
    from_beginning: bool,
    own: VecDeque<OwnPrompt>,
    /// The client used `session/attach`, so it gets the updates about other clients.
    pub(super) attached: bool,
    /// The client created, loaded or resumed the session, so it serves files and terminals.
    pub(super) serves: bool,
    /// The client attached as an observer.
    pub(super) observes: bool,
    /// The `clientId` and `clientInfo` that the client attached with.
    pub(super) attached_as: AttachedAs,
    /// The error of the last attempt to attach again, as a JSON-RPC error object.
    pub(super) lost: Option<Box<str>>,
}

/// The name that the client gave itself when it attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AttachedAs {
    pub(super) client_id: Option<Value>,
    pub(super) client_info: Option<Value>,
}

/// A prompt of this client, kept as hashes, since a prompt may be large.
#[derive(Debug)]
struct OwnPrompt {
    request: Bytes,
    blocks: Vec<u64>,
    whole: u64,
    answered: bool,
    /// The prompt was sent on an earlier connection, so the host may show it like another client's.
    old: bool,
}

/// The point in the session's history from which the bridge attaches again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReattachPoint {
    After(EventId),
    Beginning,
    Now,
}

#[derive(Deserialize)]
struct Prompt<'a> {
    #[serde(borrow)]
    params: PromptParams<'a>,
}

#[derive(Deserialize)]
struct PromptParams<'a> {
    #[serde(borrow)]
    prompt: Vec<Json<'a>>,
}

impl FollowedSession {
    pub(super) fn new_session() -> Self {
        Self { from_beginning: true, serves: true, ..Self::default() }
    }

    /// Takes note of a frame of this event. Returns false if the client has seen it already.
    pub(super) fn admit_event(&mut self, id: EventId) -> bool {
        if let Some((until, left)) = &mut self.skip {
            if id.seq < until.seq {
                return false;
            }
            if id == *until && *left > 0 {
                *left -= 1;
                return false;
            }
            self.skip = None;
        }
        if self.last == Some(id) {
            self.frames += 1;
        } else {
            self.last = Some(id);
            self.frames = 1;
        }
        true
    }

    /// Notes that an answer covers everything up to this event. The client may have seen later
    /// events already.
    pub(super) fn advance_to(&mut self, id: EventId) {
        if self.last.is_none_or(|last| last.epoch != id.epoch || last.seq < id.seq) {
            (self.last, self.frames) = (Some(id), 0);
        }
    }

    /// Notes that the connection is gone.
    pub(super) fn disconnect(&mut self) {
        for own in &mut self.own {
            own.old = true;
        }
        self.skip = None;
        self.lost = None;
    }

    /// Returns the point from which the host has to show the session, so that no event is missing
    /// or shown twice.
    pub(super) fn reattach_point(&self) -> ReattachPoint {
        match self.last {
            Some(last) => ReattachPoint::After(last),
            None if self.from_beginning => ReattachPoint::Beginning,
            None => ReattachPoint::Now,
        }
    }

    /// Notes that the client loads the session and so sees it from its beginning.
    pub(super) fn begin_load(&mut self) {
        self.last = None;
        self.from_beginning = true;
        self.skip = None;
    }

    /// Notes that the bridge sends the same load again.
    pub(super) fn repeat_load(&mut self) {
        self.skip = self.last.map(|last| (last, self.frames));
    }

    /// Remembers a prompt of the client.
    pub(super) fn add_own_prompt(&mut self, request: Bytes, prompt: &[u8]) {
        // The host refuses unreadable frames.
        let Ok(prompt) = wharf_acp::peek::<Prompt<'_>>(prompt) else { return };
        let blocks = prompt.params.prompt.iter().map(|block| hash(block.raw())).collect();
        let whole: Vec<Value> = prompt.params.prompt.iter().map(|block| block.to_value()).collect();
        let whole = hash(&Value::from(whole).to_string());
        if self.own.len() >= MAX_OWN_PROMPTS {
            self.own.pop_front();
        }
        self.own
            .push_back(OwnPrompt { request, blocks, whole, answered: false, old: false });
    }

    /// Notes that a prompt has its answer.
    pub(super) fn mark_answered(&mut self, request: &[u8]) {
        for own in self.own.iter_mut().filter(|own| own.request == request) {
            own.answered = true;
        }
    }

    /// Forgets the prompts that have their answer. The bridge calls this at an event other than a
    /// prompt: the host does not show those prompts after it.
    pub(super) fn forget_answered_prompts(&mut self) {
        if !self.own.is_empty() {
            self.own.retain(|own| !own.answered);
        }
    }

    /// Returns true if this content block (JSON text) is of a prompt that the client sent before a
    /// reconnect.
    pub(super) fn is_own_block(&self, block: &str) -> bool {
        let block = hash(block);
        self.own.iter().any(|own| own.old && own.blocks.contains(&block))
    }

    /// Returns true if the client sent prompts before a reconnect that may still be shown.
    pub(super) fn has_old_prompts(&self) -> bool {
        self.own.iter().any(|own| own.old)
    }

    /// Returns true if this is the content of a prompt that the client sent before a reconnect, in
    /// whatever spelling.
    pub(super) fn is_own_prompt(&self, prompt: &Value) -> bool {
        let prompt = hash(&prompt.to_string());
        self.own.iter().any(|own| own.old && own.whole == prompt)
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
