//! Traffic that is no fact: requests passed on to the agent for one client, and to one client for the agent
//! (rules 3.8 to 3.10). It travels in the clients' direct lanes.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use wharf_core::{ClientId, Input, Raw, Sender};
use wharf_json::ReadError;

use super::close_signal::CloseReason;
use super::command::Command;
use super::handle::{Attendance, Direct, Forward, LaneMessage, Lanes, Serves, Taken};
use super::hear::{AgentRequest, Whom};
use super::screens::terminal_of;
use super::task::SessionTask;
use super::voice::{ForwardKind, Forwarded, error, error_with};
use crate::frame;
use crate::settings::SettingRequest;
use crate::tools::{self, Tools};

/// How long a client may take over a request of the agent that it serves alone. A person may be asked in between.
const SERVED_WITHIN: Duration = Duration::from_secs(300);

/// Links that are kept for clients that may come back, for each session. A person opens one at a time.
const MAX_KEPT_LINKS: usize = 16;
/// A larger elicitation is not kept. A link with its message has a few hundred bytes.
const MAX_LINK_BYTES: usize = 64 << 10;

/// A request of the agent that one client has been given.
#[derive(Debug)]
pub(super) struct Relay {
    client: ClientId,
    agent_request: Raw,
    /// The terminal whose output is asked for.
    output_of: Option<String>,
    /// A link that a client was asked to open, if the client can be known again on another connection.
    link: Option<OpenLink>,
}

/// A URL elicitation. It stays its client's own over reconnects (rule 12.4).
#[derive(Debug)]
struct OpenLink {
    owner: Sender,
    frame: Bytes,
}

/// The clients that can be reached, and what they have been asked for the agent.
#[derive(Debug, Default)]
pub(super) struct Relays {
    open: HashMap<u64, Relay>,
    next: u64,
    /// Who serves files and terminals: the last that created, loaded or resumed the session.
    server: Option<ClientId>,
    /// Clients that left while the agent owed them answers.
    departed: Lanes,
}

impl SessionTask {
    /// Notes a client's lane, and what it can do; `None` when it leaves.
    pub(super) fn attend(&mut self, client: ClientId, attendance: Option<Attendance>) {
        match attendance {
            Some(attendance) => {
                let served = self.relays.server.as_ref().is_some_and(|server| self.lanes.contains_key(server));
                if attendance.serves == Serves::Yes || (attendance.serves == Serves::Again && !served) {
                    self.relays.server = Some(client.clone());
                }
                self.relays.departed.remove(&client);
                self.lanes.insert(client, attendance);
            }
            // A client that could not attach anew is still there as it was.
            None if self.session.members().any(|member| member.sender.client == client) => {}
            None => {
                let left = self.lanes.remove(&client);
                if let Some(left) = left.filter(|_| self.owes(&client)) {
                    self.relays.departed.insert(client.clone(), left);
                }
                let left: Vec<(u64, bool)> = self
                    .relays
                    .open
                    .iter()
                    .filter(|(_, relay)| relay.client == client)
                    .map(|(id, relay)| (*id, relay.link.is_some()))
                    .collect();
                for (relay, is_kept) in left {
                    if is_kept {
                        self.ask_link_again(relay);
                    } else {
                        self.fail_relay(relay, "the client that served this went away");
                    }
                }
            }
        }
    }

    /// Asks a client that has just attached for the links that were open when its last connection ended.
    pub(super) fn ask_links_again(&mut self, client: &Sender) {
        let waits = |relay: &Relay| {
            !self.lanes.contains_key(&relay.client)
                && relay.link.as_ref().is_some_and(|link| link.owner.is_same_client(client))
        };
        let mut waiting: Vec<u64> =
            self.relays.open.iter().filter(|(_, relay)| waits(relay)).map(|(id, _)| *id).collect();
        waiting.sort_unstable();
        for relay in waiting {
            self.ask_link_again(relay);
        }
    }

