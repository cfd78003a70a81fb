//! Random walks: the invariants of the core hold after every step, for any inputs in any order.
//!
//! A failure prints its seed; `WHARF_WALK_SEED=<seed>` replays that walk alone.

mod cancels;
mod dice;
mod inputs;
mod ledger;
mod proposal;
mod readers;

use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use wharf_core::{
    AgentTraits, EndReason, Event, FormAnswerers, Input, LifecycleInput, Millis, NewSession,
    OnRestart, Role, Seq, Session, Settings, State, Status, Step, decode, encode,
};

use self::cancels::Cancel;
use self::dice::Dice;
use self::ledger::{KINDS, Ledger};
use self::proposal::Proposal;
use self::readers::Readers;
use crate::stage::{fork_source, origin, sender};

const WALKS: u64 = 200_000;
const INPUTS: usize = 60;
const THREADS: u64 = 2;
/// The random seeds of earlier failures.
const REGRESSIONS: &str = include_str!("seeds.txt");

struct Walk {
    dice: Dice,
    settings: Settings,
    traits: AgentTraits,
    now: Millis,
    session: Session,
    /// A fold of the same events, apart from the session.
    shadow: State,
    log: Vec<(Seq, Millis, Event)>,
    ledger: Ledger,
    readers: Readers,
    clients: [wharf_core::Sender; 6],
    /// The first event of the present host.
    host_since: Seq,
    prompts: u64,
}

