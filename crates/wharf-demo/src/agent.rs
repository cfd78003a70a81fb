//! The demo agent's method table: the handler of each ACP request and notification.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::commands;
use crate::history;
use crate::session::{Running, Session};
use crate::talk::Talk;
use crate::turn::{Peer, Signal, Turn, lock};
use crate::wire::{self, Answer, Message, Output, Reader};

/// The number of sessions in one answer of `session/list`; older ones can still be loaded by id.
const LISTED: usize = 100;

type Shared = Arc<Mutex<Session>>;

#[derive(Debug)]
struct Agent {
    directory: PathBuf,
    peer: Arc<Peer>,
    sessions: HashMap<String, Shared>,
}

/// Serves one client until its input ends.
pub fn run(input: impl BufRead + Send + 'static, output: impl Write + Send + 'static) -> io::Result<()> {
    let peer = Arc::new(Peer::new(Output::new(output)));
    let mut agent = Agent { directory: history::directory(), peer, sessions: HashMap::new() };
    let mut reader = Reader::new(input);
    while let Some(message) = reader.next_message()? {
        agent.handle(message)?;
    }
    agent.signal_all(|| Signal::HangUp);
    Ok(())
}

impl Agent {
    fn handle(&mut self, message: Message) -> io::Result<()> {
        match message {
            Message::Request { id, method, params } if method == "session/prompt" => self.prompt(id, &params),
            Message::Request { id, method, params } => self.request(&id, &method, &params),
            Message::Notification { method, params } => {
                self.notification(&method, &params);
                Ok(())
            }
            Message::Response { id, answer } => {
                self.peer.settle(id, answer);
                Ok(())
            }
            Message::Malformed(why) => {
                let fault = wire::fault(wire::PARSE_ERROR, format!("Parse error: {why}"));
                self.send(&wire::error(&Value::Null, fault))
            }
            Message::Invalid(id) => self.send(&wire::error(&id, wire::fault(wire::INVALID_REQUEST, "Invalid request"))),
        }
    }

    fn send(&self, message: &Value) -> io::Result<()> {
        self.peer.output().send(message)
    }

    /// Answers a request and then sends the updates that follow the answer.
    fn request(&mut self, id: &Value, method: &str, params: &Value) -> io::Result<()> {
        let mut joined = None;
        let answer = match method {
            "initialize" => Ok(initialize()),
            "authenticate" | "logout" => Ok(json!({})),
            "session/new" => self.new_session(params).map(|session| {
                let answer = opened(&lock(&session), true);
                joined = Some(session);
                answer
            }),
            "session/load" | "session/resume" => self.bring_back(params, method == "session/load").map(|session| {
                let answer = opened(&lock(&session), false);
                joined = Some(session);
                answer
            }),
            "session/set_mode" => self.set_mode(params),
            "session/set_config_option" => self.set_option(params),
            "session/close" => self.close(params),
            "session/delete" => Ok(self.delete(params)),
            "session/list" => Ok(self.list(params)),
            _ => Err(wire::fault(wire::METHOD_NOT_FOUND, format!("Method not found: {method}"))),
        };
        self.send(&match answer {
            Ok(result) => wire::response(id, result),
            Err(fault) => wire::error(id, fault),
        })?;
        match joined {
            Some(session) => self.send(&wire::update(&lock(&session).id, &commands::available())),
            None => Ok(()),
        }
    }

