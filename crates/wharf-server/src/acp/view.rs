//! The ACP view of a session's events, for one client.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use tokio::time::Instant as Moment;
use wharf_acp::FrameKind;
use wharf_host::Entry;
use wharf_host::core::{
    AgentEvent, Ask, AskEvent, AskId, AskKind, AskOutcome, Event, FailureText, Member, PromptEnd,
    PromptEvent, PromptId, PromptStep, QueuedPrompt, Raw, Role, Sender, Seq, SessionEvent,
    SessionId, UpdateKind,
};
use wharf_json::{Json, Kind, rpc};

use super::capability_filter::CapabilityFilter;
use super::errors::from_end;
use super::pending_requests::{Asked, PendingRequests, Wanted, What};
use super::queue_view::QueueView;
use super::terminals;
use super::updates;

/// How one client sees one session.
#[derive(Debug)]
pub(super) struct View {
    session: SessionId,
    role: Role,
    ledger: Arc<PendingRequests>,
    /// Events up to here are history: shown as such, and asks in them are not asked again.
    history: Seq,
    turn: TurnSeen,
    /// The prompt whose turn began last, and those that have not begun: their end is not the end of
    /// a turn.
    newest: Option<PromptId>,
    waiting: BTreeSet<PromptId>,
    /// True if the client fills in forms: others are not asked to.
    forms: bool,
    /// True if the client wants the updates that tell of other clients.
    multi: bool,
    pub(super) event_ids: bool,
    /// Adds frames of another protocol. Such a client is also told of its own turns, of what others
    /// did in the past, and of asks by their numbers.
    extension: Option<Box<dyn ViewExtension>>,
    pub(super) understood: CapabilityFilter,
    /// The asks that are open as far as this view goes.
    asks: BTreeMap<AskId, Ask>,
    queue: QueueView,
}

/// Frames of another protocol that go out beside those of ACP.
pub(super) trait ViewExtension: fmt::Debug + Send + Sync {
    /// Returns the frames for an event, all but a turn's start: that needs the prompt.
    fn show_event(&mut self, entry: &Entry, before: Before) -> Vec<Bytes>;

    /// Returns the frames for a turn that begins; its sender gets them too.
    fn start_turn(
        &mut self,
        entry: &Entry,
        prompt: &Raw,
        sender: &Sender,
        live: bool,
    ) -> Vec<Bytes>;

    /// Returns the frames for a client that came or went.
    fn tell_presence(&self, member: &Member, connected: bool) -> Vec<Bytes>;
}

/// The state of the session before an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// A turn was running, or prompts were waiting.
    pub(super) busy: bool,
    /// The event's prompt was waiting.
    pub(super) waited: bool,
    /// The event is news to the client, not history.
    pub(super) live: bool,
}

/// The client's knowledge of the turn that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnSeen {
    None,
    Own,
    Other,
}

/// How a client wants to see a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wishes {
    pub(super) role: Role,
    pub(super) multi: bool,
    pub(super) event_ids: bool,
    pub(super) forms: bool,
    pub(super) understood: CapabilityFilter,
}

/// The frames that an event comes to.
#[derive(Debug)]
pub(super) enum Shown {
    Nothing,
    Frame(Bytes),
    Frames(Vec<Bytes>),
    /// A prompt of another client (or of the past) begins; its frame is in the event `content`.
    Prompt {
        content: Seq,
    },
}

impl Shown {
    /// Adds frames that go out before it.
    fn after(self, mut frames: Vec<Bytes>) -> Self {
        match self {
            shown if frames.is_empty() => shown,
            Self::Nothing => Self::Frames(frames),
            Self::Frame(frame) => {
                frames.push(frame);
                Self::Frames(frames)
            }
            Self::Frames(more) => {
                frames.extend(more);
                Self::Frames(frames)
            }
            // A turn's start has no frame of its own until its prompt has been read.
            Self::Prompt { content } => Self::Prompt { content },
        }
    }
}

