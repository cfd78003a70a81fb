//! `wharf answer`: answers an open ask.

use std::io::BufRead;

use clap::Args;
use serde_json::Value;
use wharf_render::style::Screen;
use wharf_render::text::to_printable;

use super::asks::{AskOfSession, list_all_asks, list_asks_of};
use crate::ask::{self, AnswerableAsk, AskChoice, Form, FormFilling, FormStep};
use crate::client::HostClient;
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::{output, session_ref};

#[derive(Debug, Args)]
pub(crate) struct AnswerVerb {
    /// The session, or the number of an ask (as `wharf asks` shows), or both: SESSION/ASK.
    id: String,
    /// The answer: allow (y), always or deny (n), or its number, id or name; cancel gives none
    /// [default: show the ask, and read the answer from the terminal].
    option: Option<String>,
    /// The values of a form, each as NAME=VALUE (with `accept`) [default: they are asked for on the
    /// terminal].
    #[arg(value_name = "NAME=VALUE")]
    values: Vec<String>,
    /// The content of a form, as a JSON object (with `accept`).
    #[arg(long, value_name = "JSON", conflicts_with = "values")]
    content: Option<String>,
}

pub(crate) async fn run(global: &GlobalOptions, verb: AnswerVerb) -> anyhow::Result<Exit> {
    let content = verb
        .content
        .as_deref()
        .map(|text| wharf_json::read_own::<Value>(text.as_bytes()))
        .transpose();
    let content = content
        .map_err(|error| Failure::new(Exit::Usage, format!("--content is not JSON: {error}")))?;
    let client = global.connect_client().await?;
    let AskOfSession { session, ask: asked, .. } = find_ask(&client, &verb.id).await?;
    let screen = global.screen();
    let choice = match (&verb.option, content) {
        (Some(option), Some(content)) => asked.find_choice(option)?.with_content(content),
        (Some(option), None) => {
            add_values(&asked, asked.find_choice(option)?, &verb.values, screen)?
        }
        (None, Some(content)) => read_choice(&asked, screen)?.with_content(content),
        (None, None) => ask_person(&asked, screen)?,
    };
    ask::send_answer(&client, &session, &asked, &choice).await?;
    output::print_line(&to_printable(&format!(
        "{session} {} {}",
        asked.id(),
        choice.printable_id()
    )));
    Ok(Exit::Ok)
}

/// Adds the values of a form to its acceptance: those that were given, or those that the person at
/// the terminal types.
fn add_values(
    asked: &AnswerableAsk,
    choice: AskChoice,
    values: &[String],
    screen: Screen,
) -> Result<AskChoice, Failure> {
    let Some(form) = asked.form().filter(|_| choice.is_acceptance()) else {
        if values.is_empty() {
            return Ok(choice);
        }
        let words = format!(
            "{:?} takes no values: they are for accepting a form with fields",
            choice.printable_id()
        );
        return Err(Failure::new(Exit::Usage, words));
    };
    if values.is_empty() && output::is_person_present() {
        return Ok(fill_in_form(asked, form, screen));
    }
    form.fill_from_pairs(values)
        .map(AnswerableAsk::acceptance)
        .map_err(|why| Failure::new(Exit::Usage, why))
}

/// Asks the person at the terminal: for each field of a form, else for one of the choices.
fn ask_person(asked: &AnswerableAsk, screen: Screen) -> Result<AskChoice, Failure> {
    match asked.form() {
        Some(form) if output::is_person_present() => Ok(fill_in_form(asked, form, screen)),
        Some(_) | None => read_choice(asked, screen),
    }
}

/// Asks the person at the terminal for the value of each field.
fn fill_in_form(asked: &AnswerableAsk, form: Form, screen: Screen) -> AskChoice {
    let mut filling = FormFilling::new(form);
    let mut question = asked.form_question(&filling, screen);
    loop {
        question.print();
        let Some(line) = read_line() else {
            output::print_note("");
            return asked.refusal_choice();
        };
        match filling.take_line(&line) {
            FormStep::Ask(next) => question = next,
            FormStep::Filled(content) => return AnswerableAsk::acceptance(content),
            FormStep::Declined => return asked.refusal_choice(),
        }
    }
}

/// Shows the ask and reads the answer from the terminal.
fn read_choice(asked: &AnswerableAsk, screen: Screen) -> Result<AskChoice, Failure> {
    let question = asked.choice_question(screen);
    if !output::is_person_present() {
        output::print_styled_note(&question.lines);
        return Err(Failure::new(Exit::Usage, "no answer was given; name one of these"));
    }
    question.print();
    match read_line().as_deref().map(str::trim) {
        Some("") | None => {
            Err(Failure::new(Exit::Usage, "no answer was given; the ask stays open"))
        }
        Some(line) => asked.find_typed_choice(line),
    }
}

/// Reads a line from the terminal. Returns `None` at Ctrl-D.
fn read_line() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).unwrap_or_default();
    (read > 0).then_some(line)
}

/// Returns the ask that `meant` names, with its session.
async fn find_ask(client: &HostClient, meant: &str) -> anyhow::Result<AskOfSession> {
    if let Some((session, number)) = meant.rsplit_once('/') {
        let session = session_ref::find_session(client, Some(session)).await?;
        let open = list_asks_of(client, &session).await?;
        return expect_one(
            open.into_iter().filter(|asked| asked.ask.id() == number).collect(),
            meant,
        );
    }
    if meant.bytes().all(|byte| byte.is_ascii_digit()) {
        let found: Vec<AskOfSession> = list_all_asks(client)
            .await?
            .into_iter()
            .filter(|asked| asked.ask.id() == meant)
            .collect();
        if !found.is_empty() {
            return expect_one(found, meant);
        }
    }
    let session = session_ref::find_session(client, Some(meant)).await?;
    expect_one(list_asks_of(client, &session).await?, meant)
}

fn expect_one(mut found: Vec<AskOfSession>, meant: &str) -> anyhow::Result<AskOfSession> {
    match (found.pop(), found.is_empty()) {
        (Some(found), true) => Ok(found),
        (None, _) => {
            let words =
                format!("nothing is asked in {meant}, or it is answered already; see: wharf asks");
            Err(Failure::new(Exit::NotFound, words).into())
        }
        (Some(last), false) => {
            found.push(last);
            let line = |asked: &AskOfSession| {
                format!("\n  {}  {}", asked.reference(), to_printable(asked.ask.subject()))
            };
            let lines: Vec<String> = found.iter().map(line).collect();
            let words =
                format!("{meant} has {} open asks; which one?{}", found.len(), lines.concat());
            Err(Failure::new(Exit::Usage, words).into())
        }
    }
}
