//! The method table of the scripted agent, as changed by its flags.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use wharf_demo::turn::{Peer, Signal, Turn, lock};
use wharf_demo::wire::{self, Answer, Message, Output, Reader};

use super::flags::{Flags, Overlap, Report};
use super::script::{self, Actor};
use super::settings::Settings;
use super::shapes;

/// The state of one session.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) cwd: String,
    ready: bool,
}

#[derive(Debug)]
struct Session {
    state: Arc<Mutex<State>>,
    /// Prompts that have not been answered, oldest first.
    running: Arc<Mutex<Vec<Running>>>,
    /// The thread of the newest prompt: an overlapping prompt starts when it is done.
    newest: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Running {
    request: Value,
    turn: SyncSender<Signal>,
}

#[derive(Debug)]
struct Agent {
    flags: Arc<Flags>,
    peer: Arc<Peer>,
    sessions: HashMap<String, Session>,
    created: u64,
    authenticated: bool,
}

/// Serves one client until its input ends.
pub fn run(flags: Flags, input: impl BufRead, output: impl Write + Send + 'static) -> io::Result<()> {
    let mut record =
        flags.record.as_ref().map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
    let peer = Arc::new(Peer::new(Output::new(output)));
    let mut agent = Agent { flags: Arc::new(flags), peer, sessions: HashMap::new(), created: 0, authenticated: false };
    count(&agent.flags, "+")?;
    let mut reader = Reader::new(input);
    while let Some(message) = reader.next_message()? {
        note(record.as_mut(), reader.line())?;
        agent.handle(message, reader.line())?;
    }
    agent.signal(|_| true, || Signal::HangUp);
    Ok(())
}

/// Appends a sign to the counter file. Short appends of several agents do not mix.
fn count(flags: &Flags, sign: &str) -> io::Result<()> {
    let Some(path) = &flags.count else { return Ok(()) };
    OpenOptions::new().create(true).append(true).open(path)?.write_all(format!("{sign}\n").as_bytes())
}

fn is_echo(line: &[u8]) -> bool {
    let parts: Result<HashMap<String, &RawValue>, _> = serde_json::from_slice(line);
    let method = parts.ok().and_then(|parts| parts.get("method").map(|raw| raw.get()));
    matches!(method, Some("\"_echo\"" | "\"_note\""))
}

fn note(record: Option<&mut File>, line: &[u8]) -> io::Result<()> {
    match record {
        Some(file) => file.write_all(&[line, b"\n"].concat()),
        None => Ok(()),
    }
}

impl Agent {
    fn handle(&mut self, message: Message, line: &[u8]) -> io::Result<()> {
        match message {
            Message::Request { id, method, params } => self.request(&id, &method, &params, line),
            Message::Notification { method, params } => self.notification(&method, &params, line),
            Message::Response { id, answer } => {
                self.peer.settle(id, answer);
                Ok(())
            }
            // A message that is too odd to parse can still be echoed.
            Message::Malformed(_) if is_echo(line) => self.echo(line),
            // This agent's own parser accepts less than a real agent's.
            Message::Malformed(why) => match wharf_json::Json::parse(line) {
                Ok(odd) => self.handle(wire::parse_value(odd.to_value()), line),
                Err(_) => self.send(&wire::error(&Value::Null, wire::fault(wire::PARSE_ERROR, why))),
            },
            Message::Invalid(id) => self.send(&wire::error(&id, wire::fault(wire::INVALID_REQUEST, "Invalid request"))),
        }
    }

    fn send(&self, message: &Value) -> io::Result<()> {
        self.peer.output().send(message)
    }

    fn update(&self, session: &str, update: &Value) -> io::Result<()> {
        self.send(&wire::update(session, update))
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value, line: &[u8]) -> io::Result<()> {
        self.serve(id, method, params, line)?;
        if matches!(method, "session/new" | "session/load" | "session/resume") {
            count(&self.flags, "-")?;
        }
        if self.flags.die_after.iter().any(|named| named == method) {
            std::process::exit(3);
        }
        Ok(())
    }

    fn serve(&mut self, id: &Value, method: &str, params: &Value, line: &[u8]) -> io::Result<()> {
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
        if let Some((_, answer)) = flags.answer_with.iter().find(|(named, _)| named == method) {
            let answer = answer.replace("@ID@", &id.to_string());
            return self.peer.output().send_bytes(format!("{answer}\n").as_bytes());
        }
        if let Some((_, code)) = flags.error_on.iter().find(|(named, _)| named == method) {
            return self.send(&wire::error(id, wire::fault(*code, format!("{method} fails as told"))));
        }
        match method {
            "session/prompt" => return self.prompt(id, params),
            "session/new" if self.may_start() => return self.new_session(id, params),
            "session/load" | "session/resume" => return self.bring_back(id, method, params),
            "session/set_mode" | "session/set_config_option" => return self.set(id, method, params),
            "session/set_model" if flags.models || flags.split_models => return self.set(id, method, params),
            "_echo" => return self.echo(line),
            _ => {}
        }
        let answer = self.answer(method, params);
        self.send(&match answer {
            Ok(result) => return self.respond(method, id, result),
            Err(fault) => wire::error(id, fault),
        })
    }

