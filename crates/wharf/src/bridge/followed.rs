//! A session that the client has: how far it has been shown, and which of its prompts are the client's own.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use wharf_host::core::EventId;
use wharf_host::frame;
use wharf_json::Json;

/// Own prompts that are remembered. An agent that answers so many without a single update shows nothing else either.
const OWN: usize = 256;

/// One session.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// The last event that was shown.
    last: Option<EventId>,
    /// Frames of it that were shown: a prompt of several blocks has several.
    frames: u32,
    /// What is not to be shown again: up to this event, and so many frames of it.
    skip: Option<(EventId, u32)>,
    /// The client made it or loaded it, so that all of it is shown, from its beginning.
    whole: bool,
    own: VecDeque<Own>,
    /// The client attached by itself, and so wants the updates that tell of other clients.
    pub(super) attached: bool,
    /// The client made, loaded or resumed it, and so serves files and terminals.
    pub(super) serves: bool,
    /// The client attached as an observer.
    pub(super) observes: bool,
    /// The `clientId` and `clientInfo` that the client attached with.
    pub(super) attached_as: AttachedAs,
    /// Why it could not be attached again, as a JSON-RPC error.
    pub(super) lost: Option<Box<str>>,
}

/// The client as it named itself when it attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AttachedAs {
    pub(super) client_id: Option<Value>,
    pub(super) client_info: Option<Value>,
}

/// A prompt of this client. Only hashes: a prompt may be large.
#[derive(Debug)]
struct Own {
    request: Bytes,
    blocks: Vec<u64>,
    whole: u64,
    answered: bool,
    /// Sent on a connection that is gone: the host may show it as if it were another's.
    old: bool,
}

/// From where to attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
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

impl Followed {
    pub(super) fn new_session() -> Self {
        Self { whole: true, serves: true, ..Self::default() }
    }

    /// A frame of this event came. Is it to be shown?
    pub(super) fn admit(&mut self, id: EventId) -> bool {
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

    /// An answer tells everything up to this event, or says that it comes after it. More may have been shown before it.
    pub(super) fn is_at(&mut self, id: EventId) {
        if self.last.is_none_or(|last| last.epoch != id.epoch || last.seq < id.seq) {
            (self.last, self.frames) = (Some(id), 0);
        }
    }

    /// The connection is gone.
    pub(super) fn part(&mut self) {
        for own in &mut self.own {
            own.old = true;
        }
        self.skip = None;
        self.lost = None;
    }

    /// From where the host is to show it, so that nothing is missing or shown twice.
    pub(super) fn rejoin(&self) -> From {
        match self.last {
            Some(last) => From::After(last),
            None if self.whole => From::Beginning,
            None => From::Now,
        }
    }

    /// The client loads the session: it is shown from its beginning.
    pub(super) fn load(&mut self) {
        self.last = None;
        self.whole = true;
        self.skip = None;
    }

    /// The same load is sent again.
    pub(super) fn load_again(&mut self) {
        self.skip = self.last.map(|last| (last, self.frames));
    }

    /// The client prompts.
    pub(super) fn prompted(&mut self, request: Bytes, prompt: &[u8]) {
        // The host refuses frames that cannot be read.
        let Ok(prompt) = frame::peek::<Prompt<'_>>(prompt) else { return };
        let blocks = prompt.params.prompt.iter().map(|block| hash(block.raw())).collect();
        let whole: Vec<Value> = prompt.params.prompt.iter().map(|block| block.to_value()).collect();
        let whole = hash(&Value::from(whole).to_string());
        if self.own.len() >= OWN {
            self.own.pop_front();
        }
        self.own.push_back(Own { request, blocks, whole, answered: false, old: false });
    }

    /// A prompt has its answer: the events before it are in the past.
    pub(super) fn answered(&mut self, request: &[u8]) {
        for own in self.own.iter_mut().filter(|own| own.request == request) {
            own.answered = true;
        }
    }

    /// An event was shown that is no prompt: prompts that were answered by then will not be shown any more.
    pub(super) fn moved_on(&mut self) {
        if !self.own.is_empty() {
            self.own.retain(|own| !own.answered);
        }
    }

    /// Is this part of a prompt (JSON text) of the client's own, from before a reconnect?
    pub(super) fn is_own_block(&self, block: &str) -> bool {
        let block = hash(block);
        self.own.iter().any(|own| own.old && own.blocks.contains(&block))
    }

    /// Are there prompts from before a reconnect at all?
    pub(super) fn has_old_prompts(&self) -> bool {
        self.own.iter().any(|own| own.old)
    }

    /// The same for a whole prompt, which the host has written anew.
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
