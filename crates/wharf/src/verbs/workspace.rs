//! `wharf workspace`: directories with names.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use wharf_api::{ActiveWorkspace, NewWorkspace, WorkspaceInfo, WorkspaceRegistry};

use crate::client::{Call, Client, path};
use crate::exit::Exit;
use crate::global::Global;
use crate::look::table::{Table, cell, styled, tabbed};
use crate::look::text::printable;
use crate::look::{Screen, Style, text, times};
use crate::output;

/// Of a directory's path, on a terminal.
const PATH_WIDTH: usize = 48;

#[derive(Debug, Args)]
pub(crate) struct Workspace {
    #[command(subcommand)]
    verb: WorkspaceVerb,
}

#[derive(Debug, Subcommand)]
enum WorkspaceVerb {
    /// Give a directory a name.
    Add {
        /// The name: small letters, digits and dashes.
        slug: String,
        /// The directory [default: the current one].
        path: Option<PathBuf>,
        /// What it is, in your words.
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
    },
    /// List them.
    List {
        /// The JSON of the host.
        #[arg(long)]
        json: bool,
    },
    /// Take the name away; the directory and the sessions' history stay.
    Remove {
        slug: String,
        /// Delete the history of its sessions too. The directory stays.
        #[arg(long)]
        purge: bool,
    },
    /// Make it the one that is used when none is named.
    Use { slug: String },
}

pub(crate) async fn run(global: &Global, verb: Workspace) -> anyhow::Result<Exit> {
    let client = global.client().await?;
    match verb.verb {
        WorkspaceVerb::Add { slug, path, label } => add(&client, &slug, path, label).await,
        WorkspaceVerb::List { json } => list(&client, global.screen(), json).await,
        WorkspaceVerb::Remove { slug, purge } => {
            let purged = if purge { "?purge=true" } else { "" };
            client.call(&Call::delete(path(&["workspaces", &slug]) + purged)).await?;
            output::line(&format!("{slug} {}", if purge { "removed, with its history" } else { "removed" }));
            Ok(Exit::Ok)
        }
        WorkspaceVerb::Use { slug } => {
            client.call(&Call::put("/workspaces/active", &ActiveWorkspace { slug: slug.clone() })).await?;
            output::line(&format!("{slug} is used when no workspace is named"));
            Ok(Exit::Ok)
        }
    }
}

async fn add(client: &Client, slug: &str, dir: Option<PathBuf>, label: Option<String>) -> anyhow::Result<Exit> {
    let dir = std::path::absolute(dir.unwrap_or_else(|| PathBuf::from("."))).context("finding the directory")?;
    // A name for a directory that `..` or a link leads to is a name for that directory.
    let dir = std::fs::canonicalize(&dir).unwrap_or(dir);
    let new = NewWorkspace { slug: slug.to_owned(), path: dir.display().to_string(), label };
    let added: WorkspaceInfo = client.read(&Call::post("/workspaces", &new)).await?;
    output::line(&printable(&format!("{slug} is {}", added.path)));
    Ok(Exit::Ok)
}

async fn list(client: &Client, screen: Screen, as_json: bool) -> anyhow::Result<Exit> {
    let answer = client.call(&Call::get("/workspaces")).await?;
    if as_json {
        output::line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let registry: WorkspaceRegistry = answer.json()?;
    if screen.terminal && registry.workspaces.is_empty() {
        output::note("no workspaces; name this directory with: wharf workspace add NAME");
        return Ok(Exit::Ok);
    }
    lines(screen, &registry).iter().for_each(|line| output::line(line));
    Ok(Exit::Ok)
}

fn lines(screen: Screen, registry: &WorkspaceRegistry) -> Vec<String> {
    let is_active = |entry: &WorkspaceInfo| registry.active.as_ref() == Some(&entry.slug);
    if !screen.terminal {
        let plain = |entry: &WorkspaceInfo| {
            let (updated, label) = (entry.updated_at.as_str(), entry.label.as_deref());
            let active = if is_active(entry) { "active" } else { "" };
            tabbed([entry.slug.as_str(), active, &entry.path, updated, label.unwrap_or_default()])
        };
        return registry.workspaces.iter().map(plain).collect();
    }
    let home = std::env::var("HOME").ok();
    let now = times::now();
    let mut table = Table::new(&["", "NAME", "DIRECTORY", "CHANGED", "LABEL"]);
    for entry in &registry.workspaces {
        table.row([
            styled(Style::Good, if is_active(entry) { "*" } else { "" }),
            styled(Style::Strong, &entry.slug),
            cell(text::short_path(&entry.path, home.as_deref(), PATH_WIDTH)),
            styled(Style::Faint, times::ago(&entry.updated_at, now)),
            cell(entry.label.as_deref().unwrap_or_default()),
        ]);
    }
    table.lines(screen)
}
