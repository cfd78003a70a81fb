//! `wharf answer`: the answer that an agent waits for.

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use crate::ask::{self, Ask};
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::look::text::printable;
use crate::{output, which};

#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// The session, or the number of an ask (as `wharf asks` shows), or both: SESSION/ASK.
    id: String,
    /// The answer: its id or name, or a beginning that no other has; `cancel` gives none.
    option: String,
    /// What a form is filled in with, as a JSON object (with `accept`).
    #[arg(long, value_name = "JSON")]
    content: Option<String>,
}

pub(crate) async fn run(global: &Global, verb: Answer) -> anyhow::Result<Exit> {
    let content = verb.content.as_deref().map(|text| wharf_json::read_own::<Value>(text.as_bytes())).transpose();
    let content = content.context("reading --content, which is to be JSON")?;
    let client = global.client().await?;
    let (session, asked) = find(&client, &verb.id).await?;
    let mut choice = asked.choose(&verb.option)?;
    if let Some(content) = content {
        choice = choice.with_content(content);
    }
    ask::answer(&client, &session, &asked, &choice).await?;
    output::line(&printable(&format!("{session} {} {}", asked.id(), choice.shown())));
    Ok(Exit::Ok)
}

/// The session and the ask that are meant.
async fn find(client: &Client, meant: &str) -> anyhow::Result<(String, Ask)> {
    if let Some((session, number)) = meant.rsplit_once('/') {
        let session = which::session(client, Some(session)).await?.id;
        let open = ask::open(client, &session).await?;
        return one(
            open.into_iter().filter(|ask| ask.id() == number).map(|ask| (session.clone(), ask)).collect(),
            meant,
        );
    }
    if meant.bytes().all(|byte| byte.is_ascii_digit()) {
        let mut found = Vec::new();
        for session in super::asks::awaiting(client).await? {
            let open = ask::open(client, &session.id).await?.into_iter().filter(|ask| ask.id() == meant);
            found.extend(open.map(|ask| (session.id.clone(), ask)));
        }
        if !found.is_empty() {
            return one(found, meant);
        }
    }
    let session = which::session(client, Some(meant)).await?.id;
    let open = ask::open(client, &session).await?;
    one(open.into_iter().map(|ask| (session.clone(), ask)).collect(), meant)
}

fn one(mut found: Vec<(String, Ask)>, meant: &str) -> anyhow::Result<(String, Ask)> {
    match (found.pop(), found.is_empty()) {
        (Some(found), true) => Ok(found),
        (None, _) => {
            let words = format!("nothing is asked in {meant}, or it is answered already; see: wharf asks");
            Err(Failure::new(Exit::NotFound, words).into())
        }
        (Some(last), false) => {
            found.push(last);
            let line = |(session, ask): &(String, Ask)| {
                format!("\n  {}/{}  {}", which::short(session), ask.id(), printable(ask.subject()))
            };
            let lines: Vec<String> = found.iter().map(line).collect();
            let words = format!("{meant} has {} open asks; which one?{}", found.len(), lines.concat());
            Err(Failure::new(Exit::Usage, words).into())
        }
    }
}