    fn notification(&self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                if let Ok(session) = self.session(params)
                    && let Some(running) = &lock(&session).running
                {
                    let _ = running.turn.try_send(Signal::Cancel);
                }
            }
            "$/cancel_request" => {
                for session in self.sessions.values() {
                    if let Some(running) = &lock(session).running
                        && running.request == params["requestId"]
                    {
                        let _ = running.turn.try_send(Signal::Withdraw);
                    }
                }
            }
            _ => {}
        }
    }

    fn signal_all(&self, signal: impl Fn() -> Signal) {
        for session in self.sessions.values() {
            if let Some(running) = &lock(session).running {
                let _ = running.turn.try_send(signal());
            }
        }
    }

    fn session(&self, params: &Value) -> Result<Shared, Value> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        self.sessions.get(id).cloned().ok_or_else(|| wire::unknown_session(id))
    }

    fn new_session(&mut self, params: &Value) -> Result<Shared, Value> {
        let Some(cwd) = params["cwd"].as_str() else {
            return Err(wire::fault(wire::INVALID_PARAMS, "Invalid params: cwd is missing"));
        };
        let session = Session::create(&self.directory, cwd);
        Ok(self.adopt(session))
    }

    fn adopt(&mut self, session: Session) -> Shared {
        let id = session.id.clone();
        let session = Arc::new(Mutex::new(session));
        self.sessions.insert(id, Arc::clone(&session));
        session
    }

    fn bring_back(&mut self, params: &Value, replay: bool) -> Result<Shared, Value> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let session = match self.sessions.get(id) {
            Some(live) => Arc::clone(live),
            None => Session::open(&self.directory, id)
                .map(|session| self.adopt(session))
                .map_err(|_| wire::unknown_session(id))?,
        };
        let mut state = lock(&session);
        if let Some(cwd) = params["cwd"].as_str() {
            state.cwd = cwd.to_owned();
        }
        if replay && state.replay(self.peer.output()).is_err() {
            return Err(wire::fault(wire::INVALID_REQUEST, "the replay could not be written"));
        }
        drop(state);
        Ok(session)
    }

    fn set_mode(&self, params: &Value) -> Answer {
        let session = self.session(params)?;
        let mut state = lock(&session);
        let mode = params["modeId"].as_str().unwrap_or_default();
        if !state.settings.set_mode(mode) {
            return Err(wire::fault(wire::INVALID_PARAMS, format!("no mode called {mode:?}; there are: ask, auto")));
        }
        state.note_settings();
        let changed = json!({ "sessionUpdate": "current_mode_update", "currentModeId": state.settings.mode() });
        let _ = self.send(&wire::update(&state.id, &changed));
        Ok(json!({}))
    }

    fn set_option(&self, params: &Value) -> Answer {
        let session = self.session(params)?;
        let mut state = lock(&session);
        let (option, value) = (params["configId"].as_str(), params["value"].as_str());
        if !state.settings.set_option(option.unwrap_or_default(), value.unwrap_or_default()) {
            let message = "no such option or value; there are: pace (natural, instant, relaxed), thoughts (show, hide)";
            return Err(wire::fault(wire::INVALID_PARAMS, message));
        }
        state.note_settings();
        let options = state.settings.options();
        let changed = json!({ "sessionUpdate": "config_option_update", "configOptions": options });
        let _ = self.send(&wire::update(&state.id, &changed));
        Ok(json!({ "configOptions": options }))
    }

    fn close(&mut self, params: &Value) -> Answer {
        let session = self.session(params)?;
        let state = lock(&session);
        if let Some(running) = &state.running {
            let _ = running.turn.try_send(Signal::Cancel);
        }
        self.sessions.remove(&state.id);
        Ok(json!({}))
    }

    /// Deletes a session with its history, whichever process created it. Deleting an unknown session succeeds.
    fn delete(&mut self, params: &Value) -> Value {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let _ = self.close(params);
        history::remove(&self.directory, id);
        json!({})
    }

    fn list(&self, params: &Value) -> Value {
        let wanted = params["cwd"].as_str();
        let known = history::ids(&self.directory).into_iter().filter_map(|id| Session::open(&self.directory, &id).ok());
        let shown = known.filter(|session| wanted.is_none_or(|cwd| cwd == session.cwd)).take(LISTED);
        let sessions: Vec<Value> = shown
            .map(|session| json!({ "sessionId": session.id, "cwd": session.cwd, "title": session.title }))
            .collect();
        json!({ "sessions": sessions })
    }

    /// Starts a turn in a thread of its own; the answer is sent when it ends.
    fn prompt(&self, id: Value, params: &Value) -> io::Result<()> {
        let session = match self.session(params) {
            Ok(session) => session,
            Err(fault) => return self.send(&wire::error(&id, fault)),
        };
        let mut state = lock(&session);
        if state.running.is_some() {
            let fault = wire::fault(wire::INVALID_REQUEST, "a prompt is already running in this session");
            return self.send(&wire::error(&id, fault));
        }
        let turn = Turn::new(&state.id, &self.peer);
        state.running = Some(Running { request: id.clone(), turn: turn.sender() });
        state.begin_turn(&params["prompt"]);
        drop(state);
        let prompt = params["prompt"].clone();
        let text = wire::prompt_text(params);
        thread::Builder::new().name("turn".to_owned()).spawn(move || {
            let mut talk = Talk::new(turn, session);
            let outcome = commands::perform(&mut talk, &text, &prompt);
            talk.finish(&id, outcome);
        })?;
        Ok(())
    }
}

fn initialize() -> Value {
    json!({
        "protocolVersion": 1,
        "agentInfo": { "name": "wharf-demo", "title": "Demo agent", "version": env!("CARGO_PKG_VERSION") },
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
            "mcpCapabilities": { "http": false, "sse": false },
            "sessionCapabilities": { "list": {}, "resume": {}, "close": {}, "delete": {} },
        },
        "authMethods": [],
    })
}

fn opened(session: &Session, is_new: bool) -> Value {
    let mut answer = json!({ "modes": session.settings.modes(), "configOptions": session.settings.options() });
    if is_new {
        answer["sessionId"] = json!(session.id);
    }
    answer
}
