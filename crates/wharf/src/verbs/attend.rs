//! Implements the hidden command that looks after a turn that its terminal has left: it answers the
//! agent's questions as the flags of the verb say, ends the turn when its time is up, and ends the
//! session afterwards. It goes on over restarts of the host.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, FromArgMatches, Parser, ValueEnum};
use tokio::time::Instant;
use wharf_render::style::Screen;

use super::run::leave_session;
use crate::client::{HostClient, StreamStart};
use crate::connect;
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::turn::{
    AskFlags, AskPolicy, DetachCause, Signals, TurnFormat, TurnWatch, WatchEnd, WatchOptions,
    WatchedTurn,
};
use crate::{output, session_ref};

pub(crate) const ATTEND_COMMAND: &str = "__attend";

/// How long a host may be away, or refuse all calls, before the turn is given up: it was stopped
/// for good.
const MAX_ABSENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// The delay between two attempts to reach a host that is away: short at first, as for a restart.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);
/// A watch of this length shows that the host works again.
const STEADY_WATCH: Duration = Duration::from_secs(60);

/// A turn, and what is to be done for it.
#[derive(Clone, Debug, Args)]
pub(crate) struct AttendedTurn {
    #[arg(long)]
    pub(crate) session: String,
    #[arg(long)]
    pub(crate) prompt: String,
    #[arg(long)]
    pub(crate) agent: String,
    #[arg(long, value_enum)]
    pub(crate) asks: AttendedAsks,
    /// The time that the turn may still take, in milliseconds.
    #[arg(long)]
    pub(crate) time_left: Option<u64>,
    /// End the session after the turn.
    #[arg(long)]
    pub(crate) ends_session: bool,
}

/// How asks of a turn are answered that its terminal has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttendedAsks {
    /// They wait for a person, as long as it takes.
    Wait,
    Deny,
    Allow,
    Fail,
}

#[derive(Debug, Parser)]
struct AttendCommand {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(flatten)]
    turn: AttendedTurn,
}

impl AttendedAsks {
    pub(crate) const fn of_policy(policy: AskPolicy) -> Self {
        match policy {
            AskPolicy::Person | AskPolicy::Others(_) => Self::Wait,
            AskPolicy::Deny => Self::Deny,
            AskPolicy::Allow(_) => Self::Allow,
            AskPolicy::Fail => Self::Fail,
        }
    }

    const fn to_policy(self) -> AskPolicy {
        match self {
            Self::Wait => AskPolicy::Others(None),
            Self::Deny => AskPolicy::Deny,
            Self::Allow => AskPolicy::Allow(None),
            Self::Fail => AskPolicy::Fail,
        }
    }
}

impl AttendedTurn {
    /// Describes the turn, and how the flags of its verb say to treat it.
    pub(crate) fn of_turn(turn: WatchedTurn<'_>, flags: AskFlags, ends_session: bool) -> Self {
        let left = flags
            .timeout()
            .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        Self {
            session: turn.session.to_owned(),
            prompt: turn.prompt.to_owned(),
            agent: turn.agent.to_owned(),
            asks: AttendedAsks::of_policy(flags.ask_policy(false)),
            time_left: left,
            ends_session,
        }
    }

    /// Returns the turn as it is left after some of its time.
    pub(crate) fn after(self, passed: Duration) -> Self {
        let passed = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        Self {
            time_left: self.time_left.map(|left| left.saturating_sub(passed)),
            ..self
        }
    }

    /// Returns true if something is left to do for the turn.
    fn needs_attendant(&self) -> bool {
        self.ends_session || self.time_left.is_some() || self.asks != AttendedAsks::Wait
    }

    /// Has a process of its own look after the turn, if something is left to do.
    pub(crate) fn hand_over(&self, global: &GlobalOptions) -> anyhow::Result<()> {
        if !self.needs_attendant() {
            return Ok(());
        }
        let (mut arguments, token) = global.to_host_arguments()?;
        arguments.insert(0, ATTEND_COMMAND.into());
        arguments.extend(self.to_arguments());
        connect::start_detached(&arguments, token.as_deref())
    }

    /// Looks after the turn until it has ended, then ends the session if `ends_session` is set.
    /// Tries again after a failure that may pass.
    pub(crate) async fn attend(&self, global: &GlobalOptions) -> anyhow::Result<Exit> {
        let global = global.without_start();
        let time_is_up_at = self.time_left.map(|left| Instant::now() + Duration::from_millis(left));
        let mut signals = Signals::listen()?;
        let mut retry = Retry::new();
        loop {
            let began = Instant::now();
            // A host of another version understands these requests, too: an upgrade must not leave
            // the turn alone.
            let Some(connected) = signals.run_until_end(global.connect_if_running()).await else {
                return Ok(Exit::Interrupted);
            };
            let watched = match connected {
                Ok(client) => self.watch(&client, time_is_up_at, &mut signals).await,
                Err(error) => Err(error),
            };
            let error = match watched {
                Err(error) => error,
                ended => return ended,
            };
            if began.elapsed() >= STEADY_WATCH {
                retry = Retry::new();
            }
            let Some(waited) = signals.run_until_end(retry.pause(error, &global)).await else {
                return Ok(Exit::Interrupted);
            };
            waited?;
        }
    }

