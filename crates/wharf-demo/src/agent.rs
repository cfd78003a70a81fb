//! The demo agent's method table: the handler of each ACP request and notification.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::commands;
use crate::history;
use crate::session::{DemoPrompt, DemoSession};
use crate::turn::{AgentPeer, PromptSignal, RunningTurn, lock_mutex};
use crate::turn_writer::TurnWriter;
use crate::wire::{self, MessageReader, MessageWriter, RpcMessage, RpcResult};

/// The number of sessions in one answer of `session/list`; older ones can still be loaded by id.
const MAX_LISTED_SESSIONS: usize = 100;

type SharedSession = Arc<Mutex<DemoSession>>;

#[derive(Debug)]
struct DemoAgent {
    directory: PathBuf,
    peer: Arc<AgentPeer>,
    sessions: HashMap<String, SharedSession>,
}

/// Serves one client until its input ends.
pub fn run(
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    let peer = Arc::new(AgentPeer::new(MessageWriter::new(output)));
    let mut agent = DemoAgent {
        directory: history::state_directory(),
        peer,
        sessions: HashMap::new(),
    };
    let mut reader = MessageReader::new(input);
    while let Some(message) = reader.next_message()? {
        agent.handle_message(message)?;
    }
    agent.signal_all(|| PromptSignal::HangUp);
    Ok(())
}

impl DemoAgent {
    fn handle_message(&mut self, message: RpcMessage) -> io::Result<()> {
        match message {
            RpcMessage::Request { id, method, params } if method == "session/prompt" => {
                self.start_turn(id, &params)
            }
            RpcMessage::Request { id, method, params } => {
                self.answer_request(&id, &method, &params)
            }
            RpcMessage::Notification { method, params } => {
                self.handle_notification(&method, &params);
                Ok(())
            }
            RpcMessage::Response { id, answer } => {
                self.peer.pass_answer(id, answer);
                Ok(())
            }
            RpcMessage::Malformed(why) => {
                let fault = wire::error_object(wire::PARSE_ERROR, format!("Parse error: {why}"));
                self.send_message(&wire::error_frame(&Value::Null, fault))
            }
            RpcMessage::Invalid(id) => self.send_message(&wire::error_frame(
                &id,
                wire::error_object(wire::INVALID_REQUEST, "Invalid request"),
            )),
        }
    }

    fn send_message(&self, message: &Value) -> io::Result<()> {
        self.peer.output().send_message(message)
    }

    /// Answers a request and then sends the updates that follow the answer.
    fn answer_request(&mut self, id: &Value, method: &str, params: &Value) -> io::Result<()> {
        let mut joined = None;
        let answer = match method {
            "initialize" => Ok(initialize_answer()),
            "authenticate" | "logout" => Ok(json!({})),
            "session/new" => self.new_session(params).map(|session| {
                let answer = opening_answer(&lock_mutex(&session), true);
                joined = Some(session);
                answer
            }),
            "session/fork" => self.fork_session(params).map(|session| {
                let answer = opening_answer(&lock_mutex(&session), true);
                joined = Some(session);
                answer
            }),
            "session/load" | "session/resume" => {
                self.load_session(params, method == "session/load").map(|session| {
                    let answer = opening_answer(&lock_mutex(&session), false);
                    joined = Some(session);
                    answer
                })
            }
            "session/set_mode" => self.set_mode(params),
            "session/set_config_option" => self.set_option(params),
            "session/close" => self.close_session(params),
            "session/delete" => Ok(self.delete_session(params)),
            "session/list" => Ok(self.list_sessions(params)),
            _ => Err(wire::error_object(
                wire::METHOD_NOT_FOUND,
                format!("Method not found: {method}"),
            )),
        };
        self.send_message(&match answer {
            Ok(result) => wire::result_frame(id, result),
            Err(fault) => wire::error_frame(id, fault),
        })?;
        match joined {
            Some(session) => self.send_message(&wire::update_frame(
                &lock_mutex(&session).id,
                &commands::commands_update(),
            )),
            None => Ok(()),
        }
    }

