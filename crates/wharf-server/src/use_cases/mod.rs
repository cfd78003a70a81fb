//! What REST and MCP both do: each call checks who asks, acts on the host and says what came of it. The surfaces only
//! translate.

mod asks;
mod caller;
mod events;
mod faults;
mod life;
mod list;
mod output;
mod prompt;
mod queue;
mod session;
mod spawn;

use wharf_host::SessionHandle;
use wharf_host::core::SessionId;

use crate::App;
use crate::problem::Problem;
pub(crate) use asks::{ActionWord, AnswerArgs, Answered, AskList, AskWord, OpenAsk, answer, asks};
pub(crate) use caller::{Caller, shown_name};
pub(crate) use events::{EventPage, EventsArgs, events, unknown_event};
pub(crate) use faults::{from_workspace, unreadable};
pub(crate) use life::{Forgotten, Interrupted, Killed, ResumeArgs, forget, interrupt, kill, left_with_agent, resume};
pub(crate) use list::{ListArgs, SessionList, get, list};
pub(crate) use output::{Output, OutputArgs, output};
pub(crate) use prompt::{Content, ContentShape, KEY, PromptArgs, Prompted, prompt};
pub(crate) use queue::{Queue, QueueChange, QueueChanged, change_queued, prompt_text, queue, remove_queued};
pub(crate) use session::{Session, StatusWord, TurnKind};
pub(crate) use spawn::{SpawnArgs, SpawnedSession, spawn};

/// A session's handle; its agent is not woken.
pub(crate) async fn open(app: &App, who: &Caller, id: &str) -> Result<SessionHandle, Problem> {
    app.seen_by(&who.identity).open(&SessionId::new(id)).await.map_err(|error| faults::from_open(id, &error))
}
