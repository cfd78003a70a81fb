//! `wharf agents`: which agents can be run here, and what the others lack.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use wharf_api::{AdapterDescription, AdapterList};

use crate::client::{Call, Client};
use crate::exit::Exit;
use crate::global::Global;
use crate::look::table::{Table, cell, styled, tabbed};
use crate::look::{Screen, Style};
use crate::{output, paths};

#[derive(Debug, Args)]
pub(crate) struct Agents {
    /// Start each installed one to ask for its version.
    #[arg(long)]
    check: bool,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    verb: Option<AgentsVerb>,
}

#[derive(Debug, Subcommand)]
enum AgentsVerb {
    /// Make manifests from an ACP registry file. Nothing is downloaded or installed.
    Import {
        /// A `registry.json`.
        file: PathBuf,
        /// Where the manifests go [default: `adapters` beside the configuration file].
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
}

/// All adapters of the host.
pub(crate) async fn known(client: &Client) -> anyhow::Result<Vec<AdapterDescription>> {
    let AdapterList { adapters } = client.read(&Call::get("/adapters")).await?;
    Ok(adapters)
}

pub(crate) async fn run(global: &Global, verb: Agents) -> anyhow::Result<Exit> {
    if let Some(AgentsVerb::Import { file, into }) = verb.verb {
        return import(global, &file, into);
    }
    let client = global.client().await?;
    let query = if verb.check { "?check=true" } else { "" };
    let answer = client.call(&Call::get(format!("/adapters{query}"))).await?;
    if verb.json {
        output::line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let AdapterList { adapters } = answer.json()?;
    lines(global.screen(), &adapters).iter().for_each(|line| output::line(line));
    Ok(Exit::Ok)
}

fn lines(screen: Screen, adapters: &[AdapterDescription]) -> Vec<String> {
    if !screen.terminal {
        return adapters.iter().map(plain).collect();
    }
    let mut table = Table::new(&["", "AGENT", "STATE", "VERSION", "FROM", "WHAT"]);
    let (here, away): (Vec<&AdapterDescription>, Vec<&AdapterDescription>) =
        adapters.iter().partition(|adapter| adapter.installed);
    for adapter in here.into_iter().chain(away) {
        let (word, style) = state(adapter);
        table.row([
            styled(Style::Good, if adapter.default { "*" } else { "" }),
            styled(Style::Strong, &adapter.slug),
            styled(style, word),
            cell(adapter.bin_version.as_deref().unwrap_or_default()),
            styled(Style::Faint, &adapter.source),
            cell(what(adapter)),
        ]);
    }
    table.lines(screen)
}

fn state(adapter: &AdapterDescription) -> (&'static str, Style) {
    match (adapter.installed, adapter.version_ok) {
        (true, Some(false)) => ("old", Style::Wants),
        (true, Some(true) | None) if !adapter.missing.is_empty() => ("installed", Style::Wants),
        (true, Some(true) | None) => ("ready", Style::Good),
        (false, _) => ("missing", Style::Faint),
    }
}

/// Returns the next step for the user, or a description if there is none.
fn what(adapter: &AdapterDescription) -> String {
    let help = adapter.install_hint.as_ref().filter(|_| !adapter.installed).map(|hint| format!("install: {hint}"));
    help.or(adapter.missing.first().cloned()).unwrap_or_else(|| adapter.description.clone())
}

/// Works on the files, so a host need not run; one that does sees them at the next start of an agent.
fn import(global: &Global, file: &Path, into: Option<PathBuf>) -> anyhow::Result<Exit> {
    let into = match (into, &global.config) {
        (Some(into), _) => into,
        (None, Some(config)) => config.with_file_name("adapters"),
        (None, None) => paths::config_dir()?.join("adapters"),
    };
    let report = wharf_host::import_registry(file, &into)?;
    for slug in &report.imported {
        output::line(&tabbed([slug.as_str(), "imported"]));
    }
    for (slug, why) in &report.skipped {
        output::line(&tabbed([slug.as_str(), "skipped", why]));
    }
    output::note(&format!("{} imported into {}", report.imported.len(), into.display()));
    Ok(if report.imported.is_empty() && !report.skipped.is_empty() { Exit::Refused } else { Exit::Ok })
}

fn plain(adapter: &AdapterDescription) -> String {
    let word = |yes: bool, word: &'static str| if yes { word } else { "" };
    tabbed([
        adapter.slug.as_str(),
        if adapter.installed { "installed" } else { "missing" },
        adapter.bin_version.as_deref().unwrap_or_default(),
        word(adapter.default, "default"),
        &adapter.source,
        &adapter.protocol,
        &adapter.name,
        adapter.install_hint.as_deref().unwrap_or_default(),
    ])
}
