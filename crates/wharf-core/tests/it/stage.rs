//! A session with its log, for scenarios.

use wharf_core::{
    AgentInput, AgentTraits, AskId, AskKind, Attachment, CancelScope, ClientInput, Effect,
    EndReason, Epoch, Event, EventId, ForkSource, Input, LifecycleInput, Millis, NewSession,
    Origin, Overlap, PromptId, Raw, Refusal, Reply, Role, Sender, Seq, Session, SessionId,
    Settings, StartFault, StartNo, Step, Submission,
};

pub(crate) struct Stage {
    pub(crate) session: Session,
    pub(crate) settings: Settings,
    pub(crate) log: Vec<(Seq, Millis, Event)>,
    pub(crate) now: Millis,
    pub(crate) first: Step,
}

pub(crate) const RESUMES: AgentTraits = AgentTraits {
    load: false,
    resume: true,
    close: false,
    delete: false,
    queues: false,
    ready: false,
    fork: false,
    accepts: None,
    usage: None,
};
pub(crate) const QUEUES: AgentTraits = AgentTraits {
    load: false,
    resume: false,
    close: false,
    delete: false,
    queues: true,
    ready: false,
    fork: false,
    accepts: None,
    usage: None,
};

impl Stage {
    /// Creates a session whose agent is starting.
    pub(crate) fn starting(settings: Settings) -> Self {
        Self::starting_new(NewSession::new(origin(), settings))
    }

    pub(crate) fn starting_new(new: NewSession) -> Self {
        let (settings, now) = (new.settings.clone(), Millis(1_000));
        let (session, first) = Session::create(new, now);
        let mut stage = Self {
            session,
            settings,
            log: Vec::new(),
            now,
            first: Step::default(),
        };
        stage.keep(&first);
        stage.first = first;
        stage
    }

    /// Creates a session whose agent runs and cannot come back.
    pub(crate) fn running() -> Self {
        Self::running_with(Settings::default(), AgentTraits::default())
    }

    pub(crate) fn running_with(settings: Settings, traits: AgentTraits) -> Self {
        let mut stage = Self::starting(settings);
        stage.give(started(1, traits));
        stage
    }

    /// Handles the input a millisecond later and checks that a restore from the log equals the
    /// session.
    pub(crate) fn give(&mut self, input: Input) -> Step {
        self.now.0 += 1;
        let step = self.session.handle(input, self.now);
        self.keep(&step);
        assert_eq!(
            *self.session.state(),
            *self.restored().state(),
            "live and restored state differ"
        );
        step
    }

    pub(crate) fn wait(&mut self, wait: u64) -> Step {
        self.now.0 += wait;
        self.give(Input::TimePassed)
    }

    /// Lets the host die and restores the session.
    pub(crate) fn restart_host(&mut self) -> Step {
        self.session = self.restored();
        self.give(Input::Lifecycle(LifecycleInput::HostRestarted))
    }

    /// Lets the host die, and another one take over the running agent.
    pub(crate) fn adopt_agent(&mut self) -> Step {
        self.session = self.restored();
        self.give(Input::Lifecycle(LifecycleInput::AgentAdopted {
            is_idle: false,
            has_ended: false,
        }))
    }

    /// Lets the host die, and another one take in the output of the agent, which has ended
    /// meanwhile.
    pub(crate) fn adopt_ended_agent(&mut self) -> Step {
        self.session = self.restored();
        self.give(Input::Lifecycle(LifecycleInput::AgentAdopted {
            is_idle: false,
            has_ended: true,
        }))
    }

    pub(crate) fn restored(&self) -> Session {
        Session::restore(self.settings.clone(), self.log.clone()).unwrap()
    }

    fn keep(&mut self, step: &Step) {
        for event in &step.events {
            self.log.push((Seq(self.log.len() as u64 + 1), self.now, event.clone()));
        }
        assert_eq!(self.session.head(), Seq(self.log.len() as u64));
    }

    /// Submits `prompt`, whose turn starts at once.
    pub(crate) fn prompt(&mut self, prompt: &str, client: &str) -> Step {
        self.give(submit(prompt, client, Overlap::Queue))
    }