    /// Answers with a result, with the additional members of a flag unchanged.
    fn respond(&self, method: &str, id: &Value, result: Value) -> io::Result<()> {
        let answer = wire::response(id, result);
        let Some((_, members)) = self.flags.add_to.iter().find(|(named, _)| named == method) else {
            return self.send(&answer);
        };
        let answer = answer.to_string().replacen(r#""result":{"#, &format!(r#""result":{{{members},"#), 1);
        self.peer.output().send_bytes(format!("{answer}\n").as_bytes())
    }

    fn may_start(&self) -> bool {
        self.authenticated || !self.flags.auth
    }

    fn answer(&mut self, method: &str, params: &Value) -> Answer {
        match method {
            "initialize" => Ok(shapes::initialize(&self.flags, &params["clientCapabilities"])),
            "authenticate" => {
                self.authenticated = true;
                Ok(json!({}))
            }
            "logout" => {
                self.authenticated = false;
                Ok(json!({}))
            }
            "session/new" => Err(wire::fault(wire::AUTH_REQUIRED, "Authentication required")),
            "session/close" if self.flags.close => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                self.signal(|id| id == session, || Signal::Cancel);
                self.sessions.remove(session).map(|_| json!({})).ok_or_else(|| wire::unknown_session(session))
            }
            // Any session can be deleted: those of other processes are on the same disk.
            "session/delete" if self.flags.delete => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                self.signal(|id| id == session, || Signal::Cancel);
                self.sessions.remove(session);
                Ok(json!({}))
            }
            _ => Err(wire::fault(wire::METHOD_NOT_FOUND, format!("Method not found: {method}"))),
        }
    }

    fn new_session(&mut self, id: &Value, params: &Value) -> io::Result<()> {
        self.created += 1;
        let counted = format!("scripted-{}-{}", std::process::id(), self.created);
        let session = self.flags.session_id.clone().unwrap_or(counted);
        for number in 0..self.flags.early_updates {
            self.update(&session, &wire::chunk("agent_message_chunk", "early", &format!("early {number}")))?;
        }
        let state = self.adopt(&session, params);
        let mut result = state.settings.opened(&self.flags);
        result["sessionId"] = json!(session);
        self.respond("session/new", id, result)?;
        self.greet(&session)
    }

    fn adopt(&mut self, session: &str, params: &Value) -> State {
        let cwd = params["cwd"].as_str().unwrap_or_default().to_owned();
        let ready = !self.flags.ready;
        let settings = Settings::open(&self.flags, session);
        let state = State { settings, cwd, ready };
        let entry = Session { state: Arc::new(Mutex::new(state.clone())), running: Arc::default(), newest: None };
        self.sessions.insert(session.to_owned(), entry);
        state
    }

    /// Sends the messages that follow the opening of a session, or holds them until `session/ready` if that was
    /// advertised.
    fn greet(&self, session: &str) -> io::Result<()> {
        let is_ready = self.sessions.get(session).is_some_and(|known| lock(&known.state).ready);
        if is_ready && (self.flags.commands || self.flags.ready) {
            return self.update(session, &script::commands_update());
        }
        Ok(())
    }

    fn bring_back(&mut self, id: &Value, method: &str, params: &Value) -> io::Result<()> {
        let is_load = method == "session/load";
        let has_it = if is_load { !self.flags.no_load } else { self.flags.resume };
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        if !has_it {
            let fault = wire::fault(wire::METHOD_NOT_FOUND, format!("Method not found: {method}"));
            return self.send(&wire::error(id, fault));
        }
        if self.flags.forget {
            return self.send(&wire::error(id, wire::unknown_session(&session)));
        }
        let state = self.adopt(&session, params);
        let replays = is_load || self.flags.replay_on_resume;
        if replays && !self.flags.replay_after_load {
            self.replay(&session)?;
        }
        let told = if self.flags.silent_load { json!({}) } else { state.settings.opened(&self.flags) };
        self.respond(method, id, told)?;
        if self.flags.replay_forever {
            loop {
                self.replay(&session)?;
                thread::sleep(Duration::from_millis(20));
            }
        }
        if replays && self.flags.replay_after_load {
            self.replay(&session)?;
        }
        self.greet(&session)
    }

