//! `wharf answer`: answers an open ask.

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use crate::ask::{self, AnswerableAsk};
use crate::client::HostClient;
use crate::exit::{Exit, Failure};
use crate::format::text::to_printable;
use crate::global::GlobalOptions;
use crate::{output, session_ref};

#[derive(Debug, Args)]
pub(crate) struct AnswerVerb {
    /// The session, or the number of an ask (as `wharf asks` shows), or both: SESSION/ASK.
    id: String,
    /// The answer: its id or name, or a beginning that no other has; `cancel` gives none.
    option: String,
    /// The content of a form, as a JSON object (with `accept`).
    #[arg(long, value_name = "JSON")]
    content: Option<String>,
}

pub(crate) async fn run(global: &GlobalOptions, verb: AnswerVerb) -> anyhow::Result<Exit> {
    let content = verb.content.as_deref().map(|text| wharf_json::read_own::<Value>(text.as_bytes())).transpose();
    let content = content.context("reading --content, which is to be JSON")?;
    let client = global.connect_client().await?;
    let (session, asked) = find_ask(&client, &verb.id).await?;
    let mut choice = asked.find_choice(&verb.option)?;
    if let Some(content) = content {
        choice = choice.with_content(content);
    }
    ask::send_answer(&client, &session, &asked, &choice).await?;
    output::print_line(&to_printable(&format!("{session} {} {}", asked.id(), choice.printable_id())));
    Ok(Exit::Ok)
}

/// Returns the session and the ask that `meant` names.
async fn find_ask(client: &HostClient, meant: &str) -> anyhow::Result<(String, AnswerableAsk)> {
    if let Some((session, number)) = meant.rsplit_once('/') {
        let session = session_ref::find_session(client, Some(session)).await?.id;
        let open = ask::list_open_asks(client, &session).await?;
        return expect_one(
            open.into_iter().filter(|ask| ask.id() == number).map(|ask| (session.clone(), ask)).collect(),
            meant,
        );
    }
    if meant.bytes().all(|byte| byte.is_ascii_digit()) {
        let mut found = Vec::new();
        for session in super::asks::list_awaiting_sessions(client).await? {
            let open = ask::list_open_asks(client, &session.id).await?.into_iter().filter(|ask| ask.id() == meant);
            found.extend(open.map(|ask| (session.id.clone(), ask)));
        }
        if !found.is_empty() {
            return expect_one(found, meant);
        }
    }
    let session = session_ref::find_session(client, Some(meant)).await?.id;
    let open = ask::list_open_asks(client, &session).await?;
    expect_one(open.into_iter().map(|ask| (session.clone(), ask)).collect(), meant)
}

fn expect_one(mut found: Vec<(String, AnswerableAsk)>, meant: &str) -> anyhow::Result<(String, AnswerableAsk)> {
    match (found.pop(), found.is_empty()) {
        (Some(found), true) => Ok(found),
        (None, _) => {
            let words = format!("nothing is asked in {meant}, or it is answered already; see: wharf asks");
            Err(Failure::new(Exit::NotFound, words).into())
        }
        (Some(last), false) => {
            found.push(last);
            let line = |(session, ask): &(String, AnswerableAsk)| {
                format!("\n  {}/{}  {}", session_ref::short_id(session), ask.id(), to_printable(ask.subject()))
            };
            let lines: Vec<String> = found.iter().map(line).collect();
            let words = format!("{meant} has {} open asks; which one?{}", found.len(), lines.concat());
            Err(Failure::new(Exit::Usage, words).into())
        }
    }
}