impl View {
    pub(super) fn new(
        session: SessionId,
        wishes: Wishes,
        ledger: Arc<PendingRequests>,
        history: Seq,
        turn: TurnSeen,
    ) -> Self {
        let Wishes { role, multi, event_ids, forms, understood } = wishes;
        let newest = None;
        let waiting = BTreeSet::new();
        let asks = BTreeMap::new();
        let extension = None;
        let queue = QueueView::default();
        Self {
            session,
            role,
            ledger,
            history,
            turn,
            newest,
            waiting,
            forms,
            multi,
            event_ids,
            extension,
            understood,
            asks,
            queue,
        }
    }

    /// Adds the prompts that waited when the client came.
    pub(super) fn with_queue(mut self, queued: &[QueuedPrompt], upto: Seq) -> Self {
        self.waiting.extend(queued.iter().map(|queued| queued.prompt.clone()));
        self.queue = QueueView::new(queued, upto);
        self
    }

    /// Returns when to send the client an update of the queue; `None` if it wants no updates or
    /// knows the queue as it is.
    pub(super) fn queue_due(&self, now: Moment) -> Option<Moment> {
        self.queue.due(now).filter(|_| self.multi)
    }

    /// The update that tells of the queue, if it is time for one.
    pub(super) fn take_queue_update(&mut self, now: Moment) -> Option<Bytes> {
        self.queue.take_update(&self.session, now).filter(|_| self.multi)
    }

    /// Adds another protocol's frames. The client also sees the actions of the others, as if it had
    /// attached.
    pub(super) fn extend(&mut self, extension: Box<dyn ViewExtension>) {
        (self.multi, self.extension) = (true, Some(extension));
    }

    /// Returns true if the host shows the client its own turns too.
    pub(super) const fn hears_own_turns(&self) -> bool {
        self.extension.is_some()
    }

    /// Returns true if the host shows the client the actions of others, live or from the past.
    fn tells(&self, live: bool) -> bool {
        self.multi && (live || self.extension.is_some())
    }

    /// Returns the extension's frames for a turn that begins.
    pub(super) fn turn_started(
        &mut self,
        entry: &Entry,
        prompt: &Raw,
        sender: &Sender,
    ) -> Vec<Bytes> {
        let live = self.is_live(entry.seq);
        self.extension
            .as_mut()
            .map(|extension| extension.start_turn(entry, prompt, sender, live))
            .unwrap_or_default()
    }

    /// Tells of a client that came or went.
    pub(super) fn presence(&self, member: &Member, connected: bool) -> Vec<Bytes> {
        let update = self.multi.then(|| updates::presence(&self.session, member, connected));
        let beside = self
            .extension
            .as_ref()
            .map(|extension| extension.tell_presence(member, connected))
            .unwrap_or_default();
        beside.into_iter().chain(update).collect()
    }

    /// Shows the session from now on as the other view would.
    pub(super) fn take_wishes(&mut self, other: &Self) {
        (self.role, self.forms, self.multi) =
            (other.role, other.forms, other.multi || self.extension.is_some());
        (self.event_ids, self.understood) = (other.event_ids, other.understood);
    }

    /// Events up to here are history too.
    pub(super) fn pass_as_history(&mut self, seq: Seq) {
        self.history = self.history.max(seq);
    }

    /// The last event that is history.
    pub(super) fn history(&self) -> Seq {
        self.history
    }

    /// Returns true if the ask is open as far as this view goes.
    pub(super) fn knows_open(&self, ask: &Ask) -> bool {
        self.asks.contains_key(&ask.id)
    }

