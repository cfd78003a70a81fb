//! `wharf token`: creates, lists and revokes tokens. It works on the file in the state directory,
//! so no host is needed; a running host sees the change within a second. Only a host can make login
//! codes for the web page.

use std::path::Path;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use wharf_api::{LoginCode, LoginCodeArgs};
use wharf_config::{DirectoryScope, Duration, Workspaces};
use wharf_render::style::{Screen, TextStyle};
use wharf_server::{Access, Identity, TokenEntry, TokenTerms, TokensFile, TokensFileError};

use crate::client::HostCall;
use crate::exit::{Exit, Failure};
use crate::format::table::{TextTable, join_with_tabs, plain_cell, styled_cell};
use crate::global::GlobalOptions;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct TokenVerb {
    #[command(subcommand)]
    verb: TokenAction,
}

#[derive(Debug, Subcommand)]
enum TokenAction {
    /// Make a token. It is shown this once; only its hash is kept.
    Create(Create),
    /// List the tokens that were made, oldest first.
    List(List),
    /// Revoke a token: it opens nothing from now on, and what it has open is closed.
    Revoke(Revoke),
    /// Have the host make a code that logs the web page in: good once, for two minutes.
    Code(Code),
}

#[derive(Debug, Args)]
struct Create {
    /// The rights: to see (observer), to work in sessions (controller), to change the host too
    /// (admin).
    #[arg(long, value_name = "ROLE", value_parser = role_parser())]
    role: Access,
    /// A note of who or what it is for.
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// The one workspace that it covers: nothing else is there for its holder. Not for admins.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
    /// How long it lasts: 30m, 8h, 7d [default: until it is revoked].
    #[arg(long, value_name = "TIME")]
    ttl: Option<Duration>,
    /// The person that it belongs to: owner, or the label or id of another token [default: a person
    /// of its own].
    #[arg(long, value_name = "NAME")]
    person: Option<String>,
    /// Print one JSON object: id, token, role, and what else it was made with.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct List {
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Revoke {
    /// As `wharf token list` shows it.
    #[arg(required_unless_present = "expired", value_name = "TOKEN")]
    id: Option<String>,
    /// All that have expired.
    #[arg(long, conflicts_with = "id")]
    expired: bool,
}

#[derive(Debug, Args)]
struct Code {
    /// The rights of the page [default: your own].
    #[arg(long, value_name = "ROLE", value_parser = role_parser())]
    role: Option<Access>,
    /// The one workspace that it covers.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
    /// How long it stays logged in [default: 30d since its last use].
    #[arg(long, value_name = "TIME")]
    ttl: Option<Duration>,
    /// Print one JSON object: code, goodForSeconds, role, and the workspace if there is one.
    #[arg(long)]
    json: bool,
}

pub(super) fn role_parser() -> impl TypedValueParser<Value = Access> {
    PossibleValuesParser::new(Access::ALL.map(Access::as_str))
        .try_map(|word| word.parse::<Access>())
}

pub(crate) fn run(global: &GlobalOptions, token: TokenVerb) -> anyhow::Result<()> {
    if !matches!(token.verb, TokenAction::Code(_)) {
        global.refuse_remote("tokens are made, listed and revoked on the machine of their host")?;
    }
    let state_dir = global.state_dir()?;
    let tokens = TokensFile::in_directory(&state_dir);
    match token.verb {
        TokenAction::Create(arguments) => create_token(&state_dir, &tokens, arguments),
        TokenAction::List(arguments) => list_tokens(global.screen(), &tokens, &arguments),
        TokenAction::Revoke(arguments) => revoke_token(&tokens, &arguments),
        TokenAction::Code(arguments) => {
            super::block_on(make_login_code(global, &arguments)).map(drop)
        }
    }
}

/// Creates a token. Only the token goes to stdout, so that `TOKEN=$(wharf token create …)` works.
fn create_token(state_dir: &Path, tokens: &TokensFile, arguments: Create) -> anyhow::Result<()> {
    if let Some(slug) = &arguments.workspace {
        // A host resolves the name in the same way: an unregistered name is refused.
        Workspaces::of(state_dir).find_in_scope(&DirectoryScope::Anywhere, slug)?;
    }
    let ttl = arguments.ttl.and_then(Duration::to_millis);
    let workspace = arguments.workspace.map(Into::into);
    let terms = TokenTerms {
        label: arguments.label,
        workspace,
        ttl,
        person: arguments.person,
        ..TokenTerms::new(arguments.role)
    };
    let made = tokens.create(terms)?;
    let TokenEntry { id, access, .. } = &made.entry;
    if arguments.json {
        let mut object = to_json(&made.entry);
        object["token"] = made.text.into();
        output::print_line(&object.to_string());
        return Ok(());
    }
    output::print_line(&made.text);
    let limits = describe_limits(&made.entry);
    output::print_note(&format!("{id} ({access}{limits}); keep the token: it is not shown again"));
    output::print_note("send it as `Authorization: Bearer <token>`");
    output::print_note(&format!("take it back with: wharf token revoke {id}"));
    Ok(())
}

fn list_tokens(screen: Screen, tokens: &TokensFile, arguments: &List) -> anyhow::Result<()> {
    let entries = tokens.list()?;
    if arguments.json {
        let dated = entries.iter().map(|entry| {
            let mut object = to_json(entry);
            object["createdAt"] = entry.created_at.as_str().into();
            object
        });
        output::print_line(&Value::Array(dated.collect()).to_string());
        return Ok(());
    }
    format_tokens(screen, &entries).iter().for_each(|line| output::print_line(line));
    if entries.is_empty() {
        output::print_note(
            "no tokens but the host's own; make one with: wharf token create --role observer",
        );
    }
    Ok(())
}

/// Returns a table for a person, or lines with tabs for a program.
fn format_tokens(screen: Screen, entries: &[TokenEntry]) -> Vec<String> {
    let limits = |entry: &TokenEntry| describe_limits(entry).trim_start_matches(", ").to_owned();
    if !screen.terminal {
        let row = |entry: &TokenEntry| {
            let label = entry.label.as_deref().unwrap_or_default();
            join_with_tabs([
                &*entry.id,
                entry.access.as_str(),
                &entry.created_at,
                label,
                &limits(entry),
            ])
        };
        return entries.iter().map(row).collect();
    }
    let mut table = TextTable::new(&["TOKEN", "ROLE", "MADE", "LABEL", "LIMITS"]);
    for entry in entries {
        table.add_row([
            styled_cell(TextStyle::Strong, &entry.id),
            plain_cell(entry.access.as_str()),
            plain_cell(&entry.created_at),
            plain_cell(entry.label.as_deref().unwrap_or_default()),
            plain_cell(limits(entry)),
        ]);
    }
    table.to_lines(screen)
}

fn revoke_token(tokens: &TokensFile, arguments: &Revoke) -> anyhow::Result<()> {
    let Some(id) = &arguments.id else {
        for TokenEntry { id, access, .. } in tokens.revoke_expired()? {
            output::print_line(&format!("removed {id} ({access}), which had expired"));
        }
        return Ok(());
    };
    if id == Identity::HOST_TOKEN_ID {
        anyhow::bail!(
            "{id:?} is the host's own token: stop the host, delete {}, and the next start makes a new one",
            tokens.path().with_file_name("token").display()
        );
    }
    let revoked = tokens.revoke(id).map_err(|error| {
        let is_unknown = matches!(error, TokensFileError::Unknown { .. });
        Failure::new(if is_unknown { Exit::NotFound } else { Exit::Error }, error.to_string())
    })?;
    output::print_line(&format!("revoked {} ({})", revoked.id, revoked.access));
    Ok(())
}

/// Makes a login code. Only the code goes to stdout.
async fn make_login_code(global: &GlobalOptions, arguments: &Code) -> anyhow::Result<Exit> {
    let ttl = arguments.ttl.map(|ttl| {
        ttl.to_std()
            .context("a login does not last for ever; give a --ttl of up to 31d")
    });
    let asked = LoginCodeArgs {
        role: arguments.role.map(|role| role.to_string()),
        workspace: arguments.workspace.clone(),
        ttl_seconds: ttl.transpose()?.map(|ttl| ttl.as_secs()),
        code_seconds: None,
    };
    let made = global
        .connect_client()
        .await?
        .send_call(&HostCall::post("/login/codes", &asked))
        .await?;
    if arguments.json {
        output::print_line(&made.json::<Value>()?.to_string());
        return Ok(Exit::Ok);
    }
    let LoginCode { code, role, good_for_seconds: seconds, .. } = made.json()?;
    output::print_line(&code);
    output::print_note(&format!("logs one page in ({role}), once, in the next {seconds} seconds"));
    Ok(Exit::Ok)
}

/// Returns the parts of a token's entry that may be shown.
fn to_json(entry: &TokenEntry) -> Value {
    let mut object = json!({ "id": entry.id, "role": entry.access });
    if let Some(label) = &entry.label {
        object["label"] = label.as_str().into();
    }
    if let Some(workspace) = &entry.workspace {
        object["workspace"] = (&**workspace).into();
    }
    if let Some(at) = &entry.expires_at {
        object["expiresAt"] = at.as_str().into();
        object["expired"] = entry.is_expired().into();
    }
    if let Some(asker) = &entry.login_of {
        object["loginOf"] = (&**asker).into();
    }
    object
}

/// Returns the limits of a token in words, each with a comma before it.
fn describe_limits(entry: &TokenEntry) -> String {
    let workspace = entry.workspace.as_deref().map(|slug| format!(", workspace {slug}"));
    let word = if entry.is_expired() { "expired" } else { "expires" };
    let until = entry.expires_at.as_deref().map(|at| format!(", {word} {at}"));
    let login = entry.login_of.as_deref().map(|asker| format!(", page of {asker}"));
    [workspace, until, login].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_headings_on_a_terminal_and_tabs_in_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokensFile::in_directory(folder.path());
        let terms = TokenTerms {
            label: Some("wall".to_owned()),
            ..TokenTerms::new(Access::Observer)
        };
        let entry = tokens.create(terms).unwrap().entry;
        let lines = format_tokens(Screen::TERMINAL, std::slice::from_ref(&entry));
        let [headings, row] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(
            headings.split_whitespace().collect::<Vec<_>>(),
            ["TOKEN", "ROLE", "MADE", "LABEL"]
        );
        assert!(row.contains("observer") && row.contains("wall"), "{row}");
        let plain = format_tokens(Screen::PIPE, std::slice::from_ref(&entry));
        assert_eq!(plain, [format!("{}\tobserver\t{}\twall\t", &*entry.id, entry.created_at)]);
    }
}