#[test]
fn random_walks_keep_every_invariant() {
    if let Ok(seed) = std::env::var("WHARF_WALK_SEED") {
        Walk::walk(seed.parse().unwrap());
        return;
    }
    // The random seeds differ in every run; a failing one is printed.
    let base = RandomState::new().hash_one("walk");
    #[expect(
        clippy::disallowed_methods,
        reason = "walks run side by side; the core itself has no threads"
    )]
    let tallies = std::thread::scope(|scope| {
        let walk_some = |thread| {
            move || walk_all((0..WALKS / THREADS).map(|n| base.wrapping_add(n * THREADS + thread)))
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(walk_some(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    // Walks that make no progress would keep every invariant too.
    for (kind, name) in KINDS.iter().enumerate() {
        let count: u64 = tallies.iter().map(|tally| tally[kind]).sum();
        assert!(count > WALKS / 100, "only {count} events of kind {name}");
    }
}

#[test]
fn formerly_failing_walks_keep_every_invariant() {
    let seeds = REGRESSIONS
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    for seed in seeds {
        Walk::walk(seed.trim().parse().unwrap());
    }
}

fn walk_all(seeds: impl Iterator<Item = u64>) -> [u64; KINDS.len()] {
    let mut sum = [0; KINDS.len()];
    for seed in seeds {
        for (sum, count) in sum.iter_mut().zip(Walk::walk(seed)) {
            *sum += count;
        }
    }
    sum
}

/// Prints the random seed if the walk fails.
struct Seed(u64);

impl Drop for Seed {
    #[expect(clippy::print_stderr, reason = "a failed walk prints its random seed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the walk failed; replay it with WHARF_WALK_SEED={}", self.0);
        }
    }
}

/// Returns the arguments of a session; of a fork for some.
fn new_session(dice: &mut Dice, settings: Settings) -> NewSession {
    let mut new = NewSession::new(origin(), settings);
    if dice.one_in(4) {
        new.origin.forked_from = Some(fork_source());
        new.title = dice.one_in(2).then(|| "copy".into());
        new.agent_settings = dice.one_in(2).then(Vec::new);
    }
    new
}

impl Walk {
    /// Runs one walk from the session's creation to its end. Returns the number of events of each
    /// kind.
    fn walk(seed: u64) -> [u64; KINDS.len()] {
        let _seed = Seed(seed);
        let mut walk = Self::begin(seed);
        for _ in 0..INPUTS {
            walk.now.0 += walk.dice.below(20);
            if walk.dice.one_in(80) {
                walk.restart_host();
            } else {
                let input = walk.next_input();
                walk.give(input);
            }
            walk.readers.read(&walk.log, walk.session.state(), &mut walk.dice);
            if walk.dice.one_in(60) {
                walk.check_restore();
            }
        }
        walk.finish()
    }

    fn begin(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let settings = settings(&mut dice);
        let now = Millis(1_000);
        let (session, first) = Session::create(new_session(&mut dice, settings.clone()), now);
        let shadow = State::begin(Seq(1), now, &first.events[0]).unwrap();
        let traits = AgentTraits {
            load: dice.one_in(2),
            resume: dice.one_in(2),
            queues: dice.one_in(3),
            ..AgentTraits::default()
        };
        // The last two are further connections of the first client; one of them sends its id.
        let clients = ["ann", "bob", "cat", "dan", "ann2", "ann3"].map(sender);
        let clients = clients.map(|sender| match sender.client.as_str() {
            "ann2" | "ann3" => {
                wharf_core::Sender { chosen: wharf_core::ChosenId::parse("ann").ok(), ..sender }
            }
            _ => sender,
        });
        let (ledger, readers) = (Ledger::default(), Readers::default());
        let (log, prompts) = (Vec::new(), 0);
        let mut walk = Self {
            dice,
            settings,
            traits,
            now,
            session,
            shadow,
            log,
            ledger,
            readers,
            clients,
            host_since: Seq::ZERO,
            prompts,
        };
        walk.take_in(first);
        walk
    }

    fn give(&mut self, input: Input) {
        self.ledger.expect(&input, self.session.state());
        self.readers.expect(&input);
        let observes = |by: &wharf_core::Sender| {
            let members: Vec<_> = self.session.members().collect();
            let attached = members.iter().find(|member| member.sender.client == by.client);
            let own = members.iter().filter(|member| member.sender.is_same_client(by));
            attached.map_or_else(
                || {
                    own.clone().count() > 0
                        && own.clone().all(|member| member.role == Role::Observer)
                },
                |attached| attached.role == Role::Observer,
            )
        };
        let cancel =
            Cancel::expect(&input, self.session.state(), &self.log, self.host_since, observes);
        let proposal = Proposal::of(&self.session, &input);
        let step = self.session.handle(input, self.now);
        proposal.check(&step);
        if let Some(cancel) = cancel {
            cancel.check(&step);
        }
        self.take_in(step);
    }

    fn take_in(&mut self, step: Step) {
        self.ledger.check(&step, Seq(self.log.len() as u64));
        self.readers.join(&step);
        for event in step.events {
            let seq = Seq(self.log.len() as u64 + 1);
            if seq > Seq(1) {
                self.shadow.apply(seq, self.now, &event);
            }
            self.log.push((seq, self.now, event));
        }
        assert_eq!(self.session.head(), Seq(self.log.len() as u64), "seq has a gap");
        assert_eq!(*self.session.state(), self.shadow, "live state is not the fold of the log");
        self.ledger.check_state(&self.session, &self.settings);
    }

    /// Returns the log as it would be read from a disk.
    fn stored(&self, from: usize) -> Vec<(Seq, Millis, Event)> {
        let reread = |(seq, at, event): &(Seq, Millis, Event)| {
            let mut body = Vec::new();
            encode(event, *at, &mut body);
            let (at_again, event_again) = decode(&Bytes::from(body)).unwrap();
            assert_eq!((*at, event), (at_again, &event_again));
            (*seq, at_again, event_again)
        };
        self.log[from..].iter().map(reread).collect()
    }

    fn check_restore(&mut self) {
        let whole = Session::restore(self.settings.clone(), self.stored(0)).unwrap();
        assert_eq!(whole.state(), self.session.state(), "restored from the beginning");
        if let Some(snapshot) = self.session.state().snapshot {
            let from = self.stored(snapshot.0 as usize - 1);
            let restored = Session::restore(self.settings.clone(), from).unwrap();
            assert_eq!(restored.state(), self.session.state(), "restored from the last snapshot");
        }
    }

    /// Restarts the host. If the agent runs, every second host takes it over: then nothing of the
    /// session changes.
    fn restart_host(&mut self) {
        let before = self.session.state().clone();
        let is_adopted = before.status == Status::Running && self.dice.one_in(2);
        let from = self.session.state().snapshot.map_or(0, |snapshot| snapshot.0 as usize - 1);
        self.session = Session::restore(self.settings.clone(), self.stored(from)).unwrap();
        self.readers.lose_host();
        self.host_since = self.session.head();
        if is_adopted {
            self.give(Input::Lifecycle(LifecycleInput::AgentAdopted {
                is_idle: false,
                has_ended: false,
            }));
            let state = self.session.state();
            assert_eq!(
                (&state.turns, &state.asks, state.status),
                (&before.turns, &before.asks, before.status)
            );
            return;
        }
        self.ledger.lose_host();
        self.give(Input::Lifecycle(LifecycleInput::HostRestarted));
        assert!(!self.session.state().status.is_alive());
    }

    fn finish(mut self) -> [u64; KINDS.len()] {
        self.give(Input::Lifecycle(LifecycleInput::Kill { reason: EndReason::User }));
        self.ledger.check_end();
        if self.dice.one_in(4) {
            self.check_restore();
        }
        self.ledger.tally
    }
}

fn settings(dice: &mut Dice) -> Settings {
    let mut limit = |limit| dice.one_in(2).then_some(Millis(limit));
    Settings {
        forms: FormAnswerers::Clients,
        cancel_timeout: limit(60),
        ask_timeout: limit(90),
        idle_ttl: limit(120),
        turn_deadline: limit(200),
        no_progress: limit(70),
        on_restart: if dice.one_in(2) { OnRestart::Mark } else { OnRestart::Requeue },
        max_queue: if dice.one_in(3) { 2 } else { 100 },
        max_asks: if dice.one_in(3) { 2 } else { 100 },
        start_retries: if dice.one_in(3) {
            Vec::new()
        } else {
            vec![Millis(10), Millis(40), Millis(150)]
        },
        snapshot_every: [4, 15, 1_000][dice.below(3) as usize],
    }
}
