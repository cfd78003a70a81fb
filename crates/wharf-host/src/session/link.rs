//! The session's agent while it runs: its process, its pipes, and how it is ended.

use std::time::Duration;

use bytes::Bytes;
use tokio::process::ChildStdout;
use tokio::task::JoinHandle;
use wharf_core::{AgentTraits, Fault, StartNo};

use super::voice::{Deaf, Forwarded, Voice};
use crate::agent::{AgentProcess, Opened, StderrTail};
use crate::frame::FrameReader;

/// How long an agent may take over `session/close` and over noticing that its stdin closed, before SIGTERM.
const POLITE: Duration = Duration::from_millis(500);
/// Faults of one start that are logged one by one; after that they are counted.
const FAULTS_SHOWN: u64 = 100;

#[derive(Debug)]
pub(super) struct AgentLink {
    pub(super) start: StartNo,
    pub(super) process: AgentProcess,
    pub(super) reader: FrameReader<ChildStdout>,
    pub(super) stderr: StderrTail,
    pub(super) voice: Voice,
    traits: AgentTraits,
    faults: u64,
}

impl AgentLink {
    pub(super) fn new(start: StartNo, opened: Opened) -> Self {
        let Opened { process, reader, outbox, stderr, agent_session, traits, next_id, answer: _, early: _ } = opened;
        let voice = Voice::new(outbox, agent_session, next_id);
        Self { start, process, reader, stderr, voice, traits, faults: 0 }
    }

    /// Says something; an agent that no longer reads is ended, and its exit tells the rest.
    pub(super) fn speak(&mut self, say: impl FnOnce(&mut Voice) -> Result<(), Deaf>) {
        if say(&mut self.voice).is_err() {
            tracing::warn!(shim = self.process.shim(), "the agent does not read its input; ending it");
            self.process.end();
        }
    }

    /// Should this fault be logged, and as what? A flood must not fill the log.
    pub(super) fn admit_fault(&mut self, fault: Fault, detail: String) -> Option<(Fault, String)> {
        self.faults += 1;
        if self.faults <= FAULTS_SHOWN {
            Some((fault, detail))
        } else if self.faults.is_power_of_two() {
            Some((Fault::Suppressed, format!("{} faults so far, the last: {detail}", self.faults)))
        } else {
            None
        }
    }

    /// Ends the agent: asked first, then told (rule 2.2).
    pub(super) fn end(self) -> (JoinHandle<()>, Vec<Forwarded>) {
        let Self { mut process, mut reader, mut voice, traits, .. } = self;
        if traits.close {
            let (id, session) = (voice.take_id(), serde_json::Value::from(voice.session()));
            let close =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/close","params":{{"sessionId":{session}}}}}"#);
            let _ = voice.say(Bytes::from(close));
        }
        // With the voice goes the last hold on its stdin.
        let unanswered = voice.into_unanswered();
        let ending = tokio::spawn(async move {
            // What it still says is read, so that a full pipe cannot keep it from ending, and thrown away.
            let drained = async {
                while let Ok(1..) = reader.fill().await {
                    while reader.next_line().is_some() {}
                }
            };
            tokio::select! {
                () = drained => {}
                () = tokio::time::sleep(POLITE) => {}
            }
            process.end();
            process.gone().await;
        });
        (ending, unanswered)
    }
}
