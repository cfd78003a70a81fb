//! Encodes events.

use serde::Serialize;

use crate::{
    AgentEvent, Ask, AskEvent, AskOutcome, Event, Millis, PromptEnd, PromptEvent, Raw,
    SessionEvent, StorageEvent, ToolCall, UpdateKind,
};

/// Appends the event as one JSON object in one line, without a line break at its end.
pub fn encode(event: &Event, at: Millis, out: &mut Vec<u8>) {
    match event {
        Event::Session(event) => encode_session_event(event, at, out),
        Event::Agent(event) => encode_agent_event(event, at, out),
        Event::Prompt(event) => encode_prompt_event(event, at, out),
        Event::Ask(event) => encode_ask_event(event, at, out),
        Event::Storage(event) => encode_storage_event(event, at, out),
        // The content of an unknown event is unknown, so it is kept unchanged with its time.
        Event::Unknown { body, .. } => out.extend_from_slice(body.bytes()),
        // It is shown to readers of the log and never appended.
        Event::Lost(lost) => encode_as("lost", at, out, |o| {
            o.value("first", &lost.first);
            o.value("why", &lost.why);
        }),
    }
}

fn encode_session_event(event: &SessionEvent, at: Millis, out: &mut Vec<u8>) {
    match event {
        SessionEvent::Created(origin) => {
            encode_as("created", at, out, |o| o.value("origin", origin))
        }
        SessionEvent::Ended(ending) => encode_as("ended", at, out, |o| o.value("ending", ending)),
        SessionEvent::Renamed { title, by } => encode_as("renamed", at, out, |o| {
            o.optional("title", title.as_ref());
            o.optional("by", by.as_ref());
        }),
        SessionEvent::Labelled { label, by } => encode_as("labelled", at, out, |o| {
            o.optional("label", label.as_ref());
            o.optional("by", by.as_ref());
        }),
        SessionEvent::Archived { archived, by } => encode_as("archived", at, out, |o| {
            o.value("archived", archived);
            o.optional("by", by.as_ref());
        }),
    }
}

fn encode_agent_event(event: &AgentEvent, at: Millis, out: &mut Vec<u8>) {
    match event {
        AgentEvent::Updated { update, frame, title, tool } => {
            encode_update(*update, frame, title.as_deref(), tool.as_ref(), at, out);
        }
        AgentEvent::Starting { start, how } => encode_as("agent_starting", at, out, |o| {
            o.value("start", start);
            o.value("how", how);
        }),
        AgentEvent::Started { start, agent_session, traits, answer } => {
            encode_as("agent_started", at, out, |o| {
                o.value("start", start);
                o.value("agent_session", agent_session);
                o.value("traits", traits);
                o.raw("answer", answer);
            })
        }
        AgentEvent::StartFailed { start, exit_code, message, retry_in } => {
            encode_as("start_failed", at, out, |o| {
                o.value("start", start);
                o.optional("exit_code", exit_code.as_ref());
                o.optional("message", message.as_ref());
                o.value("retry_in", retry_in);
            })
        }
        AgentEvent::SettingsChanged { settings, are_all } => {
            encode_as("settings_changed", at, out, |o| {
                o.value("settings", settings);
                o.optional("are_all", are_all.then_some(&true));
            })
        }
        AgentEvent::Faulted { fault, detail } => encode_as("agent_faulted", at, out, |o| {
            o.value("fault", fault);
            o.value("detail", detail);
        }),
    }
}

fn encode_prompt_event(event: &PromptEvent, at: Millis, out: &mut Vec<u8>) {
    match event {
        PromptEvent::Accepted { prompt, sender, frame, key, first } => {
            encode_as("prompt_accepted", at, out, |o| {
                o.value("prompt", prompt);
                o.value("sender", sender);
                o.optional("key", key.as_ref());
                if *first {
                    o.value("first", first);
                }
                o.raw("frame", frame);
            })
        }
        PromptEvent::Updated { prompt, by, frame, sender } => {
            encode_as("prompt_updated", at, out, |o| {
                o.value("prompt", prompt);
                o.value("by", by);
                o.optional("sender", sender.as_ref());
                o.raw("frame", frame);
            })
        }
        PromptEvent::Moved { prompt, by, position } => encode_as("prompt_moved", at, out, |o| {
            o.value("prompt", prompt);
            o.value("by", by);
            o.value("position", position);
        }),
        PromptEvent::TurnStarted { prompt, content } => encode_as("turn_started", at, out, |o| {
            o.value("prompt", prompt);
            o.value("content", content);
        }),
        PromptEvent::CancelRequested { prompt, by, limit, reason } => {
            encode_as("cancel_requested", at, out, |o| {
                o.value("prompt", prompt);
                o.optional("by", by.as_ref());
                o.optional("limit", limit.as_ref());
                o.optional("reason", reason.as_ref());
            })
        }
        PromptEvent::Ended { prompt, end, failure } => encode_as("prompt_ended", at, out, |o| {
            o.value("prompt", prompt);
            o.object("end", |o| end_members(end, o));
            if let Some(failure) = failure {
                o.value("failure", failure);
            }
        }),
        PromptEvent::Requeued { prompt } => {
            encode_as("prompt_requeued", at, out, |o| o.value("prompt", prompt))
        }
    }
}

