//! The requests of ACP that Wharf answers itself, with their names and how they are treated.

use MethodTrait::{ChangesMembership, MayWait, Ordered, Repeatable};

/// A request that Wharf answers itself: it is never forwarded to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcpMethod {
    Initialize,
    Authenticate,
    Logout,
    New,
    Fork,
    Load,
    Resume,
    List,
    Status,
    Close,
    Delete,
    Attach,
    Detach,
    Prompt,
    SetTitle,
    Archive,
    Unarchive,
}

/// The treatment of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodTrait {
    /// It keeps its order with the other messages about its session.
    Ordered,
    /// It may have to wait for an agent's start or its answer.
    MayWait,
    /// It can be sent a second time after a reconnect: it reads or sets a state, or carries a key.
    Repeatable,
    /// The client joins or leaves the session with it.
    ChangesMembership,
}

const TABLE: [(AcpMethod, &str, &[MethodTrait]); 17] = [
    (AcpMethod::Initialize, "initialize", &[MayWait, Repeatable]),
    (AcpMethod::Authenticate, "authenticate", &[MayWait, Repeatable]),
    (AcpMethod::Logout, "logout", &[MayWait, Repeatable]),
    (AcpMethod::New, "session/new", &[MayWait]),
    // In its order: the copy is made before the client's next prompt to the source.
    (AcpMethod::Fork, "session/fork", &[Ordered, MayWait]),
    (AcpMethod::Load, "session/load", &[Ordered, MayWait, Repeatable, ChangesMembership]),
    (AcpMethod::Resume, "session/resume", &[Ordered, MayWait, Repeatable, ChangesMembership]),
    (AcpMethod::List, "session/list", &[Repeatable]),
    (AcpMethod::Status, "session/status", &[Repeatable]),
    (AcpMethod::Close, "session/close", &[Ordered, MayWait, Repeatable, ChangesMembership]),
    (AcpMethod::Delete, "session/delete", &[Ordered, MayWait, Repeatable, ChangesMembership]),
    (AcpMethod::Attach, "session/attach", &[Ordered, MayWait, Repeatable, ChangesMembership]),
    (AcpMethod::Detach, "session/detach", &[Ordered, Repeatable, ChangesMembership]),
    (AcpMethod::Prompt, "session/prompt", &[Ordered, Repeatable]),
    (AcpMethod::SetTitle, "session/set_title", &[Ordered, Repeatable]),
    (AcpMethod::Archive, "session/archive", &[Ordered, Repeatable]),
    (AcpMethod::Unarchive, "session/unarchive", &[Ordered, Repeatable]),
];

impl AcpMethod {
    /// Returns the method of this name; `None` if Wharf does not answer it itself.
    pub fn find(name: &str) -> Option<Self> {
        TABLE.iter().find(|(_, known, _)| *known == name).map(|(method, ..)| *method)
    }

    pub fn name(self) -> &'static str {
        self.row().1
    }

    pub fn has(self, wanted: MethodTrait) -> bool {
        self.row().2.contains(&wanted)
    }

    fn row(self) -> &'static (Self, &'static str, &'static [MethodTrait]) {
        // The test checks that the rows stand in the order of the enum.
        &TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_enum() {
        for (at, (method, name, _)) in TABLE.iter().enumerate() {
            assert_eq!((*method as usize, method.name()), (at, *name));
            assert_eq!(AcpMethod::find(name), Some(*method));
        }
        assert_eq!(AcpMethod::find("session/cancel"), None);
    }
}
