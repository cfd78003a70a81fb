//! `wharf agents`: which agents can be run here, and what the others lack.

use clap::Args;
use serde::Deserialize;

use crate::client::{Call, Client};
use crate::exit::Exit;
use crate::global::Global;
use crate::look::table::{Table, cell, styled, tabbed};
use crate::look::{Screen, Style};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Agents {
    /// Start each installed one to ask for its version.
    #[arg(long)]
    check: bool,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
}

/// An adapter as the host tells of it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Adapter {
    pub(crate) slug: String,
    name: Option<String>,
    source: String,
    protocol: String,
    installed: bool,
    bin_version: Option<String>,
    version_ok: Option<bool>,
    install_hint: Option<String>,
    missing: Option<String>,
    #[serde(rename = "default")]
    is_default: bool,
    /// Variables that it wants from whoever starts it.
    pub(crate) env: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Known {
    adapters: Vec<Adapter>,
}

/// All adapters of the host.
pub(crate) async fn known(client: &Client) -> anyhow::Result<Vec<Adapter>> {
    let known: Known = client.call(&Call::get("/adapters")).await?.json()?;
    Ok(known.adapters)
}

pub(crate) async fn run(global: &Global, verb: Agents) -> anyhow::Result<Exit> {
    let client = global.client().await?;
    let query = if verb.check { "?check=true" } else { "" };
    let answer = client.call(&Call::get(format!("/adapters{query}"))).await?;
    if verb.json {
        output::line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let Known { adapters } = answer.json()?;
    lines(global.screen(), &adapters).iter().for_each(|line| output::line(line));
    Ok(Exit::Ok)
}

fn lines(screen: Screen, adapters: &[Adapter]) -> Vec<String> {
    if !screen.terminal {
        return adapters.iter().map(plain).collect();
    }
    let mut table = Table::new(&["", "AGENT", "STATE", "VERSION", "FROM", "WHAT"]);
    for adapter in adapters {
        let (word, style) = match (adapter.installed, adapter.version_ok) {
            (true, Some(false)) => ("too old", Style::Wants),
            (true, Some(true) | None) => ("installed", Style::Good),
            (false, _) => ("missing", Style::Faint),
        };
        let help = adapter.install_hint.as_ref().map(|hint| format!("install: {hint}"));
        let name = adapter.name.clone().unwrap_or_default();
        let what = if word == "installed" { name } else { help.or(adapter.missing.clone()).unwrap_or(name) };
        table.row([
            styled(Style::Good, if adapter.is_default { "*" } else { "" }),
            styled(Style::Strong, &adapter.slug),
            styled(style, word),
            cell(adapter.bin_version.as_deref().unwrap_or_default()),
            styled(Style::Faint, &adapter.source),
            cell(what),
        ]);
    }
    table.lines(screen)
}

fn plain(adapter: &Adapter) -> String {
    let word = |yes: bool, word: &'static str| if yes { word } else { "" };
    tabbed([
        adapter.slug.as_str(),
        if adapter.installed { "installed" } else { "missing" },
        adapter.bin_version.as_deref().unwrap_or_default(),
        word(adapter.is_default, "default"),
        &adapter.source,
        &adapter.protocol,
        adapter.name.as_deref().unwrap_or_default(),
        adapter.install_hint.as_deref().unwrap_or_default(),
    ])
}