    /// Returns true if prompts of this client have not been answered.
    pub(super) fn owes(&self) -> bool {
        self.ledger.owes_in(&self.session)
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns true if this event is news to the client, and not history.
    pub(super) fn is_live(&self, at: Seq) -> bool {
        at > self.history
    }

    /// Returns the frame of an event that is shown in the same way at any time: the log alone can
    /// give it again.
    pub(super) fn plain(entry: &Entry, understood: CapabilityFilter) -> Option<Bytes> {
        if let Event::Agent(AgentEvent::Updated { update, frame, .. }) = &entry.event
            && Self::is_plain(entry)
        {
            return understood.update(*update, frame.bytes());
        }
        None
    }

    /// Returns true if the event is shown in the same way at any time.
    pub(super) fn is_plain(entry: &Entry) -> bool {
        matches!(&entry.event, Event::Agent(AgentEvent::Updated { update, frame, .. })
            if *update != UpdateKind::UserMessageChunk && !terminals::may_show(*update, frame.bytes()))
    }

    /// Returns a tool call with the terminals that this client has made; others are text.
    fn with_own_terminals(&self, frame: &Bytes) -> Option<Bytes> {
        terminals::for_client(frame, |terminal| self.ledger.made_terminal(&self.session, terminal))
    }

    /// Returns the responses to this client's requests for a prompt, once.
    pub(super) fn answers(
        &self,
        prompt: &PromptId,
        end: &PromptEnd,
        failure: Option<&str>,
    ) -> Vec<Bytes> {
        let requests = self.ledger.settle(prompt);
        requests
            .iter()
            .map(|request| response(end, failure, request, self.session.as_str()))
            .collect()
    }

    /// Returns the responses to all prompts that have not been answered, for a session that is
    /// gone.
    pub(super) fn answer_all(&self) -> Vec<Bytes> {
        let owed = self.ledger.owed(&self.session).into_iter();
        owed.flat_map(|prompt| self.answers(&prompt, &PromptEnd::SessionEnded, None))
            .collect()
    }

    /// Returns the frames for an event, if this client is to see it.
    pub(super) fn show(&mut self, entry: &Entry) -> Shown {
        let busy = self.turn != TurnSeen::None || !self.waiting.is_empty();
        let waited = if let Event::Prompt(PromptEvent::Ended { prompt, .. }) = &entry.event {
            self.waiting.contains(prompt)
        } else {
            false
        };
        let before = Before { busy, waited, live: self.is_live(entry.seq) };
        let beside = self
            .extension
            .as_mut()
            .map(|extension| extension.show_event(entry, before))
            .unwrap_or_default();
        self.show_acp(entry).after(beside)
    }

    fn show_acp(&mut self, entry: &Entry) -> Shown {
        self.queue.apply(entry);
        let live = entry.seq > self.history;
        if let Some((update, frame)) = entry.event.agent_update() {
            return self.show_update(update, frame, live);
        }
        if let Some((prompt, step)) = entry.event.prompt_step() {
            return self.show_step(
                prompt,
                step,
                entry.event.prompt_failure().map(AsRef::as_ref),
                live,
            );
        }
        if let Event::Session(SessionEvent::Renamed { title, .. }) = &entry.event {
            let body = serde_json::json!({ "title": title });
            return Shown::Frame(updates::update(&self.session, "session_info_update", body));
        }
        let Event::Ask(event) = &entry.event else { return Shown::Nothing };
        match event {
            AskEvent::Opened(ask) => {
                self.asks.insert(ask.id, ask.clone());
                if live {
                    self.ask(ask).map_or(Shown::Nothing, Shown::Frame)
                } else {
                    Shown::Nothing
                }
            }
            AskEvent::Resolved { ask, outcome, by } => {
                self.resolved(*ask, outcome, by.as_ref(), live)
            }
        }
    }

    fn show_update(&mut self, update: UpdateKind, frame: &Raw, live: bool) -> Shown {
        if update == UpdateKind::UserMessageChunk {
            return self.echo(frame, live);
        }
        let frame = if terminals::may_show(update, frame.bytes()) {
            self.with_own_terminals(frame.bytes())
        } else {
            self.understood.update(update, frame.bytes())
        };
        frame.map_or(Shown::Nothing, Shown::Frame)
    }

    fn show_step(
        &mut self,
        prompt: &PromptId,
        step: PromptStep<'_>,
        failure: Option<&str>,
        live: bool,
    ) -> Shown {
        match step {
            PromptStep::TurnStarted { content } => {
                let own = live && self.ledger.owes(prompt);
                self.turn = if own { TurnSeen::Own } else { TurnSeen::Other };
                self.waiting.remove(prompt);
                self.newest = Some(prompt.clone());
                if own && self.extension.is_none() {
                    Shown::Nothing
                } else {
                    Shown::Prompt { content }
                }
            }
            PromptStep::Ended(end) => self.ended(prompt, end, failure, live),
            PromptStep::Accepted => {
                self.waiting.insert(prompt.clone());
                Shown::Nothing
            }
            PromptStep::Requeued => {
                self.waiting.insert(prompt.clone());
                self.turn = TurnSeen::None;
                Shown::Nothing
            }
        }
    }

    fn ended(
        &mut self,
        prompt: &PromptId,
        end: &PromptEnd,
        failure: Option<&str>,
        live: bool,
    ) -> Shown {
        let never_ran = self.waiting.remove(prompt);
        if !never_ran && self.newest.as_ref().is_none_or(|newest| newest == prompt) {
            self.turn = TurnSeen::None;
        }
        let answers = self.answers(prompt, end, failure);
        let is_told = self.tells(live) && (answers.is_empty() || self.extension.is_some());
        let told = (is_told && !never_ran).then(|| updates::turn_complete(&self.session, end));
        Shown::Frames(told.into_iter().chain(answers).collect())
    }

    fn resolved(
        &mut self,
        ask: AskId,
        outcome: &AskOutcome,
        by: Option<&Sender>,
        live: bool,
    ) -> Shown {
        let known = self.asks.remove(&ask);
        let copies = self.ledger.withdraw(&self.session, What::Ask(ask));
        let mut frames: Vec<Bytes> = copies.into_iter().map(rpc::cancel_request).collect();
        if self.tells(live)
            && let Some(ask) = known
        {
            let request = self.extension.is_some().then_some(ask.id);
            frames.push(updates::ask_resolved(&self.session, &ask, outcome, by, request));
        }
        Shown::Frames(frames)
    }

    /// Returns the request for an open ask, with an id of this connection. A client that cannot
    /// answer is not asked.
    pub(super) fn ask(&mut self, ask: &Ask) -> Option<Bytes> {
        self.asks.insert(ask.id, ask.clone());
        let able = match ask.kind {
            AskKind::Permission => true,
            AskKind::Elicitation => self.forms,
        };
        if self.role == Role::Observer || !able {
            return None;
        }
        let frame = self.with_own_terminals(ask.frame.bytes());
        self.request(frame.as_ref().unwrap_or(ask.frame.bytes()), What::Ask(ask.id))
    }

    /// Returns a request to this client under an id of the connection.
    pub(super) fn request(&self, request: &Bytes, what: What) -> Option<Bytes> {
        let envelope = wharf_acp::scan(request).ok()?;
        let asked = Asked {
            session: self.session.clone(),
            what,
            wanted: Wanted::by(&envelope.method),
        };
        let id = match what {
            // The number that the extension's frames speak of, the same for every client.
            What::Ask(ask) if self.extension.is_some() => self.ledger.ask_as(ask.0, asked),
            What::Ask(_) | What::Relay(_) => self.ledger.ask(asked),
        };
        Some(wharf_acp::with_id(request, &envelope, id.to_string().as_bytes()))
    }

    /// Takes back a request that was given to this client alone.
    pub(super) fn withdraw(&self, relay: u64) -> Option<Bytes> {
        self.ledger
            .withdraw(&self.session, What::Relay(relay))
            .pop()
            .map(rpc::cancel_request)
    }

    /// Returns a message of the agent for this client alone, as the client is to see it. If it
    /// answers a request that was passed on, that request is settled.
    pub(super) fn passed(&self, frame: Bytes) -> Bytes {
        if let Ok(envelope) = wharf_acp::scan(&frame)
            && let (FrameKind::Result | FrameKind::Error, Some(id)) = (envelope.kind, envelope.id)
            && let Some(forward) = self.ledger.settle_forward(&frame[id])
        {
            if let Some(login) = forward.login.filter(|_| envelope.kind == FrameKind::Result) {
                self.ledger.add_login(login);
            }
            if forward.tells_options {
                return self.understood.answer(&frame);
            }
        }
        frame
    }

    /// Shows a prompt that another client sent, or that was sent in the past.
    pub(super) fn prompt(&self, prompt: &Raw, sender: &Sender, at: Seq) -> Vec<Bytes> {
        if self.tells(at > self.history) {
            vec![updates::prompt_received(&self.session, prompt, sender)]
        } else {
            user_message(&self.session, prompt)
        }
    }

    /// The agent's echo of a running prompt is for its sender only and no part of the history: the
    /// prompt itself is shown instead (rule 4.5). Outside a turn it is news like any other.
    fn echo(&self, frame: &Raw, live: bool) -> Shown {
        match self.turn {
            TurnSeen::Own if live => Shown::Frame(frame.bytes().clone()),
            TurnSeen::None => Shown::Frame(frame.bytes().clone()),
            TurnSeen::Own | TurnSeen::Other => Shown::Nothing,
        }
    }
}

/// Returns the response to the prompt's own request.
pub(super) fn response(
    end: &PromptEnd,
    failure: Option<&str>,
    request: &[u8],
    session: &str,
) -> Bytes {
    if let PromptEnd::Answered { frame, .. } | PromptEnd::Failed { frame } = end {
        let stderr = FailureText::parse(failure.unwrap_or_default()).stderr;
        let frame = if stderr.is_empty() {
            frame.bytes().clone()
        } else {
            with_stderr(frame.bytes(), stderr)
        };
        if let Ok(envelope) = wharf_acp::scan(&frame) {
            return wharf_acp::with_id(&frame, &envelope, request);
        }
    }
    match from_end(end, failure, session) {
        Some(error) => error.frame(request),
        None => rpc::response(request, r#"{"stopReason":"cancelled"}"#),
    }
}

/// Returns an error of the agent with the end of its stderr in `error.data.stderr`. Data of the
/// agent's own that is not an object, or that has such a member, stays as it is.
fn with_stderr(frame: &Bytes, stderr: &str) -> Bytes {
    let Ok(answer) = Json::parse(frame) else { return frame.clone() };
    let data = answer.at(&["error", "data"]).ok().flatten();
    let is_free = data.is_none_or(|data| {
        data.kind() == Kind::Null || (data.is_object() && matches!(data.member("stderr"), Ok(None)))
    });
    let stderr = serde_json::Value::from(stderr).to_string();
    let set = is_free
        .then(|| wharf_json::set(answer, &["error", "data", "stderr"], &stderr).ok())
        .flatten();
    set.map_or_else(|| frame.clone(), Into::into)
}

#[derive(Deserialize)]
struct PromptRequest<'a> {
    #[serde(borrow)]
    params: PromptParams<'a>,
}

#[derive(Deserialize)]
struct PromptParams<'a> {
    #[serde(borrow)]
    prompt: Vec<Json<'a>>,
}

/// Returns a prompt as the standard updates that show a user's message, one per content block.
fn user_message(session: &SessionId, prompt: &Raw) -> Vec<Bytes> {
    let request = match wharf_acp::peek::<PromptRequest<'_>>(prompt.bytes()) {
        Ok(request) => request,
        Err(error) => {
            tracing::error!(%error, "a prompt in the log cannot be shown");
            return Vec::new();
        }
    };
    request
        .params
        .prompt
        .iter()
        .map(|block| wharf_acp::user_message_chunk(session.as_str(), block.raw()))
        .collect()
}
