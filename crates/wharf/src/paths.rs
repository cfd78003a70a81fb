//! Where things are kept when nobody says otherwise.

use std::path::{Path, PathBuf};

use anyhow::Context;
use etcetera::{AppStrategy, AppStrategyArgs};

fn xdg_strategy() -> anyhow::Result<etcetera::app_strategy::Xdg> {
    let args = AppStrategyArgs { top_level_domain: String::new(), author: String::new(), app_name: "wharf".to_owned() };
    etcetera::app_strategy::Xdg::new(args).context("finding the home directory; set HOME, or give --state-dir")
}

/// `--state-dir` (or `WHARF_STATE_DIR`), else the XDG state directory. Absolute, whatever was given.
pub(crate) fn state_dir(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let dir = match given {
        Some(dir) => dir.to_owned(),
        None => xdg_strategy()?.state_dir().context("finding the state directory; give --state-dir")?,
    };
    std::path::absolute(&dir).with_context(|| format!("resolving {}", dir.display()))
}

/// `--config`, else `config.toml` in the XDG config directory if it is there.
pub(crate) fn config_file(given: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    match given {
        Some(path) => Ok(Some(path.to_owned())),
        None => Ok(Some(config_dir()?.join("config.toml")).filter(|path| path.exists())),
    }
}

/// The XDG config directory.
pub(crate) fn config_dir() -> anyhow::Result<PathBuf> {
    Ok(xdg_strategy()?.config_dir())
}