    /// Asks for a link on another connection of its client. While there is none it waits: until the client is back, until
    /// the agent takes it back, or until its time is over.
    fn ask_link_again(&mut self, relay: u64) {
        let Some(link) = self.relays.open.get(&relay).and_then(|open| open.link.as_ref()) else { return };
        let able = |client: &ClientId| self.lanes.get(client).is_some_and(|known| known.can("elicitation/create"));
        let Some(client) = self.connection_of(&link.owner, able) else { return };
        let frame = link.frame.clone();
        if let Some(open) = self.relays.open.get_mut(&relay) {
            open.client = client.clone();
        }
        self.direct(&client, Direct::Request { relay, frame });
    }

    /// A client's request or notification for the agent.
    pub(super) fn forward(&mut self, forward: Forward, taken: Option<oneshot::Sender<Taken>>) {
        if let Some(taken) = taken {
            if !self.lanes.contains_key(&forward.client) {
                return;
            }
            if self.must_wait() {
                return self.hold_back(forward, taken);
            }
            let _ = taken.send(Taken::Now);
        }
        self.pass_on(forward);
    }

    pub(super) fn pass_on(&mut self, forward: Forward) {
        let Forward { client, frame, request } = forward;
        match (&mut self.agent, request) {
            (Some(agent), Some(request)) if agent.voice.owes_too_much() => {
                let message = "the agent has too many requests to answer; wait for some of its answers";
                let frame = error(&String::from_utf8_lossy(&request), -32603, message);
                self.direct(&client, Direct::Frame(frame));
            }
            (Some(agent), Some(request)) => match ForwardKind::of(&frame) {
                Ok(kind) => agent.speak(|voice| voice.forward(&frame, Forwarded { client, request, kind })),
                // The agent might understand it otherwise than the log would tell.
                Err(why) => {
                    let frame = error(&String::from_utf8_lossy(&request), -32602, &why.to_string());
                    self.direct(&client, Direct::Frame(frame));
                }
            },
            (Some(agent), None) => agent.speak(|voice| voice.notify(&frame)),
            (None, Some(request)) => self.tell_gone(&Forwarded { client, request, kind: ForwardKind::Other }),
            (None, None) => {}
        }
    }

    pub(super) fn cancel_forward(&mut self, client: &ClientId, request: &[u8]) {
        if self.cancel_pending(client, request) {
            return;
        }
        if let Some(agent) = &mut self.agent {
            agent.speak(|voice| voice.cancel_forward(client, request));
        }
    }

    /// The agent's answer goes to the one who asked; a setting that it agreed to is a fact before it does (rule 12.9).
    pub(super) fn answered(&mut self, to: &Forwarded, frame: Bytes, ok: bool) {
        if ok && let ForwardKind::Set { request, was_reported } = &to.kind {
            self.setting_agreed(request, *was_reported, &frame);
        }
        self.direct(&to.client, Direct::Frame(frame));
        if !self.owes(&to.client) {
            self.relays.departed.remove(&to.client);
        }
    }

    /// Does the agent owe this client an answer?
    fn owes(&self, client: &ClientId) -> bool {
        self.holds_back(client) || self.agent.as_ref().is_some_and(|agent| agent.voice.owes(client))
    }

    /// A request of the agent for one party.
    pub(super) fn requested(&mut self, request: AgentRequest) {
        if request.method == "terminal/release" {
            // Its output goes with it.
            self.tell_screens(terminal_of(&request.frame).as_deref());
        }
        match self.party(&request) {
            Some(client) => self.relay(client, request),
            None if tools::knows(&request.method) && self.tools().is_some() => self.serve(request),
            None => {
                let message = format!("{} is not available: no attached client can serve it", request.method);
                let elicitation = request.method == "elicitation/create";
                if let Some(agent) = &mut self.agent {
                    agent.speak(|voice| match elicitation {
                        true => voice.answer(
                            &request.agent_request,
                            br#"{"jsonrpc":"2.0","id":0,"result":{"action":"cancel"}}"#,
                        ),
                        false => voice.fail(&request.agent_request, -32601, &message),
                    });
                }
            }
        }
    }

