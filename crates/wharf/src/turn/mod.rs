//! Watches one turn until it ends: prints it in its format, and has its asks answered.

mod ask_queue;
mod deadlines;
mod ending;
mod flags;
mod output_line;
mod printer;
mod signals;
mod source;
mod start_wait;
#[cfg(test)]
mod tests;
mod typed_lines;

use std::collections::{BTreeSet, VecDeque};
use std::io::IsTerminal;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};
use wharf_api::{SessionStatus, TranscriptRow, TranscriptState, TurnDetail, TurnState};
use wharf_render::style::Screen;
use wharf_render::text::to_printable;

use crate::ask::{self, AnswerableAsk};
use crate::client::{HostCall, HostClient, StreamStart, url_path};
use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) use ask_queue::{AskQueue, TypedAnswer};
use deadlines::{DueAction, TurnDeadlines};
pub(crate) use ending::{
    RetryPlace, RetryTarget, TurnReport, advise_after_failure, mark_seen, report_session_end,
};
pub(crate) use flags::{AskFlags, FormatFlags, TurnFormat};
pub(crate) use output_line::format_output_line;
use printer::TurnPrinter;
pub(crate) use signals::{Signals, TurnSignal};
use source::{TurnEvent, TurnSource};
pub(crate) use start_wait::{StartEnd, wait_until_started};
pub(crate) use typed_lines::TypedLines;

/// The time between two drawings of the status line: four a second.
const STATUS_INTERVAL: Duration = Duration::from_millis(250);

/// How asks are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskPolicy {
    /// The person at the terminal is asked.
    Person,
    /// The ask stays open for other clients, at most for this time.
    Others(Option<Duration>),
    Deny,
    /// Each ask is allowed once. An ask that cannot be allowed once, such as a form, stays open for
    /// other clients, at most for this time.
    Allow(Option<Duration>),
    /// The turn is cancelled.
    Fail,
}

/// The reason why watching ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The turn's stop reason.
    Turn(String),
    /// The session ended, and the turn with it.
    Session,
    /// A second Ctrl-C, or a signal to end.
    Left,
    /// The turn goes on without this terminal.
    Detached(DetachCause),
    /// The reader of stdout is gone.
    Unread,
    /// An ask was not answered, so the turn was cancelled.
    Unanswered,
    /// The time was up, so the turn was cancelled.
    TimedOut,
}

/// The reason why a turn was left running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DetachCause {
    /// The person has pressed Ctrl-D.
    Asked,
    /// The terminal is gone.
    TerminalLost,
}

/// The turn that is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchedTurn<'a> {
    pub(crate) client: &'a HostClient,
    pub(crate) session: &'a str,
    /// The name of the session in hints: its label, or the end of its id.
    pub(crate) name: &'a str,
    /// Only this prompt's turn counts.
    pub(crate) prompt: &'a str,
    /// The name of the agent.
    pub(crate) agent: &'a str,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchOptions {
    pub(crate) format: TurnFormat,
    pub(crate) screen: Screen,
    pub(crate) ask_policy: AskPolicy,
    pub(crate) timeout: Option<Duration>,
    /// Output before the turn is shown too: the session is new.
    pub(crate) from_start: bool,
    /// The turn has lost its terminal, and runs already: it may have ended, and the host may be
    /// away for a while.
    pub(crate) is_attended: bool,
}

/// Something that a watch handles.
#[derive(Debug)]
enum WatchStep {
    /// The turn may have ended before the watch begins.
    FirstLook,
    Event(TurnEvent),
    Signal(TurnSignal),
    /// A typed line, or the end of the input.
    Line(Option<String>),
    /// The status line is due.
    Tick,
    Deadline,
}

/// Watches one turn of one session.
#[derive(Debug)]
pub(crate) struct TurnWatch<'a> {
    turn: WatchedTurn<'a>,
    options: WatchOptions,
    printer: TurnPrinter,
    asks: AskQueue,
    /// The asks that were handled: a row of an ask comes again when its subject changes.
    handled_asks: BTreeSet<u64>,
    lines: Option<TypedLines>,
    /// True once output is shown: the turn has begun, or everything is shown from the start.
    shows_output: bool,
    begun: bool,
    queued: bool,
    is_person_present: bool,
    interrupted: bool,
    /// The signals that came while a step was handled.
    waiting_signals: VecDeque<TurnSignal>,
    deadlines: TurnDeadlines,
}

