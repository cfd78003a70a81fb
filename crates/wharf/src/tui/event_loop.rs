//! The loop: an input comes, the core updates, its effects are carried out, and a frame is drawn.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};
use wharf_render::text::to_printable;
use wharf_tui::{
    CopyPlace, ProgramEnd, ScreenSize, TuiEffect, TuiInput, TuiOptions, TuiState, update, view,
};

use super::clipboard::{format_clipboard, is_in_tmux, start_tmux_copy};
use super::drafts::DraftFolder;
use super::notification::NotifyingTerminal;
use super::reviver::start_host;
use super::streams::{FollowedStream, follow_list, follow_rows};
use super::terminal::TerminalScreen;
use super::{ClientClock, ConnectedHost, calls, keys, programs};
use crate::client::HostClient;
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::output;

/// Updates of the host are drawn at most every 33 ms; a key is drawn at once.
const FRAME_INTERVAL: Duration = Duration::from_millis(33);
/// The inputs of the host that wait. A stream that is faster than the client is held up.
const WAITING_INPUTS: usize = 256;
/// The inputs that are applied before the next look at the keys.
const INPUTS_PER_ROUND: usize = 64;
/// How long the client waits at its end for the answers to prompts and changes.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(3);

/// The running client.
#[derive(Debug)]
pub(super) struct EventLoop {
    global: GlobalOptions,
    clock: ClientClock,
    state: TuiState,
    screen: TerminalScreen,
    notifying: NotifyingTerminal,
    drafts: DraftFolder,
    client: Option<HostClient>,
    list: Option<FollowedStream>,
    rows: Option<FollowedStream>,
    sender: Sender<TuiInput>,
    inputs: Receiver<TuiInput>,
    /// The keys; `None` while another program has the terminal.
    keys: Option<EventStream>,
    /// The farewell, once the person has left.
    left: Option<String>,
    drawn_at: Option<Instant>,
    is_stale: bool,
}

impl EventLoop {
    pub(super) fn new(
        global: GlobalOptions,
        options: TuiOptions,
        clock: ClientClock,
        screen: TerminalScreen,
        drafts: DraftFolder,
    ) -> Self {
        let (sender, inputs) = channel(WAITING_INPUTS);
        Self {
            global,
            clock,
            state: TuiState::new(options, clock.now()),
            screen,
            notifying: NotifyingTerminal::of_process(),
            drafts,
            client: None,
            list: None,
            rows: None,
            sender,
            inputs,
            keys: Some(EventStream::new()),
            left: None,
            drawn_at: None,
            is_stale: true,
        }
    }

    /// Runs until the person leaves, a signal ends the client, or the first connection fails.
    pub(super) async fn run(
        mut self,
        connecting: impl Future<Output = anyhow::Result<ConnectedHost>>,
    ) -> anyhow::Result<Exit> {
        let mut connecting = pin!(connecting);
        let mut ends = EndSignals::listen()?;
        let mut resizes = signal(SignalKind::window_change()).context("listening for signals")?;
        self.draw()?;
        loop {
            let wake_at = self.state.next_wake().map(|at| self.clock.instant(at));
            let frame_at = self
                .is_stale
                .then(|| self.drawn_at.map_or_else(Instant::now, |at| at + FRAME_INTERVAL));
            tokio::select! {
                biased;
                key = next_key(&mut self.keys) => {
                    self.apply_event(key).await?;
                    self.apply_waiting_keys().await?;
                    // A person sees the effect of a key at once.
                    if self.is_stale {
                        self.draw()?;
                    }
                }
                // The reader of keys misses a change of size that comes together with a key.
                _ = resizes.recv() => {
                    let (width, height) = crossterm::terminal::size().context("reading the size of the terminal")?;
                    self.apply(TuiInput::Resized(ScreenSize { width, height })).await?;
                    self.draw()?;
                }
                () = ends.next() => self.left = Some(String::new()),
                connected = &mut connecting, if self.client.is_none() => {
                    let connected = connected.map_err(add_doctor_advice)?;
                    let ready = connected.to_ready();
                    self.list = Some(follow_list(&connected.client, self.sender.clone()));
                    self.client = Some(connected.client);
                    self.apply(TuiInput::HostReady(ready)).await?;
                }
                input = self.inputs.recv() => {
                    if let Some(input) = input {
                        self.apply_waiting(input).await?;
                    }
                }
                () = wait_until(frame_at) => self.draw()?,
                () = wait_until(wake_at) => self.apply(TuiInput::Tick).await?,
            }
            if let Some(text) = self.left.take() {
                let is_known = self.finish_changes().await?;
                self.screen.release();
                if !is_known {
                    output::print_note(
                        "wharf: the host has not answered the last change; a prompt without an answer is kept unsent",
                    );
                }
                if !text.is_empty() {
                    output::print_line(&text);
                }
                return Ok(Exit::Ok);
            }
        }
    }

