//! `wharf queue`: the prompts that wait for their turn.

use clap::{Args, Subcommand};
use wharf_api::{Content, QueueChange, QueueEntry, QueueList};

use super::prompt::{no_prompt, words_or_stdin};
use crate::client::{Call, Client, path};
use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::look::table::{Table, cell, styled, tabbed};
use crate::look::{Screen, Style, times};
use crate::{output, which};

#[derive(Debug, Args)]
pub(crate) struct Queue {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
    #[command(subcommand)]
    verb: Option<QueueVerb>,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum QueueVerb {
    /// List them (also without a word).
    List {
        /// The JSON of the host.
        #[arg(long)]
        json: bool,
    },
    /// Take one out: it never runs.
    Remove {
        /// Its place, its id, or the end of its id.
        prompt: String,
    },
    /// Move one to another place.
    Move {
        /// Its place, its id, or the end of its id.
        prompt: String,
        /// The new place; 1 is next.
        place: usize,
    },
    /// Change what one says.
    Edit {
        /// Its place, its id, or the end of its id.
        prompt: String,
        /// The new text; `-`, or nothing with a pipe: it is read from stdin.
        #[arg(value_name = "TEXT")]
        words: Vec<String>,
    },
}

pub(crate) async fn run(global: &Global, verb: Queue) -> anyhow::Result<Exit> {
    let client = global.client().await?;
    let session = which::session(&client, verb.id.as_deref()).await?.id;
    match verb.verb {
        None => list(&client, global.screen(), &session, verb.json).await,
        Some(QueueVerb::List { json }) => list(&client, global.screen(), &session, json || verb.json).await,
        Some(QueueVerb::Remove { prompt }) => {
            let prompt = find(&client, &session, &prompt).await?;
            client.call(&Call::delete(entry(&session, &prompt))).await?;
            Ok(done(&prompt, "removed"))
        }
        Some(QueueVerb::Move { prompt, place }) => {
            let prompt = find(&client, &session, &prompt).await?;
            // People count from one, the host from zero.
            let change = QueueChange { position: Some(place.saturating_sub(1)), prompt: None };
            client.call(&Call::patch(entry(&session, &prompt), &change)).await?;
            Ok(done(&prompt, "moved"))
        }
        Some(QueueVerb::Edit { prompt, words }) => {
            let text = words_or_stdin(&words)?.ok_or_else(no_prompt)?;
            let prompt = find(&client, &session, &prompt).await?;
            let change = QueueChange { prompt: Some(Content::from_text(&text)), position: None };
            client.call(&Call::patch(entry(&session, &prompt), &change)).await?;
            Ok(done(&prompt, "changed"))
        }
    }
}

fn entry(session: &str, prompt: &str) -> String {
    path(&["sessions", session, "queue", prompt])
}

fn done(prompt: &str, what: &str) -> Exit {
    output::line(&format!("{prompt} {what}"));
    Exit::Ok
}

async fn list(client: &Client, screen: Screen, session: &str, as_json: bool) -> anyhow::Result<Exit> {
    let answer = client.call(&Call::get(path(&["sessions", session, "queue"]))).await?;
    if as_json {
        output::line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let QueueList { queue } = answer.json()?;
    if screen.terminal && queue.is_empty() {
        output::note("no prompt waits");
        return Ok(Exit::Ok);
    }
    lines(screen, &queue).iter().for_each(|line| output::line(line));
    Ok(Exit::Ok)
}

fn lines(screen: Screen, queue: &[QueueEntry]) -> Vec<String> {
    let numbered = queue.iter().enumerate().map(|(place, entry)| ((place + 1).to_string(), entry));
    if !screen.terminal {
        let plain = |(place, entry): (String, &QueueEntry)| {
            let (at, from) =
                (entry.accepted_at.as_deref().unwrap_or_default(), entry.sender.as_deref().unwrap_or_default());
            tabbed([place.as_str(), &entry.prompt_id, at, from, &entry.text])
        };
        return numbered.map(plain).collect();
    }
    let now = times::now();
    let mut table = Table::new(&["#", "PROMPT", "SINCE", "FROM", "TEXT"]);
    for (place, entry) in numbered {
        table.row([
            styled(Style::Strong, place),
            styled(Style::Faint, which::short(&entry.prompt_id)),
            styled(Style::Faint, entry.accepted_at.as_ref().map(|at| times::ago(at, now)).unwrap_or_default()),
            cell(entry.sender.as_deref().unwrap_or_default()),
            cell(&entry.text),
        ]);
    }
    table.lines(screen)
}

/// The id of the prompt that is meant: one whole is taken as it is, so that one that has started is told so.
async fn find(client: &Client, session: &str, meant: &str) -> anyhow::Result<String> {
    let QueueList { queue } = client.call(&Call::get(path(&["sessions", session, "queue"]))).await?.json()?;
    if let Some(place) = meant.parse::<usize>().ok().filter(|place| (1..=queue.len()).contains(place)) {
        return Ok(queue.into_iter().nth(place - 1).map(|entry| entry.prompt_id).unwrap_or_default());
    }
    let mut found = queue.into_iter().map(|entry| entry.prompt_id).filter(|id| id.ends_with(meant));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => {
            Err(Failure::new(Exit::Usage, format!("{meant:?} fits several prompts; say more of it")).into())
        }
        (None, _) if meant.starts_with("prm_") => Ok(meant.to_owned()),
        (None, _) => {
            let words = format!("no waiting prompt is {meant:?}; see: wharf queue {}", which::short(session));
            Err(Failure::new(Exit::NotFound, words).into())
        }
    }
}