    fn replay(&self, session: &str) -> io::Result<()> {
        for number in 0..self.flags.replay {
            let (asked, told) = (format!("old-prompt-{number}"), format!("old-answer-{number}"));
            self.update(session, &wire::chunk("user_message_chunk", &asked, &format!("old prompt {number}")))?;
            self.update(session, &wire::chunk("agent_message_chunk", &told, &format!("old answer {number}")))?;
        }
        Ok(())
    }

    /// Changes a setting and reports the change in the order that the flags set.
    fn set(&self, id: &Value, method: &str, params: &Value) -> io::Result<()> {
        let name = params["sessionId"].as_str().unwrap_or_default();
        let Some(session) = self.sessions.get(name) else {
            return self.send(&wire::error(id, wire::unknown_session(name)));
        };
        let mut state = lock(&session.state);
        let answer = match state.settings.set(&self.flags, method, params) {
            Ok(result) => wire::response(id, result),
            Err(fault) => return self.send(&wire::error(id, fault)),
        };
        let mut frames: Vec<Value> = state.settings.reports(&self.flags, method);
        frames = frames.iter().map(|update| wire::update(name, update)).collect();
        let place = if self.flags.report == Report::Before { frames.len() } else { 0 };
        frames.insert(place, answer);
        frames.iter().try_for_each(|frame| self.send(frame))
    }

    fn notification(&mut self, method: &str, params: &Value, line: &[u8]) -> io::Result<()> {
        let session = params["sessionId"].as_str().unwrap_or_default();
        match method {
            "session/cancel" => self.signal(|id| id == session, || Signal::Cancel),
            "$/cancel_request" => self.withdraw(&params["requestId"]),
            "_go" => self.signal(|_| true, || Signal::Go),
            "session/ready" => {
                if let Some(known) = self.sessions.get(session) {
                    lock(&known.state).ready = true;
                }
                return self.greet(session);
            }
            "_note" => return self.echo(line),
            _ => {}
        }
        Ok(())
    }

    fn signal(&self, chosen: impl Fn(&str) -> bool, signal: impl Fn() -> Signal) {
        for (_, session) in self.sessions.iter().filter(|(id, _)| chosen(id)) {
            for running in lock(&session.running).iter() {
                let _ = running.turn.try_send(signal());
            }
        }
    }

    fn withdraw(&self, request: &Value) {
        for session in self.sessions.values() {
            for running in lock(&session.running).iter().filter(|running| running.request == *request) {
                let _ = running.turn.try_send(Signal::Withdraw);
            }
        }
    }

    /// Sends the params back byte for byte: as the result of `_echo`, or as the notification `_noted` for a `_note`.
    fn echo(&self, line: &[u8]) -> io::Result<()> {
        let parts: HashMap<String, &RawValue> = serde_json::from_slice(line)?;
        let part = |name: &str| parts.get(name).map_or("null", |raw| raw.get());
        let frame = match parts.get("id") {
            Some(id) => format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, id.get(), part("params")),
            None => format!(r#"{{"jsonrpc":"2.0","method":"_noted","params":{}}}"#, part("params")),
        };
        self.peer.output().send_bytes(format!("{frame}\n").as_bytes())
    }

    fn prompt(&mut self, id: &Value, params: &Value) -> io::Result<()> {
        let name = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let refuse = |fault: Value| self.peer.output().send(&wire::error(id, fault));
        let Some(session) = self.sessions.get_mut(&name) else {
            return refuse(wire::unknown_session(&name));
        };
        if !lock(&session.state).ready {
            return refuse(wire::fault(wire::INVALID_REQUEST, "a prompt came before session/ready"));
        }
        let mut running = lock(&session.running);
        if !running.is_empty() {
            match self.flags.overlap {
                Overlap::Reject => return refuse(wire::fault(wire::INVALID_REQUEST, "a prompt is already running")),
                Overlap::Ignore => return Ok(()),
                Overlap::Supersede => running.iter().for_each(|old| drop(old.turn.try_send(Signal::Supersede))),
                Overlap::Queue => {}
            }
        }
        let mut turn = Turn::new(&name, &self.peer);
        turn.deaf = self.flags.no_cancel;
        running.push(Running { request: id.clone(), turn: turn.sender() });
        drop(running);
        let actor = Actor::new(turn, Arc::clone(&session.state), id.clone());
        let (unanswered, before) = (Arc::clone(&session.running), session.newest.take());
        let text = wire::prompt_text(params);
        session.newest = Some(thread::spawn(move || {
            if let Some(before) = before {
                let _ = before.join();
            }
            let request = actor.request.clone();
            let outcome = actor.perform(&text);
            lock(&unanswered).retain(|running| running.request != request);
            outcome.finish();
        }));
        Ok(())
    }
}