    async fn watch(
        &self,
        client: &HostClient,
        time_is_up_at: Option<Instant>,
        signals: &mut Signals,
    ) -> anyhow::Result<Exit> {
        let session = self.session.as_str();
        let name = session_ref::short_id(session);
        let turn = WatchedTurn {
            client,
            session,
            name,
            prompt: &self.prompt,
            agent: &self.agent,
        };
        let options = WatchOptions {
            format: TurnFormat::Json,
            screen: Screen::PIPE,
            ask_policy: self.asks.to_policy(),
            timeout: time_is_up_at.map(|at| at.saturating_duration_since(Instant::now())),
            from_start: true,
            is_attended: true,
        };
        let end = TurnWatch::new(turn, options).run(StreamStart::Beginning, signals).await?;
        if end == WatchEnd::Left {
            return Ok(Exit::Interrupted);
        }
        if !self.ends_session {
            return Ok(Exit::Ok);
        }
        match signals.run_until_end(leave_session(turn, Some(&end))).await {
            None => Ok(Exit::Interrupted),
            Some(Err(error)) if !is_cut_by_stop(&end) => Err(error),
            Some(_) => Ok(Exit::Ok),
        }
    }

    fn to_arguments(&self) -> Vec<OsString> {
        let asks = self
            .asks
            .to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default();
        let named = [
            ("session", &self.session),
            ("prompt", &self.prompt),
            ("agent", &self.agent),
            ("asks", &asks),
        ];
        let mut arguments: Vec<OsString> = named
            .into_iter()
            .map(|(name, value)| format!("--{name}={value}").into())
            .collect();
        arguments.extend(self.time_left.map(|left| format!("--time-left={left}").into()));
        arguments.extend(self.ends_session.then(|| "--ends-session".into()));
        arguments
    }
}

/// The pauses after failed attempts.
#[derive(Debug)]
struct Retry {
    give_up_at: Instant,
    delay: Duration,
}

impl Retry {
    fn new() -> Self {
        Self {
            give_up_at: Instant::now() + MAX_ABSENCE,
            delay: FIRST_RETRY_DELAY,
        }
    }

    /// Waits before the next attempt. Fails if that would fail again: the host refuses it for good,
    /// or was deleted with its state.
    async fn pause(&mut self, error: anyhow::Error, global: &GlobalOptions) -> anyhow::Result<()> {
        let is_deleted = || {
            !global.is_remote().unwrap_or(true) && global.state_dir().is_ok_and(|dir| !dir.exists())
        };
        if Failure::is_lasting(&error) || Instant::now() >= self.give_up_at || is_deleted() {
            return Err(error);
        }
        tokio::time::sleep(self.delay).await;
        self.delay = (self.delay * 2).min(MAX_RETRY_DELAY);
        Ok(())
    }
}

/// Returns true if the host was stopped together with its agents, which cut the turn. The agent has
/// ended then, and there may be no next host that could end the session.
fn is_cut_by_stop(end: &WatchEnd) -> bool {
    matches!(end, WatchEnd::Turn(reason) if reason == "host_shutdown")
}

/// Runs the hidden command.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<Exit> {
    let command = <AttendCommand as clap::CommandFactory>::command();
    let matches = command.try_get_matches_from(std::iter::once("wharf".into()).chain(arguments))?;
    let AttendCommand { global, turn } = AttendCommand::from_arg_matches(&matches)?;
    super::block_on(turn.attend(&global))
}