impl<'a> TurnWatch<'a> {
    pub(crate) fn new(turn: WatchedTurn<'a>, options: WatchOptions) -> Self {
        let mut printer = TurnPrinter::new(options.format, options.screen, turn.agent);
        printer.hide_prompt(turn.prompt);
        let is_person_present = output::is_person_present();
        printer.name_keys(is_person_present && !options.is_attended);
        Self {
            turn,
            options,
            printer,
            asks: AskQueue::default(),
            handled_asks: BTreeSet::new(),
            lines: None,
            shows_output: options.from_start,
            begun: false,
            queued: false,
            is_person_present,
            interrupted: false,
            waiting_signals: VecDeque::new(),
            deadlines: TurnDeadlines::new(options.timeout, Instant::now()),
        }
    }

    /// Watches until the turn ends. `from` is where the session's lines are read from, if they are.
    pub(crate) async fn run(
        mut self,
        from: StreamStart,
        signals: &mut Signals,
    ) -> anyhow::Result<WatchEnd> {
        let end = self.watch(from, signals).await;
        self.printer.end_line();
        Ok(self.deadlines.name_end(end?))
    }

    async fn watch(
        &mut self,
        from: StreamStart,
        signals: &mut Signals,
    ) -> anyhow::Result<WatchEnd> {
        let WatchedTurn { client, session, prompt, .. } = self.turn;
        let format = self.options.format;
        let mut source = if format.follows_rows() {
            TurnSource::of_rows(client, (session, prompt), format == TurnFormat::StreamJson)
        } else {
            TurnSource::of_lines(client, (session, prompt), from)
        };
        let mut ticks = self.printer.has_status().then(status_ticks);
        if self.options.is_attended
            && let Some(ended) = self.handle_unless_left(WatchStep::FirstLook, signals).await?
        {
            return Ok(ended);
        }
        if self.is_person_present && !self.options.is_attended {
            self.lines = Some(TypedLines::read_stdin());
        }
        loop {
            let next_deadline = self.deadlines.next();
            let step = match self.waiting_signals.pop_front() {
                Some(pressed) => WatchStep::Signal(pressed),
                None => tokio::select! {
                    event = source.next() => WatchStep::Event(event?),
                    pressed = signals.next() => WatchStep::Signal(pressed),
                    line = read_line(&mut self.lines) => WatchStep::Line(line),
                    () = tick(&mut ticks) => WatchStep::Tick,
                    () = wait_until(next_deadline) => WatchStep::Deadline,
                },
            };
            if let Some(ended) = self.handle_unless_left(step, signals).await? {
                return Ok(ended);
            }
        }
    }

    /// Handles a step. A frozen host never answers its calls, so signals are heard meanwhile: one
    /// to end leaves the turn at once, as does a second Ctrl-C. Others wait until the step is done.
    async fn handle_unless_left(
        &mut self,
        step: WatchStep,
        signals: &mut Signals,
    ) -> anyhow::Result<Option<WatchEnd>> {
        let is_cancelling = matches!(step, WatchStep::Signal(TurnSignal::Interrupt));
        let mut is_final = is_cancelling || self.is_interrupt_final();
        let mut waiting = VecDeque::new();
        let ended = {
            let mut handling = std::pin::pin!(self.handle_step(step));
            loop {
                tokio::select! {
                    biased;
                    ended = &mut handling => break ended?,
                    pressed = signals.next() => match pressed {
                        TurnSignal::End => return Ok(Some(WatchEnd::Left)),
                        TurnSignal::Interrupt if is_final => return Ok(Some(WatchEnd::Left)),
                        TurnSignal::Interrupt | TurnSignal::HangUp => {
                            is_final |= pressed == TurnSignal::Interrupt;
                            waiting.push_back(pressed);
                        }
                    },
                }
            }
        };
        self.waiting_signals.append(&mut waiting);
        Ok(ended)
    }

