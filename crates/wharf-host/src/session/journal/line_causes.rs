//! Which event causes which message to the agent. A host notes the cause of each message, and the
//! next one sends those whose cause is in the log and that were not sent.

use std::sync::Arc;

use wharf_core::{
    Ask, AskEvent, AskOutcome, AskReply, Effect, Event, PromptEvent, PromptId, Raw, Seq, State,
    decode,
};
use wharf_store::{Log, StoreError};

/// How much of the log is read at once.
const PAGE_BYTES: usize = 1 << 20;

/// Returns the event that causes each effect, if the effect is a message to the agent. Both are in
/// the order of the decision; `head` is the last of the events.
pub(super) fn causes_of(effects: &[Effect], events: &[Event], head: Seq) -> Vec<Option<Seq>> {
    if effects.is_empty() {
        return Vec::new();
    }
    let first = head.0 + 1 - events.len() as u64;
    let mut rest = (first..).map(Seq).zip(events);
    let causes = effects.iter().map(|effect| {
        let mut later = rest.clone();
        let cause = later.find(|(_, event)| is_cause(event, effect)).map(|(seq, _)| seq)?;
        rest = later;
        Some(cause)
    });
    causes.collect()
}

fn is_cause(event: &Event, effect: &Effect) -> bool {
    match (event, effect) {
        (
            Event::Prompt(PromptEvent::TurnStarted { prompt, .. }),
            Effect::SendPrompt { prompt: sent, .. },
        ) => prompt == sent,
        (Event::Prompt(PromptEvent::CancelRequested { .. }), Effect::SendCancel) => true,
        (Event::Ask(AskEvent::Resolved { .. }), Effect::AnswerAsk { reply, .. }) => {
            *reply != AskReply::Refused
        }
        _ => false,
    }
}

/// A message that the agent has yet to get.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::session) enum OwedLine {
    Prompt(PromptId, Raw),
    Cancel,
    Answer(Ask, AskReply),
}

/// Returns the messages that the events after `sent` cause, each with its event, as far as the
/// agent still needs them.
pub(in crate::session) fn read_owed_lines(
    log: &Arc<dyn Log>,
    sent: Seq,
    state: &State,
) -> Result<Vec<(Seq, OwedLine)>, StoreError> {
    let mut lines = Vec::new();
    let mut next = sent.next();
    while next <= state.head {
        let page = log.read(next.0, PAGE_BYTES)?;
        let Some(last) = page.records.last() else { break };
        next = Seq(last.seq + 1);
        for record in &page.records {
            let Ok((_, event)) = decode(&record.body) else { continue };
            lines.extend(owed_line(log, &event, state)?.map(|line| (Seq(record.seq), line)));
        }
    }
    // One cancel ends all turns.
    let mut has_cancel = false;
    lines
        .retain(|(_, line)| *line != OwedLine::Cancel || !std::mem::replace(&mut has_cancel, true));
    Ok(lines)
}

fn owed_line(
    log: &Arc<dyn Log>,
    event: &Event,
    state: &State,
) -> Result<Option<OwedLine>, StoreError> {
    Ok(match event {
        Event::Prompt(PromptEvent::TurnStarted { prompt, .. }) => state
            .running(prompt)
            .map(|turn| OwedLine::Prompt(prompt.clone(), turn.frame.clone())),
        Event::Prompt(PromptEvent::CancelRequested { prompt, .. }) => {
            state.running(prompt).map(|_| OwedLine::Cancel)
        }
        Event::Ask(AskEvent::Resolved { ask, outcome, .. }) => {
            let reply = match outcome {
                AskOutcome::Answered { answer, .. } | AskOutcome::Declined { answer } => {
                    AskReply::Frame(answer.clone())
                }
                AskOutcome::Cancelled => AskReply::Cancelled,
                AskOutcome::Withdrawn => AskReply::Withdrawn,
                AskOutcome::AgentGone => return Ok(None),
            };
            // An ask has the number of the event that opened it.
            let opened = log.read(ask.0, 1)?.records.into_iter().next();
            match opened.and_then(|record| decode(&record.body).ok()) {
                Some((_, Event::Ask(AskEvent::Opened(ask)))) => Some(OwedLine::Answer(ask, reply)),
                _ => None,
            }
        }
        Event::Session(_)
        | Event::Agent(_)
        | Event::Prompt(_)
        | Event::Ask(_)
        | Event::Storage(_)
        | Event::Unknown { .. }
        | Event::Lost(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use wharf_core::AskId;

    use super::*;

    fn started(prompt: &str) -> Event {
        PromptEvent::TurnStarted { prompt: PromptId::new(prompt), content: Seq(1) }.into()
    }

    fn cancelled(prompt: &str) -> Event {
        let prompt = PromptId::new(prompt);
        PromptEvent::CancelRequested { prompt, by: None, limit: None, reason: None }.into()
    }

    fn settled(ask: u64) -> Event {
        AskEvent::Resolved { ask: AskId(ask), outcome: AskOutcome::Cancelled, by: None }.into()
    }

    fn frame(text: &'static str) -> Raw {
        Raw::new(bytes::Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[test]
    fn each_message_has_the_event_that_causes_it() {
        let answer = || Effect::AnswerAsk { agent_request: frame("1"), reply: AskReply::Cancelled };
        let prompt = Effect::SendPrompt { prompt: PromptId::new("b"), frame: frame("{}") };
        let effects = [Effect::SendCancel, answer(), answer(), prompt];
        let events = [cancelled("a"), settled(4), settled(5), started("c"), started("b")];
        let causes = causes_of(&effects, &events, Seq(24));
        assert_eq!(causes, [20, 21, 22, 24].map(|seq| Some(Seq(seq))));
    }

    #[test]
    fn refused_ask_and_other_effects_have_no_cause() {
        let refused = Effect::AnswerAsk { agent_request: frame("1"), reply: AskReply::Refused };
        let stop = Effect::StopAgent { start: wharf_core::StartNo(1) };
        assert_eq!(causes_of(&[refused, stop], &[settled(4)], Seq(9)), [None, None]);
    }
}