    fn handle_notification(&self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                if let Ok(session) = self.find_session(params)
                    && let Some(running) = &lock_mutex(&session).running
                {
                    let _ = running.turn.try_send(PromptSignal::Cancel);
                }
            }
            "$/cancel_request" => {
                for session in self.sessions.values() {
                    if let Some(running) = &lock_mutex(session).running
                        && running.request == params["requestId"]
                    {
                        let _ = running.turn.try_send(PromptSignal::Withdraw);
                    }
                }
            }
            _ => {}
        }
    }

    fn signal_all(&self, signal: impl Fn() -> PromptSignal) {
        for session in self.sessions.values() {
            if let Some(running) = &lock_mutex(session).running {
                let _ = running.turn.try_send(signal());
            }
        }
    }

    fn find_session(&self, params: &Value) -> Result<SharedSession, Value> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        self.sessions.get(id).cloned().ok_or_else(|| wire::unknown_session_error(id))
    }

    fn new_session(&mut self, params: &Value) -> Result<SharedSession, Value> {
        let Some(cwd) = params["cwd"].as_str() else {
            return Err(wire::error_object(wire::INVALID_PARAMS, "Invalid params: cwd is missing"));
        };
        let session = DemoSession::create(&self.directory, cwd);
        Ok(self.add_session(session))
    }

    fn fork_session(&mut self, params: &Value) -> Result<SharedSession, Value> {
        let source = params["sessionId"].as_str().unwrap_or_default();
        let Some(cwd) = params["cwd"].as_str() else {
            return Err(wire::error_object(wire::INVALID_PARAMS, "Invalid params: cwd is missing"));
        };
        let copy = DemoSession::copy(&self.directory, source, cwd)
            .map_err(|_| wire::unknown_session_error(source))?;
        Ok(self.add_session(copy))
    }

    fn add_session(&mut self, session: DemoSession) -> SharedSession {
        let id = session.id.clone();
        let session = Arc::new(Mutex::new(session));
        self.sessions.insert(id, Arc::clone(&session));
        session
    }

    fn load_session(&mut self, params: &Value, replay: bool) -> Result<SharedSession, Value> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let session = match self.sessions.get(id) {
            Some(live) => Arc::clone(live),
            None => DemoSession::open(&self.directory, id)
                .map(|session| self.add_session(session))
                .map_err(|_| wire::unknown_session_error(id))?,
        };
        let mut state = lock_mutex(&session);
        if let Some(cwd) = params["cwd"].as_str() {
            state.cwd = cwd.to_owned();
        }
        if replay && state.replay(self.peer.output()).is_err() {
            return Err(wire::error_object(
                wire::INVALID_REQUEST,
                "the replay could not be written",
            ));
        }
        drop(state);
        Ok(session)
    }

    fn set_mode(&self, params: &Value) -> RpcResult {
        let session = self.find_session(params)?;
        let mut state = lock_mutex(&session);
        let mode = params["modeId"].as_str().unwrap_or_default();
        if !state.settings.set_mode(mode) {
            return Err(wire::error_object(
                wire::INVALID_PARAMS,
                format!("no mode called {mode:?}; there are: ask, auto"),
            ));
        }
        state.record_settings();
        let changed = json!({ "sessionUpdate": "current_mode_update", "currentModeId": state.settings.mode() });
        let _ = self.send_message(&wire::update_frame(&state.id, &changed));
        Ok(json!({}))
    }

    fn set_option(&self, params: &Value) -> RpcResult {
        let session = self.find_session(params)?;
        let mut state = lock_mutex(&session);
        let option = params["configId"].as_str();
        let value = params["value"].as_str();
        if !state.settings.set_option(option.unwrap_or_default(), value.unwrap_or_default()) {
            let message = "no such option or value; there are: pace (natural, instant, relaxed), thoughts (show, hide)";
            return Err(wire::error_object(wire::INVALID_PARAMS, message));
        }
        state.record_settings();
        let options = state.settings.config_options();
        let changed = json!({ "sessionUpdate": "config_option_update", "configOptions": options });
        let _ = self.send_message(&wire::update_frame(&state.id, &changed));
        Ok(json!({ "configOptions": options }))
    }

    fn close_session(&mut self, params: &Value) -> RpcResult {
        let session = self.find_session(params)?;
        let state = lock_mutex(&session);
        if let Some(running) = &state.running {
            let _ = running.turn.try_send(PromptSignal::Cancel);
        }
        self.sessions.remove(&state.id);
        Ok(json!({}))
    }

    /// Deletes a session with its history, whichever process created it. Deleting an unknown
    /// session succeeds.
    fn delete_session(&mut self, params: &Value) -> Value {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let _ = self.close_session(params);
        history::remove_session(&self.directory, id);
        json!({})
    }

    fn list_sessions(&self, params: &Value) -> Value {
        let wanted = params["cwd"].as_str();
        let known = history::list_ids(&self.directory)
            .into_iter()
            .filter_map(|id| DemoSession::open(&self.directory, &id).ok());
        let shown = known
            .filter(|session| wanted.is_none_or(|cwd| cwd == session.cwd))
            .take(MAX_LISTED_SESSIONS);
        let sessions: Vec<Value> = shown
            .map(|session| json!({ "sessionId": session.id, "cwd": session.cwd, "title": session.title }))
            .collect();
        json!({ "sessions": sessions })
    }

    /// Starts a turn in a thread of its own; the answer is sent when it ends.
    fn start_turn(&self, id: Value, params: &Value) -> io::Result<()> {
        let session = match self.find_session(params) {
            Ok(session) => session,
            Err(fault) => return self.send_message(&wire::error_frame(&id, fault)),
        };
        let mut state = lock_mutex(&session);
        if state.running.is_some() {
            let fault = wire::error_object(
                wire::INVALID_REQUEST,
                "a prompt is already running in this session",
            );
            return self.send_message(&wire::error_frame(&id, fault));
        }
        let turn = RunningTurn::new(&state.id, &self.peer);
        state.running = Some(DemoPrompt { request: id.clone(), turn: turn.sender() });
        state.begin_turn(&params["prompt"]);
        drop(state);
        let prompt = params["prompt"].clone();
        let text = wire::prompt_text(params);
        thread::Builder::new().name("turn".to_owned()).spawn(move || {
            let mut talk = TurnWriter::new(turn, session);
            let outcome = commands::answer_prompt(&mut talk, &text, &prompt);
            talk.answer_prompt(&id, outcome);
        })?;
        Ok(())
    }
}

fn initialize_answer() -> Value {
    json!({
        "protocolVersion": 1,
        "agentInfo": { "name": "wharf-demo", "title": "Demo agent", "version": env!("CARGO_PKG_VERSION") },
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
            "mcpCapabilities": { "http": false, "sse": false },
            "sessionCapabilities": { "list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {} },
        },
        "authMethods": [],
    })
}

fn opening_answer(session: &DemoSession, is_new: bool) -> Value {
    let mut answer = json!({ "modes": session.settings.modes_state(), "configOptions": session.settings.config_options() });
    if is_new {
        answer["sessionId"] = json!(session.id);
    }
    answer
}
