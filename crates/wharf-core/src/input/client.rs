//! Inputs from clients: attachments, prompts, cancels and answers.

use std::sync::Arc;

use crate::{AskId, PromptId, Raw, Sender, Seq};

/// A request of a client.
#[derive(Clone, Debug)]
pub enum ClientInput {
    Attach(Attachment),
    Detach {
        sender: Sender,
    },
    Prompt(Submission),
    /// `session/cancel` (rule 7.4).
    Cancel {
        by: Sender,
        scope: CancelScope,
    },
    /// Ends the running turn, whoever sent its prompt. Queued prompts stay.
    Interrupt {
        by: Sender,
        /// True to end the agent too if it does not end its turn: it is not waited for (rule 17.4).
        force: bool,
    },
    /// A client gave a valid answer: `option` for a permission. `frame` is its response.
    Answer {
        ask: AskId,
        by: Sender,
        option: Option<Arc<str>>,
        frame: Raw,
    },
    /// A client answered with an error or `cancelled`, which counts once every attached controller
    /// has declined.
    Decline {
        ask: AskId,
        by: Sender,
        frame: Raw,
    },
    /// Cancels one prompt by its id: it leaves the queue, or its turn is cancelled. Others stay.
    CancelPrompt {
        prompt: PromptId,
        by: Sender,
        /// Recorded if the prompt's turn is cancelled. The caller bounds its length.
        reason: Option<Arc<str>>,
    },
    RemovePrompt {
        prompt: PromptId,
        by: Sender,
    },
    UpdatePrompt {
        prompt: PromptId,
        by: Sender,
        frame: Raw,
    },
    MovePrompt {
        prompt: PromptId,
        by: Sender,
        position: usize,
    },
    /// Runs a queued prompt next and interrupts the running turn for it, or hands it to the agent
    /// (rule 17.3).
    SendNow {
        prompt: PromptId,
        by: Sender,
        /// True to leave the running turn alone and give the prompt to an agent that queues by
        /// itself.
        steer: bool,
    },
    /// Sets the session's title, label or archive mark.
    Describe(Description),
}

/// Parts of the session's description to change; `None` leaves a part as it is, `Some(None)` clears
/// it.
#[derive(Clone, Debug)]
pub struct Description {
    pub by: Sender,
    pub title: Option<Option<Arc<str>>>,
    pub label: Option<Option<Arc<str>>>,
    pub archived: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct Attachment {
    pub sender: Sender,
    pub role: Role,
    /// True if it can answer form elicitations.
    pub elicits: bool,
    /// Starts the agent if the session is cold and can come back (ignored for observers).
    pub wake: bool,
    /// True if the attachment is useless without an agent: a controller is refused if a user killed
    /// the session.
    pub needs_agent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Sees everything and changes nothing.
    Observer,
    Controller,
}

#[derive(Clone, Debug)]
pub struct Submission {
    pub prompt: PromptId,
    pub sender: Sender,
    pub frame: Raw,
    pub key: Option<Arc<str>>,
    pub overlap: Overlap,
    /// True to send it to an agent that queues by itself, even while a turn runs (rule 7.1).
    pub to_agent: bool,
}

/// The treatment of a prompt that arrives during a turn (rules 7.1, 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    Queue,
    Refuse,
    Interrupt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelScope {
    /// The last seq that the caller has been shown: it did not mean another client's turn that
    /// began later.
    pub seen: Seq,
    /// The last seq that it had been shown a second ago, or when its connection joined. If its own
    /// turn ended later, the cancel was meant for that one.
    pub settled: Seq,
    /// True to end the queued prompts of all clients.
    pub clear_queue: bool,
}
