//! The traffic of one run: a prompt that makes the agent send updates, and readers that count them.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow};

use super::host::Host;
use super::peer::{self, Peer};
use super::ws::WebSocket;

/// The updates that the agent sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Traffic {
    /// This many updates of this many bytes, as fast as possible.
    Burst { updates: u64, size: u64, pace: Pace },
    /// This many updates, one per interval in microseconds, each with its sending time.
    Tick { updates: u64, micros: u64 },
}

/// The agent's way of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// One write per update, as agents do.
    Single,
    /// Full buffers: the most that a pipe can carry.
    Packed,
}

/// The observations of a reader.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The time from the prompt to the last update.
    pub(super) took: Duration,
    /// Microseconds from the agent's write of a tick to its read.
    pub(super) latencies: Vec<f64>,
}

impl Traffic {
    pub(super) fn prompt(self) -> String {
        match self {
            Self::Burst { updates, size, pace: Pace::Packed } => format!("burst {updates} {size}"),
            Self::Burst { updates, size, pace: Pace::Single } => {
                format!("burst {updates} {size} flush")
            }
            Self::Tick { updates, micros } => format!("tick {updates} {micros}"),
        }
    }

    pub(super) const fn updates(self) -> u64 {
        match self {
            Self::Burst { updates, .. } | Self::Tick { updates, .. } => updates,
        }
    }
}

/// Sends a prompt and reads its updates over one connection.
pub(super) fn drive_connection(
    peer: &mut impl Peer,
    session: &str,
    traffic: Traffic,
) -> Result<Seen> {
    let began = Instant::now();
    peer::send_prompt(peer, session, &traffic.prompt())?;
    let seen = read_all_updates(peer, traffic, began)?;
    peer::await_turn_end(peer)?;
    Ok(seen)
}

/// Reads until all updates have arrived.
fn read_all_updates(peer: &mut impl Peer, traffic: Traffic, began: Instant) -> Result<Seen> {
    let mut seen = Seen::default();
    let timed = matches!(traffic, Traffic::Tick { .. });
    let mut left = traffic.updates();
    while left > 0 {
        let message = peer.next().with_context(|| format!("{left} updates are missing"))?;
        if !peer::is_chunk(message) {
            continue;
        }
        left -= 1;
        if timed {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
            let sent = peer::sent_at(message).context("a tick without its time")?;
            seen.latencies.push(now.saturating_sub(sent) as f64 / 1_000.0);
        }
    }
    seen.took = began.elapsed();
    Ok(seen)
}

/// Connections to one session of a host; the first one prompts.
pub(super) struct Party {
    session: String,
    members: Vec<WebSocket<std::net::TcpStream>>,
}

impl Party {
    pub(super) fn gather(host: &Host, cwd: &str, size: usize) -> Result<Self> {
        let mut first = WebSocket::connect(&host.authority, &host.token)?;
        peer::initialize_peer(&mut first)?;
        let session = peer::open_session(&mut first, cwd)?;
        let mut party = Self { session, members: vec![first] };
        while party.members.len() < size {
            let member = party.newcomer(host, cwd)?;
            party.members.push(member);
        }
        Ok(party)
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// Sends a prompt without waiting for its end.
    pub(super) fn start(&mut self, prompt: &str) -> Result<()> {
        peer::send_prompt(&mut self.members[0], &self.session, prompt)
    }

    /// Returns a joined connection that only the caller reads from.
    pub(super) fn newcomer(
        &self,
        host: &Host,
        cwd: &str,
    ) -> Result<WebSocket<std::net::TcpStream>> {
        let mut member = WebSocket::connect(&host.authority, &host.token)?;
        peer::initialize_peer(&mut member)?;
        peer::join_session(&mut member, &self.session, cwd)?;
        Ok(member)
    }

    /// Runs the traffic once; every member reads all of it.
    pub(super) fn run(&mut self, traffic: Traffic) -> Result<Vec<Seen>> {
        let ready = &Barrier::new(self.members.len());
        let session = self.session.as_str();
        thread::scope(|scope| {
            let readers = self.members.iter_mut().enumerate().map(|(at, member)| {
                scope.spawn(move || {
                    ready.wait();
                    if at == 0 {
                        drive_connection(member, session, traffic)
                    } else {
                        read_all_updates(member, traffic, Instant::now())
                    }
                })
            });
            join_all(readers.collect())
        })
    }
}

fn join_all(readers: Vec<thread::ScopedJoinHandle<'_, Result<Seen>>>) -> Result<Vec<Seen>> {
    readers
        .into_iter()
        .map(|reader| reader.join().map_err(|_| anyhow!("a reader panicked"))?)
        .collect()
}