    pub(crate) fn attach(&mut self, client: &str) -> Step {
        self.give(attach(client, Role::Controller, true))
    }

    /// Lets the agent ask for permission and returns the ask's id.
    pub(crate) fn ask(&mut self, request: &str) -> AskId {
        self.give(asked(AskKind::Permission, request));
        *self.session.state().asks.last_key_value().unwrap().0
    }

    pub(crate) fn cancel(&mut self, client: &str) -> Step {
        let seen = self.session.head();
        self.give(Input::Client(ClientInput::Cancel {
            by: sender(client),
            scope: CancelScope { seen, settled: seen, clear_queue: false },
        }))
    }

    pub(crate) fn kill(&mut self, reason: EndReason) -> Step {
        self.give(Input::Lifecycle(LifecycleInput::Kill { reason }))
    }

    pub(crate) fn queue(&self) -> Vec<&str> {
        self.session.state().queue.iter().map(|queued| queued.prompt.as_str()).collect()
    }

    pub(crate) fn turns(&self) -> Vec<&str> {
        self.session.state().turns.iter().map(|turn| turn.prompt.as_str()).collect()
    }
}

pub(crate) fn origin() -> Origin {
    Origin {
        session: SessionId::new("sess_1"),
        adapter: "demo".into(),
        workspace: "default".into(),
        cwd: "/home/ann/code".into(),
        label: None,
        name: None,
        by: None,
        key: None,
        lineage: Vec::new(),
        forked_from: None,
        is_scope_lost: false,
    }
}

pub(crate) fn fork_source() -> ForkSource {
    let event = EventId { epoch: Epoch(3), seq: Seq(45) };
    ForkSource {
        session: SessionId::new("sess_0"),
        event,
        agent_session: "source".into(),
    }
}

pub(crate) fn raw(text: &str) -> Raw {
    Raw::new(text.to_owned()).unwrap()
}

pub(crate) fn sender(client: &str) -> Sender {
    Sender {
        client: wharf_core::ClientId::new(client),
        chosen: None,
        name: None,
        version: None,
        token: None,
        parent: None,
        peer: None,
    }
}

pub(crate) fn id(prompt: &str) -> PromptId {
    PromptId::new(prompt)
}