fn encode_ask_event(event: &AskEvent, at: Millis, out: &mut Vec<u8>) {
    match event {
        AskEvent::Opened(ask) => {
            encode_as("ask_opened", at, out, |o| o.object("ask", |o| ask_members(ask, o)))
        }
        AskEvent::Resolved { ask, outcome, by } => encode_as("ask_resolved", at, out, |o| {
            o.value("ask", ask);
            o.optional("by", by.as_ref());
            o.object("outcome", |o| outcome_members(outcome, o));
        }),
    }
}

fn encode_storage_event(event: &StorageEvent, at: Millis, out: &mut Vec<u8>) {
    match event {
        StorageEvent::Paused { why } => encode_as("paused", at, out, |o| o.value("why", why)),
        StorageEvent::Continued => encode_as("continued", at, out, |_| {}),
        StorageEvent::Snapshot(saved) => encode_as("snapshot", at, out, |o| o.raw("saved", saved)),
    }
}

/// Encodes an update on the hot path, without a serialiser.
fn encode_update(
    update: UpdateKind,
    frame: &Raw,
    title: Option<&str>,
    tool: Option<&ToolCall>,
    at: Millis,
    out: &mut Vec<u8>,
) {
    // 100 covers everything but the frame and a title.
    out.reserve(frame.len() + 100);
    out.extend_from_slice(br#"{"kind":"agent_updated","at":"#);
    out.extend_from_slice(itoa::Buffer::new().format(at.0).as_bytes());
    out.extend_from_slice(br#","update":""#);
    out.extend_from_slice(update.tag().as_bytes());
    out.push(b'"');
    if let Some(title) = title {
        out.extend_from_slice(br#","title":"#);
        write_value(title, out);
    }
    if let Some(tool) = tool {
        out.extend_from_slice(br#","tool":"#);
        write_value(tool, out);
    }
    out.extend_from_slice(br#","frame":"#);
    out.extend_from_slice(frame.bytes());
    out.push(b'}');
}

fn end_members(end: &PromptEnd, o: &mut Object<'_>) {
    o.value("how", end.word());
    match end {
        PromptEnd::Answered { stop_reason, frame } => {
            o.value("stop_reason", stop_reason);
            o.raw("frame", frame);
        }
        PromptEnd::Failed { frame } => o.raw("frame", frame),
        PromptEnd::Removed { by } => o.optional("by", by.as_ref()),
        PromptEnd::Cancelled
        | PromptEnd::AgentExited
        | PromptEnd::StartFailed
        | PromptEnd::SessionEnded
        | PromptEnd::HostShutdown
        | PromptEnd::HostRestarted => {}
    }
}

fn outcome_members(outcome: &AskOutcome, o: &mut Object<'_>) {
    match outcome {
        AskOutcome::Answered { option, answer } => {
            o.value("how", "answered");
            o.optional("option", option.as_ref());
            o.raw("answer", answer);
        }
        AskOutcome::Declined { answer } => {
            o.value("how", "declined");
            o.raw("answer", answer);
        }
        AskOutcome::Cancelled => o.value("how", "cancelled"),
        AskOutcome::Withdrawn => o.value("how", "withdrawn"),
        AskOutcome::AgentGone => o.value("how", "agent_gone"),
    }
}

fn ask_members(ask: &Ask, o: &mut Object<'_>) {
    o.value("id", &ask.id);
    o.value("kind", &ask.kind);
    o.raw("agent_request", &ask.agent_request);
    if !ask.options.is_empty() {
        o.value("options", &ask.options);
    }
    o.optional("tool_call", ask.tool_call.as_ref());
    o.optional("prompt", ask.prompt.as_ref());
    o.raw("frame", &ask.frame);
}

fn encode_as(kind: &str, at: Millis, out: &mut Vec<u8>, members: impl FnOnce(&mut Object<'_>)) {
    out.push(b'{');
    let mut object = Object { out };
    object.value("kind", kind);
    object.value("at", &at);
    members(&mut object);
    out.push(b'}');
}

/// A JSON object that is being written.
struct Object<'a> {
    out: &'a mut Vec<u8>,
}

impl Object<'_> {
    fn name(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn raw(&mut self, name: &str, raw: &Raw) {
        self.name(name);
        self.out.extend_from_slice(raw.bytes());
    }

    fn value(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.name(name);
        write_value(value, self.out);
    }

    fn optional(&mut self, name: &str, value: Option<&impl Serialize>) {
        if let Some(value) = value {
            self.value(name, value);
        }
    }

    fn object(&mut self, name: &str, members: impl FnOnce(&mut Object<'_>)) {
        self.name(name);
        self.out.push(b'{');
        members(&mut Object { out: &mut *self.out });
        self.out.push(b'}');
    }
}

/// Writes a value of strings, numbers and flags, which cannot fail.
fn write_value(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.extend_from_slice(b"null");
    }
}