    async fn handle_step(&mut self, step: WatchStep) -> anyhow::Result<Option<WatchEnd>> {
        match step {
            WatchStep::FirstLook => self.find_turn_end().await,
            WatchStep::Event(event) => self.handle_event(event).await,
            WatchStep::Signal(pressed) => self.handle_signal(pressed).await,
            WatchStep::Line(line) => Ok(self.handle_line(line).await),
            WatchStep::Tick => {
                if self.asks.is_empty() {
                    self.printer.draw_status();
                }
                Ok(None)
            }
            WatchStep::Deadline => self.handle_deadline(Instant::now()).await,
        }
    }

    async fn handle_event(&mut self, event: TurnEvent) -> anyhow::Result<Option<WatchEnd>> {
        let printed = match event {
            TurnEvent::Line { text, stderr } if self.shows_output => {
                self.printer.print_line(&text, stderr)
            }
            TurnEvent::Line { .. } => Ok(()),
            TurnEvent::Row(row) if self.is_shown(&row) => self.printer.print_row(&row),
            TurnEvent::Row(_) => Ok(()),
            TurnEvent::Raw(event) => self.printer.print_event(&event),
            TurnEvent::State(state) => return self.handle_state(&state).await,
            TurnEvent::Begun => {
                (self.begun, self.shows_output) = (true, true);
                Ok(())
            }
            TurnEvent::AskOpened(id) if self.shows_output => return self.handle_ask(id).await,
            TurnEvent::AskOpened(_) => Ok(()),
            TurnEvent::AskClosed(id) => {
                self.withdraw_ask(id);
                Ok(())
            }
            TurnEvent::Ended(reason) => return Ok(Some(WatchEnd::Turn(reason))),
            TurnEvent::SessionOver => return Ok(Some(WatchEnd::Session)),
        };
        Ok(printed.is_err().then(|| self.lose_reader()))
    }

    /// Returns how the watch ends if its output cannot be printed.
    const fn lose_reader(&self) -> WatchEnd {
        if self.options.screen.terminal {
            WatchEnd::Detached(DetachCause::TerminalLost)
        } else {
            WatchEnd::Unread
        }
    }

    /// Returns true for rows of the turn, and for rows between turns while it runs.
    fn is_shown(&self, row: &TranscriptRow) -> bool {
        match &row.turn {
            Some(turn) => turn == self.turn.prompt || self.options.from_start,
            None => self.shows_output,
        }
    }

    async fn handle_state(&mut self, state: &TranscriptState) -> anyhow::Result<Option<WatchEnd>> {
        let session = &state.session;
        let is_queued = state.queue.iter().any(|entry| entry.prompt_id == self.turn.prompt);
        let is_running = session.status == SessionStatus::Running;
        self.printer.note_phase(self.turn.agent, is_running, &session.turn, is_queued);
        if self.turn.prompt.is_empty() && !session.status.is_alive() {
            return Ok(Some(WatchEnd::Session));
        }
        // The turn may have ended between the first look at it and the beginning of the stream.
        if self.options.is_attended
            && let Some(ended) = self.find_turn_end().await?
        {
            return Ok(Some(ended));
        }
        let was_queued = std::mem::replace(&mut self.queued, is_queued);
        if was_queued && !is_queued && !self.begun && !self.is_prompt_known().await? {
            return Ok(Some(WatchEnd::Turn("removed".to_owned())));
        }
        Ok(None)
    }