/// Leaves the turn running as the person asked for, or because the terminal is gone: in a process
/// of its own, or in this one if there can be no other. `name` is the session's name in hints.
pub(crate) async fn leave_running(
    global: &GlobalOptions,
    turn: &AttendedTurn,
    name: &str,
    cause: DetachCause,
) -> anyhow::Result<Exit> {
    output::print_note(&format!("left running; follow it with: wharf output -f {name}"));
    if let Err(error) = turn.hand_over(global) {
        output::print_error(&error);
        output::print_note("this program stays until the turn has ended");
        let exit = turn.attend(global).await?;
        if exit == Exit::Interrupted {
            output::print_note(&format!("left; the turn goes on: wharf output -f {name}"));
        }
        return Ok(exit);
    }
    Ok(match cause {
        DetachCause::Asked => Exit::Ok,
        DetachCause::TerminalLost => Exit::Interrupted,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{UnixListener, UnixStream};

    use super::*;
    use crate::connect::HostAddress;

    /// Takes a connection and reads its request. Returns the first line with it.
    async fn accept_request(host: &UnixListener) -> (UnixStream, String) {
        let (mut caller, _) = host.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(caller.read_u8().await.unwrap());
        }
        let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
        (caller, line)
    }

    /// Serves the rows of a queued turn that its host cuts, if `waits_for_cancel` after a cancel
    /// only. No other call has an answer.
    async fn cut_turn(host: UnixListener, reason: &str, waits_for_cancel: bool) {
        let end = json!({
            "id": "1-9", "rev": 9, "kind": "turn_end", "turn": "prm_1", "parent": null, "open": false, "summary": "",
            "at": "2026-11-19T20:20:53.885Z", "changedAt": "2026-11-19T20:20:53.885Z", "reason": reason,
            "outcome": "cut_off", "durationMs": null, "usage": null, "context": null, "files": [], "message": null,
            "stderr": null, "next": null, "tools": { "count": 0, "failed": 0 },
        });
        let event = format!("event: row\ndata: {end}\n\n");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let cut = format!("{head}{:x}\r\n{event}\r\n0\r\n\r\n", event.len());
        let mut is_cut = !waits_for_cancel;
        let mut streams = Vec::new();
        loop {
            let (mut caller, line) = accept_request(&host).await;
            let other = if line.starts_with("DELETE ") {
                is_cut = true;
                "HTTP/1.1 204 No Content\r\n\r\n"
            } else if line.contains("/turns/") {
                "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"
            } else {
                ""
            };
            // The caller may have closed the connection.
            let _ = caller.write_all(other.as_bytes()).await;
            if line.contains("/stream") {
                streams.push(caller);
            }
            for mut stream in streams.drain(..).filter(|_| is_cut) {
                let _ = stream.write_all(cut.as_bytes()).await;
            }
        }
    }

    #[tokio::test]
    async fn attendant_ends_when_a_stop_of_the_host_has_cut_its_turn() {
        let folder = tempfile::tempdir().unwrap();
        let turn = AttendedTurn {
            session: "sess_1".to_owned(),
            prompt: "prm_1".to_owned(),
            agent: "demo".to_owned(),
            asks: AttendedAsks::Wait,
            time_left: None,
            ends_session: true,
        };
        for (reason, is_time_up, ended) in [
            ("host_shutdown", false, Some(Exit::Ok)),
            ("host_restarted", false, None),
            ("host_shutdown", true, Some(Exit::Ok)),
            ("host_restarted", true, None),
        ] {
            let path = folder.path().join(format!("{reason}-{is_time_up}"));
            let listener = UnixListener::bind(&path).unwrap();
            let client = HostClient::unconnected(HostAddress::Socket(path));
            let mut signals = Signals::listen().unwrap();
            let time_is_up_at = is_time_up.then(Instant::now);
            let watched = tokio::select! {
                watched = turn.watch(&client, time_is_up_at, &mut signals) => watched,
                () = cut_turn(listener, reason, is_time_up) => unreachable!(),
            };
            let told = watched.as_ref().ok();
            assert_eq!(told, ended.as_ref(), "{reason}, {is_time_up}: {watched:?}");
        }
    }

    #[test]
    fn arguments_of_the_command_are_read_as_they_were_written() {
        let turn = AttendedTurn {
            session: "sess_1".to_owned(),
            prompt: "-odd".to_owned(),
            agent: "a b".to_owned(),
            asks: AttendedAsks::Deny,
            time_left: Some(1500),
            ends_session: true,
        };
        let arguments = std::iter::once("wharf".into()).chain(turn.to_arguments());
        let read = AttendCommand::try_parse_from(arguments).unwrap().turn;
        assert_eq!(format!("{read:?}"), format!("{turn:?}"));
    }

    #[test]
    fn asks_without_a_policy_wait_for_a_person_and_have_no_limit() {
        let limit = Some(Duration::from_secs(600));
        let after = |policy| AttendedAsks::of_policy(policy).to_policy();
        assert_eq!(after(AskPolicy::Person), AskPolicy::Others(None));
        assert_eq!(after(AskPolicy::Others(limit)), AskPolicy::Others(None));
        assert_eq!(after(AskPolicy::Allow(limit)), AskPolicy::Allow(None));
        assert_eq!(
            (after(AskPolicy::Deny), after(AskPolicy::Fail)),
            (AskPolicy::Deny, AskPolicy::Fail)
        );
    }
}
