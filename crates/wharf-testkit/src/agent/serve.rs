//! The method table of the scripted agent, as changed by its flags.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use wharf_demo::turn::{AgentPeer, PromptSignal, RunningTurn, lock_mutex};
use wharf_demo::wire::{self, MessageReader, MessageWriter, RpcMessage, RpcResult};

use super::flags::{ChangeReport, Flags, OverlapReaction};
use super::initialize;
use super::script::{self, ScriptRun};
use super::settings::ScriptedSettings;

/// The state of one session.
#[derive(Debug, Clone)]
pub(super) struct ScriptedState {
    pub(super) settings: ScriptedSettings,
    pub(super) cwd: String,
    ready: bool,
}

#[derive(Debug)]
struct ScriptedSession {
    state: Arc<Mutex<ScriptedState>>,
    /// Prompts that have not been answered, oldest first.
    running: Arc<Mutex<Vec<RunningPrompt>>>,
    /// The thread of the newest prompt: an overlapping prompt starts when it is done.
    newest: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct RunningPrompt {
    request: Value,
    turn: SyncSender<PromptSignal>,
}

#[derive(Debug)]
struct ScriptedAgent {
    flags: Arc<Flags>,
    peer: Arc<AgentPeer>,
    sessions: HashMap<String, ScriptedSession>,
    created: u64,
    authenticated: bool,
}

/// Serves one client until its input ends.
pub fn run(
    flags: Flags,
    input: impl BufRead,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    let mut record = flags
        .record
        .as_ref()
        .map(|path| OpenOptions::new().create(true).append(true).open(path))
        .transpose()?;
    let peer = Arc::new(AgentPeer::new(MessageWriter::new(output)));
    let mut agent = ScriptedAgent {
        flags: Arc::new(flags),
        peer,
        sessions: HashMap::new(),
        created: 0,
        authenticated: false,
    };
    append_sign(&agent.flags, "+")?;
    let mut reader = MessageReader::new(input);
    while let Some(message) = reader.next_message()? {
        record_line(record.as_mut(), reader.line())?;
        agent.handle_message(message, reader.line())?;
    }
    agent.signal_turns(|_| true, || PromptSignal::HangUp);
    Ok(())
}

/// Appends a sign to the counter file. Short appends of several agents do not mix.
fn append_sign(flags: &Flags, sign: &str) -> io::Result<()> {
    let Some(path) = &flags.count else { return Ok(()) };
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?
        .write_all(format!("{sign}\n").as_bytes())
}

fn is_echo(line: &[u8]) -> bool {
    let parts: Result<HashMap<String, &RawValue>, _> = serde_json::from_slice(line);
    let method = parts.ok().and_then(|parts| parts.get("method").map(|raw| raw.get()));
    matches!(method, Some("\"_echo\"" | "\"_note\""))
}

fn record_line(record: Option<&mut File>, line: &[u8]) -> io::Result<()> {
    match record {
        Some(file) => file.write_all(&[line, b"\n"].concat()),
        None => Ok(()),
    }
}

impl ScriptedAgent {
    fn handle_message(&mut self, message: RpcMessage, line: &[u8]) -> io::Result<()> {
        match message {
            RpcMessage::Request { id, method, params } => {
                self.handle_request(&id, &method, &params, line)
            }
            RpcMessage::Notification { method, params } => {
                self.handle_notification(&method, &params, line)
            }
            RpcMessage::Response { id, answer } => {
                self.peer.pass_answer(id, answer);
                Ok(())
            }
            // A message that is too odd to parse can still be echoed.
            RpcMessage::Malformed(_) if is_echo(line) => self.echo_params(line),
            // This agent's own parser accepts less than a real agent's.
            RpcMessage::Malformed(why) => match wharf_json::Json::parse(line) {
                Ok(odd) => self.handle_message(wire::parse_value(odd.to_value()), line),
                Err(_) => self.send_message(&wire::error_frame(
                    &Value::Null,
                    wire::error_object(wire::PARSE_ERROR, why),
                )),
            },
            RpcMessage::Invalid(id) => self.send_message(&wire::error_frame(
                &id,
                wire::error_object(wire::INVALID_REQUEST, "Invalid request"),
            )),
        }
    }

    fn send_message(&self, message: &Value) -> io::Result<()> {
        self.peer.output().send_message(message)
    }

    fn send_update(&self, session: &str, update: &Value) -> io::Result<()> {
        self.send_message(&wire::update_frame(session, update))
    }

