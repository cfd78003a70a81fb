//! Follows an event stream across reconnects without duplicates or gaps.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::HostClient;
use super::connection::{StreamConnection, StreamLoss};
use super::sse::SseEvent;
use crate::connect::ConnectError;

/// How long to wait for a host that was restarted; it is usually back sooner.
pub(super) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The delay between two attempts while no host is running, where an attempt costs little.
pub(super) const AWAY_RETRY_DELAY: Duration = Duration::from_millis(250);
/// The host sends something at least every 10 s on a stream of rows or of all sessions (rule 13.5).
/// Without a byte for this time, it does not answer or the connection is dead (rule 19.8).
pub(crate) const SILENCE_LIMIT: Duration = Duration::from_secs(25);

/// How long a follower waits for a host that is away.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Then it fails. A refusal fails it at once, and the end of the stream ends it.
    Until(Duration),
    /// It tries again after every loss.
    Forever,
}

/// The times that a follower waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowLimits {
    pub(crate) patience: Patience,
    /// For the next bytes of an open stream. `None` for a stream whose host may be silent.
    pub(crate) silence: Option<Duration>,
    /// The delay after the first loss. It doubles at each further one, up to `max_delay`.
    pub(crate) first_delay: Duration,
    pub(crate) max_delay: Duration,
}

impl FollowLimits {
    pub(crate) const FOR_VERBS: Self = Self {
        patience: Patience::Until(RECONNECT_TIMEOUT),
        silence: None,
        first_delay: Duration::from_millis(20),
        max_delay: Duration::from_secs(1),
    };
}

/// The start of a stream.
#[derive(Clone, Debug)]
pub(crate) enum StreamStart {
    Beginning,
    /// The beginning, and again at each connection.
    EachTimeBeginning,
    /// After the event with this id.
    After(String),
}

/// Follows one event stream.
#[derive(Debug)]
pub(crate) struct StreamFollower {
    client: HostClient,
    path: String,
    limits: FollowLimits,
    keeps_place: bool,
    last: Option<String>,
    connection: Option<StreamConnection>,
    /// The delay after the next loss.
    delay: Duration,
    /// When the next attempt may be made, after a loss.
    retry_at: Option<Instant>,
    /// When the host, which is away, is given up. It stays over all attempts.
    gives_up_at: Option<Instant>,
}

/// The next thing that a follower tells.
#[derive(Debug)]
pub(crate) enum FollowStep {
    /// A connection stands: the first one, or one after a loss.
    Connected,
    Event(SseEvent),
    /// There is no connection. The next step tries again after `retry_in`.
    Lost {
        loss: StreamLoss,
        retry_in: Duration,
    },
}

impl StreamFollower {
    pub(crate) fn new(client: &HostClient, path: String, from: StreamStart) -> Self {
        let limits = FollowLimits::FOR_VERBS;
        Self {
            client: client.clone(),
            path,
            limits,
            keeps_place: !matches!(from, StreamStart::EachTimeBeginning),
            last: if let StreamStart::After(id) = from { Some(id) } else { None },
            connection: None,
            delay: limits.first_delay,
            retry_at: None,
            gives_up_at: None,
        }
    }

    pub(crate) fn with_limits(self, limits: FollowLimits) -> Self {
        Self { limits, delay: limits.first_delay, ..self }
    }

