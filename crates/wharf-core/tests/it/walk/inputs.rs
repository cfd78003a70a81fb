//! Chooses the next input of a walk: mostly a possible one, sometimes an impossible one.

use bytes::Bytes;
use wharf_core::{
    AgentInput, AskId, AskKind, Attachment, CancelScope, ClientInput, Description, EndReason,
    Fault, Input, LifecycleInput, Millis, Overlap, PauseReason, PromptId, Raw, Role, Sender, Seq,
    StartFault, StartNo, Status, StorageInput, Submission, ToolCall, ToolCallState, UpdateKind,
    WakeCause,
};

use super::Walk;

fn fixed(text: &'static str) -> Raw {
    Raw::new(Bytes::from_static(text.as_bytes())).unwrap()
}

impl Walk {
    pub(super) fn next_input(&mut self) -> Input {
        // A start ends soon, or the walk would see little else.
        if self.session.state().status == Status::Starting && self.dice.one_in(3) {
            return self.news_of_start(self.session.state().start);
        }
        if self.session.state().paused.is_some() && self.dice.one_in(8) {
            return Input::Storage(StorageInput::Back);
        }
        match self.dice.below(100) {
            0..20 => self.prompt(),
            20..32 => self.agent_answered(),
            32..44 => self.agent_asked(),
            44..49 => self.agent_updated(),
            49..52 => self.stale_or_exit(),
            52..59 => self.attach(),
            59..64 => Input::Client(ClientInput::Detach { sender: self.client() }),
            64..70 => self.cancel(),
            70..79 => self.answer(),
            79..86 => self.decline(),
            86..91 => self.queue_control(),
            91 if self.dice.one_in(2) => Input::Lifecycle(LifecycleInput::Sleep {
                reason: EndReason::Memory,
                why: "full".into(),
            }),
            91..93 => Input::Lifecycle(LifecycleInput::Kill { reason: self.kill_reason() }),
            93 => Input::Lifecycle(LifecycleInput::Resume),
            94 => {
                let causes = [WakeCause::Caller, WakeCause::Queue, WakeCause::HostStart];
                Input::Lifecycle(LifecycleInput::Wake {
                    cause: causes[self.dice.below(3) as usize],
                })
            }
            95 => self.disk(),
            96 if self.dice.one_in(2) => {
                Input::Agent(AgentInput::SettingsChanged { settings: Vec::new(), are_all: false })
            }
            97 if self.dice.one_in(2) => self.describe(),
            96 => Input::Agent(AgentInput::Faulted { fault: Fault::Malformed, detail: "x".into() }),
            _ => self.time_passed(),
        }
    }

    /// Fills or frees the disk. A full disk is soon freed, or the walk would see little else.
    fn disk(&mut self) -> Input {
        match self.session.state().paused.is_some() || self.dice.one_in(4) {
            true => Input::Storage(StorageInput::Back),
            false => Input::Storage(StorageInput::Failed { why: PauseReason::StorageFull }),
        }
    }

    fn describe(&mut self) -> Input {
        let mut text = || match self.dice.below(3) {
            0 => None,
            1 => Some(None),
            _ => Some(Some(format!("t{}", self.dice.below(3)).into())),
        };
        let (title, label) = (text(), text());
        let archived = (!self.dice.one_in(3)).then(|| self.dice.one_in(2));
        Input::Client(ClientInput::Describe(Description {
            by: self.client(),
            title,
            label,
            archived,
        }))
    }

    fn client(&mut self) -> Sender {
        self.clients[self.dice.below(self.clients.len() as u64) as usize].clone()
    }

