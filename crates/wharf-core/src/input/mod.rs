//! The inputs of a session, which the host reports, in groups by their source.

mod agent;
mod client;
mod lifecycle;

pub use agent::{AgentInput, StartFault};
pub use client::{Attachment, CancelScope, ClientInput, Description, Overlap, Role, Submission};
pub use lifecycle::{LifecycleInput, StorageInput, WakeCause};

/// Something that a session has to decide on.
#[derive(Clone, Debug)]
pub enum Input {
    Agent(AgentInput),
    Client(ClientInput),
    Lifecycle(LifecycleInput),
    Storage(StorageInput),
    /// A deadline of [`crate::Session::deadline`] may have passed.
    TimePassed,
}

impl Input {
    /// Returns true for a request that is taken even if the log cannot be written as usual: it ends
    /// things, or the agent waits for it. All of these are small.
    pub const fn cannot_wait(&self) -> bool {
        match self {
            Self::Client(input) => !matches!(
                input,
                ClientInput::Attach(_)
                    | ClientInput::Prompt(_)
                    | ClientInput::UpdatePrompt { .. }
                    | ClientInput::MovePrompt { .. }
                    | ClientInput::Describe(_)
                    | ClientInput::SendNow { .. }
            ),
            Self::Lifecycle(input) => matches!(input, LifecycleInput::Kill { .. }),
            Self::Agent(_) | Self::Storage(_) | Self::TimePassed => false,
        }
    }
}