    fn handle_request(
        &mut self,
        id: &Value,
        method: &str,
        params: &Value,
        line: &[u8],
    ) -> io::Result<()> {
        self.answer_request(id, method, params, line)?;
        if matches!(method, "session/new" | "session/load" | "session/resume" | "session/fork") {
            append_sign(&self.flags, "-")?;
        }
        if self.flags.die_after.iter().any(|named| named == method) {
            std::process::exit(3);
        }
        Ok(())
    }

    fn answer_request(
        &mut self,
        id: &Value,
        method: &str,
        params: &Value,
        line: &[u8],
    ) -> io::Result<()> {
        let flags = Arc::clone(&self.flags);
        if flags.die_on.iter().any(|named| named == method) {
            std::process::exit(3);
        }
        if flags.hang_on.iter().any(|named| named == method) {
            return Ok(());
        }
        if flags.garbage_on.iter().any(|named| named == method) {
            let garbage: &[u8] = b"{ no JSON\n\xff\xfe\n17\n{\"jsonrpc\":\"2.0\",\"id\":\"not yours\",\"result\":{}}\n";
            return self.peer.output().send_bytes(garbage);
        }
        if let Some((_, delay_for)) = flags.delay.iter().find(|(named, _)| named == method) {
            thread::sleep(*delay_for);
        }
        if let Some((_, file)) = flags.await_on.iter().find(|(named, _)| named == method) {
            while !Path::new(file).exists() {
                thread::sleep(script::FILE_POLL_INTERVAL);
            }
        }
        if let Some((_, answer)) = flags.answer_with.iter().find(|(named, _)| named == method) {
            let answer = answer.replace("@ID@", &id.to_string());
            return self.peer.output().send_bytes(format!("{answer}\n").as_bytes());
        }
        if let Some((_, code)) = flags.error_on.iter().find(|(named, _)| named == method) {
            return self.send_message(&wire::error_frame(
                id,
                wire::error_object(*code, format!("{method} fails as told")),
            ));
        }
        match method {
            "session/prompt" => return self.start_prompt(id, params),
            "session/new" if self.may_start() => return self.new_session(id, params),
            "session/load" | "session/resume" => return self.load_session(id, method, params),
            "session/fork" if flags.fork => return self.fork_session(id, params),
            "session/set_mode" | "session/set_config_option" => {
                return self.change_setting(id, method, params);
            }
            "session/set_model" if flags.models || flags.split_models => {
                return self.change_setting(id, method, params);
            }
            "_echo" => return self.echo_params(line),
            _ => {}
        }
        let answer = self.make_answer(method, params);
        self.send_message(&match answer {
            Ok(result) => return self.send_result(method, id, result),
            Err(fault) => wire::error_frame(id, fault),
        })
    }

    /// Answers with a result, with the additional members of a flag unchanged.
    fn send_result(&self, method: &str, id: &Value, result: Value) -> io::Result<()> {
        let answer = wire::result_frame(id, result);
        let Some((_, members)) = self.flags.add_to.iter().find(|(named, _)| named == method) else {
            return self.send_message(&answer);
        };
        let answer =
            answer
                .to_string()
                .replacen(r#""result":{"#, &format!(r#""result":{{{members},"#), 1);
        self.peer.output().send_bytes(format!("{answer}\n").as_bytes())
    }

    fn may_start(&self) -> bool {
        self.authenticated || !self.flags.auth
    }

    fn make_answer(&mut self, method: &str, params: &Value) -> RpcResult {
        match method {
            "initialize" => {
                Ok(initialize::initialize_answer(&self.flags, &params["clientCapabilities"]))
            }
            "authenticate" => {
                self.authenticated = true;
                Ok(json!({}))
            }
            "logout" => {
                self.authenticated = false;
                Ok(json!({}))
            }
            "session/new" => {
                Err(wire::error_object(wire::AUTH_REQUIRED, "Authentication required"))
            }
            "session/close" if self.flags.close => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                self.signal_turns(|id| id == session, || PromptSignal::Cancel);
                self.sessions
                    .remove(session)
                    .map(|_| json!({}))
                    .ok_or_else(|| wire::unknown_session_error(session))
            }
            // Any session can be deleted: those of other processes are on the same disk.
            "session/delete" if self.flags.delete => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                self.signal_turns(|id| id == session, || PromptSignal::Cancel);
                self.sessions.remove(session);
                Ok(json!({}))
            }
            _ => Err(wire::error_object(
                wire::METHOD_NOT_FOUND,
                format!("Method not found: {method}"),
            )),
        }
    }

