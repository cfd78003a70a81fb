//! Everything that the client can want done. The shell does it and reports the outcome as an input.

use crate::api_call::ApiCall;
use crate::input::{CallId, StreamId};

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum TuiEffect {
    /// Sends a request to the host; the outcome is `TuiInput::Answer`.
    Call {
        id: CallId,
        call: ApiCall,
    },
    /// Follows the rows of a session. An earlier stream of rows is closed.
    OpenRows {
        stream: StreamId,
        session: String,
    },
    CloseRows,
    /// Starts the host of this machine again; the outcome is `TuiInput::HostStarted`. Unless it is
    /// urgent, the service manager gets some seconds to do so.
    StartHost {
        is_urgent: bool,
    },
    /// Asks the host whether it is there; the outcome is `TuiInput::HostProbed`.
    ProbeHost,
    /// Reads a file of this machine and sends it to the host for a prompt; the outcome is
    /// `TuiInput::Answer`.
    UploadFile {
        id: CallId,
        session: String,
        path: String,
        name: String,
    },
    /// Keeps an unsent text on disk; an empty text removes it.
    SaveDraft {
        key: DraftKey,
        text: String,
    },
    /// Puts a text into the terminal's clipboard; the outcome is `TuiInput::Copied`.
    Copy(String),
    SetTitle(String),
    /// Shows a notification of the terminal.
    Notify {
        title: String,
        body: String,
    },
    Bell,
    /// Opens the text in the person's editor; the outcome is `ProgramEnd::Editor`.
    RunEditor(String),
    /// Shows the text in the person's pager; the outcome is `ProgramEnd::Pager`.
    RunPager(String),
    /// Logs an agent in; the outcome is `ProgramEnd::Login`.
    RunLogin {
        adapter: String,
    },
    /// Stops the process as Ctrl-Z does in other programs; the outcome is `ProgramEnd::Resumed`.
    Suspend,
    /// Draws every cell again.
    Redraw,
    /// Ends the client. The text is printed to the normal screen.
    Leave {
        text: String,
    },
}

/// The owner of an unsent text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DraftKey {
    /// The prompt of the form for a new session.
    NewSession,
    /// A session, by its id.
    Session(String),
}
