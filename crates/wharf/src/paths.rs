//! The default directories for state and configuration.

use std::path::{Path, PathBuf};

use anyhow::Context;
use etcetera::{AppStrategy, AppStrategyArgs};

fn xdg_strategy() -> anyhow::Result<etcetera::app_strategy::Xdg> {
    let args = AppStrategyArgs { top_level_domain: String::new(), author: String::new(), app_name: "wharf".to_owned() };
    etcetera::app_strategy::Xdg::new(args).context("finding the home directory; set HOME, or give --state-dir")
}

/// Returns `--state-dir` (or `WHARF_STATE_DIR`), else the XDG state directory, as an absolute path.
pub(crate) fn state_dir(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let dir = match given {
        Some(dir) => dir.to_owned(),
        None => xdg_strategy()?.state_dir().context("finding the state directory; give --state-dir")?,
    };
    std::path::absolute(&dir).with_context(|| format!("resolving {}", dir.display()))
}

/// Returns `--config`, else `config.toml` in the XDG config directory if it exists.
pub(crate) fn config_file(given: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    match given {
        Some(path) => Ok(Some(path.to_owned())),
        None => Ok(Some(config_dir()?.join("config.toml")).filter(|path| path.exists())),
    }
}

/// Returns the XDG config directory.
pub(crate) fn config_dir() -> anyhow::Result<PathBuf> {
    Ok(xdg_strategy()?.config_dir())
}
