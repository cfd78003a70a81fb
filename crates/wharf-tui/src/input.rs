//! Everything that can happen to the client: keys, events of the host, answers, and the ends of
//! programs.

use std::time::Duration;

use wharf_api::{ErrorCode, RowStreamEvent, SessionInfo, SessionStreamEvent};

use crate::keymap::KeyPress;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum TuiInput {
    Key(KeyPress),
    /// A text that the terminal marked as pasted.
    Paste(String),
    Resized(ScreenSize),
    /// The terminal's window got or lost the focus.
    TerminalFocus(bool),
    /// The instant that `TuiState::next_wake` named has come.
    Tick,
    /// The first connection to the host stands.
    HostReady(HostReady),
    /// The stream of all sessions.
    List(StreamInput<SessionStreamEvent>),
    /// The stream of one session's rows. Events of a stream that was closed are ignored.
    Rows {
        stream: StreamId,
        input: StreamInput<RowStreamEvent>,
    },
    /// The answer to a call.
    Answer {
        call: CallId,
        answer: Result<Vec<u8>, ApiFailure>,
    },
    /// The host was started again, or the reason why not.
    HostStarted(Result<(), String>),
    /// The host has answered a probe, or has not done so in time.
    HostProbed {
        has_answered: bool,
    },
    /// A program that the shell ran has ended.
    Program(ProgramEnd),
    /// The text was copied, or not: the text says why.
    Copied(Result<CopyPlace, String>),
    /// The client ends now. Unsent texts, and prompts without an answer, are kept.
    End,
}

/// The place of a text that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPlace {
    /// The clipboard of the terminal.
    Terminal,
    /// The buffer of the tmux around the client, and the clipboard of the terminal around that.
    TmuxBuffer,
}

/// The size of the terminal in cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScreenSize {
    pub width: u16,
    pub height: u16,
}

/// The host, as the first connection shows it.
#[derive(Clone, Debug, Default)]
pub struct HostReady {
    /// The name of a host on another machine.
    pub host_name: Option<String>,
    /// The session to open, if the person named one.
    pub session: Option<Box<SessionInfo>>,
}

/// News of a stream.
#[derive(Clone, Debug)]
pub enum StreamInput<E> {
    Connected,
    Event(E),
    /// The host has sent nothing for too long, and seems not to answer. The shell opens the stream
    /// again.
    Silent,
    /// The connection is gone. The shell tries again after `retry_in`; without it the stream is
    /// over.
    Lost {
        reason: String,
        retry_in: Option<Duration>,
    },
    /// A host answered and refused the stream. The shell tries again after `retry_in`.
    Refused {
        reason: String,
        retry_in: Duration,
    },
}

/// Names one opened stream of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// Names one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// The reason why a call has no answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiFailure {
    /// The host's code; `None` if no host answered, so that it is not known whether the call had an
    /// effect.
    pub code: Option<ErrorCode>,
    /// For a person.
    pub text: String,
}

/// The end of a program that had the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// The editor was closed: the new text of the composer, or the reason why there is none.
    Editor(Result<String, String>),
    Pager(Result<(), String>),
    /// The agent's login was closed.
    Login(Result<(), String>),
    /// The client was suspended and goes on.
    Resumed,
}