    /// Who is to serve it: never more than one (rule 3.8).
    fn party(&self, request: &AgentRequest) -> Option<ClientId> {
        let server = || self.relays.server.clone();
        let able = |client: &ClientId| self.lanes.get(client).is_some_and(|known| known.can(&request.method));
        match &request.whom {
            Whom::Requester(client) => Some(client.clone()).filter(|client| self.lanes.contains_key(client)),
            Whom::Server => server().filter(able),
            // A link is for the one who prompts, and for nobody else.
            Whom::Prompter if request.method == "elicitation/create" => self.prompter(able),
            Whom::Prompter => self.prompter(able).or_else(|| server().filter(able)),
        }
    }

    /// A connection of the client whose prompt runs: the one that sent it, else another of the same client.
    fn prompter(&self, fits: impl Fn(&ClientId) -> bool) -> Option<ClientId> {
        self.connection_of(&self.session.state().turns.last()?.sender, fits)
    }

    /// A connection of this client: the same, else another.
    fn connection_of(&self, sender: &Sender, fits: impl Fn(&ClientId) -> bool) -> Option<ClientId> {
        let connections = self.session.members().filter(|member| member.sender.is_same_client(sender));
        let mut connections: Vec<_> = connections.map(|member| &member.sender.client).collect();
        connections.sort_by_key(|client| **client != sender.client);
        connections.into_iter().find(|client| fits(client)).cloned()
    }

    fn relay(&mut self, client: ClientId, request: AgentRequest) {
        self.relays.next += 1;
        let relay = self.relays.next;
        let AgentRequest { agent_request, frame, method, whom } = request;
        let output_of = if method == "terminal/output" { terminal_of(&frame) } else { None };
        let is_link = method == "elicitation/create" && matches!(whom, Whom::Prompter);
        let owner = self.session.state().turns.last().map(|turn| &turn.sender).filter(|_| is_link);
        let kept = self.relays.open.values().filter(|open| open.link.is_some()).count();
        let fits = frame.len() <= MAX_LINK_BYTES && kept < MAX_KEPT_LINKS;
        let owner = owner.filter(|owner| fits && owner.is_known_again());
        let link = owner.map(|owner| OpenLink { owner: owner.clone(), frame: frame.clone() });
        self.relays.open.insert(relay, Relay { client: client.clone(), agent_request, output_of, link });
        self.direct(&client, Direct::Request { relay, frame });
        // A command may run for hours; its client's pings tell whether it is still there.
        if method != "terminal/wait_for_exit" {
            let commands = self.self_commands.clone();
            tokio::spawn(async move {
                tokio::time::sleep(SERVED_WITHIN).await;
                let _ = commands.send(Command::RelayLate { relay }).await;
            });
        }
    }

    /// A client's response to a relayed request; only the one that was asked may answer.
    pub(super) fn relay_answered(&mut self, client: &ClientId, relay: u64, frame: &Bytes) {
        if self.relays.open.get(&relay).is_none_or(|open| open.client != *client) {
            return;
        }
        let Some(open) = self.relays.open.remove(&relay) else { return };
        if let Some(terminal) = &open.output_of {
            self.output_passed(terminal, frame);
        }
        if let Some(agent) = &mut self.agent {
            agent.speak(|voice| voice.answer(&open.agent_request, frame));
        }
    }

    pub(super) fn fail_relay(&mut self, relay: u64, why: &str) {
        let Some(open) = self.relays.open.remove(&relay) else { return };
        self.direct(&open.client, Direct::Withdraw { relay });
        if let Some(agent) = &mut self.agent {
            agent.speak(|voice| voice.fail(&open.agent_request, -32603, why));
        }
    }

