//! Holds a conversation with a session, line by line: for any terminal, and for screen readers. The
//! client does not redraw text in place.
//!
//! Leaving never ends the agent. The client follows the session's rows over restarts of the host,
//! and sends a prompt that is typed meanwhile when the host is back.

mod send;

use std::time::Duration;

use tokio::time::Instant;
use wharf_api::{
    AskState, RowBody, SessionInfo, SessionStatus, TranscriptRow, TranscriptState, TurnPhase,
};
use wharf_render::style::Screen;
use wharf_render::text::format_duration;

use crate::ask::{self, AnswerableAsk, AskChoice};
use crate::client::{HostCall, HostClient, TranscriptStream, TranscriptUpdate, url_path};
use crate::exit::Exit;
use crate::output;
use crate::transcript::{LiveText, RowLook};
use crate::turn::{
    AskQueue, RetryPlace, RetryTarget, Signals, TurnSignal, TypedAnswer, TypedLines,
    advise_after_failure, mark_seen, wait_until,
};

/// A second Ctrl-C within this time leaves the conversation.
const LEAVE_WINDOW: Duration = Duration::from_secs(2);
/// How long the agent may work in silence until a line says that it still works.
const SILENCE_NOTE_AFTER: Duration = Duration::from_secs(30);
/// The sign that a prompt can be typed.
const PROMPT_MARK: &str = "> ";

/// A conversation of one person with one session.
#[derive(Debug)]
pub(crate) struct Chat<'a> {
    client: &'a HostClient,
    session: SessionInfo,
    /// The name of the session in hints: its label, or the end of its id.
    name: String,
    screen: Screen,
    live: LiveText,
    asks: AskQueue,
    lines: TypedLines,
    state: Option<TranscriptState>,
    /// The prompt mark is the last thing on the screen.
    is_marked: bool,
    interrupted_at: Option<Instant>,
    last_output_at: Instant,
    working_since: Option<Instant>,
    /// A turn was shown whose end was not: the state may tell of the end before the row does.
    is_turn_open: bool,
    is_host_away: bool,
}

impl<'a> Chat<'a> {
    pub(crate) fn new(
        client: &'a HostClient,
        session: SessionInfo,
        name: String,
        screen: Screen,
    ) -> Self {
        Self {
            client,
            session,
            name,
            screen,
            live: LiveText::new(RowLook { screen, times: false }),
            asks: AskQueue::default(),
            lines: TypedLines::read_stdin(),
            state: None,
            is_marked: false,
            interrupted_at: None,
            last_output_at: Instant::now(),
            working_since: None,
            is_turn_open: false,
            is_host_away: false,
        }
    }

    /// Talks until the person leaves or the session is deleted.
    pub(crate) async fn run(mut self, signals: &mut Signals) -> anyhow::Result<Exit> {
        let mut rows = TranscriptStream::open(self.client, &self.session.id, false);
        if self.session.status == SessionStatus::Starting {
            self.tell_start();
        }
        loop {
            let is_told = self.working_since.is_some() && !self.is_host_away;
            let silence_ends_at = is_told.then(|| self.last_output_at + SILENCE_NOTE_AFTER);
            let left = tokio::select! {
                update = rows.next() => match update? {
                    Some(update) => self.handle_update(update).await?,
                    None => Some(Exit::Ok),
                },
                pressed = signals.next() => self.handle_signal(pressed).await,
                line = self.lines.next() => match line {
                    Some(line) => self.handle_line(&line, signals).await,
                    None => self.handle_end_of_input().await,
                },
                () = wait_until(silence_ends_at) => {
                    self.tell_silence();
                    None
                }
            };
            if let Some(exit) = left {
                self.say_goodbye(exit);
                return Ok(exit);
            }
        }
    }