pub(crate) fn prompt_frame(prompt: &str) -> Raw {
    raw(&format!(r#"{{"id":1,"method":"session/prompt","params":{{"prompt":["{prompt}"]}}}}"#))
}

pub(crate) fn submission(prompt: &str, client: &str, overlap: Overlap) -> Submission {
    let (frame, sender) = (prompt_frame(prompt), sender(client));
    Submission {
        prompt: id(prompt),
        sender,
        frame,
        key: None,
        overlap,
        to_agent: false,
    }
}

pub(crate) fn submit(prompt: &str, client: &str, overlap: Overlap) -> Input {
    Input::Client(ClientInput::Prompt(submission(prompt, client, overlap)))
}

/// Returns a prompt with a key, whose content depends on the key.
pub(crate) fn keyed(prompt: &str, client: &str, key: &str) -> Input {
    let (frame, key) = (prompt_frame(key), Some(key.into()));
    Input::Client(ClientInput::Prompt(Submission {
        key,
        frame,
        ..submission(prompt, client, Overlap::Queue)
    }))
}

pub(crate) fn to_agent(prompt: &str, client: &str) -> Input {
    Input::Client(ClientInput::Prompt(Submission {
        to_agent: true,
        ..submission(prompt, client, Overlap::Queue)
    }))
}

pub(crate) fn attach(client: &str, role: Role, elicits: bool) -> Input {
    Input::Client(ClientInput::Attach(Attachment {
        sender: sender(client),
        role,
        elicits,
        wake: false,
        needs_agent: false,
    }))
}

pub(crate) fn wake(client: &str, role: Role) -> Input {
    Input::Client(ClientInput::Attach(Attachment {
        sender: sender(client),
        role,
        elicits: false,
        wake: true,
        needs_agent: false,
    }))
}

/// Returns an attachment that needs the agent, as `session/resume` and `session/attach` make it.
pub(crate) fn come_for_agent(client: &str, role: Role) -> Input {
    Input::Client(ClientInput::Attach(Attachment {
        sender: sender(client),
        role,
        elicits: false,
        wake: true,
        needs_agent: true,
    }))
}

pub(crate) fn detach(client: &str) -> Input {
    Input::Client(ClientInput::Detach { sender: sender(client) })
}

pub(crate) fn started(start: u64, traits: AgentTraits) -> Input {
    Input::Agent(AgentInput::Started {
        start: StartNo(start),
        agent_session: format!("agent-{start}").into(),
        traits,
        answer: raw(r#"{"sessionId":"agent-1"}"#),
    })
}

pub(crate) fn start_failed(start: u64) -> Input {
    start_failed_by(start, StartFault::Other)
}

pub(crate) fn start_failed_by(start: u64, cause: StartFault) -> Input {
    let (exit_code, message) = (Some(127), "not found".into());
    Input::Agent(AgentInput::StartFailed {
        start: StartNo(start),
        cause,
        is_awaited: false,
        exit_code,
        message,
    })
}

/// The failure of a start that the session's creator waits for.
pub(crate) fn awaited_start_failed(start: u64) -> Input {
    let (cause, exit_code, message) = (StartFault::Other, Some(127), "not found".into());
    Input::Agent(AgentInput::StartFailed {
        start: StartNo(start),
        cause,
        is_awaited: true,
        exit_code,
        message,
    })
}

pub(crate) fn exited(start: u64, exit_code: Option<i32>) -> Input {
    Input::Agent(AgentInput::Exited { start: StartNo(start), exit_code, message: "bye".into() })
}

pub(crate) fn answered(prompt: &str) -> Input {
    Input::Agent(AgentInput::Answered {
        prompt: id(prompt),
        stop_reason: Some("end_turn".into()),
        frame: answer_frame(),
        stderr: None,
    })
}

pub(crate) fn answer_frame() -> Raw {
    raw(r#"{"id":7,"result":{"stopReason":"end_turn"}}"#)
}

pub(crate) fn asked(kind: AskKind, request: &str) -> Input {
    let options = match kind {
        AskKind::Permission => vec!["allow".into(), "reject".into()],
        AskKind::Elicitation => Vec::new(),
    };
    let frame = raw(&format!(r#"{{"id":{request},"method":"ask"}}"#));
    Input::Agent(AgentInput::Asked {
        kind,
        agent_request: raw(request),
        frame,
        options,
        tool_call: None,
    })
}

pub(crate) fn pick(ask: AskId, client: &str, option: &str) -> Input {
    Input::Client(ClientInput::Answer {
        ask,
        by: sender(client),
        option: Some(option.into()),
        frame: pick_frame(option),
    })
}

pub(crate) fn pick_frame(option: &str) -> Raw {
    raw(&format!(
        r#"{{"id":3,"result":{{"outcome":{{"outcome":"selected","optionId":"{option}"}}}}}}"#
    ))
}

pub(crate) fn decline(ask: AskId, client: &str) -> Input {
    Input::Client(ClientInput::Decline { ask, by: sender(client), frame: decline_frame(client) })
}

pub(crate) fn decline_frame(client: &str) -> Raw {
    raw(&format!(r#"{{"id":3,"error":{{"code":-32000,"message":"{client} declines"}}}}"#))
}

/// Returns the events and effects of a step.
pub(crate) fn outcome(step: &Step) -> (Vec<Event>, Vec<Effect>) {
    (step.events.clone(), step.effects.clone())
}

#[track_caller]
pub(crate) fn assert_nothing(step: &Step) {
    assert_eq!(outcome(step), (Vec::new(), Vec::new()));
}

#[track_caller]
pub(crate) fn assert_refused(step: &Step, expected: &Refusal) {
    let Reply::Refused(refusal) = &step.reply else { panic!("not refused: {:?}", step.reply) };
    assert_eq!(refusal, expected);
    assert_nothing(step);
}
