//! The scripts in prompts: commands separated by `;`, which the scripted agent runs in order.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use wharf_demo::burst::ChunkBurst;
use wharf_demo::turn::{RunningTurn, TurnStop, lock_mutex};
use wharf_demo::wire;

use super::serve::ScriptedState;
use super::{asks, children, faults, host_requests, mixed_turn, own_files, resource_use};

/// How often the agent looks for a file that it waits for.
pub(super) const FILE_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The commands. Sizes are bytes; `raw`, `rawupdate`, `ext` and `sh` take the rest of the prompt
/// unchanged, `;` included.
pub const COMMANDS_USAGE: &str = "\
  echo TEXT             one message chunk
  think TEXT, user TEXT   a thought; an echo of the user's message
  plan, tool, title TEXT, usage [COST CURRENCY], commands   the update of that name
  tool-open ID, tool-done ID   a tool call that has begun; its completion
  mode [ID]             switches the mode by itself, then tells mode, model and cwd
  settings              tells mode, model and effort
  stream N [SIZE]       N numbered chunks, the text being the index, a blank and filling (200)
  burst N [SIZE] [flush]  the same; without flush in blocks of 64 KiB, as stream is
  mixed N [EVERY]       N numbered chunks, with permissions, file writes, terminals and extension requests in between
  tick N MICROS         N chunks at that interval: `tick INDEX UNIX_NANOSECONDS`
  ask [N]               N permissions one after the other, and what was chosen
  ask2                  two permissions at the same time
  id0, stringid         a permission under id 0, or a string
  withdraw              a permission, withdrawn at once
  elicit [JSON], elicit-url   an elicitation (a form with this schema), and its answer
  fs read PATH, fs write PATH TEXT   the file request, and its answer
  terminal COMMAND      create, wait, output, release, and the output
  show COMMAND          a tool call that shows the terminal in which it runs
  ext METHOD JSON, extnote METHOD JSON   an extension request (and its answer) or notification
  hang, hang hard       until cancelled; ignoring cancel
  wait                  until the client sends the notification `_go`
  pause MS              says nothing for so long
  await PATH            says nothing until this file is there
  stop REASON, error [CODE]   ends the turn so
  stderr TEXT           a line on stderr
  crash [CODE]          exits at once (1)
  die-mid-stream N      N chunks, then exits with 1
  late TEXT             a chunk after the prompt's response
  foreign               a chunk for a session that nobody knows
  unknown-update        an update of an unknown kind with unknown fields
  rawupdate JSON        the update as it is, byte for byte
  raw LINE              the whole line as it is; $SESSION is replaced
  rawfile PATH          the lines of a file as they are; $SESSION is replaced
  malformed, binary, flood N, oversized BYTES, noline BYTES   see the names
  spawn [hold]          children as with --spawn-children: `pids A B C`
  sh COMMAND            what a shell says to this, `;` included; see also the flag --call
  hold MIB, hold-apart MIB   uses so much memory from now on; the same in a process that it lets go of
  spin MS               uses the processor for so long
  env NAME              the value of the agent's environment variable
  pid                   `pid N`
  pwd                   where the agent runs
  load PATH, save PATH TEXT, ls PATH   what the agent itself can do with files
  socket PATH           what that unix socket answers to a request for /acp: the status line
";

/// A running script.
#[derive(Debug)]
pub(super) struct ScriptRun {
    pub(super) turn: RunningTurn,
    pub(super) state: Arc<Mutex<ScriptedState>>,
    pub(super) request: Value,
    message: String,
    late: Vec<String>,
}

/// A finished script whose prompt is not answered yet.
#[derive(Debug)]
pub(super) struct FinishedScript {
    actor: ScriptRun,
    result: Result<(), TurnStop>,
}

impl FinishedScript {
    /// Answers the prompt, then sends the late updates.
    pub(super) fn answer_prompt(self) {
        self.actor.turn.answer_prompt(&self.actor.request, self.result);
        for text in &self.actor.late {
            let _ = self.actor.send_text(text);
        }
    }
}

impl ScriptRun {
    pub(super) fn new(turn: RunningTurn, state: Arc<Mutex<ScriptedState>>, request: Value) -> Self {
        let message = format!("answer-{}", request.to_string().trim_matches('"'));
        Self { turn, state, request, message, late: Vec::new() }
    }

