//! The session's agent while it runs: its process, its pipes, and how it is ended.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinHandle;
use tracing::Instrument;
use wharf_acp::FrameKind;
use wharf_core::{AgentInput, AgentTraits, Fault, Input, StartNo, State};
use wharf_json::rpc::{salvage, salvage_head};

use super::frame_parser::{AgentFrameParser, AgentMessage};
use super::writer::{AgentWriter, Forwarded, about_session};
use crate::agent::adoption::AdoptedAgent;
use crate::agent::kept_files::KeptFiles;
use crate::agent::ledger::{LedgerHandle, LineNote};
use crate::agent::lines::{FrameLine, FrameReader};
use crate::agent::{AgentExit, AgentOutput, AgentProcess, OpenedAgent, StderrTail};
use crate::session::journal::Journal;
use crate::settings::AgentSettings;

/// How long an agent may take over `session/close` and over noticing that its stdin closed, before
/// SIGTERM.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Faults of one start that are logged one by one; after that they are counted.
const MAX_SHOWN_FAULTS: u64 = 100;

/// How long an agent may take to delete a session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// The fate of the agent's own copy of a deleted session (rule 12.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentDelete {
    /// There is none, or the agent has no `session/delete`.
    NotNeeded,
    Done,
    /// The agent refused, did not answer or could not be started: its copy may be left.
    Failed,
}

impl AgentDelete {
    pub(crate) const fn from_answer(ok: bool) -> Self {
        if ok { Self::Done } else { Self::Failed }
    }
}

/// Returns true if the line is the result of the request, false if it is an error or an unreadable
/// answer, and `None` if it does not answer the request.
fn read_answer(line: &FrameLine<'_>, id: u64) -> Option<bool> {
    let found = match line {
        FrameLine::Oversized { head, .. } => salvage_head(head),
        FrameLine::Frame(frame) => match wharf_acp::scan(frame) {
            Ok(envelope) => {
                let found = envelope.id_number(frame);
                let is_answer = matches!(envelope.kind, FrameKind::Result | FrameKind::Error);
                return (is_answer && found == Some(id))
                    .then_some(envelope.kind == FrameKind::Result);
            }
            Err(_) => salvage(frame),
        },
    };
    found.iter().any(|message| message.may_answer(id)).then_some(false)
}

/// Waits for the answer to a request while everything else is thrown away: is it a result? `None`
/// if none comes in time.
async fn answer_within(
    reader: &mut FrameReader<AgentOutput>,
    id: u64,
    limit: Duration,
) -> Option<bool> {
    let answer = async {
        loop {
            while let Some(line) = reader.next_line() {
                if let Some(is_result) = read_answer(&line, id) {
                    return Some(is_result);
                }
            }
            let Ok(1..) = reader.fill().await else { return None };
        }
    };
    tokio::time::timeout(limit, answer).await.unwrap_or(None)
}

#[derive(Debug)]
pub(super) struct AgentLink {
    start: StartNo,
    process: AgentProcess,
    reader: FrameReader<AgentOutput>,
    stderr: StderrTail,
    /// The end of stderr before the running turn.
    turn_mark: u64,
    writer: AgentWriter,
    traits: AgentTraits,
    faults: u64,
    /// The span of the lines of the host's log that belong to the process.
    span: tracing::Span,
    /// The files for the keeper, until the agent is kept.
    files: Option<KeptFiles>,
    ledger: LedgerHandle,
    /// Lines that an earlier host has taken in before, by their end.
    known_lines: BTreeSet<u64>,
    /// The agent ended while no host was there: it gets no answers any more.
    has_ended: bool,
}

impl AgentLink {
    pub(super) fn new(start: StartNo, opened: OpenedAgent) -> Self {
        let OpenedAgent {
            process,
            reader,
            outbox,
            stderr,
            files,
            agent_session,
            traits,
            next_id,
            ..
        } = opened;
        let ledger = outbox.ledger().clone();
        let writer = AgentWriter::new(outbox, agent_session, next_id);
        let span = tracing::error_span!("agent", pid = process.pid());
        let known_lines = BTreeSet::new();
        Self {
            start,
            process,
            reader,
            stderr,
            turn_mark: 0,
            writer,
            traits,
            faults: 0,
            span,
            files,
            ledger,
            known_lines,
            has_ended: false,
        }
    }

