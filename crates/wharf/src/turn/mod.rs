//! Watches one turn until it ends: prints its output, and has its asks answered.

mod output_line;
mod person;
mod signals;

use wharf_api::{AskChange, OutputLine, StreamEvent, TurnStep};

use crate::ask::{self, AnswerableAsk};
use crate::client::{HostCall, HostClient, SseEvent, StreamFollower, StreamStart, url_path};
use crate::format::Screen;
use crate::format::text::to_printable;
use crate::output;
use crate::session_ref::short_id;

pub(crate) use output_line::format_output_line;
use person::Person;
pub(crate) use signals::{Signals, TurnSignal};

/// How asks are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskPolicy {
    /// The person at the terminal is asked. Without a terminal the ask stays open for other clients.
    Person,
    Deny,
    Allow,
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
    /// The reader of stdout is gone.
    Unread,
}

/// Watches one turn of one session.
#[derive(Debug)]
pub(crate) struct TurnWatch<'a> {
    client: &'a HostClient,
    session: &'a str,
    /// Only this prompt's turn counts.
    prompt: &'a str,
    screen: Screen,
    ask_policy: AskPolicy,
    person: Person,
    /// True once output is shown: the turn has begun, or everything is shown from the start.
    begun: bool,
    interrupted: bool,
}

impl<'a> TurnWatch<'a> {
    /// Creates a watch. With `from_start`, output before the turn is shown too.
    pub(crate) fn new(
        client: &'a HostClient,
        (session, prompt): (&'a str, &'a str),
        screen: Screen,
        ask_policy: AskPolicy,
        from_start: bool,
    ) -> Self {
        let person = Person::default();
        Self { client, session, prompt, screen, ask_policy, person, begun: from_start, interrupted: false }
    }

    pub(crate) async fn run(mut self, from: StreamStart, signals: &mut Signals) -> anyhow::Result<WatchEnd> {
        let mut follow = StreamFollower::new(self.client, url_path(&["sessions", self.session, "stream"]), from);
        loop {
            tokio::select! {
                event = follow.next() => {
                    let Some(event) = event? else { return Ok(WatchEnd::Session) };
                    if let Some(end) = self.handle_event(&event).await? {
                        return Ok(end);
                    }
                }
                pressed = signals.next() => {
                    if pressed == TurnSignal::End || std::mem::replace(&mut self.interrupted, true) {
                        return Ok(WatchEnd::Left);
                    }
                    self.person.forget_asks();
                    output::print_note("interrupting the turn; once more to leave at once");
                    self.client.send_call(&HostCall::post_empty(url_path(&["sessions", self.session, "interrupt"]))).await?;
                }
                line = self.person.read_line() => self.handle_line(&line).await?,
            }
        }
    }

    async fn handle_event(&mut self, event: &SseEvent) -> anyhow::Result<Option<WatchEnd>> {
        match event.parse_session_event()? {
            StreamEvent::Line(line) if self.begun => {
                if output::try_print_line(&format_output_line(
                    self.screen,
                    &line.line,
                    line.stream == OutputLine::STDERR,
                ))
                .is_err()
                {
                    return Ok(Some(WatchEnd::Unread));
                }
            }
            StreamEvent::Turn(change) if change.prompt_id == self.prompt => match change.turn {
                TurnStep::Started => self.begun = true,
                TurnStep::Ended => {
                    return Ok(Some(WatchEnd::Turn(change.stop_reason.unwrap_or_else(|| "unknown".to_owned()))));
                }
                TurnStep::Other(_) => {}
            },
            StreamEvent::Ask(change) if self.begun => self.handle_ask(&change).await?,
            // Lines of other turns, changes of status, and unknown events of a newer host.
            StreamEvent::Line(_)
            | StreamEvent::Status(_)
            | StreamEvent::Turn(_)
            | StreamEvent::Ask(_)
            | StreamEvent::Pause(_)
            | StreamEvent::Other => {}
        }
        Ok(None)
    }

    async fn handle_ask(&mut self, change: &AskChange) -> anyhow::Result<()> {
        let id = change.ask_id.to_string();
        if !change.open {
            self.person.withdraw_ask(&id);
            return Ok(());
        }
        // Another client may have answered it in the meantime.
        let open = ask::list_open_asks(self.client, self.session).await?;
        let Some(asked) = open.into_iter().find(|ask| ask.id() == id) else { return Ok(()) };
        let choice = match self.ask_policy {
            AskPolicy::Deny => Some(asked.refusal_choice()),
            AskPolicy::Allow => asked.consent_choice(),
            AskPolicy::Person => None,
        };
        match choice {
            Some(choice) => self.send_answer(&asked, &choice).await,
            None if self.ask_policy == AskPolicy::Person && Person::is_present() => {
                self.person.add_ask(asked);
                Ok(())
            }
            None => {
                self.leave_open(&asked);
                Ok(())
            }
        }
    }

    /// Prints how the ask can be answered elsewhere.
    fn leave_open(&self, asked: &AnswerableAsk) {
        let options: Vec<String> = asked.choices().into_iter().map(|choice| choice.id).collect();
        let (subject, options) = (to_printable(asked.subject()), to_printable(&options.join("|")));
        output::print_note(&format!("the agent asks: {subject}"));
        output::print_note(&format!("  answer with: wharf answer {} {options}", short_id(self.session)));
    }

    async fn handle_line(&mut self, line: &str) -> anyhow::Result<()> {
        match self.person.handle_line(line) {
            Some((asked, choice)) => self.send_answer(&asked, &choice).await,
            None => Ok(()),
        }
    }

    async fn send_answer(&self, asked: &AnswerableAsk, choice: &ask::AskChoice) -> anyhow::Result<()> {
        if let Err(error) = ask::send_answer(self.client, self.session, asked, choice).await {
            // Another client was faster, or the turn is over: the stream tells which.
            output::print_note(&format!("not answered: {error}"));
        } else if self.ask_policy != AskPolicy::Person {
            output::print_note(&format!(
                "answered {:?} with {}",
                to_printable(asked.subject()),
                to_printable(&choice.name)
            ));
        }
        Ok(())
    }
}