    /// Waits for the answers to the last prompts and changes, and keeps all unsent texts. Returns
    /// false if an answer did not come in time.
    async fn finish_changes(&mut self) -> anyhow::Result<bool> {
        let give_up_at = Instant::now() + LAST_ANSWERS_TIMEOUT;
        while self.state.has_unanswered_changes() {
            match tokio::time::timeout_at(give_up_at, self.inputs.recv()).await {
                Ok(Some(input)) => self.apply(input).await?,
                Ok(None) | Err(_) => break,
            }
        }
        let is_known = !self.state.has_unanswered_changes();
        self.apply(TuiInput::End).await?;
        Ok(is_known)
    }

    async fn apply_event(&mut self, event: std::io::Result<Event>) -> anyhow::Result<()> {
        let input = keys::to_input(event.context("reading the keys")?);
        #[cfg(debug_assertions)]
        panic_if_tested(input.as_ref());
        match input {
            Some(input) => self.apply(input).await,
            None => Ok(()),
        }
    }

    /// Applies the keys that have come already, for the time of a frame at most: keys that come
    /// faster than frames are drawn together.
    async fn apply_waiting_keys(&mut self) -> anyhow::Result<()> {
        let draw_at = Instant::now() + FRAME_INTERVAL;
        while self.left.is_none() && Instant::now() < draw_at {
            let Some(event) = next_waiting_key(&mut self.keys).await else { break };
            self.apply_event(event).await?;
        }
        Ok(())
    }

    /// Applies an input of the host and those that wait behind it.
    async fn apply_waiting(&mut self, first: TuiInput) -> anyhow::Result<()> {
        let mut next = Some(first);
        for _ in 0..INPUTS_PER_ROUND {
            let Some(input) = next.take() else { break };
            self.apply(input).await?;
            next = self.inputs.try_recv().ok();
        }
        match next {
            Some(input) => self.apply(input).await,
            None => Ok(()),
        }
    }

    async fn apply(&mut self, input: TuiInput) -> anyhow::Result<()> {
        let mut waiting = vec![input];
        while let Some(input) = waiting.pop() {
            self.is_stale = true;
            for effect in update(&mut self.state, input, self.clock.now()) {
                waiting.extend(self.carry_out(effect).await?);
            }
        }
        Ok(())
    }

