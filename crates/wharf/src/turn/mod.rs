//! Watching one turn: its output to stdout, its asks to whoever may answer them, until it ends or is left.

mod person;
mod shown;
mod signals;

use wharf_api::{AskChange, OutputLine, StreamEvent, TurnStep};

use crate::ask::{self, Ask};
use crate::client::{Call, Client, Event, Follow, Place, path};
use crate::look::Screen;
use crate::look::text::printable;
use crate::output;
use crate::which::short;

use person::Person;
pub(crate) use shown::shown;
pub(crate) use signals::{Pressed, Signals};

/// What becomes of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The person at the terminal is asked; without one it is left open for others.
    Person,
    Deny,
    Allow,
}

/// How the watching ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The turn's stop reason.
    Turn(String),
    /// The session ended, and the turn with it.
    Session,
    /// A second Ctrl-C, or the like.
    Left,
    /// Nobody reads stdout any more.
    Unread,
}

/// One turn of one session.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    client: &'a Client,
    session: &'a str,
    /// Only this prompt's turn counts.
    prompt: &'a str,
    screen: Screen,
    asked: Asked,
    person: Person,
    /// Output is ours to show: our turn runs.
    begun: bool,
    interrupted: bool,
}

impl<'a> Watch<'a> {
    /// `from_start`: what comes before the turn is shown too.
    pub(crate) fn new(
        client: &'a Client,
        (session, prompt): (&'a str, &'a str),
        screen: Screen,
        asked: Asked,
        from_start: bool,
    ) -> Self {
        let person = Person::default();
        Self { client, session, prompt, screen, asked, person, begun: from_start, interrupted: false }
    }

    pub(crate) async fn run(mut self, from: Place, signals: &mut Signals) -> anyhow::Result<End> {
        let mut follow = Follow::new(self.client, path(&["sessions", self.session, "stream"]), from);
        loop {
            tokio::select! {
                event = follow.next() => {
                    let Some(event) = event? else { return Ok(End::Session) };
                    if let Some(end) = self.handle(&event).await? {
                        return Ok(end);
                    }
                }
                pressed = signals.next() => {
                    if pressed == Pressed::End || std::mem::replace(&mut self.interrupted, true) {
                        return Ok(End::Left);
                    }
                    self.person.forget();
                    output::note("interrupting the turn; once more to leave at once");
                    self.client.call(&Call::command(path(&["sessions", self.session, "interrupt"]))).await?;
                }
                line = self.person.line() => self.handle_line(&line).await?,
            }
        }
    }

    async fn handle(&mut self, event: &Event) -> anyhow::Result<Option<End>> {
        match event.told()? {
            StreamEvent::Line(line) if self.begun => {
                if output::stream(&shown(self.screen, &line.line, line.stream == OutputLine::STDERR)).is_err() {
                    return Ok(Some(End::Unread));
                }
            }
            StreamEvent::Turn(change) if change.prompt_id == self.prompt => match change.turn {
                TurnStep::Started => self.begun = true,
                TurnStep::Ended => {
                    return Ok(Some(End::Turn(change.stop_reason.unwrap_or_else(|| "unknown".to_owned()))));
                }
                TurnStep::Other(_) => {}
            },
            StreamEvent::Ask(change) if self.begun => self.handle_ask(&change).await?,
            // Lines of others' turns, changes of status, and whatever a newer host tells.
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
            self.person.withdraw(&id);
            return Ok(());
        }
        // Answered by another in the meantime: then it is not open any more.
        let open = ask::open(self.client, self.session).await?;
        let Some(asked) = open.into_iter().find(|ask| ask.id() == id) else { return Ok(()) };
        let choice = match self.asked {
            Asked::Deny => Some(asked.refusal()),
            Asked::Allow => asked.consent(),
            Asked::Person => None,
        };
        match choice {
            Some(choice) => self.give(&asked, &choice).await,
            None if self.asked == Asked::Person && Person::is_there() => {
                self.person.ask(asked);
                Ok(())
            }
            None => {
                self.leave_open(&asked);
                Ok(())
            }
        }
    }

    /// Says how others can answer.
    fn leave_open(&self, asked: &Ask) {
        let options: Vec<String> = asked.choices().into_iter().map(|choice| choice.id).collect();
        let (subject, options) = (printable(asked.subject()), printable(&options.join("|")));
        output::note(&format!("the agent asks: {subject}"));
        output::note(&format!("  answer with: wharf answer {} {options}", short(self.session)));
    }

    async fn handle_line(&mut self, line: &str) -> anyhow::Result<()> {
        match self.person.handle_line(line) {
            Some((asked, choice)) => self.give(&asked, &choice).await,
            None => Ok(()),
        }
    }

    async fn give(&self, asked: &Ask, choice: &ask::Choice) -> anyhow::Result<()> {
        if let Err(error) = ask::answer(self.client, self.session, asked, choice).await {
            // Another client was faster, or the turn is over: the stream will tell.
            output::note(&format!("not answered: {error}"));
        } else if self.asked != Asked::Person {
            output::note(&format!("answered {:?} with {}", printable(asked.subject()), printable(&choice.name)));
        }
        Ok(())
    }
}
