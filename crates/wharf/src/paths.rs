//! The default directories for state and configuration.

use std::path::{Path, PathBuf};

use anyhow::Context;
use etcetera::{AppStrategy, AppStrategyArgs};

fn xdg_strategy() -> anyhow::Result<etcetera::app_strategy::Xdg> {
    let args = AppStrategyArgs {
        top_level_domain: String::new(),
        author: String::new(),
        app_name: "wharf".to_owned(),
    };
    etcetera::app_strategy::Xdg::new(args)
        .context("finding the home directory; set HOME, or give --state-dir")
}

/// Returns `--state-dir` (or `WHARF_STATE_DIR`), else the XDG state directory, as an absolute path.
pub(crate) fn state_dir(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let dir = match given {
        Some(dir) => dir.to_owned(),
        None => default_state_dir()?,
    };
    std::path::absolute(&dir).with_context(|| format!("resolving {}", dir.display()))
}

/// Returns the XDG state directory: where verbs look without `--state-dir` and `WHARF_STATE_DIR`.
pub(crate) fn default_state_dir() -> anyhow::Result<PathBuf> {
    xdg_strategy()?
        .state_dir()
        .context("finding the state directory; give --state-dir")
}

/// Returns the XDG config directory.
pub(crate) fn config_dir() -> anyhow::Result<PathBuf> {
    Ok(xdg_strategy()?.config_dir())
}
