//! `wharf token`: makes, lists and revokes tokens. It works on the file of the state directory, so a host need not run;
//! one that does sees the change at the next login.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use wharf_server::{Access, Identity, TokenEntry, TokensFile};

use crate::{output, paths};

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
    #[command(flatten)]
    place: Place,
    /// Print one JSON object: id, token, role, and the label if there is one.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    place: Place,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Revoke {
    /// As `wharf token list` shows it.
    id: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct Place {
    /// The state directory of the host [default: the XDG state directory].
    #[arg(long, env = "WHARF_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl Place {
    fn tokens(&self) -> anyhow::Result<TokensFile> {
        Ok(TokensFile::of(&paths::state_dir(self.state_dir.as_deref())?))
    }
}

fn roles() -> impl TypedValueParser<Value = Access> {
    PossibleValuesParser::new(Access::ALL.map(Access::as_str)).try_map(|word| word.parse::<Access>())
}

pub(crate) fn run(token: Token) -> anyhow::Result<()> {
    match token.verb {
        TokenVerb::Create(arguments) => create(&arguments),
        TokenVerb::List(arguments) => list(&arguments),
        TokenVerb::Revoke(arguments) => revoke(&arguments),
    }
}

/// The token alone goes to stdout, so that `TOKEN=$(wharf token create …)` works.
fn create(arguments: &Create) -> anyhow::Result<()> {
    let made = arguments.place.tokens()?.create(arguments.role, arguments.label.as_deref())?;
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

fn list(arguments: &List) -> anyhow::Result<()> {
    let entries = arguments.place.tokens()?.list()?;
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

fn revoke(arguments: &Revoke) -> anyhow::Result<()> {
    let tokens = arguments.place.tokens()?;
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
