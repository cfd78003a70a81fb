//! `wharf workspace`: directories with names.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use wharf_api::{ActiveWorkspace, NewWorkspace, WorkspaceInfo, WorkspaceRegistry};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text;
use wharf_render::text::{format_ago, to_printable};

use crate::client::{HostCall, HostClient, url_path};
use crate::exit::{Exit, Failure};
use crate::format::table::{TextTable, join_with_tabs, plain_cell, styled_cell};
use crate::format::times;
use crate::global::GlobalOptions;
use crate::output;

/// The width of a directory's path on a terminal.
const PATH_WIDTH: usize = 48;

#[derive(Debug, Args)]
pub(crate) struct WorkspaceVerb {
    #[command(subcommand)]
    verb: WorkspaceAction,
}

#[derive(Debug, Subcommand)]
enum WorkspaceAction {
    /// Give a directory a name.
    Add {
        /// The name: small letters, digits and dashes.
        slug: String,
        /// The directory [default: the current one].
        path: Option<PathBuf>,
        /// A description in your words.
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

pub(crate) async fn run(global: &GlobalOptions, verb: WorkspaceVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    match verb.verb {
        WorkspaceAction::Add { slug, path, label } => {
            add_workspace(&client, &slug, path, label).await
        }
        WorkspaceAction::List { json } => print_workspaces(&client, global.screen(), json).await,
        WorkspaceAction::Remove { slug, purge } => {
            let purged = if purge { "?purge=true" } else { "" };
            client
                .send_call(&HostCall::delete(url_path(&["workspaces", &slug]) + purged))
                .await?;
            output::print_line(&format!(
                "{slug} {}",
                if purge { "removed, with its history" } else { "removed" }
            ));
            Ok(Exit::Ok)
        }
        WorkspaceAction::Use { slug } => {
            client
                .send_call(&HostCall::put(
                    "/workspaces/active",
                    &ActiveWorkspace { slug: slug.clone() },
                ))
                .await?;
            output::print_line(&format!("{slug} is used when no workspace is named"));
            Ok(Exit::Ok)
        }
    }
}

async fn add_workspace(
    client: &HostClient,
    slug: &str,
    dir: Option<PathBuf>,
    label: Option<String>,
) -> anyhow::Result<Exit> {
    let path = if client.is_remote() {
        let dir = dir.ok_or_else(|| {
            let words = format!(
                "which directory? the host is at {}, so name an absolute one of that machine",
                client.address()
            );
            Failure::new(Exit::Usage, words)
        })?;
        client.absolute_path(&dir)?
    } else {
        let dir = std::path::absolute(dir.unwrap_or_else(|| PathBuf::from(".")))
            .context("finding the directory")?;
        // `..` and links are resolved, so that the name belongs to the directory itself.
        std::fs::canonicalize(&dir).unwrap_or(dir).display().to_string()
    };
    let new = NewWorkspace { slug: slug.to_owned(), path, label };
    let added: WorkspaceInfo = client.fetch_json(&HostCall::post("/workspaces", &new)).await?;
    output::print_line(&to_printable(&format!("{slug} is {}", added.path)));
    Ok(Exit::Ok)
}

async fn print_workspaces(
    client: &HostClient,
    screen: Screen,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let answer = client.send_call(&HostCall::get("/workspaces")).await?;
    if as_json {
        output::print_line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let registry: WorkspaceRegistry = answer.json()?;
    if screen.terminal && registry.workspaces.is_empty() {
        output::print_note("no workspaces; name this directory with: wharf workspace add NAME");
        return Ok(Exit::Ok);
    }
    format_workspaces(screen, &registry)
        .iter()
        .for_each(|line| output::print_line(line));
    Ok(Exit::Ok)
}

fn format_workspaces(screen: Screen, registry: &WorkspaceRegistry) -> Vec<String> {
    let is_active = |entry: &WorkspaceInfo| registry.active.as_ref() == Some(&entry.slug);
    if !screen.terminal {
        let plain = |entry: &WorkspaceInfo| {
            let updated = entry.updated_at.as_str();
            let label = entry.label.as_deref();
            let active = if is_active(entry) { "active" } else { "" };
            join_with_tabs([
                entry.slug.as_str(),
                active,
                &entry.path,
                updated,
                label.unwrap_or_default(),
            ])
        };
        return registry.workspaces.iter().map(plain).collect();
    }
    let home = std::env::var("HOME").ok();
    let now = times::now_millis();
    let mut table = TextTable::new(&["", "NAME", "DIRECTORY", "CHANGED", "LABEL"]);
    for entry in &registry.workspaces {
        table.add_row([
            styled_cell(TextStyle::Good, if is_active(entry) { "*" } else { "" }),
            styled_cell(TextStyle::Strong, &entry.slug),
            plain_cell(text::shorten_path(&entry.path, home.as_deref(), PATH_WIDTH)),
            styled_cell(TextStyle::Faint, format_ago(&entry.updated_at, now)),
            plain_cell(entry.label.as_deref().unwrap_or_default()),
        ]);
    }
    table.to_lines(screen)
}