    fn frame(&mut self) -> Raw {
        fixed(["{}", r#"{"a":1.0}"#, r#"["\u00e9", 1e3 ]"#, "null"][self.dice.below(4) as usize])
    }

    fn prompt(&mut self) -> Input {
        self.prompts += 1;
        let taken = if self.dice.one_in(12) { self.ledger.guarded_prompts() } else { Vec::new() };
        let prompt = self.dice.pick(&taken).cloned();
        let prompt = prompt.unwrap_or_else(|| PromptId::new(format!("p{}", self.prompts)));
        // There are few keys, so that they repeat.
        let key = self.dice.one_in(4).then(|| format!("k{}", self.dice.below(6)).into());
        let overlap = match self.dice.below(6) {
            0 => Overlap::Refuse,
            1 => Overlap::Interrupt,
            _ => Overlap::Queue,
        };
        let (sender, frame, to_agent) = (self.client(), self.frame(), self.dice.one_in(3));
        Input::Client(ClientInput::Prompt(Submission {
            prompt,
            sender,
            frame,
            key,
            overlap,
            to_agent,
        }))
    }

    fn some_prompt(&mut self) -> PromptId {
        PromptId::new(format!("p{}", self.dice.below(self.prompts + 2)))
    }

    fn agent_answered(&mut self) -> Input {
        let held = self.ledger.held.clone();
        let prompt = if self.dice.one_in(8) { None } else { self.dice.pick(&held).cloned() };
        let prompt = prompt.unwrap_or_else(|| self.some_prompt());
        let stop_reason = (!self.dice.one_in(5)).then(|| "end_turn".into());
        Input::Agent(AgentInput::Answered {
            prompt,
            stop_reason,
            frame: self.frame(),
            stderr: None,
        })
    }

    /// Returns a request id out of a few, so that some are used again, even while they are open.
    fn agent_request(&mut self) -> Raw {
        fixed(["0", "1", "2", r#""a""#, r#""b""#][self.dice.below(5) as usize])
    }

    fn agent_asked(&mut self) -> Input {
        let agent_request = self.agent_request();
        if self.dice.one_in(8) {
            return Input::Agent(AgentInput::Withdrew { agent_request });
        }
        let kind = if self.dice.one_in(3) { AskKind::Elicitation } else { AskKind::Permission };
        let options = match kind {
            AskKind::Permission => vec!["allow".into(), "reject".into()],
            AskKind::Elicitation => Vec::new(),
        };
        Input::Agent(AgentInput::Asked {
            kind,
            agent_request,
            frame: self.frame(),
            options,
            tool_call: None,
        })
    }

    fn agent_updated(&mut self) -> Input {
        if self.dice.one_in(2) {
            return self.tool_call();
        }
        let update = match self.dice.below(4) {
            0 => UpdateKind::SessionInfoUpdate,
            1 => UpdateKind::CurrentModeUpdate,
            _ => UpdateKind::AgentMessageChunk,
        };
        let title = self.dice.one_in(4).then(|| "a \"title\"".into());
        Input::Agent(AgentInput::Updated { update, frame: self.frame(), title, tool: None })
    }

    /// Returns a tool call with an id out of a few, so that some are used again.
    fn tool_call(&mut self) -> Input {
        let opens = !self.dice.one_in(3);
        let state = if opens { ToolCallState::Open } else { ToolCallState::Closed };
        let tool = Some(ToolCall { id: format!("t{}", self.dice.below(4)).into(), state });
        let update = if opens { UpdateKind::ToolCall } else { UpdateKind::ToolCallUpdate };
        Input::Agent(AgentInput::Updated { update, frame: self.frame(), title: None, tool })
    }

    fn news_of_start(&mut self, start: StartNo) -> Input {
        let exit_code = self.dice.one_in(2).then_some(1);
        match self.dice.below(8) {
            0 => {
                let (cause, is_awaited) = (self.start_fault(), self.dice.one_in(2));
                Input::Agent(AgentInput::StartFailed {
                    start,
                    cause,
                    is_awaited,
                    exit_code,
                    message: "no".into(),
                })
            }
            1 => Input::Agent(AgentInput::Exited { start, exit_code, message: "".into() }),
            _ => {
                let agent_session = format!("agent-{start}").into();
                Input::Agent(AgentInput::Started {
                    start,
                    agent_session,
                    traits: self.traits,
                    answer: self.frame(),
                })
            }
        }
    }

    fn start_fault(&mut self) -> StartFault {
        let causes = [
            StartFault::NotInstalled,
            StartFault::LoginNeeded,
            StartFault::SessionUnknown,
            StartFault::Impossible,
            StartFault::Other,
        ];
        // The cause is mostly one that is retried.
        causes.get(self.dice.below(9) as usize).copied().unwrap_or(StartFault::Other)
    }

    fn stale_or_exit(&mut self) -> Input {
        let start = self.session.state().start;
        if self.dice.one_in(2) {
            let exit_code = self.dice.one_in(2).then_some(0);
            return Input::Agent(AgentInput::Exited { start, exit_code, message: "gone".into() });
        }
        let other = StartNo(self.dice.below(start.0 + 2));
        self.news_of_start(other)
    }

    fn attach(&mut self) -> Input {
        let role = if self.dice.one_in(6) { Role::Observer } else { Role::Controller };
        let (elicits, wake, needs_agent) =
            (self.dice.one_in(2), self.dice.one_in(2), self.dice.one_in(2));
        Input::Client(ClientInput::Attach(Attachment {
            sender: self.client(),
            role,
            elicits,
            wake,
            needs_agent,
        }))
    }

    fn cancel(&mut self) -> Input {
        let head = self.session.head().0;
        let seen = if self.dice.one_in(3) { self.dice.below(head + 1) } else { head };
        let settled = Seq(if self.dice.one_in(2) { self.dice.below(seen + 1) } else { seen });
        let (seen, clear_queue, by) = (Seq(seen), self.dice.one_in(5), self.client());
        if self.dice.one_in(8) {
            return Input::Client(ClientInput::Interrupt { by, force: self.dice.one_in(3) });
        }
        Input::Client(ClientInput::Cancel { by, scope: CancelScope { seen, settled, clear_queue } })
    }

    fn ask(&mut self) -> AskId {
        let open: Vec<_> = self.session.state().asks.keys().copied().collect();
        let open = if self.dice.one_in(5) { None } else { self.dice.pick(&open).copied() };
        open.unwrap_or_else(|| AskId(self.dice.below(self.log.len() as u64 + 3)))
    }

    fn answer(&mut self) -> Input {
        let option = match self.dice.below(8) {
            0 => None,
            1 => Some("sudo".into()),
            _ => Some("allow".into()),
        };
        Input::Client(ClientInput::Answer {
            ask: self.ask(),
            by: self.client(),
            option,
            frame: self.frame(),
        })
    }

    fn decline(&mut self) -> Input {
        Input::Client(ClientInput::Decline {
            ask: self.ask(),
            by: self.client(),
            frame: self.frame(),
        })
    }

    fn queue_control(&mut self) -> Input {
        let queued: Vec<_> =
            self.session.state().queue.iter().map(|queued| queued.prompt.clone()).collect();
        let prompt = if self.dice.one_in(6) { None } else { self.dice.pick(&queued).cloned() };
        let prompt = prompt.unwrap_or_else(|| self.some_prompt());
        let by = self.client();
        match self.dice.below(4) {
            3 => Input::Client(ClientInput::SendNow { prompt, by, steer: self.dice.one_in(3) }),
            0 => Input::Client(ClientInput::RemovePrompt { prompt, by }),
            1 => Input::Client(ClientInput::UpdatePrompt { prompt, by, frame: self.frame() }),
            _ => Input::Client(ClientInput::MovePrompt {
                prompt,
                by,
                position: self.dice.below(5) as usize,
            }),
        }
    }

    fn kill_reason(&mut self) -> EndReason {
        [EndReason::User, EndReason::Closed, EndReason::Idle, EndReason::HostShutdown]
            [self.dice.below(4) as usize]
    }

    fn time_passed(&mut self) -> Input {
        if let Some(deadline) = self.session.deadline()
            && !self.dice.one_in(4)
        {
            self.now = self.now.max(deadline);
        } else {
            self.now = self.now.after(Millis(self.dice.below(100)));
        }
        Input::TimePassed
    }
}
