//! The session as a value: decides every change of a conversation without a clock, a thread or IO.
//!
//! It is *not* a host: it starts no process, reads no file and knows no wire format. Payloads
//! (whole JSON-RPC frames) pass through it unchanged, as [`Raw`]. It parses them only to compare
//! prompts that are submitted twice (`session/keys`), and for the usage and the error that an
//! answer reports.
//!
//! Invariant: durable state changes only by applying an [`Event`]. The events alone determine the
//! session.
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")
)]

mod codec;
mod effect;
mod event;
mod failure_text;
mod id;
mod identity;
mod input;
mod raw;
mod session;
mod settings;

pub use codec::{CodecError, DecodedEvent, FORMAT_VERSION, decode, decode_or_lost, encode};
pub use effect::{AskReply, Effect, Joined, PromptReceipt, Refusal, Reply, Step};
pub use event::{
    AcceptedContent, AgentEvent, AgentSetting, AgentTraits, Ask, AskEvent, AskKind, AskOutcome,
    EXAMINED_AGENTS, EndReason, Ending, Event, ExaminedAgent, Fault, ForkSource, LostEvents,
    Origin, PauseReason, PromptEnd, PromptEvent, PromptStep, SessionEvent, SettingSpelling,
    SettingsLoss, SpawnKey, StartKind, Status, StorageEvent, TokenSource, TokenSpan, ToolCall,
    ToolCallState, TurnLimit, UpdateKind, UsageMeaning,
};
pub use failure_text::FailureText;
pub use id::{
    AskId, ClientId, Epoch, EventId, Millis, NotAnEventId, PromptId, Seq, SessionId, StartNo,
    parse_digits,
};
pub use identity::{
    ChosenId, ClientIdentity, InvalidChosenId, MAX_CHOSEN_ID_BYTES, Member, Peer, Sender,
};
pub use input::{
    AgentInput, Attachment, CancelScope, ClientInput, Description, Input, LifecycleInput, Overlap,
    Role, StartFault, StorageInput, Submission, WakeCause,
};
pub use raw::Raw;
pub use session::{
    AskFact, AttentionFacts, COUNTING_RULE, LastOutcome, Latest, OutcomeCause, OutcomeKind, Paused,
    QueuedPrompt, Raised, RaisedWhy, ReportedCost, ReportedTokens, Session, SessionTokens, State,
    TokenSeries, Turn, TurnCancel, TurnState, TurnTokens, Work, WorkKind,
};
pub use settings::{FormAnswerers, NewSession, OnRestart, Settings};