    async fn handle_update(&mut self, update: TranscriptUpdate) -> anyhow::Result<Option<Exit>> {
        match update {
            TranscriptUpdate::FirstPage { rows, mid_turn } => {
                self.show_last_turn(&rows, mid_turn).await?
            }
            TranscriptUpdate::Row(row) => self.show_row(&row).await?,
            TranscriptUpdate::State(state) => self.take_state(*state),
            TranscriptUpdate::Event(_) => {}
            TranscriptUpdate::HostAway => {
                self.is_host_away = true;
                self.print_note("the host is away; waiting for it to come back");
            }
            TranscriptUpdate::HostBack => self.is_host_away = false,
            TranscriptUpdate::Gone => {
                self.print_note("the session was deleted");
                return Ok(Some(Exit::NotFound));
            }
        }
        Ok(None)
    }

    /// Shows the last turn of the first page; earlier ones are named.
    async fn show_last_turn(
        &mut self,
        rows: &[TranscriptRow],
        mid_turn: bool,
    ) -> anyhow::Result<()> {
        let start =
            rows.iter().rposition(|row| matches!(row.body, RowBody::Prompt(_))).unwrap_or(0);
        let (earlier, last) = rows.split_at(start);
        earlier.iter().for_each(|row| self.live.skip(row));
        if !earlier.is_empty() || mid_turn {
            self.print_note(&format!("earlier: wharf output {}", self.name));
        }
        for row in last {
            self.show_row(row).await?;
        }
        Ok(())
    }

    async fn show_row(&mut self, row: &TranscriptRow) -> anyhow::Result<()> {
        let text = self.live.show(row);
        self.print_text(&text)?;
        match &row.body {
            RowBody::Ask(ask) if ask.state == AskState::Open => self.put_ask(ask.ask_id).await,
            RowBody::Ask(ask) => {
                if self.asks.withdraw(ask.ask_id) {
                    self.show_ask();
                }
            }
            RowBody::TurnEnd(end) => {
                // Ctrl-C means the next turn then.
                self.interrupted_at = None;
                self.is_turn_open = false;
                let session = self.state.as_ref().map(|state| &state.session);
                let target = RetryTarget {
                    agent: &self.session.adapter_slug,
                    name: &self.name,
                    session,
                    place: RetryPlace::Chat,
                };
                if let Some(advice) = advise_after_failure(end, target) {
                    self.print_note(&advice);
                }
                if self.screen.terminal {
                    mark_seen(self.client, &self.session.id, &row.id).await;
                }
                self.mark_prompt();
            }
            RowBody::Prompt(_) => self.is_turn_open = true,
            RowBody::Message(_)
            | RowBody::Thought(_)
            | RowBody::Tool(_)
            | RowBody::Plan(_)
            | RowBody::Notice(_)
            | RowBody::Unknown => {}
        }
        Ok(())
    }

    fn take_state(&mut self, state: TranscriptState) {
        let before = self.state.as_ref().map_or(&self.session, |state| &state.session);
        let was_starting = before.status == SessionStatus::Starting;
        let is_starting = state.session.status == SessionStatus::Starting;
        let is_working = state.session.turn != TurnPhase::Idle;
        self.state = Some(state);
        if is_starting && !was_starting {
            self.tell_start();
        }
        match (is_working, self.working_since) {
            (true, None) => self.working_since = Some(Instant::now()),
            (false, _) => self.working_since = None,
            (true, Some(_)) => {}
        }
        self.mark_prompt();
    }

    fn tell_start(&mut self) {
        self.print_note(&format!("starting {} …", self.session.adapter_slug));
    }

    fn is_working(&self) -> bool {
        self.working_since.is_some()
    }

    /// Reads the ask from the host and puts it to the person, also again if its subject has
    /// changed.
    async fn put_ask(&mut self, id: u64) {
        // Another client may have answered it in the meantime; a host that restarts withdraws it.
        let open = ask::list_open_asks(self.client, &self.session.id).await.unwrap_or_default();
        if let Some(asked) = open.into_iter().find(|ask| ask.0.ask_id == id)
            && self.asks.put(asked)
        {
            self.show_ask();
        }
    }

    /// Shows the first ask. Lines that were typed before do not count as its answer.
    fn show_ask(&mut self) {
        let Some(question) = self.asks.first_question(self.screen) else { return };
        self.end_output();
        self.lines.forget_typed();
        question.print();
    }

