//! `wharf config`: shows and changes the settings of the host.

mod change;
mod list;

use clap::{Args, Subcommand};

pub(crate) use list::SettingsView;

use crate::exit::Exit;
use crate::global::GlobalOptions;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ConfigVerb {
    #[command(subcommand)]
    verb: ConfigAction,
}

#[derive(Debug, Subcommand)]
enum ConfigAction {
    /// List every setting, its value and its source: those of the running host, else those that a
    /// host would have.
    List {
        /// Only those that are not defaults.
        #[arg(long)]
        changed: bool,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the value of one setting.
    Get {
        key: String,
        /// One JSON object, with the source.
        #[arg(long)]
        json: bool,
    },
    /// Change one setting in the file, or several that need each other, if a host could start with
    /// the result.
    Set {
        key: String,
        /// A list is words with commas between them, or as in TOML. `-` reads it from stdin.
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Further keys and values by turns.
        #[arg(value_name = "KEY VALUE", allow_negative_numbers = true)]
        more: Vec<String>,
    },
    /// Remove settings from the file: they have their defaults again.
    Unset {
        #[arg(value_name = "KEY", required = true)]
        keys: Vec<String>,
    },
    /// Open the file in an editor, and check it before it counts.
    Edit,
    /// Check the file, or another one, without using it.
    Check { file: Option<std::path::PathBuf> },
    /// Print where the file is or would be.
    Path,
}

pub(crate) async fn run(global: &GlobalOptions, verb: ConfigVerb) -> anyhow::Result<Exit> {
    match verb.verb {
        ConfigAction::List { changed, json } => list::list_settings(global, changed, json).await,
        ConfigAction::Get { key, json } => list::print_setting(global, &key, json).await,
        ConfigAction::Set { key, value, more } => {
            change::set(global, &[vec![key, value], more].concat()).await
        }
        ConfigAction::Unset { keys } => change::unset(global, &keys).await,
        ConfigAction::Edit => change::edit(global).await,
        ConfigAction::Check { file } => change::check(global, file.as_deref()).await,
        ConfigAction::Path => {
            output::print_line(&change::file_path(global)?.display().to_string());
            Ok(Exit::Ok)
        }
    }
}
