//! Clients as cursors: they join, read in bursts, disconnect and resume, and all see the same.

use std::collections::BTreeSet;

use wharf_core::{
    AskEvent, AskId, ClientInput, Event, Input, Millis, Reply, Role, Seq, State, Step,
};

use super::dice::Dice;

/// A reader from the beginning, and up to three that join on the way.
pub(super) struct Readers {
    readers: Vec<Reader>,
    /// True if the joining reader sees asks of every kind.
    sees_all: bool,
}

/// Knows only the data of its join and the later events.
struct Reader {
    cursor: Seq,
    /// The fold of everything that it has read, if it began at the beginning.
    folded: Option<State>,
    open_asks: BTreeSet<AskId>,
    /// True while it is disconnected and reads nothing.
    away: bool,
}

impl Default for Readers {
    fn default() -> Self {
        let from_beginning = Reader {
            cursor: Seq::ZERO,
            folded: None,
            open_asks: BTreeSet::new(),
            away: false,
        };
        Self { readers: vec![from_beginning], sees_all: false }
    }
}

impl Readers {
    /// Prepares for an input.
    pub(super) fn expect(&mut self, input: &Input) {
        self.sees_all = matches!(input, Input::Client(ClientInput::Attach(who)) if who.elicits || who.role == Role::Observer);
    }

    /// Handles a step.
    pub(super) fn join(&mut self, step: &Step) {
        if let Reply::Joined(joined) = &step.reply
            && self.sees_all
            && self.readers.len() < 4
        {
            let open_asks = joined.open_asks.iter().map(|ask| ask.id).collect();
            self.readers
                .push(Reader { cursor: joined.head, folded: None, open_asks, away: false });
        }
    }

    pub(super) fn lose_host(&mut self) {
        for reader in &mut self.readers {
            reader.away = true;
        }
    }

    pub(super) fn read(&mut self, log: &[(Seq, Millis, Event)], state: &State, dice: &mut Dice) {
        for reader in &mut self.readers {
            if dice.one_in(10) {
                reader.away = !reader.away;
            }
            if reader.away {
                continue;
            }
            let most = if dice.one_in(2) { usize::MAX } else { 3 };
            for (seq, at, event) in log.iter().skip(reader.cursor.0 as usize).take(most) {
                reader.take_in(*seq, *at, event);
            }
            reader.check(state);
        }
    }
}

impl Reader {
    fn take_in(&mut self, seq: Seq, at: Millis, event: &Event) {
        assert_eq!(seq, self.cursor.next(), "a reader missed something");
        if self.cursor == Seq::ZERO {
            self.folded = State::begin(seq, at, event);
        } else if let Some(folded) = &mut self.folded {
            folded.apply(seq, at, event);
        }
        self.cursor = seq;
        if let Event::Ask(AskEvent::Opened(ask)) = event {
            assert!(self.open_asks.insert(ask.id), "a reader is asked twice");
        } else if let Event::Ask(AskEvent::Resolved { ask, .. }) = event {
            assert!(self.open_asks.remove(ask), "a reader is told of an end without a beginning");
        }
    }

    /// Checks that a reader with all events knows the current state.
    fn check(&self, state: &State) {
        if self.cursor == state.head {
            assert!(state.asks.keys().eq(&self.open_asks), "a reader sees other asks");
            assert!(
                self.folded.as_ref().is_none_or(|folded| folded == state),
                "a reader sees another session"
            );
        }
    }
}
