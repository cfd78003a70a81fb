//! `wharf answer`: answers an open ask.

use std::io::BufRead;

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use super::asks::{AskOfSession, list_all_asks, list_asks_of};
use crate::ask::{self, AnswerableAsk, AskChoice};
use crate::client::HostClient;
use crate::exit::{Exit, Failure};
use crate::format::Screen;
use crate::format::text::to_printable;
use crate::global::GlobalOptions;
use crate::{output, session_ref};

#[derive(Debug, Args)]
pub(crate) struct AnswerVerb {
    /// The session, or the number of an ask (as `wharf asks` shows), or both: SESSION/ASK.
    id: String,
    /// The answer: allow (y), always or deny (n), or its number, id or name; cancel gives none [default: show the ask, and
    /// read the answer from the terminal].
    option: Option<String>,
    /// The content of a form, as a JSON object (with `accept`).
    #[arg(long, value_name = "JSON")]
    content: Option<String>,
}

pub(crate) async fn run(global: &GlobalOptions, verb: AnswerVerb) -> anyhow::Result<Exit> {
    let content = verb.content.as_deref().map(|text| wharf_json::read_own::<Value>(text.as_bytes())).transpose();
    let content = content.context("reading --content, which is to be JSON")?;
    let client = global.connect_client().await?;
    let AskOfSession { session, ask: asked, .. } = find_ask(&client, &verb.id).await?;
    let mut choice = match &verb.option {
        Some(option) => asked.find_choice(option)?,
        None => read_choice(&asked, global.screen())?,
    };
    if let Some(content) = content {
        choice = choice.with_content(content);
    }
    ask::send_answer(&client, &session, &asked, &choice).await?;
    output::print_line(&to_printable(&format!("{session} {} {}", asked.id(), choice.printable_id())));
    Ok(Exit::Ok)
}

/// Shows the ask and reads the answer from the terminal.
fn read_choice(asked: &AnswerableAsk, screen: Screen) -> Result<AskChoice, Failure> {
    output::print_styled_note(&asked.to_lines(screen));
    if !output::is_person_present() {
        return Err(Failure::new(Exit::Usage, "no answer was given; name one of these"));
    }
    output::print_question("  your answer: ");
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).unwrap_or_default();
    if read == 0 || line.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "no answer was given; the ask stays open"));
    }
    asked.find_choice(line.trim())
}

/// Returns the ask that `meant` names, with its session.
async fn find_ask(client: &HostClient, meant: &str) -> anyhow::Result<AskOfSession> {
    if let Some((session, number)) = meant.rsplit_once('/') {
        let session = session_ref::find_session(client, Some(session)).await?;
        let open = list_asks_of(client, &session).await?;
        return expect_one(open.into_iter().filter(|asked| asked.ask.id() == number).collect(), meant);
    }
    if meant.bytes().all(|byte| byte.is_ascii_digit()) {
        let found: Vec<AskOfSession> =
            list_all_asks(client).await?.into_iter().filter(|asked| asked.ask.id() == meant).collect();
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
            let words = format!("nothing is asked in {meant}, or it is answered already; see: wharf asks");
            Err(Failure::new(Exit::NotFound, words).into())
        }
        (Some(last), false) => {
            found.push(last);
            let line =
                |asked: &AskOfSession| format!("\n  {}  {}", asked.reference(), to_printable(asked.ask.subject()));
            let lines: Vec<String> = found.iter().map(line).collect();
            let words = format!("{meant} has {} open asks; which one?{}", found.len(), lines.concat());
            Err(Failure::new(Exit::Usage, words).into())
        }
    }
}