    pub(super) fn run(mut self, text: &str) -> FinishedScript {
        let result = self.run_script(text);
        FinishedScript { actor: self, result }
    }

    fn run_script(&mut self, text: &str) -> Result<(), TurnStop> {
        let mut rest = text.trim();
        while !rest.is_empty() {
            let whole = ["raw ", "rawupdate ", "ext ", "extnote ", "sh "]
                .iter()
                .any(|name| rest.starts_with(name));
            let (command, tail) =
                if whole { (rest, "") } else { rest.split_once(';').unwrap_or((rest, "")) };
            let (name, arguments) = command.trim().split_once(' ').unwrap_or((command.trim(), ""));
            self.turn.check_stop()?;
            self.run_command(name, arguments.trim_start())?;
            rest = tail.trim();
        }
        Ok(())
    }

    fn run_command(&mut self, name: &str, rest: &str) -> Result<(), TurnStop> {
        match name {
            "echo" => self.send_text(rest),
            "think" => {
                self.turn
                    .send_update(&wire::chunk_update("agent_thought_chunk", "thought", rest))
            }
            "user" => {
                self.turn.send_update(&wire::chunk_update("user_message_chunk", "user", rest))
            }
            "plan" | "tool" | "title" | "usage" | "commands" | "unknown-update" => {
                self.turn.send_update(&plain_update(name, rest))
            }
            "tool-open" | "tool-done" => {
                self.turn.send_update(&tool_update(rest, name == "tool-open"))
            }
            "mode" => self.switch_mode(rest),
            "settings" => {
                let settings = lock_mutex(&self.state).settings.clone();
                self.send_text(&format!(
                    "mode={} model={} effort={}",
                    settings.mode, settings.model, settings.effort
                ))
            }
            "stream" | "burst" => {
                let burst =
                    ChunkBurst::new(&self.turn.session, &self.message, parse_number(rest, 1, 200));
                burst.send(&mut self.turn, parse_number(rest, 0, 1), rest.ends_with("flush")).1
            }
            "mixed" => mixed_turn::run_turn(self, rest),
            "tick" => self.send_ticks(
                parse_number(rest, 0, 1),
                Duration::from_micros(parse_number(rest, 1, 1000)),
            ),
            "hang" => {
                self.turn.deaf |= rest == "hard";
                Err(self.turn.wait_for_stop())
            }
            "wait" => self.turn.wait_for_go(),
            "pause" => self.turn.pause_for(Duration::from_millis(parse_number(rest, 0, 1))),
            "await" => {
                while !Path::new(rest).exists() {
                    self.turn.pause_for(FILE_POLL_INTERVAL)?;
                }
                Ok(())
            }
            "stop" => Err(TurnStop::Ended(rest.to_owned())),
            "error" => Err(TurnStop::Refused(wire::error_object(
                parse_number(rest, 0, -32603),
                "this prompt fails as told",
            ))),
            "stderr" => {
                let _ = writeln!(std::io::stderr(), "{rest}");
                Ok(())
            }
            "crash" => std::process::exit(parse_number(rest, 0, 1)),
            "die-mid-stream" => {
                self.run_command("stream", rest)?;
                std::process::exit(1)
            }
            "late" => {
                self.late.push(rest.to_owned());
                Ok(())
            }
            "spawn" => self.spawn_children(rest == "hold"),
            "sh" => self.send_text(&children::run_shell(rest)),
            "hold" => {
                resource_use::hold_memory(parse_number(rest, 0, 1));
                Ok(())
            }
            "hold-apart" => resource_use::hold_memory_in_child(parse_number(rest, 0, 1))
                .map_err(|error| TurnStop::Refused(wire::error_object(-32603, error.to_string()))),
            "spin" => {
                resource_use::use_cpu(Duration::from_millis(parse_number(rest, 0, 1)));
                Ok(())
            }
            "env" => self.send_text(&format!(
                "{rest}={}",
                std::env::var(rest).unwrap_or_else(|_| "(unset)".to_owned())
            )),
            "socket" => self.send_text(&host_requests::request_upgrade(Path::new(rest))),
            "pwd" => {
                self.send_text(&std::env::current_dir().unwrap_or_default().display().to_string())
            }
            "pid" => self.send_text(&format!("pid {}", std::process::id())),
            _ => match faults::run_command(&mut self.turn, name, rest) {
                Some(outcome) => outcome,
                None => match own_files::run_command(name, rest) {
                    Some(told) => self.send_text(&told),
                    None => asks::run_command(self, name, rest)
                        .unwrap_or_else(|| self.send_text(&format!("you said: {name} {rest}"))),
                },
            },
        }
    }