    /// Returns the next event, or `None` when the host ends the stream. Dropping the future loses
    /// no event.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<SseEvent>> {
        loop {
            match self.next_step().await? {
                Some(FollowStep::Event(event)) => return Ok(Some(event)),
                Some(FollowStep::Connected | FollowStep::Lost { .. }) => {}
                None => return Ok(None),
            }
        }
    }

    /// Returns the next event, connection or loss. The patience says which losses are errors, and
    /// whether `None` comes when the host ends the stream. Dropping the future loses nothing.
    pub(crate) async fn next_step(&mut self) -> anyhow::Result<Option<FollowStep>> {
        let step = match &mut self.connection {
            Some(connection) => connection.next(self.limits.silence).await.map(FollowStep::Event),
            None => self.open_connection().await.map(|()| FollowStep::Connected),
        };
        if let Ok(FollowStep::Event(event)) = &step {
            self.delay = self.limits.first_delay;
            if self.keeps_place && event.id.is_some() {
                self.last.clone_from(&event.id);
            }
        }
        step.map(Some).or_else(|loss| self.take_loss(loss))
    }

    /// Gives the connection up. Returns the delay before the next attempt.
    pub(crate) fn drop_connection(&mut self) -> Duration {
        let delay = self.delay;
        self.delay = (delay * 2).min(self.limits.max_delay);
        self.delay_attempt(delay)
    }

    fn delay_attempt(&mut self, delay: Duration) -> Duration {
        self.connection = None;
        self.retry_at = Some(Instant::now() + delay);
        delay
    }

    async fn open_connection(&mut self) -> Result<(), StreamLoss> {
        if let Some(retry_at) = self.retry_at {
            sleep_until(retry_at).await;
        }
        let opening = StreamConnection::open(&self.client, &self.path, self.last.as_deref());
        let until = match self.limits.patience {
            Patience::Until(away) => *self.gives_up_at.get_or_insert_with(|| Instant::now() + away),
            Patience::Forever => Instant::now() + self.limits.silence.unwrap_or(RECONNECT_TIMEOUT),
        };
        // A host that was stopped by a signal accepts connections and answers nothing.
        let opened = timeout_at(until, opening).await.unwrap_or(Err(StreamLoss::Silent));
        self.connection = Some(opened?);
        self.gives_up_at = None;
        // With a short first delay only an event counts: a stream may end as soon as it is open.
        if matches!(self.limits.patience, Patience::Forever) {
            self.delay = self.limits.first_delay;
        }
        Ok(())
    }

    /// Decides whether the follower goes on after a loss, and when.
    fn take_loss(&mut self, loss: StreamLoss) -> anyhow::Result<Option<FollowStep>> {
        let has_waited = self.gives_up_at.is_some_and(|gives_up_at| Instant::now() >= gives_up_at);
        let retry_in = match self.limits.patience {
            Patience::Until(_) => match loss {
                StreamLoss::Over => return Ok(None),
                StreamLoss::Unreadable(error) | StreamLoss::Refused(error) => return Err(error),
                StreamLoss::Away | StreamLoss::Silent if has_waited => {
                    return Err(self.client.host_gone_error(ConnectError::NoHost));
                }
                StreamLoss::Away => self.delay_attempt(AWAY_RETRY_DELAY),
                StreamLoss::Cut | StreamLoss::Silent => self.drop_connection(),
            },
            Patience::Forever => self.drop_connection(),
        };
        if matches!(loss, StreamLoss::Refused(_)) {
            // The host may not know the last event any more: the next attempt starts over.
            self.last = None;
        }
        Ok(Some(FollowStep::Lost { loss, retry_in }))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::{UnixListener, UnixStream};

    use super::*;
    use crate::connect::HostAddress;

    const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nid: 1-1\ndata: {}\n\n";
    const REFUSAL: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";

    /// Takes one request, answers it and closes the connection. Returns the head of the request.
    async fn answer_once(host: &UnixListener, answer: &[u8]) -> String {
        let (stream, _) = host.accept().await.unwrap();
        let mut stream: BufReader<UnixStream> = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            stream.read_line(&mut head).await.unwrap();
        }
        stream.write_all(answer).await.unwrap();
        head
    }

    /// Plays a host that sends an event, refuses the next request, and takes a third one. Returns
    /// the heads of the second and the third request.
    async fn refuse_once(host: UnixListener) -> (String, String) {
        answer_once(&host, STREAM).await;
        let second = answer_once(&host, REFUSAL).await;
        (second, answer_once(&host, STREAM).await)
    }

    fn follow(socket: std::path::PathBuf, patience: Patience) -> StreamFollower {
        let client = HostClient::unconnected(HostAddress::Socket(socket));
        let first_delay = Duration::from_millis(1);
        StreamFollower::new(&client, "/stream".to_owned(), StreamStart::Beginning)
            .with_limits(FollowLimits { patience, first_delay, ..FollowLimits::FOR_VERBS })
    }

    #[tokio::test]
    async fn patient_follower_starts_over_after_a_refusal() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("wharf.sock");
        let host = tokio::spawn(refuse_once(UnixListener::bind(&socket).unwrap()));
        let mut follower = follow(socket, Patience::Forever);
        let mut steps = Vec::new();
        while steps.len() < 6 {
            steps.push(match follower.next_step().await.unwrap().unwrap() {
                FollowStep::Connected => "connected".to_owned(),
                FollowStep::Event(event) => event.data,
                FollowStep::Lost { loss: StreamLoss::Cut, retry_in } => format!("cut {retry_in:?}"),
                FollowStep::Lost { loss: StreamLoss::Refused(_), retry_in } => {
                    format!("refused {retry_in:?}")
                }
                step @ FollowStep::Lost { .. } => panic!("{step:?}"),
            });
        }
        let expected = ["connected", "{}", "cut 1ms", "refused 2ms", "connected", "{}"];
        assert_eq!(steps, expected);
        let (second, third) = host.await.unwrap();
        assert!(second.contains("last-event-id: 1-1"), "{second}");
        assert!(!third.contains("last-event-id"), "{third}");
    }

    #[tokio::test]
    async fn refusal_is_an_error_for_a_follower_with_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("wharf.sock");
        let _host = tokio::spawn(refuse_once(UnixListener::bind(&socket).unwrap()));
        let mut follower = follow(socket, Patience::Until(RECONNECT_TIMEOUT));
        assert!(matches!(follower.next().await, Ok(Some(_))));
        assert!(follower.next().await.is_err());
    }
}
