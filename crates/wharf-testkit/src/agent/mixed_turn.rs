//! A turn of numbered chunks with requests of every kind under way: for hosts that are killed in
//! the middle of it.

use serde_json::{Value, json};
use wharf_demo::burst::ChunkBurst;
use wharf_demo::turn::{TurnStop, lock_mutex};
use wharf_demo::wire::RpcResult;

use super::asks::permission_params;
use super::script::{ScriptRun, parse_number};

/// Bytes of one chunk's text.
const CHUNK_BYTES: usize = 40;
/// Requests that may be open at once. Above that the turn waits for an answer.
const MAX_OPEN_REQUESTS: usize = 16;
/// Each terminal runs for a moment, so that a kill of the host finds one running.
const TERMINAL_COMMAND: &str = "sleep 0.1";

/// The requests that the turn sends in turn.
#[derive(Debug, Clone, Copy)]
enum RequestKind {
    Permission,
    FileWrite,
    Terminal,
    /// Waits for the end of a terminal.
    TerminalExit,
    TerminalRelease,
    Extension,
}

const REQUEST_KINDS: [RequestKind; 4] = [
    RequestKind::Permission,
    RequestKind::FileWrite,
    RequestKind::Terminal,
    RequestKind::Extension,
];

/// Runs `mixed COUNT EVERY`: numbered chunks, and a request after each `EVERY` of them.
pub(super) fn run_turn(actor: &mut ScriptRun, rest: &str) -> Result<(), TurnStop> {
    let (count, every): (u64, u64) = (parse_number(rest, 0, 1), parse_number(rest, 1, 20));
    let burst = ChunkBurst::new(&actor.turn.session, "mixed", CHUNK_BYTES);
    let mut requests = OpenRequests::default();
    let mut block = Vec::new();
    for index in 0..count {
        burst.push_line(index, &mut block);
        if (index + 1) % every == 0 || index + 1 == count {
            actor.turn.send_bytes(&block)?;
            block.clear();
            requests.send_next(actor)?;
            while requests.open.len() > MAX_OPEN_REQUESTS {
                requests.wait_one(actor)?;
            }
        }
    }
    while !requests.open.is_empty() {
        requests.wait_one(actor)?;
    }
    Ok(())
}

/// The requests without an answer.
#[derive(Debug, Default)]
struct OpenRequests {
    rounds: usize,
    sent: u64,
    /// Each with its id and its params.
    open: Vec<(Value, RequestKind, Value)>,
}

impl OpenRequests {
    fn send_next(&mut self, actor: &mut ScriptRun) -> Result<(), TurnStop> {
        let kind = REQUEST_KINDS[self.rounds % REQUEST_KINDS.len()];
        self.rounds += 1;
        let session = actor.turn.session.clone();
        let number = self.sent;
        let (method, params) = match kind {
            RequestKind::Permission => ("session/request_permission", permission_params(actor)),
            RequestKind::FileWrite => {
                let path = format!("{}/written-{}", lock_mutex(&actor.state).cwd, number % 8);
                (
                    "fs/write_text_file",
                    json!({ "sessionId": session, "path": path, "content": number.to_string() }),
                )
            }
            RequestKind::Terminal => {
                let arguments = json!(["-c", TERMINAL_COMMAND]);
                (
                    "terminal/create",
                    json!({ "sessionId": session, "command": "sh", "args": arguments }),
                )
            }
            RequestKind::TerminalExit | RequestKind::TerminalRelease | RequestKind::Extension => {
                ("_wharf_test/extension", json!({ "sessionId": session, "number": number }))
            }
        };
        self.send(actor, kind, method, params)?;
        self.take_answers(actor)
    }

    fn send(
        &mut self,
        actor: &mut ScriptRun,
        kind: RequestKind,
        method: &str,
        params: Value,
    ) -> Result<(), TurnStop> {
        let id = json!(format!("mixed-{}", self.sent));
        self.sent += 1;
        self.open.push((id.clone(), kind, params.clone()));
        actor.turn.start_request(&id, method, params)
    }

    /// Takes the answers that have come, without waiting.
    fn take_answers(&mut self, actor: &mut ScriptRun) -> Result<(), TurnStop> {
        actor.turn.check_stop()?;
        for (id, answer) in actor.turn.take_answers() {
            self.take_answer(actor, &id, &answer)?;
        }
        Ok(())
    }

    fn wait_one(&mut self, actor: &mut ScriptRun) -> Result<(), TurnStop> {
        let (id, answer) = actor.turn.wait_for_any_answer()?;
        self.take_answer(actor, &id, &answer)
    }

    /// Settles a request. A terminal that was created is waited for, and then released.
    fn take_answer(
        &mut self,
        actor: &mut ScriptRun,
        id: &Value,
        answer: &RpcResult,
    ) -> Result<(), TurnStop> {
        let Some(place) = self.open.iter().position(|(known, ..)| known == id) else {
            return Ok(());
        };
        let (_, kind, params) = self.open.remove(place);
        match (kind, answer.as_ref().ok().and_then(|result| result.get("terminalId"))) {
            (RequestKind::Terminal, Some(terminal)) => {
                let params = json!({ "sessionId": actor.turn.session, "terminalId": terminal });
                self.send(actor, RequestKind::TerminalExit, "terminal/wait_for_exit", params)
            }
            (RequestKind::TerminalExit, _) => {
                self.send(actor, RequestKind::TerminalRelease, "terminal/release", params)
            }
            _ => Ok(()),
        }
    }
}