    async fn handle_signal(&mut self, pressed: TurnSignal) -> Option<Exit> {
        let again = self.interrupted_at.is_some_and(|at| at.elapsed() < LEAVE_WINDOW);
        if matches!(pressed, TurnSignal::End | TurnSignal::HangUp) || again {
            return Some(Exit::Interrupted);
        }
        self.interrupted_at = Some(Instant::now());
        // The terminal shows `^C` behind the mark or the typed text.
        self.is_marked = true;
        if !self.is_working() {
            self.print_note("Ctrl-C again leaves; the session stays");
            self.mark_prompt();
            return None;
        }
        self.asks.forget_all();
        self.print_note("interrupting the turn; Ctrl-C again leaves, and the agent goes on");
        let call = HostCall::post_empty(url_path(&["sessions", &self.session.id, "interrupt"]));
        if let Err(error) = self.client.send_call(&call).await {
            self.print_note(&format!("not interrupted: {error}"));
        }
        None
    }

    async fn handle_line(&mut self, line: &str, signals: &mut Signals) -> Option<Exit> {
        self.is_marked = false;
        match self.asks.take_answer(line) {
            TypedAnswer::Chosen(asked, choice) => {
                self.send_answer(&asked, &choice).await;
                None
            }
            TypedAnswer::Question(question) => {
                question.print();
                None
            }
            TypedAnswer::NoAsk if line.trim().is_empty() => {
                self.mark_prompt();
                None
            }
            TypedAnswer::NoAsk => self.send_prompt(line, signals).await,
        }
    }

    /// Ctrl-D declines a form that is on the screen, else it leaves the conversation.
    async fn handle_end_of_input(&mut self) -> Option<Exit> {
        let TypedAnswer::Chosen(asked, choice) = self.asks.decline_form() else {
            return Some(Exit::Ok);
        };
        self.print_note("");
        self.send_answer(&asked, &choice).await;
        None
    }

    /// Sends an answer and shows the next ask.
    async fn send_answer(&mut self, asked: &AnswerableAsk, choice: &AskChoice) {
        self.live.hide_answer(asked.0.ask_id);
        if let Err(error) = ask::send_answer(self.client, &self.session.id, asked, choice).await {
            self.print_note(&format!("not answered: {error}"));
        }
        self.show_ask();
    }

    fn tell_silence(&mut self) {
        let millis = self.working_since.map_or(0, |since| since.elapsed().as_millis());
        let elapsed = format_duration(u64::try_from(millis).unwrap_or(u64::MAX));
        let doing = self.live.activity().map(|doing| format!(": {doing}")).unwrap_or_default();
        self.print_note(&format!("… still working ({elapsed}){doing}"));
    }

    /// Shows the sign that a prompt can be typed, if the agent waits for one.
    fn mark_prompt(&mut self) {
        if !self.is_marked && !self.is_turn_open && !self.is_working() && self.asks.is_empty() {
            self.end_output();
            output::print_question(PROMPT_MARK);
            self.is_marked = true;
        }
    }

    fn print_text(&mut self, text: &str) -> std::io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.leave_mark();
        self.last_output_at = Instant::now();
        output::try_print_text(text)
    }

    fn print_note(&mut self, text: &str) {
        self.end_output();
        self.last_output_at = Instant::now();
        output::print_note(text);
    }

    /// Ends an unfinished line.
    fn end_output(&mut self) {
        self.leave_mark();
        let rest = self.live.end_line();
        if !rest.is_empty() {
            let _ = output::try_print_text(&rest);
        }
    }

    /// Begins a new line if the prompt mark stands on the last one.
    fn leave_mark(&mut self) {
        if std::mem::take(&mut self.is_marked) {
            output::print_note("");
        }
    }

    fn say_goodbye(&mut self, exit: Exit) {
        // Ctrl-D and Ctrl-C leave the cursor behind the mark or the typed text.
        self.is_marked = true;
        if exit != Exit::NotFound {
            self.print_note(&format!("left; the session goes on: wharf chat {}", self.name));
        }
    }
}