    fn new_session(&mut self, id: &Value, params: &Value) -> io::Result<()> {
        self.created += 1;
        let counted = format!("scripted-{}-{}", std::process::id(), self.created);
        let session = self.flags.session_id.clone().unwrap_or(counted);
        for number in 0..self.flags.early_updates {
            self.send_update(
                &session,
                &wire::chunk_update("agent_message_chunk", "early", &format!("early {number}")),
            )?;
        }
        let state = self.add_session(&session, params);
        let mut result = state.settings.opening_answer(&self.flags);
        result["sessionId"] = json!(session);
        self.send_result("session/new", id, result)?;
        self.send_opening_updates(&session)
    }

    fn add_session(&mut self, session: &str, params: &Value) -> ScriptedState {
        let cwd = params["cwd"].as_str().unwrap_or_default().to_owned();
        let ready = !self.flags.ready;
        let settings = ScriptedSettings::load(&self.flags, session);
        let state = ScriptedState { settings, cwd, ready };
        let entry = ScriptedSession {
            state: Arc::new(Mutex::new(state.clone())),
            running: Arc::default(),
            newest: None,
        };
        self.sessions.insert(session.to_owned(), entry);
        state
    }

    /// Sends the messages that follow the opening of a session, or holds them until `session/ready`
    /// if that was advertised.
    fn send_opening_updates(&self, session: &str) -> io::Result<()> {
        let is_ready =
            self.sessions.get(session).is_some_and(|known| lock_mutex(&known.state).ready);
        if is_ready && (self.flags.commands || self.flags.ready) {
            return self.send_update(session, &script::commands_update());
        }
        Ok(())
    }

    /// Makes a copy, whichever process the source belongs to: sessions of other processes are on
    /// the same disk. The id of the copy names its source.
    fn fork_session(&mut self, id: &Value, params: &Value) -> io::Result<()> {
        let source = params["sessionId"].as_str().unwrap_or_default();
        if self.flags.forget {
            return self.send_message(&wire::error_frame(id, wire::unknown_session_error(source)));
        }
        self.created += 1;
        let session = format!("copy-{}-{}-of-{source}", std::process::id(), self.created);
        let state = self.add_session(&session, params);
        if self.flags.replay_on_resume {
            self.send_replay(&session)?;
        }
        let mut result = state.settings.opening_answer(&self.flags);
        result["sessionId"] = json!(session);
        self.send_result("session/fork", id, result)?;
        self.send_opening_updates(&session)
    }

    fn load_session(&mut self, id: &Value, method: &str, params: &Value) -> io::Result<()> {
        let is_load = method == "session/load";
        let has_it = if is_load { !self.flags.no_load } else { self.flags.resume };
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        if !has_it {
            let fault =
                wire::error_object(wire::METHOD_NOT_FOUND, format!("Method not found: {method}"));
            return self.send_message(&wire::error_frame(id, fault));
        }
        if self.flags.forget {
            return self
                .send_message(&wire::error_frame(id, wire::unknown_session_error(&session)));
        }
        let state = self.add_session(&session, params);
        let replays = is_load || self.flags.replay_on_resume;
        if replays && !self.flags.replay_after_load {
            self.send_replay(&session)?;
        }
        let told = if self.flags.silent_load {
            json!({})
        } else {
            state.settings.opening_answer(&self.flags)
        };
        self.send_result(method, id, told)?;
        if self.flags.replay_forever {
            loop {
                self.send_replay(&session)?;
                thread::sleep(Duration::from_millis(20));
            }
        }
        if replays && self.flags.replay_after_load {
            self.send_replay(&session)?;
        }
        self.send_opening_updates(&session)
    }

    fn send_replay(&self, session: &str) -> io::Result<()> {
        for number in 0..self.flags.replay {
            let asked = format!("old-prompt-{number}");
            let told = format!("old-answer-{number}");
            self.send_update(
                session,
                &wire::chunk_update("user_message_chunk", &asked, &format!("old prompt {number}")),
            )?;
            self.send_update(
                session,
                &wire::chunk_update("agent_message_chunk", &told, &format!("old answer {number}")),
            )?;
        }
        Ok(())
    }

