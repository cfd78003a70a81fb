//! The session's agent while it runs: its pipes, and which of our requests it still owes an answer.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::process::ChildStdout;
use tokio::task::JoinHandle;
use wharf_core::{AgentTraits, Fault, PromptId, StartNo};

use crate::agent::{AgentProcess, Opened, Outbox};
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
    pub(super) outbox: Outbox,
    pub(super) stderr: crate::agent::StderrTail,
    pub(super) agent_session: String,
    traits: AgentTraits,
    next_id: u64,
    /// Our request ids that are prompts.
    pub(super) prompts: HashMap<u64, PromptId>,
    faults: u64,
}

impl AgentLink {
    pub(super) fn new(start: StartNo, opened: Opened) -> Self {
        let Opened { process, reader, outbox, stderr, agent_session, traits, next_id, answer: _, early: _ } = opened;
        Self {
            start,
            process,
            reader,
            outbox,
            stderr,
            agent_session,
            traits,
            next_id,
            prompts: HashMap::new(),
            faults: 0,
        }
    }

    pub(super) fn next_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Sends a frame; an agent that no longer reads is ended, and its exit tells the rest.
    pub(super) fn send(&self, frame: Bytes) {
        if self.outbox.send(frame).is_err() {
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
    pub(super) fn end(self) -> JoinHandle<()> {
        let Self { mut process, mut reader, outbox, agent_session, traits, next_id, .. } = self;
        tokio::spawn(async move {
            if traits.close {
                let id = serde_json::Value::from(agent_session);
                let frame = format!(
                    r#"{{"jsonrpc":"2.0","id":{next_id},"method":"session/close","params":{{"sessionId":{id}}}}}"#
                );
                let _ = outbox.send(frame.into());
            }
            drop(outbox);
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
        })
    }
}
