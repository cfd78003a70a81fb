//! `wharf token`: makes, lists and revokes tokens. It works on the file of the state directory, so a host need not run;
//! one that does sees the change at the next login.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use wharf_server::{Access, Identity, TokenEntry, TokensFile};

use crate::global::Global;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    verb: TokenVerb,
}

#[derive(Debug, Subcommand)]
enum TokenVerb {
    /// Make a token. It is shown this once; only its hash is kept.
    Create(Create),
    /// List the tokens that were made, oldest first.
    List(List),
    /// Revoke a token: it opens nothing from now on.
    Revoke(Revoke),
}

#[derive(Debug, Args)]
struct Create {
    /// What it allows: to see (observer), to work in sessions (controller), to change the host too (admin).
    #[arg(long, value_name = "ROLE", value_parser = roles())]
    role: Access,
    /// A note of who or what it is for.
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Print one JSON object: id, token, role, and the label if there is one.
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
    id: String,
}

fn roles() -> impl TypedValueParser<Value = Access> {
    PossibleValuesParser::new(Access::ALL.map(Access::as_str)).try_map(|word| word.parse::<Access>())
}

pub(crate) fn run(global: &Global, token: Token) -> anyhow::Result<()> {
    let tokens = TokensFile::of(&global.state_dir()?);
    match token.verb {
        TokenVerb::Create(arguments) => create(&tokens, &arguments),
        TokenVerb::List(arguments) => list(&tokens, &arguments),
        TokenVerb::Revoke(arguments) => revoke(&tokens, &arguments),
    }
}

/// The token alone goes to stdout, so that `TOKEN=$(wharf token create …)` works.
fn create(tokens: &TokensFile, arguments: &Create) -> anyhow::Result<()> {
    let made = tokens.create(arguments.role, arguments.label.as_deref())?;
    let TokenEntry { id, access, .. } = &made.entry;
    if arguments.json {
        let mut object = shown(&made.entry);
        object["token"] = made.text.into();
        output::line(&object.to_string());
        return Ok(());
    }
    output::line(&made.text);
    output::note(&format!("{id} ({access}); keep the token: it is not shown again"));
    output::note("send it as `Authorization: Bearer <token>`");
    output::note(&format!("take it back with: wharf token revoke {id}"));
    Ok(())
}

fn list(tokens: &TokensFile, arguments: &List) -> anyhow::Result<()> {
    let entries = tokens.list()?;
    if arguments.json {
        let dated = entries.iter().map(|entry| {
            let mut object = shown(entry);
            object["createdAt"] = entry.created_at.as_str().into();
            object
        });
        output::line(&Value::Array(dated.collect()).to_string());
        return Ok(());
    }
    for TokenEntry { id, access, label, created_at, .. } in &entries {
        let row = format!("{id}  {:<10}  {created_at}  {}", access.as_str(), label.as_deref().unwrap_or_default());
        output::line(row.trim_end());
    }
    if entries.is_empty() {
        output::note("no tokens but the host's own; make one with: wharf token create --role observer");
    }
    Ok(())
}

fn revoke(tokens: &TokensFile, arguments: &Revoke) -> anyhow::Result<()> {
    if arguments.id == Identity::HOST {
        anyhow::bail!(
            "{:?} is the host's own token: stop the host, delete {}, and the next start makes a new one",
            arguments.id,
            tokens.path().with_file_name("token").display()
        );
    }
    let revoked = tokens.revoke(&arguments.id)?;
    output::line(&format!("revoked {} ({})", revoked.id, revoked.access));
    Ok(())
}

/// What may be shown of a token.
fn shown(entry: &TokenEntry) -> Value {
    let mut object = json!({ "id": entry.id, "role": entry.access });
    if let Some(label) = &entry.label {
        object["label"] = label.as_str().into();
    }
    object
}
