//! `wharf notify test`: sends a test to each receiver of notifications, and shows the outcome.

use clap::{Args, Subcommand};
use wharf_api::{NotifyTest, NotifyTestResult};
use wharf_render::text::to_printable;

use crate::client::HostCall;
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct NotifyVerb {
    #[command(subcommand)]
    verb: NotifyAction,
}

#[derive(Debug, Subcommand)]
enum NotifyAction {
    /// Send a test to each receiver that is set.
    Test {
        /// The JSON of the host.
        #[arg(long)]
        json: bool,
    },
}

/// Returns the exit code 1 if a receiver did not get the test.
pub(crate) async fn run(global: &GlobalOptions, verb: NotifyVerb) -> anyhow::Result<Exit> {
    let NotifyAction::Test { json } = verb.verb;
    let client = global.connect_client().await?;
    let tried: NotifyTest = client.fetch_json(&HostCall::post_empty("/notify/test")).await?;
    if json {
        output::print_line(&serde_json::to_string(&tried)?);
    } else {
        tried.receivers.iter().for_each(print_result);
    }
    if tried.receivers.is_empty() {
        let words = "no receiver is set; set notify.command or notify.webhook in the configuration of the host";
        return Err(Failure::new(Exit::Refused, words).into());
    }
    Ok(if tried.receivers.iter().all(|result| result.ok) { Exit::Ok } else { Exit::Error })
}

fn print_result(result: &NotifyTestResult) {
    let outcome = result
        .detail
        .as_deref()
        .map_or_else(|| "sent".to_owned(), |why| format!("failed: {}", to_printable(why)));
    output::print_line(&format!("{}: {outcome}", to_printable(&result.receiver)));
    for line in result.output.as_deref().unwrap_or_default().lines() {
        output::print_line(&format!("  {}", to_printable(line)));
    }
}
