//! The output of commands that still run in Wharf's own terminals, for readers of rows. The log
//! gets the output when a command ends (rule 3.8). Until then the host shows it beside the rows,
//! since rows are made of the log alone (rule 13.5).

use std::sync::{Arc, Mutex, PoisonError};

use wharf_transcript::{Secrets, show_unfinished_end};

use super::handle::SessionHandle;

/// The end of the output that is shown: the last screens of it.
const MAX_LIVE_BYTES: usize = 16 << 10;
/// The output before that end which is read too: a secret that begins there, such as a private key,
/// is seen whole.
const CONTEXT_BYTES: usize = 48 << 10;
/// The terminals that are shown at once, the newest of them: more than a person follows.
const MAX_LIVE_TERMINALS: usize = 8;

/// A terminal in the content of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownTerminal {
    pub(crate) tool_call: String,
    pub(crate) terminal: String,
}

/// The terminals that the tool calls of a session show, whether their commands run or not.
#[derive(Debug, Default)]
pub(crate) struct ShownTerminals(Mutex<Vec<ShownTerminal>>);

impl ShownTerminals {
    pub(crate) fn set(&self, shown: Vec<ShownTerminal>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    fn list(&self) -> Vec<ShownTerminal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A command that runs, and how much it has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningTerminal {
    pub tool_call: String,
    pub terminal: String,
    pub bytes: u64,
}

impl SessionHandle {
    /// Returns the commands that run in Wharf's terminals and that tool calls show, the newest
    /// last.
    pub fn running_terminals(&self) -> Vec<RunningTerminal> {
        let shown = self.shared.shown_terminals.list();
        if shown.is_empty() {
            return Vec::new();
        }
        let tools = self.shared.tools.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let running = |shown: ShownTerminal| {
            let bytes = tools.as_ref()?.terminals.running_bytes(&shown.terminal)?;
            Some(RunningTerminal { tool_call: shown.tool_call, terminal: shown.terminal, bytes })
        };
        let mut running: Vec<_> = shown.into_iter().filter_map(running).collect();
        running.drain(..running.len().saturating_sub(MAX_LIVE_TERMINALS));
        running
    }

    /// Returns the end of a running command's output as it can be shown; `None` if the terminal is
    /// gone.
    pub(crate) fn live_text(&self, terminal: &str, secrets: Secrets) -> Option<Arc<str>> {
        let tools = self.shared.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let show = |end: &str| show_unfinished_end(end, MAX_LIVE_BYTES, secrets);
        tools
            .terminals
            .show_end(terminal, MAX_LIVE_BYTES + CONTEXT_BYTES, secrets, show)
    }
}