    /// The agent takes back a request: a relayed one, or an ask.
    pub(super) fn withdrawn(&mut self, agent_request: Raw) {
        let found = self.relays.open.iter().find(|(_, open)| open.agent_request == agent_request).map(|(id, _)| *id);
        match found.and_then(|relay| Some((relay, self.relays.open.remove(&relay)?))) {
            Some((relay, open)) => {
                self.direct(&open.client, Direct::Withdraw { relay });
                if let Some(agent) = &mut self.agent {
                    agent.speak(|voice| voice.fail(&agent_request, -32800, "request cancelled"));
                }
            }
            None => self.input(Input::AgentWithdrew { agent_request }, None),
        }
    }

    /// A notification that is no fact.
    pub(super) fn noted(&mut self, frame: Bytes) {
        let prompter = self.prompter(|client| self.lanes.contains_key(client));
        let party = prompter.or_else(|| self.relays.server.clone());
        if let Some(client) = party {
            self.direct(&client, Direct::Frame(frame));
        }
    }

    /// The agent is gone: what it owed and what it asked for is settled with those concerned.
    pub(super) fn settle_relays(&mut self, unanswered: Vec<Forwarded>) {
        self.equip(None);
        for to in unanswered {
            self.tell_gone(&to);
        }
        self.relays.departed.clear();
        for (relay, open) in std::mem::take(&mut self.relays.open) {
            self.direct(&open.client, Direct::Withdraw { relay });
        }
    }

    fn tell_gone(&mut self, to: &Forwarded) {
        let id = String::from_utf8_lossy(&to.request);
        let frame = error(&id, -32603, "the session's agent is not running");
        self.direct(&to.client, Direct::Frame(frame));
        if !self.owes(&to.client) {
            self.relays.departed.remove(&to.client);
        }
    }

    /// Puts a message into a client's lane. One that is full is dropped, and its connection closes.
    pub(super) fn direct(&mut self, client: &ClientId, direct: Direct) {
        let Some(known) = self.lanes.get(client).or_else(|| self.relays.departed.get(client)) else { return };
        let (session, after) = (self.shared.id.clone(), self.session.head());
        let permit = direct.count(&known.lane, self.shared.tail.buffers());
        let message = permit.map(|permit| LaneMessage { session, after, direct, permit });
        if message.is_none_or(|message| known.lane.try_send(message).is_err()) {
            known.close.raise(CloseReason::Unread);
            self.lanes.remove(client);
        }
    }

    pub(super) fn tools(&self) -> Option<Tools> {
        self.shared.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives Wharf's own files and terminals to the agent that starts, and ends those of the one before.
    pub(super) fn equip(&self, tools: Option<Tools>) {
        let old = std::mem::replace(&mut *self.shared.tools.lock().unwrap_or_else(PoisonError::into_inner), tools);
        if let Some(old) = old {
            old.close();
        }
    }

    /// Wharf serves the request itself, beside the task.
    fn serve(&mut self, request: AgentRequest) {
        let Some(tools) = self.tools() else { return };
        let Some(under_way) = tools.places.request(request.frame.len()) else {
            if let Some(agent) = &mut self.agent {
                let message = "too many or too large requests are under way; wait for some of their answers";
                agent.speak(|voice| voice.fail(&request.agent_request, -32603, message));
            }
            return;
        };
        let (commands, start) = (self.self_commands.clone(), self.session.state().start);
        tokio::spawn(async move {
            let id = request.agent_request.as_str();
            let place = tools.places.answer(&request.method).await;
            let frame = match tools::answer(&tools, &request.method, &request.frame).await {
                Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into(),
                Err(failure) => error_with(id, failure.code(), &failure.to_string(), failure.data()),
            };
            let ended = if request.method == "terminal/wait_for_exit" { terminal_of(&request.frame) } else { None };
            let _ = commands.send(Command::Served { start, frame, ended, place }).await;
            drop(under_way);
        });
    }
}

impl ForwardKind {
    fn of(frame: &[u8]) -> Result<Self, ReadError> {
        let Ok(envelope) = frame::scan(frame) else { return Ok(Self::Other) };
        let request = SettingRequest::read(&envelope.method, frame)?;
        Ok(request.map_or(Self::Other, |request| Self::Set { request, was_reported: false }))
    }
}
