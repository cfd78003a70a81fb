//! Options that every verb takes, before or after its name.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::client::HostClient;
use crate::connect::HostLocator;
use crate::format::Screen;
use crate::paths;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every verb")]
pub(crate) struct GlobalOptions {
    /// The state directory of the host [default: the XDG state directory].
    #[arg(long, env = "WHARF_STATE_DIR", value_name = "DIR", global = true)]
    pub(crate) state_dir: Option<PathBuf>,
    /// The configuration file of a host that is started [default: config.toml in the XDG config directory].
    #[arg(long, env = "WHARF_CONFIG", value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Never start a host: fail with exit code 3 if none is running.
    #[arg(long, global = true)]
    pub(crate) no_start: bool,
    /// Say on stderr what is called, where, and how long it takes.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Colours: `auto` means on a terminal, and not with NO_COLOR.
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub(crate) color: ColourWhen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourWhen {
    Auto,
    Always,
    Never,
}

impl GlobalOptions {
    pub(crate) fn state_dir(&self) -> anyhow::Result<PathBuf> {
        paths::state_dir(self.state_dir.as_deref())
    }

    /// Returns the locator of the host. `program` is its name in messages.
    pub(crate) fn locate_host(&self, program: &'static str) -> anyhow::Result<HostLocator> {
        let config = self.config.as_ref().map(std::path::absolute).transpose();
        let config = config.context("finding the configuration file")?;
        Ok(HostLocator::new(self.state_dir()?, config, !self.no_start, program))
    }

    /// Connects to the host, which is started if needed and allowed. Fails if its version is not compatible.
    pub(crate) async fn connect_client(&self) -> anyhow::Result<HostClient> {
        self.connect_client_as("wharf").await
    }

    /// Connects like [`Self::connect_client`]; `program` is its name in messages.
    pub(crate) async fn connect_client_as(&self, program: &'static str) -> anyhow::Result<HostClient> {
        HostClient::open(self.locate_host(program)?, self.verbose).await
    }

    /// Connects to a running host of any version.
    pub(crate) async fn connect_if_running(&self) -> anyhow::Result<HostClient> {
        let reach = HostLocator::new(self.state_dir()?, None, false, "wharf");
        HostClient::open_any(reach, self.verbose).await
    }

    pub(crate) fn screen(&self) -> Screen {
        Screen::of_stdout(self.color)
    }
}