    /// Changes a setting and reports the change in the order that the flags set.
    fn change_setting(&self, id: &Value, method: &str, params: &Value) -> io::Result<()> {
        let name = params["sessionId"].as_str().unwrap_or_default();
        let Some(session) = self.sessions.get(name) else {
            return self.send_message(&wire::error_frame(id, wire::unknown_session_error(name)));
        };
        let mut state = lock_mutex(&session.state);
        let answer = match state.settings.apply_request(&self.flags, method, params) {
            Ok(result) => wire::result_frame(id, result),
            Err(fault) => return self.send_message(&wire::error_frame(id, fault)),
        };
        let mut frames: Vec<Value> = state.settings.change_updates(&self.flags, method);
        frames = frames.iter().map(|update| wire::update_frame(name, update)).collect();
        let place = if self.flags.report == ChangeReport::Before { frames.len() } else { 0 };
        frames.insert(place, answer);
        frames.iter().try_for_each(|frame| self.send_message(frame))
    }

    fn handle_notification(&mut self, method: &str, params: &Value, line: &[u8]) -> io::Result<()> {
        let session = params["sessionId"].as_str().unwrap_or_default();
        match method {
            "session/cancel" => self.signal_turns(|id| id == session, || PromptSignal::Cancel),
            "$/cancel_request" => self.withdraw_prompt(&params["requestId"]),
            "_go" => self.signal_turns(|_| true, || PromptSignal::Go),
            "session/ready" => {
                if let Some(known) = self.sessions.get(session) {
                    lock_mutex(&known.state).ready = true;
                }
                return self.send_opening_updates(session);
            }
            "_note" => return self.echo_params(line),
            _ => {}
        }
        Ok(())
    }

    fn signal_turns(&self, chosen: impl Fn(&str) -> bool, signal: impl Fn() -> PromptSignal) {
        for (_, session) in self.sessions.iter().filter(|(id, _)| chosen(id)) {
            for running in lock_mutex(&session.running).iter() {
                let _ = running.turn.try_send(signal());
            }
        }
    }

    fn withdraw_prompt(&self, request: &Value) {
        for session in self.sessions.values() {
            for running in lock_mutex(&session.running)
                .iter()
                .filter(|running| running.request == *request)
            {
                let _ = running.turn.try_send(PromptSignal::Withdraw);
            }
        }
    }

    /// Sends the params back byte for byte: as the result of `_echo`, or as the notification
    /// `_noted` for a `_note`.
    fn echo_params(&self, line: &[u8]) -> io::Result<()> {
        let parts: HashMap<String, &RawValue> = serde_json::from_slice(line)?;
        let part = |name: &str| parts.get(name).map_or("null", |raw| raw.get());
        let frame = match parts.get("id") {
            Some(id) => {
                format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, id.get(), part("params"))
            }
            None => format!(r#"{{"jsonrpc":"2.0","method":"_noted","params":{}}}"#, part("params")),
        };
        self.peer.output().send_bytes(format!("{frame}\n").as_bytes())
    }

    fn start_prompt(&mut self, id: &Value, params: &Value) -> io::Result<()> {
        let name = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let refuse = |fault: Value| self.peer.output().send_message(&wire::error_frame(id, fault));
        let Some(session) = self.sessions.get_mut(&name) else {
            return refuse(wire::unknown_session_error(&name));
        };
        if !lock_mutex(&session.state).ready {
            return refuse(wire::error_object(
                wire::INVALID_REQUEST,
                "a prompt came before session/ready",
            ));
        }
        let mut running = lock_mutex(&session.running);
        if !running.is_empty() {
            match self.flags.overlap {
                OverlapReaction::Reject => {
                    return refuse(wire::error_object(
                        wire::INVALID_REQUEST,
                        "a prompt is already running",
                    ));
                }
                OverlapReaction::Ignore => return Ok(()),
                OverlapReaction::Supersede => {
                    running.iter().for_each(|old| drop(old.turn.try_send(PromptSignal::Supersede)))
                }
                OverlapReaction::Queue => {}
            }
        }
        let mut turn = RunningTurn::new(&name, &self.peer);
        turn.deaf = self.flags.no_cancel;
        running.push(RunningPrompt { request: id.clone(), turn: turn.sender() });
        drop(running);
        let actor = ScriptRun::new(turn, Arc::clone(&session.state), id.clone());
        let unanswered = Arc::clone(&session.running);
        let before = session.newest.take();
        let text = wire::prompt_text(params);
        session.newest = Some(thread::spawn(move || {
            if let Some(before) = before {
                let _ = before.join();
            }
            let request = actor.request.clone();
            let outcome = actor.run(&text);
            lock_mutex(&unanswered).retain(|running| running.request != request);
            outcome.answer_prompt();
        }));
        Ok(())
    }
}
