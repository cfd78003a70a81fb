//! The host: live sessions, the agents that serve them, and the log between the two.
//!
//! It is *not* a server: it does not speak HTTP, WebSocket or MCP. Surfaces call [`Host`] and
//! [`SessionHandle`] and read with a [`Cursor`].
//!
//! Invariant: the host appends an event before it shows the event or acts on it (one path,
//! `session::journal`).
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")
)]

#[cfg(not(target_os = "linux"))]
compile_error!("Wharf runs on Linux: agents outlive the host by splice, memfd and pidfd");

pub mod agent;
mod agent_services;
mod agent_usage;
mod attention;
mod descriptor;
mod file_search;
mod host;
mod ids;
mod index;
mod limits;
pub mod metrics;
mod monotonic;
mod notify;
mod people;
mod registry;
pub mod sandbox;
mod session;
mod settings;
mod transcript;
mod usage;

pub use agent::agent_log::{
    AgentLog, AgentStream, LogPosition, LoggedLine, LoggedLines, NoLogPosition,
};
pub use agent::agent_token::{AgentToken, SESSION_VARIABLE, TOKEN_VARIABLE};
pub use agent::initialize::{InitializeResponse, StartFailure};
pub use agent::{
    KeeperDescription, KeeperLimits, KeeperReport, SplitError, adopt_orphans, check_keeper_support,
    inspect_keepers, keeper, raise_open_files, split_command,
};
pub use agent_services::outside as outside_files;
pub use agent_usage::{AgentUsage, ReportedContext};
pub use attention::{Attention, AttentionAsk, AttentionRaised, AttentionWork};
pub use descriptor::{Descriptor, ForkedFrom, Resources, TurnWord};
pub use file_search::{FoundFile, FoundFiles};
pub use host::{
    CreateError, Created, DelegationError, DescribeError, ForkClient, ForkError, ForkRequest,
    ForkStart, Host, LabelInUse, LabelPolicy, NewSessionRequest, OpenError, PrestartedAgent,
    RemovedWorkspace, Renewal, Sees, SpawnRequest, Spawned, SpawnedAs, StartError, StorageFault,
    Upload, UploadError, check_sandbox,
};
pub use ids::{Now, is_session_id, new_client_id, new_prompt_id, new_session_id, random_text};
pub use limits::{
    BudgetFull, ByteBudget, ByteHolder, BytePermit, CountLimit, CountPermit, Direction, KeyedLimit,
    KeyedPermit, LimitReached, RateExceeded, RateLimit, Refill, RequestLimit, RequestPermit,
};
pub use notify::{CommandFailure, Notification, NotifyReceiver};
pub use people::{OWNER, SessionMarks};
pub use sandbox::SandboxError;
pub use session::AgentDelete;
pub use session::agent_calls::AgentAnswer;
pub use session::attached::{AttachedClient, Transport};
pub use session::close_signal::{CloseReason, CloseSignal};
pub use session::cursor::{Batch, Cursor, Entry, ReadError};
pub use session::handle::{
    Abilities, AgentReport, Attendance, CallError, Cancelled, Direct, Forward, Lane, LaneMessage,
    PassedOn, Serves, SessionHandle, Taken,
};
pub use session::live_output::RunningTerminal;
pub use settings::{
    ChosenSetting, NotOffered, ReturnTerms, SettingSources, current_settings, is_setting_method,
    setting_request,
};
pub use transcript::{
    ChangedFileSlice, MAX_PAGE_ROWS, PageAnchor, PageRequest, RowBlob, RowSlice, RowTextSlice,
    RowUpdate, RowUpdates, SessionTranscript, TranscriptFailure, TranscriptHit, TranscriptHits,
    TranscriptSearch, TurnPlace, TurnRows, TurnSlice, TurnText, UnknownAnchor,
};
pub use wharf_core as core;
pub use wharf_store::{SET_ASIDE_SUFFIX, is_damage, open_regular_file, set_aside};
pub use wharf_transcript::{
    format_timestamp, format_timestamp_in_seconds, parse_timestamp, redact,
};
