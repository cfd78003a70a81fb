//! `wharf reload`: makes the host read its settings again.

use clap::Args;
use wharf_api::ReloadReceipt;
use wharf_config::{ChangeEffect, ConfigKey};

use crate::client::HostCall;
use crate::exit::Exit;
use crate::global::GlobalOptions;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ReloadVerb {
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(global: &GlobalOptions, verb: ReloadVerb) -> anyhow::Result<Exit> {
    let client = global.connect_running_client().await?;
    let answer = client.send_call(&HostCall::post_empty("/host/reload")).await?;
    if verb.json {
        output::print_line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    report(&answer.json()?, true);
    Ok(Exit::Ok)
}

/// Prints what a reload changed. `even_nothing`: also that nothing changed.
pub(super) fn report(receipt: &ReloadReceipt, even_nothing: bool) {
    let ReloadReceipt { changed, waiting } = receipt;
    let is_later = |key: &&String| {
        ConfigKey::find(key).is_some_and(|key| key.effect == ChangeEffect::NewSessions)
    };
    let (later, now): (Vec<&String>, Vec<&String>) = changed.iter().partition(is_later);
    for (words, keys) in
        [("the host uses the new value now", now), ("the new value counts for new sessions", later)]
    {
        let keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
        if !keys.is_empty() {
            output::print_line(&format!("{words}: {}", keys.join(", ")));
        }
    }
    if !waiting.is_empty() {
        output::print_line(&format!("waits for a restart (wharf restart): {}", waiting.join(", ")));
    }
    if even_nothing && changed.is_empty() && waiting.is_empty() {
        output::print_line("no setting has changed");
    }
}