    /// Goes on with an agent that was taken over.
    pub(super) fn resume(adopted: AdoptedAgent, state: &State) -> Self {
        let AdoptedAgent { process, reader, outbox, stderr, in_flight, has_ended, .. } = adopted;
        let ledger = outbox.ledger().clone();
        let session = state.agent_session.as_deref().unwrap_or_default().to_owned();
        let writer = AgentWriter::resume(outbox, session, &in_flight, state);
        let span = tracing::error_span!("agent", pid = process.pid());
        let known_lines = in_flight.known_lines;
        let start = state.start;
        let traits = state.traits;
        Self {
            start,
            process,
            reader,
            stderr,
            turn_mark: 0,
            writer,
            traits,
            faults: 0,
            span,
            files: None,
            ledger,
            known_lines,
            has_ended,
        }
    }

    /// Returns the files for the keeper, once.
    pub(super) fn take_files(&mut self) -> Option<KeptFiles> {
        self.files.take()
    }

    /// Returns true if the agent ended while no host was there.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn ledger(&self) -> &LedgerHandle {
        &self.ledger
    }

    /// Returns the place in the agent's output behind the line that was taken last.
    pub(super) fn line_end(&self) -> u64 {
        self.reader.line_end()
    }

    /// Leaves the agent to its keeper.
    pub(super) fn leave(self) {
        self.process.leave();
    }

    pub(super) fn span(&self) -> &tracing::Span {
        &self.span
    }

    pub(super) fn start(&self) -> StartNo {
        self.start
    }

    /// Returns true if the agent has ended without a host: its output is on the disk.
    pub(super) fn has_no_keeper(&self) -> bool {
        self.process.has_no_keeper()
    }

    pub(super) fn keeper_pid(&self) -> u32 {
        self.process.keeper_pid()
    }

    pub(super) fn process(&mut self) -> &mut AgentProcess {
        &mut self.process
    }

    pub(super) fn writer(&self) -> &AgentWriter {
        &self.writer
    }

    pub(super) fn writer_mut(&mut self) -> &mut AgentWriter {
        &mut self.writer
    }

    /// Returns true if the agent has `session/delete`.
    pub(super) fn can_delete(&self) -> bool {
        self.traits.delete
    }

    /// Waits for output. Returns how many bytes were read, zero at its end.
    pub(super) async fn read(&mut self) -> std::io::Result<usize> {
        let needed_from = self.ledger.lock().confirmed_offset();
        self.reader.source_mut().release(needed_from);
        if let Some((from, to)) = self.reader.dropped_range() {
            self.reader.source_mut().release_dropped(from, to);
        }
        self.reader.fill().await
    }

    /// Takes the next whole line that was read.
    pub(super) fn next_message(&mut self, parser: &mut AgentFrameParser) -> Option<AgentMessage> {
        if !self.reader.find_line() {
            return None;
        }
        let end = self.reader.line_end();
        self.writer.begin_line(end, self.known_lines.remove(&end));
        let line = self.reader.found_line();
        let stray = if let FrameLine::Frame(line) = line { line } else { &[] };
        let message = parser.parse(line, &mut self.writer);
        if message.is_stray(stray) {
            self.stderr.add_stray_line(stray);
        }
        Some(message)
    }

    /// Notes that a prompt goes out: later words on stderr belong to its turn.
    pub(super) fn note_prompt(&mut self) {
        if !self.writer.owes_prompt() {
            self.turn_mark = self.stderr.mark();
        }
    }

    /// Returns the end of stderr since the turn began.
    pub(super) fn turn_stderr(&self) -> String {
        self.stderr.text_since(self.turn_mark)
    }

    /// Takes a line that was read before the link was there.
    pub(super) fn parse_line(
        &mut self,
        frame: &[u8],
        parser: &mut AgentFrameParser,
    ) -> AgentMessage {
        parser.parse(FrameLine::Frame(frame), &mut self.writer)
    }

    /// Returns how much of an unfinished line was read.
    pub(super) fn remainder_bytes(&mut self) -> u64 {
        self.reader.remainder_bytes()
    }

    /// Notes which of the settings that clients asked for the agent reports.
    pub(super) fn note_reported(&mut self, settings: &AgentSettings) {
        self.writer.note_reported(settings);
    }

    /// Ends an agent that has closed its output, and waits for its tree. Returns its exit, its last
    /// words on stderr and the hold on its keeper, which waits until the exit is noted; and the
    /// requests of clients that will get no answer.
    pub(super) fn bury(
        self,
    ) -> (impl Future<Output = (AgentExit, String, AgentProcess)>, Vec<Forwarded>) {
        let Self { mut process, stderr, writer, .. } = self;
        let gone = async move {
            process.request_end();
            let exit = process.wait_for_exit().await;
            (exit, stderr.text(), process)
        };
        (gone, writer.into_unanswered())
    }

    /// Ends an agent that no longer reads; its exit tells the rest.
    pub(super) fn end_stalled(&mut self) {
        tracing::warn!(
            keeper = self.process.keeper_pid(),
            "the agent does not read its input; ending it"
        );
        self.process.request_end();
    }

    /// Should this fault be logged, and as what? A flood must not fill the log.
    fn admit_fault(&mut self, fault: Fault, detail: String) -> Option<(Fault, String)> {
        self.faults += 1;
        if self.faults <= MAX_SHOWN_FAULTS {
            Some((fault, detail))
        } else if self.faults.is_power_of_two() {
            Some((Fault::Suppressed, format!("{} faults so far, the last: {detail}", self.faults)))
        } else {
            None
        }
    }

    /// Ends the turn, has the agent close and delete the session, then ends the agent (rule 12.7).
    pub(super) fn end_and_delete(self) -> (JoinHandle<AgentDelete>, Vec<Forwarded>) {
        let Self { mut process, mut reader, mut writer, traits, span, .. } = self;
        if writer.owes_prompt() {
            let _ = writer.cancel(None);
        }
        let close = writer.take_id();
        let delete = writer.take_id();
        let outbox = writer.outbox();
        let session = writer.session().to_owned();
        let unanswered = writer.into_unanswered();
        let ending = async move {
            if traits.close
                && outbox
                    .send_frame(about_session("session/close", close, &session), LineNote::Plain)
                    .is_ok()
            {
                answer_within(&mut reader, close, CLOSE_TIMEOUT).await;
            }
            let outcome = match traits.delete {
                true if outbox
                    .send_frame(about_session("session/delete", delete, &session), LineNote::Plain)
                    .is_ok() =>
                {
                    AgentDelete::from_answer(
                        answer_within(&mut reader, delete, DELETE_TIMEOUT).await == Some(true),
                    )
                }
                true => AgentDelete::Failed,
                false => AgentDelete::NotNeeded,
            };
            process.stop_keeping();
            drop(outbox);
            process.request_end();
            process.wait_for_exit().await;
            process.release();
            outcome
        };
        (tokio::spawn(ending.instrument(span)), unanswered)
    }

    /// Ends the agent: asked first, then told (rule 2.2).
    pub(super) fn end(self) -> (JoinHandle<()>, Vec<Forwarded>) {
        let Self { mut process, mut reader, mut writer, traits, span, .. } = self;
        if traits.close {
            let close = about_session("session/close", writer.take_id(), writer.session());
            let _ = writer.say(close);
        }
        // With the keeper's hold and the writer goes the last hold on its stdin.
        process.stop_keeping();
        let unanswered = writer.into_unanswered();
        let ending = async move {
            // Its remaining output is read and dropped, so that a full pipe cannot keep it from
            // ending.
            let drained = async {
                while let Ok(1..) = reader.fill().await {
                    while reader.next_line().is_some() {}
                }
            };
            tokio::select! {
                () = drained => {}
                () = tokio::time::sleep(CLOSE_TIMEOUT) => {}
            }
            process.request_end();
            process.wait_for_exit().await;
            process.release();
        };
        (tokio::spawn(ending.instrument(span)), unanswered)
    }
}

/// Makes a fault of the agent an event, unless it has made too many.
pub(super) fn log_fault(
    link: Option<&mut AgentLink>,
    fault: Fault,
    detail: String,
    journal: &mut Journal,
) {
    let admitted = match link {
        Some(link) => link.admit_fault(fault, detail),
        None => Some((fault, detail)),
    };
    if let Some((fault, detail)) = admitted {
        journal.input(Input::Agent(AgentInput::Faulted { fault, detail: detail.into() }), None);
    }
}
