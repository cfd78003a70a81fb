//! The commands of the client, in groups by the place in which they act.

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TuiCommand {
    Global(GlobalCommand),
    List(ListCommand),
    Transcript(TranscriptCommand),
    Composer(ComposerCommand),
    Edit(EditCommand),
    Ask(AskCommand),
    Form(FormCommand),
    Menu(MenuCommand),
    Reader(ReaderCommand),
}

/// Commands that act wherever the focus is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GlobalCommand {
    OpenPalette,
    NextWaiting,
    FocusAsk,
    ToggleList,
    NewSession,
    /// Searches the rows of all sessions.
    SearchAll,
    OpenSettings,
    ResumeSession,
    LogIn,
    /// Sends the prompt of a turn that failed again.
    TryAgain,
    StartHost,
    OpenHelp,
    Redraw,
    Suspend,
    /// Ctrl-C: clears the text, else announces the detaching.
    ClearOrDetach,
    StepBack,
    Detach,
}

/// Commands of the list of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListCommand {
    Down,
    Up,
    First,
    Last,
    PageDown,
    PageUp,
    Open,
    AnswerHere,
    Filter,
    New,
    Rename,
    Archive,
    Mute,
    Kill,
    Fork,
    Resume,
    CopyId,
}

/// Commands of the transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TranscriptCommand {
    RowDown,
    RowUp,
    ToggleRow,
    Oldest,
    Newest,
    HalfPageDown,
    HalfPageUp,
    PageDown,
    PageUp,
    PromptBefore,
    PromptAfter,
    NextError,
    ErrorBefore,
    Find,
    FindOlder,
    FindNewer,
    CopyRow,
    CopyTurn,
    OpenReader,
    OpenPager,
    ShowChanges,
    TogglePlan,
    FocusComposer,
}

/// Commands of the composer beside the editing of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComposerCommand {
    Send,
    /// Interrupts the turn; the text or a waiting prompt goes first.
    SendNow,
    RemoveQueued,
    MoveQueuedUp,
    MoveQueuedDown,
    SearchHistory,
    NextMode,
    OpenEditor,
    FocusTranscript,
    /// Ctrl-D: detaches if the composer is empty, else deletes the character after the cursor.
    DetachOrDelete,
}

/// Changes of a text that is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EditCommand {
    NewLine,
    Left,
    Right,
    Up,
    Down,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    DeleteBefore,
    DeleteAfter,
    KillWord,
    KillToLineStart,
    KillToLineEnd,
    Yank,
    Undo,
}

/// Commands of the focused ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AskCommand {
    OptionDown,
    OptionUp,
    Choose,
    AllowOnce,
    AllowAlways,
    Deny,
    /// The option with this number, 1 being the first.
    Number(u8),
    NextAsk,
    ScrollDown,
    ScrollUp,
    ShowWhole,
    CopySubject,
}

/// Commands of the form for a new session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FormCommand {
    NextField,
    PreviousField,
    NextValue,
    PreviousValue,
    Submit,
}

/// Commands of a list of choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MenuCommand {
    Down,
    Up,
    Choose,
}

/// Commands of a text over the whole screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReaderCommand {
    Down,
    Up,
    PageDown,
    PageUp,
    First,
    Last,
    NextPage,
    PageBefore,
    ToggleWrap,
    Copy,
    OpenPager,
    /// In a list of files: the change of the selected one.
    OpenFile,
    Close,
}
