//! `wharf agents`: the agents that can be run here, and what the others lack.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use wharf_api::{AdapterDescription, AdapterList, LoginState};
use wharf_render::style::{Screen, TextStyle};

use crate::client::{HostCall, HostClient};
use crate::exit::Exit;
use crate::format::table::{Cell, TextTable, join_with_tabs, plain_cell, styled_cell};
use crate::global::GlobalOptions;
use crate::{output, paths};

#[derive(Debug, Args)]
pub(crate) struct AgentsVerb {
    /// Start each installed one to ask for its version.
    #[arg(long)]
    check: bool,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    verb: Option<AgentsAction>,
}

#[derive(Debug, Subcommand)]
enum AgentsAction {
    /// Make manifests from an ACP registry file. Nothing is downloaded or installed.
    Import {
        /// A `registry.json`.
        file: PathBuf,
        /// Where the manifests go [default: `adapters` beside the configuration file].
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
}

/// Lists all adapters of the host.
pub(crate) async fn list_adapters(client: &HostClient) -> anyhow::Result<Vec<AdapterDescription>> {
    let AdapterList { adapters } = client.fetch_json(&HostCall::get("/adapters")).await?;
    Ok(adapters)
}

pub(crate) async fn run(global: &GlobalOptions, verb: AgentsVerb) -> anyhow::Result<Exit> {
    if let Some(AgentsAction::Import { file, into }) = verb.verb {
        return import_registry(global, &file, into);
    }
    let client = global.connect_client().await?;
    let query = if verb.check { "?check=true" } else { "" };
    let answer = client.send_call(&HostCall::get(format!("/adapters{query}"))).await?;
    if verb.json {
        output::print_line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let AdapterList { adapters } = answer.json()?;
    format_adapters(global.screen(), &adapters)
        .iter()
        .for_each(|line| output::print_line(line));
    Ok(Exit::Ok)
}

fn format_adapters(screen: Screen, adapters: &[AdapterDescription]) -> Vec<String> {
    if !screen.terminal {
        return adapters.iter().map(plain_row).collect();
    }
    let mut table = TextTable::new(&["", "AGENT", "STATE", "LOGIN", "VERSION", "FROM", "WHAT"]);
    let (here, away): (Vec<&AdapterDescription>, Vec<&AdapterDescription>) =
        adapters.iter().partition(|adapter| adapter.installed);
    for adapter in here.into_iter().chain(away) {
        let (word, style) = adapter_state(adapter);
        table.add_row([
            styled_cell(TextStyle::Good, if adapter.default { "*" } else { "" }),
            styled_cell(TextStyle::Strong, &adapter.slug),
            styled_cell(style, word),
            login_cell(adapter),
            plain_cell(adapter.bin_version.as_deref().unwrap_or_default()),
            styled_cell(TextStyle::Faint, &adapter.source),
            plain_cell(&adapter.description),
        ]);
        if let Some(step) = next_step(adapter) {
            table.add_note(TextStyle::Faint, step);
        }
    }
    table.to_lines(screen)
}

/// Returns whether the agent is logged in; nothing if that is not known.
fn login_cell(adapter: &AdapterDescription) -> Cell {
    match adapter.login {
        LoginState::Yes if adapter.installed => styled_cell(TextStyle::Good, "yes"),
        LoginState::No => styled_cell(TextStyle::Wants, "needed"),
        LoginState::Yes | LoginState::Unknown | LoginState::Other(_) => plain_cell(""),
    }
}

fn adapter_state(adapter: &AdapterDescription) -> (&'static str, TextStyle) {
    match (adapter.installed, adapter.version_ok) {
        (true, Some(false)) => ("old", TextStyle::Wants),
        (true, Some(true) | None) if !adapter.missing.is_empty() => ("installed", TextStyle::Wants),
        (true, Some(true) | None) => ("ready", TextStyle::Good),
        (false, _) => ("missing", TextStyle::Faint),
    }
}

/// Returns the next step for the user, if there is one: how to install the agent, to log it in, or
/// to repair it.
fn next_step(adapter: &AdapterDescription) -> Option<String> {
    if !adapter.installed {
        return adapter.install_hint.as_ref().map(|hint| format!("install: {hint}"));
    }
    if adapter.login == LoginState::No {
        return Some(format!("log in: wharf login {}", adapter.slug));
    }
    adapter.missing.first().cloned()
}

/// Imports a registry file as manifests. It works on files, so no host is needed; a running host
/// sees them at the next start of an agent.
fn import_registry(
    global: &GlobalOptions,
    file: &Path,
    into: Option<PathBuf>,
) -> anyhow::Result<Exit> {
    let into = match (into, global.config_file()) {
        (Some(into), _) => into,
        (None, Some(config)) => config.with_file_name("adapters"),
        (None, None) => paths::config_dir()?.join("adapters"),
    };
    let report = wharf_config::import_registry(file, &into)?;
    for slug in &report.imported {
        output::print_line(&join_with_tabs([slug.as_str(), "imported"]));
    }
    for (slug, why) in &report.skipped {
        output::print_line(&join_with_tabs([slug.as_str(), "skipped", why]));
    }
    output::print_note(&format!("{} imported into {}", report.imported.len(), into.display()));
    Ok(if report.imported.is_empty() && !report.skipped.is_empty() {
        Exit::Refused
    } else {
        Exit::Ok
    })
}

fn plain_row(adapter: &AdapterDescription) -> String {
    let word = |yes: bool, word: &'static str| if yes { word } else { "" };
    join_with_tabs([
        adapter.slug.as_str(),
        if adapter.installed { "installed" } else { "missing" },
        adapter.bin_version.as_deref().unwrap_or_default(),
        word(adapter.default, "default"),
        &adapter.source,
        &adapter.protocol,
        &adapter.name,
        adapter.install_hint.as_deref().unwrap_or_default(),
        adapter.login.as_str(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(slug: &str, installed: bool, login: &str) -> AdapterDescription {
        let json = serde_json::json!({
            "slug": slug, "name": slug, "description": "An agent with quite a long description, which is cut.",
            "version": "1.0.0", "source": "built-in", "command": [slug], "protocol": "acp", "installed": installed,
            "installHint": "npm install -g @agentclientprotocol/an-adapter-with-a-rather-long-name@latest",
            "variables": [], "modes": [], "options": [], "capabilities": {}, "default": false, "login": login,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn install_commands_are_whole_and_a_missing_login_is_told() {
        let adapters = [
            adapter("claude", false, "unknown"),
            adapter("codex", true, "no"),
            adapter("demo", true, "yes"),
        ];
        let lines = format_adapters(Screen::TERMINAL, &adapters);
        assert_eq!(
            lines,
            [
                "AGENT   STATE    LOGIN   FROM      WHAT",
                "codex   ready    needed  built-in  An agent with quite a long description, whic…",
                "    log in: wharf login codex",
                "demo    ready    yes     built-in  An agent with quite a long description, whic…",
                "claude  missing          built-in  An agent with quite a long description, whic…",
                "    install: npm install -g @agentclientprotocol/an-adapter-with-a-rather-long-name@latest",
            ]
        );
        assert!(plain_row(&adapters[1]).ends_with("\tno"), "{}", plain_row(&adapters[1]));
    }
}
