//! `wharf queue`: the waiting prompts.

use clap::{Args, Subcommand};
use wharf_api::{Content, QueueChange, QueueEntry, QueueList};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{format_ago, quote};

use super::prompt::{no_prompt, words_or_stdin};
use crate::client::{HostCall, HostClient, url_path};
use crate::exit::{Exit, Failure};
use crate::format::table::{TextTable, join_with_tabs, plain_cell, styled_cell};
use crate::format::times;
use crate::global::GlobalOptions;
use crate::{output, session_ref};

#[derive(Debug, Args)]
pub(crate) struct QueueVerb {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
    #[command(subcommand)]
    verb: Option<QueueAction>,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum QueueAction {
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

pub(crate) async fn run(global: &GlobalOptions, verb: QueueVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let session = session_ref::find_session(&client, verb.id.as_deref()).await?.id;
    match verb.verb {
        None => print_queue(&client, global.screen(), &session, verb.json).await,
        Some(QueueAction::List { json }) => {
            print_queue(&client, global.screen(), &session, json || verb.json).await
        }
        Some(QueueAction::Remove { prompt }) => {
            let prompt = find_prompt(&client, &session, &prompt).await?;
            client.send_call(&HostCall::delete(entry_path(&session, &prompt))).await?;
            Ok(report_done(&prompt, "removed"))
        }
        Some(QueueAction::Move { prompt, place }) => {
            let prompt = find_prompt(&client, &session, &prompt).await?;
            // People count from one, the host from zero.
            let change = QueueChange {
                position: Some(place.saturating_sub(1)),
                ..QueueChange::default()
            };
            client
                .send_call(&HostCall::patch(entry_path(&session, &prompt), &change))
                .await?;
            Ok(report_done(&prompt, "moved"))
        }
        Some(QueueAction::Edit { prompt, words }) => {
            let text = words_or_stdin(&words)?.ok_or_else(no_prompt)?;
            let prompt = find_prompt(&client, &session, &prompt).await?;
            let prompt_text = Some(Content::from_text(&text));
            let change =
                QueueChange { prompt: prompt_text, keep_attachments: true, position: None };
            client
                .send_call(&HostCall::patch(entry_path(&session, &prompt), &change))
                .await?;
            Ok(report_done(&prompt, "changed"))
        }
    }
}

fn entry_path(session: &str, prompt: &str) -> String {
    url_path(&["sessions", session, "queue", prompt])
}

fn report_done(prompt: &str, what: &str) -> Exit {
    output::print_line(&format!("{prompt} {what}"));
    Exit::Ok
}

async fn print_queue(
    client: &HostClient,
    screen: Screen,
    session: &str,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let answer = client
        .send_call(&HostCall::get(url_path(&["sessions", session, "queue"])))
        .await?;
    if as_json {
        output::print_line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let QueueList { queue } = answer.json()?;
    if screen.terminal && queue.is_empty() {
        output::print_note("no prompt waits");
        return Ok(Exit::Ok);
    }
    format_queue(screen, &queue).iter().for_each(|line| output::print_line(line));
    Ok(Exit::Ok)
}

fn format_queue(screen: Screen, queue: &[QueueEntry]) -> Vec<String> {
    let numbered = queue.iter().enumerate().map(|(place, entry)| ((place + 1).to_string(), entry));
    if !screen.terminal {
        let plain = |(place, entry): (String, &QueueEntry)| {
            let at = entry.accepted_at.as_deref().unwrap_or_default();
            let from = entry.sender.as_deref().unwrap_or_default();
            join_with_tabs([place.as_str(), &entry.prompt_id, at, from, &entry.shown_text()])
        };
        return numbered.map(plain).collect();
    }
    let now = times::now_millis();
    let mut table = TextTable::new(&["#", "PROMPT", "SINCE", "FROM", "TEXT"]);
    for (place, entry) in numbered {
        table.add_row([
            styled_cell(TextStyle::Strong, place),
            styled_cell(TextStyle::Faint, session_ref::short_id(&entry.prompt_id)),
            styled_cell(
                TextStyle::Faint,
                entry.accepted_at.as_ref().map(|at| format_ago(at, now)).unwrap_or_default(),
            ),
            plain_cell(entry.sender.as_deref().unwrap_or_default()),
            plain_cell(entry.shown_text()),
        ]);
    }
    table.to_lines(screen)
}

/// Returns the id of the prompt that `meant` names. A whole id is returned even if it is not in the
/// queue, so that the host can answer that the prompt has started.
async fn find_prompt(client: &HostClient, session: &str, meant: &str) -> anyhow::Result<String> {
    let QueueList { queue } = client
        .send_call(&HostCall::get(url_path(&["sessions", session, "queue"])))
        .await?
        .json()?;
    if let Some(place) =
        meant.parse::<usize>().ok().filter(|place| (1..=queue.len()).contains(place))
    {
        return Ok(queue
            .into_iter()
            .nth(place - 1)
            .map(|entry| entry.prompt_id)
            .unwrap_or_default());
    }
    let mut found = queue.into_iter().map(|entry| entry.prompt_id).filter(|id| id.ends_with(meant));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(Failure::new(
            Exit::Usage,
            format!("{meant} fits several prompts; say more of it", meant = quote(meant)),
        )
        .into()),
        (None, _) if meant.starts_with("prm_") => Ok(meant.to_owned()),
        (None, _) => {
            let words = format!(
                "no waiting prompt is {meant}; see: wharf queue {}",
                session_ref::short_id(session),
                meant = quote(meant)
            );
            Err(Failure::new(Exit::NotFound, words).into())
        }
    }
}