    /// Carries an effect out. Returns its outcome if it is known at once.
    async fn carry_out(&mut self, effect: TuiEffect) -> anyhow::Result<Option<TuiInput>> {
        match effect {
            TuiEffect::Call { id, call } => {
                if let Some(client) = &self.client {
                    calls::start_call(client, id, call, &self.sender);
                }
            }
            TuiEffect::OpenRows { stream, session } => {
                let client = self.client.as_ref();
                self.rows =
                    client.map(|client| follow_rows(client, &session, stream, self.sender.clone()));
            }
            TuiEffect::CloseRows => self.rows = None,
            TuiEffect::StartHost { is_urgent } => start_host(&self.global, is_urgent, &self.sender),
            TuiEffect::ProbeHost => {
                if let Some(client) = &self.client {
                    calls::start_probe(client, &self.sender);
                }
            }
            TuiEffect::UploadFile { id, session, path, name } => {
                if let Some(client) = &self.client {
                    calls::start_upload(client, id, &session, (path, name), &self.sender);
                }
            }
            TuiEffect::SaveDraft { key, text } => {
                // A disk that is full does not end the client: the text is still in its field.
                let _ = self.drafts.save(&key, &text);
            }
            TuiEffect::Copy(text) if is_in_tmux() => {
                let is_sent = self.copy(&text).is_ok();
                start_tmux_copy(text, is_sent, &self.sender);
            }
            TuiEffect::Copy(text) => return Ok(Some(TuiInput::Copied(self.copy(&text)))),
            TuiEffect::SetTitle(title) => {
                self.announce(&format!("\x1b]2;{}\x07", to_printable(&title)))?
            }
            TuiEffect::Notify { title, body } => {
                let sequence =
                    self.notifying.format_notification(&to_printable(&title), &to_printable(&body));
                self.announce(&sequence)?;
            }
            TuiEffect::Bell => self.announce("\x07")?,
            TuiEffect::RunEditor(text) => {
                return self.lend_terminal(programs::edit_text(text)).await;
            }
            TuiEffect::RunPager(text) => {
                return self.lend_terminal(programs::page_text(text)).await;
            }
            TuiEffect::RunLogin { adapter } => {
                let login = programs::log_agent_in(self.global.clone(), adapter);
                return self.lend_terminal(login).await;
            }
            TuiEffect::Suspend => {
                let suspended = async {
                    // The process goes on here when the shell continues it.
                    let _ =
                        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
                    ProgramEnd::Resumed
                };
                return self.lend_terminal(suspended).await;
            }
            TuiEffect::Redraw => self.screen.forget_cells(),
            TuiEffect::Leave { text } => self.left = Some(text),
        }
        Ok(None)
    }

    /// Gives the terminal to a program until it has ended.
    async fn lend_terminal(
        &mut self,
        program: impl Future<Output = ProgramEnd>,
    ) -> anyhow::Result<Option<TuiInput>> {
        self.keys = None;
        self.screen.release();
        let end = program.await;
        self.screen.resume()?;
        self.keys = Some(EventStream::new());
        Ok(Some(TuiInput::Program(end)))
    }

    /// Sends a title, a notification or a bell. A terminal that takes no bytes any more misses it.
    fn announce(&mut self, sequence: &str) -> anyhow::Result<()> {
        match self.screen.send_sequence(sequence) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            sent => sent.context("writing to the terminal"),
        }
    }

    fn copy(&mut self, text: &str) -> Result<CopyPlace, String> {
        let sent = self.screen.send_sequence(&format_clipboard(text)?);
        sent.map(|()| CopyPlace::Terminal).map_err(|error| error.to_string())
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        self.is_stale = false;
        self.drawn_at = Some(Instant::now());
        self.screen.draw(view(&self.state)).context("writing to the terminal")
    }
}

/// Names the program that finds out why the host does not answer, below the reason.
fn add_doctor_advice(error: anyhow::Error) -> anyhow::Error {
    if Failure::exit_of(&error) != Exit::NoHost {
        return error;
    }
    Failure::new(Exit::NoHost, format!("{error:#}\nwharf doctor tells what is wrong")).into()
}

/// Returns the next event of the terminal. Waits for ever while another program has it.
async fn next_key(keys: &mut Option<EventStream>) -> std::io::Result<Event> {
    match keys {
        Some(keys) => match keys.next().await {
            Some(event) => event,
            None => Err(std::io::ErrorKind::UnexpectedEof.into()),
        },
        None => std::future::pending().await,
    }
}

/// Returns an event of the terminal that has come already.
async fn next_waiting_key(keys: &mut Option<EventStream>) -> Option<std::io::Result<Event>> {
    let keys = keys.as_mut()?;
    poll_fn(|context| match keys.poll_next_unpin(context) {
        Poll::Ready(event) => Poll::Ready(event),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Panics at Ctrl-L if a test wants it, to see that the terminal is restored.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "a panic is what the test is about")]
fn panic_if_tested(input: Option<&TuiInput>) {
    let is_redraw = matches!(input, Some(TuiInput::Key(key)) if key.to_string() == "Ctrl-L");
    if is_redraw && std::env::var_os("WHARF_TEST_TUI_PANIC").is_some() {
        panic!("WHARF_TEST_TUI_PANIC is set");
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Signals that end the client: the terminal is restored, the agents go on.
#[derive(Debug)]
struct EndSignals {
    terminate: Signal,
    hangup: Signal,
}

impl EndSignals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