    /// Sends one chunk of this prompt's message.
    pub(super) fn send_text(&self, text: &str) -> Result<(), TurnStop> {
        self.turn
            .send_update(&wire::chunk_update("agent_message_chunk", &self.message, text))
    }

    fn switch_mode(&self, wanted: &str) -> Result<(), TurnStop> {
        if !wanted.is_empty() {
            let mut state = lock_mutex(&self.state);
            wanted.clone_into(&mut state.settings.mode);
            state.settings.save();
            drop(state);
            self.turn.send_update(
                &json!({ "sessionUpdate": "current_mode_update", "currentModeId": wanted }),
            )?;
        }
        let ScriptedState { settings, cwd, .. } = lock_mutex(&self.state).clone();
        self.send_text(&format!("mode={} model={} cwd={cwd}", settings.mode, settings.model))
    }

    /// Sends ticks with the wall-clock time, since a process cannot compare its monotonic clock
    /// with another's.
    fn send_ticks(&mut self, count: u64, every: Duration) -> Result<(), TurnStop> {
        let mut next_at = Instant::now();
        for index in 0..count {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.send_text(&format!("tick {index} {}", now.as_nanos()))?;
            next_at += every;
            self.turn.pause_until(next_at)?;
        }
        Ok(())
    }

    fn spawn_children(&self, hold: bool) -> Result<(), TurnStop> {
        let pids = children::spawn_children(hold)
            .map_err(|error| TurnStop::Refused(wire::error_object(-32603, error.to_string())))?;
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        self.send_text(&format!("pids {}", pids.join(" ")))
    }
}

/// Returns the number at this position of the arguments, or a default.
pub(super) fn parse_number<T: std::str::FromStr>(rest: &str, place: usize, default: T) -> T {
    rest.split_whitespace()
        .nth(place)
        .and_then(|word| word.parse().ok())
        .unwrap_or(default)
}

/// Returns the update that opens a tool call or, if `opens` is false, the update that ends it.
fn tool_update(id: &str, opens: bool) -> Value {
    match opens {
        true => {
            json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": "a tool", "status": "in_progress" })
        }
        false => {
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed" })
        }
    }
}

/// Returns an update that has no further effect.
fn plain_update(name: &str, rest: &str) -> Value {
    match name {
        "plan" => json!({ "sessionUpdate": "plan",
            "entries": [{ "content": "one step", "priority": "high", "status": "in_progress" }] }),
        "tool" => {
            json!({ "sessionUpdate": "tool_call", "toolCallId": "tool-1", "title": "a tool", "kind": "execute",
            "status": "completed", "content": [{ "type": "diff", "path": "/a.txt", "oldText": "a\n", "newText": "b\n" }] })
        }
        "title" => json!({ "sessionUpdate": "session_info_update", "title": rest }),
        "usage" => usage_update(rest),
        "commands" => commands_update(),
        _ => {
            json!({ "sessionUpdate": "from_the_future", "novel": { "deep": [1, 2.50, "x"] }, "_meta": { "k": null } })
        }
    }
}

pub(super) fn commands_update() -> Value {
    let commands = ["echo", "ask"]
        .map(|name| json!({ "name": name, "description": format!("the command {name}") }));
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands })
}

/// Returns a usage update, with the cost and its currency if they are named.
fn usage_update(rest: &str) -> Value {
    let mut update = json!({ "sessionUpdate": "usage_update", "used": 100, "size": 1000 });
    if let Some((amount, currency)) = rest.split_once(' ') {
        update["cost"] =
            json!({ "amount": amount.parse::<f64>().unwrap_or_default(), "currency": currency });
    }
    update
}
