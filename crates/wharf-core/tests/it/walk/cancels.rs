//! Checks from the log alone that every cancel of a walk ended the prompts that its sender meant.

use wharf_core::{
    CancelScope, ClientIdentity, ClientInput, Event, Input, Millis, PromptEnd, PromptEvent,
    PromptId, Reply, Sender, Seq, State, Step,
};

/// A cancel that is being handled, and the state before it.
pub(super) struct Cancel {
    by: ClientIdentity,
    scope: CancelScope,
    own_running: Vec<PromptId>,
    own_waiting: Vec<PromptId>,
    /// The turns of others, and the events that started them.
    others: Vec<(PromptId, Seq)>,
    /// The event that ended the caller's last turn, if this host saw it.
    own_end: Option<Seq>,
    is_observer: bool,
}

impl Cancel {
    /// Records a cancel before it is handled. `since` is the first event of the present host.
    pub(super) fn expect(
        input: &Input,
        state: &State,
        log: &[(Seq, Millis, Event)],
        since: Seq,
        is_observer: impl Fn(&Sender) -> bool,
    ) -> Option<Self> {
        let Input::Client(ClientInput::Cancel { by, scope }) = input else { return None };
        let identity = by.identity();
        let is_own = |sender: &Sender| sender.identity() == identity;
        let turns = |own: bool| {
            state
                .turns
                .iter()
                .filter(move |turn| (turn.sender.identity() == by.identity()) == own)
        };
        let waiting = state.queue.iter().filter(|queued| is_own(&queued.sender));
        Some(Self {
            scope: *scope,
            own_running: turns(true).map(|turn| turn.prompt.clone()).collect(),
            own_waiting: waiting.map(|queued| queued.prompt.clone()).collect(),
            others: turns(false).map(|turn| (turn.prompt.clone(), turn.started_seq)).collect(),
            own_end: own_end(log, since, is_own),
            is_observer: is_observer(by),
            by: identity,
        })
    }

    /// Checks the result of the step.
    pub(super) fn check(&self, step: &Step) {
        if self.is_observer {
            assert!(
                matches!(step.reply, Reply::Refused(_)) && step.events.is_empty(),
                "an observer cancelled"
            );
            return;
        }
        let (mut ended, mut hit) = (Vec::new(), Vec::new());
        for event in &step.events {
            if let Event::Prompt(PromptEvent::Ended { prompt, end: PromptEnd::Cancelled, .. }) =
                event
            {
                ended.push(prompt.clone());
            } else if let Event::Prompt(PromptEvent::CancelRequested { prompt, by, .. }) = event {
                assert_eq!(by.as_ref().map(Sender::identity).as_ref(), Some(&self.by));
                hit.push(prompt.clone());
            }
        }
        let missed = self.own_waiting.iter().find(|prompt| !ended.contains(prompt));
        assert_eq!(missed, None, "a waiting prompt of the caller is left");
        let foreign = ended.iter().find(|prompt| !self.own_waiting.contains(prompt));
        assert!(self.scope.clear_queue || foreign.is_none(), "{foreign:?} is another's");
        let strangers: Vec<_> =
            hit.iter().filter(|prompt| !self.own_running.contains(prompt)).collect();
        if strangers.is_empty() {
            return;
        }
        assert!(
            self.own_running.is_empty() && self.own_waiting.is_empty(),
            "the caller had prompts of its own"
        );
        assert!(
            self.own_end.is_none_or(|end| end <= self.scope.settled),
            "the cancel crossed the end of its own turn"
        );
        for prompt in strangers {
            let began = self.others.iter().find(|(known, _)| known == prompt).unwrap().1;
            assert!(began <= self.scope.seen, "{prompt} began unseen");
        }
    }
}

/// Returns the event that ended the client's last turn, after `since`.
fn own_end(
    log: &[(Seq, Millis, Event)],
    since: Seq,
    is_own: impl Fn(&Sender) -> bool,
) -> Option<Seq> {
    let is_sent_by_it = |prompt: &PromptId| {
        let mut events = log.iter().map(|(_, _, event)| event);
        events.any(|event| matches!(event, Event::Prompt(PromptEvent::Accepted { prompt: accepted, sender, .. }) if accepted == prompt && is_own(sender)))
    };
    let ran = |prompt: &PromptId, end: Seq| {
        let is_about = |event: &Event| matches!(event, Event::Prompt(PromptEvent::TurnStarted { prompt: named, .. } | PromptEvent::Requeued { prompt: named }) if named == prompt);
        let before =
            log.iter().rev().skip_while(|(seq, ..)| *seq >= end).map(|(_, _, event)| event);
        before
            .into_iter()
            .find(|event| is_about(event))
            .is_some_and(|event| matches!(event, Event::Prompt(PromptEvent::TurnStarted { .. })))
    };
    let ended = |(seq, _, event): &(Seq, Millis, Event)| {
        let Event::Prompt(PromptEvent::Ended { prompt, .. }) = event else { return None };
        (is_sent_by_it(prompt) && ran(prompt, *seq)).then_some(*seq)
    };
    log.iter().rev().take_while(|(seq, ..)| *seq > since).find_map(ended)
}