    /// Asks the host how the turn has ended. Notes that it has begun, if it runs.
    async fn find_turn_end(&mut self) -> anyhow::Result<Option<WatchEnd>> {
        let call =
            HostCall::get(url_path(&["sessions", self.turn.session, "turns", self.turn.prompt]));
        let known = match self.turn.client.fetch_json::<TurnDetail>(&call).await {
            Ok(known) => known.turn,
            // It waits in the queue, or was taken out of it, which the stream tells.
            Err(error) if Failure::exit_of(&error) == Exit::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        self.begun |= known.state == TurnState::Running;
        let reason = known.stop_reason.unwrap_or_else(|| "unknown".to_owned());
        Ok((known.state == TurnState::Ended).then_some(WatchEnd::Turn(reason)))
    }

    /// Returns false if the prompt was taken out of the queue.
    async fn is_prompt_known(&self) -> anyhow::Result<bool> {
        let call =
            HostCall::get(url_path(&["sessions", self.turn.session, "turns", self.turn.prompt]));
        match self.turn.client.fetch_json::<TurnDetail>(&call).await {
            Ok(_) => Ok(true),
            Err(error) if Failure::exit_of(&error) == Exit::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn handle_signal(&mut self, pressed: TurnSignal) -> anyhow::Result<Option<WatchEnd>> {
        if pressed == TurnSignal::HangUp {
            return Ok((!self.options.is_attended)
                .then_some(WatchEnd::Detached(DetachCause::TerminalLost)));
        }
        if pressed == TurnSignal::End || self.is_interrupt_final() {
            return Ok(Some(WatchEnd::Left));
        }
        self.interrupted = true;
        self.asks.forget_all();
        self.printer.print_note("interrupting the turn; once more to leave at once");
        self.cancel_turn().await?;
        Ok(None)
    }

    /// Returns true if SIGINT leaves the turn: it was pressed before, or no person has pressed it.
    const fn is_interrupt_final(&self) -> bool {
        self.interrupted || (self.options.is_attended && !self.is_person_present)
    }

    /// Cancels the turn, or takes the prompt out of the queue if its turn has not begun: another
    /// turn goes on then.
    async fn cancel_turn(&self) -> anyhow::Result<()> {
        let WatchedTurn { client, session, prompt, .. } = self.turn;
        if !self.begun && !prompt.is_empty() {
            let removal = HostCall::delete(url_path(&["sessions", session, "queue", prompt]));
            if client.send_call(&removal).await.is_ok() {
                return Ok(());
            }
            // It has begun in the meantime.
        }
        client
            .send_call(&HostCall::post_empty(url_path(&["sessions", session, "interrupt"])))
            .await
            .map(drop)
    }

    async fn handle_deadline(&mut self, now: Instant) -> anyhow::Result<Option<WatchEnd>> {
        match self.deadlines.find_due(now) {
            Some(DueAction::Leave(why)) => return Ok(Some(why)),
            Some(DueAction::Cancel(why)) => self.stop_turn(why).await?,
            None => {}
        }
        Ok(None)
    }

    /// Cancels the turn for this reason, and waits for its end for a short time.
    async fn stop_turn(&mut self, why: WatchEnd) -> anyhow::Result<()> {
        self.asks.forget_all();
        self.deadlines.begin_cancel(why, Instant::now());
        self.cancel_turn().await
    }

    async fn handle_ask(&mut self, id: u64) -> anyhow::Result<Option<WatchEnd>> {
        // Another client may have answered it in the meantime.
        let open = match ask::list_open_asks(self.turn.client, self.turn.session).await {
            // The host restarts, and shows the ask again.
            Err(error) if !self.options.is_attended && Failure::exit_of(&error) == Exit::NoHost => {
                return Ok(None);
            }
            listed => listed?,
        };
        let Some(asked) = open.into_iter().find(|ask| ask.0.ask_id == id) else { return Ok(None) };
        let is_new = !self.handled_asks.contains(&id);
        if self.options.ask_policy == AskPolicy::Person {
            if self.asks.put(asked) && !self.interrupted {
                self.show_ask();
            }
            return Ok(None);
        }
        if !is_new {
            return Ok(None);
        }
        let choice = match self.options.ask_policy {
            AskPolicy::Deny => Some(asked.refusal_choice()),
            AskPolicy::Allow(_) => asked.consent_choice(),
            AskPolicy::Person | AskPolicy::Others(_) | AskPolicy::Fail => None,
        };
        match choice {
            Some(choice) => self.answer_by_policy(&asked, &choice).await?,
            None => self.leave_open(&asked).await?,
        }
        self.handled_asks.insert(id);
        Ok(None)
    }

    /// Prints the ask, and how it can be answered elsewhere; cancels the turn if the ask must not
    /// stay open.
    async fn leave_open(&mut self, asked: &AnswerableAsk) -> anyhow::Result<()> {
        self.printer.end_line();
        output::print_note("the agent asks:");
        output::print_styled_note(&asked.to_lines(Screen { colour: false, ..self.options.screen }));
        match self.options.ask_policy {
            AskPolicy::Fail => return self.stop_turn(WatchEnd::Unanswered).await,
            AskPolicy::Others(Some(limit)) | AskPolicy::Allow(Some(limit)) => {
                self.deadlines.limit_ask(asked.0.ask_id, limit, Instant::now());
            }
            AskPolicy::Others(None)
            | AskPolicy::Allow(None)
            | AskPolicy::Person
            | AskPolicy::Deny => {}
        }
        output::print_note(&self.describe_answer_command(asked));
        Ok(())
    }

    /// Returns the command that answers the ask from elsewhere.
    fn describe_answer_command(&self, asked: &AnswerableAsk) -> String {
        format!(
            "  answer with: wharf answer {}/{} {}",
            self.turn.name,
            asked.id(),
            asked.describe_answers()
        )
    }

    /// Puts the first ask on the screen. Lines that were typed before do not count as its answer.
    fn show_ask(&mut self) {
        let Some(question) = self.asks.first_question(self.options.screen) else { return };
        self.printer.end_line();
        if let Some(lines) = &mut self.lines {
            lines.forget_typed();
        }
        question.print();
    }

    fn withdraw_ask(&mut self, id: u64) {
        self.deadlines.forget_ask(id);
        if self.asks.withdraw(id) {
            output::print_note("\n  answered elsewhere, or withdrawn");
            self.show_ask();
        }
    }

    /// Takes a typed line, or the end of the input: Ctrl-D leaves the asks on the screen to others,
    /// and without one it leaves the turn.
    async fn handle_line(&mut self, line: Option<String>) -> Option<WatchEnd> {
        let answer = match line {
            Some(line) => self.asks.take_answer(&line),
            None if self.asks.is_empty() => {
                let is_lost = !std::io::stdin().is_terminal();
                return Some(WatchEnd::Detached(if is_lost {
                    DetachCause::TerminalLost
                } else {
                    DetachCause::Asked
                }));
            }
            None => {
                output::print_note("");
                self.asks.decline_form()
            }
        };
        match answer {
            TypedAnswer::Chosen(asked, choice) => {
                self.send_answer(&asked, &choice).await;
                self.show_ask();
            }
            TypedAnswer::Question(question) => question.print(),
            // Ctrl-D, or stdin is closed: the asks are left to other clients.
            TypedAnswer::NoAsk => {
                for asked in self.asks.take_all() {
                    output::print_note(&self.describe_answer_command(&asked));
                }
            }
        }
        None
    }

    /// Answers an ask by its policy. Fails if the turn is looked after and the host does not take
    /// the answer: unless another client was faster, the answer is tried again.
    async fn answer_by_policy(
        &mut self,
        asked: &AnswerableAsk,
        choice: &ask::AskChoice,
    ) -> anyhow::Result<()> {
        self.printer.hide_answer(asked.0.ask_id);
        match ask::send_answer(self.turn.client, self.turn.session, asked, choice).await {
            Err(error) if self.options.is_attended && !Failure::is_lasting(&error) => {
                return Err(error);
            }
            // Another client was faster, or the turn is over: the stream tells which.
            Err(error) => self.printer.print_note(&format!("not answered: {error}")),
            Ok(_) => {
                let subject = to_printable(asked.subject());
                let name = to_printable(&choice.name);
                self.printer.print_note(&format!("answered {subject:?} with {name}"));
            }
        }
        Ok(())
    }

    async fn send_answer(&mut self, asked: &AnswerableAsk, choice: &ask::AskChoice) {
        self.printer.hide_answer(asked.0.ask_id);
        if let Err(error) =
            ask::send_answer(self.turn.client, self.turn.session, asked, choice).await
        {
            // Another client was faster, or the turn is over: the stream tells which.
            self.printer.print_note(&format!("not answered: {error}"));
        }
    }
}

/// Returns the ticks at which the status line is drawn.
fn status_ticks() -> Interval {
    let mut ticks = interval(STATUS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for the next tick; for ever without a status line.
async fn tick(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => {
            ticks.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// Waits until this time; for ever if there is none.
pub(crate) async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Returns the next typed line. Waits for ever if no person can type one.
async fn read_line(lines: &mut Option<TypedLines>) -> Option<String> {
    match lines {
        Some(lines) => lines.next().await,
        None => std::future::pending().await,
    }
}
