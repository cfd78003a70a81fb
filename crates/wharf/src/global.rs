//! Options that every verb takes, before or after its name.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use wharf_render::style::Screen;

use crate::client::HostClient;
use crate::connect::{HostLocator, RemoteHost};
use crate::exit::{Exit, Failure};
use crate::format;
use crate::host_choice::{HostChoice, HostChoiceInputs, HostFlags, HostVariables};
use crate::{output, paths};

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every verb")]
pub(crate) struct GlobalOptions {
    /// The state directory of the host; also WHARF_STATE_DIR [default: the XDG state directory].
    #[arg(long, value_name = "DIR", global = true, conflicts_with = "context")]
    pub(crate) state_dir: Option<PathBuf>,
    /// The configuration file of a host that is started; also WHARF_CONFIG [default: config.toml in
    /// the XDG config directory].
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// The host at this URL instead of the one of this machine; also WHARF_URL.
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) url: Option<String>,
    /// The token for a host at a URL: `@FILE`, or `-` for stdin. Prefer these or WHARF_TOKEN: other
    /// users of this machine can read the arguments of a program.
    #[arg(long, value_name = "TOKEN", global = true, allow_hyphen_values = true)]
    pub(crate) token: Option<String>,
    /// The host with this name; see: wharf context. `local` is the one of this machine. Also
    /// WHARF_CONTEXT.
    #[arg(long, value_name = "CONTEXT", global = true)]
    pub(crate) context: Option<String>,
    /// A PEM file with the certificates of authorities to trust for an https URL, instead of the
    /// system's; also WHARF_CA.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) ca: Option<PathBuf>,
    /// Send the token and all else to another machine without TLS, for everyone on the way to read.
    #[arg(long, global = true)]
    pub(crate) insecure_plain_http: bool,
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
        let variable = std::env::var_os("WHARF_STATE_DIR")
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from);
        paths::state_dir(self.state_dir.as_deref().or(variable.as_deref()))
    }

    /// Returns the configuration file that is named by the flag or, unless it is empty, the
    /// variable.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        let variable = || {
            std::env::var_os("WHARF_CONFIG")
                .filter(|file| !file.is_empty())
                .map(PathBuf::from)
        };
        self.config.clone().or_else(variable)
    }

    /// Returns where the configuration file is or would be.
    pub(crate) fn config_path(&self) -> anyhow::Result<PathBuf> {
        match self.config_file() {
            Some(file) => Ok(file),
            None => Ok(paths::config_dir()?.join("config.toml")),
        }
    }

    /// Returns the file of named hosts.
    pub(crate) fn contexts_path(&self) -> anyhow::Result<PathBuf> {
        Ok(self.config_path()?.with_file_name("contexts.toml"))
    }

    /// Returns the options without a `--url` that has no URL. `wharf status --url` alone asks for
    /// the address.
    pub(crate) fn without_empty_url(&self) -> Self {
        Self {
            url: self.url.clone().filter(|url| !url.is_empty()),
            ..self.clone()
        }
    }

    /// Decides which host is meant.
    pub(crate) fn choose_host(&self) -> anyhow::Result<HostChoice> {
        let other =
            [("--state-dir", self.state_dir.is_some()), ("--context", self.context.is_some())];
        if let Some((other, _)) = other.iter().find(|(_, is_given)| *is_given && self.url.is_some())
        {
            return Err(Failure::new(
                Exit::Usage,
                format!("--url and {other} name different hosts; give one"),
            )
            .into());
        }
        let flags = HostFlags {
            url: self.url.clone(),
            token: self.token.clone(),
            context: self.context.clone(),
            ca: self.ca.clone(),
            plain_http: self.insecure_plain_http,
            state_dir: self.state_dir.is_some(),
        };
        let inputs = HostChoiceInputs { flags, variables: HostVariables::of_process() };
        // Without a home there are no named hosts.
        let contexts = self.contexts_path().unwrap_or_default();
        inputs.choose(&contexts)
    }

    /// Tells whether the host is one at a URL.
    pub(crate) fn is_remote(&self) -> anyhow::Result<bool> {
        Ok(matches!(self.choose_host()?, HostChoice::Remote { .. }))
    }

    /// Refuses a host at a URL for a verb that concerns this machine. `why` says so.
    pub(crate) fn refuse_remote(&self, why: &str) -> anyhow::Result<()> {
        match self.choose_host()? {
            HostChoice::Local => Ok(()),
            HostChoice::Remote { options, chosen_by } => {
                let words = format!(
                    "{why}; {chosen_by} names the host at {}. For the host of this machine say: --context local",
                    options.url
                );
                Err(Failure::new(Exit::Usage, words).into())
            }
        }
    }

    /// Returns the locator of the host. `program` is its name in messages.
    pub(crate) fn locate_host(&self, program: &'static str) -> anyhow::Result<HostLocator> {
        match self.choose_host()? {
            HostChoice::Local => self.locate_local_host(!self.no_start, program),
            HostChoice::Remote { options, .. } => {
                if self.token.as_ref().is_some_and(|token| !token.starts_with(['@', '-']))
                    && output::is_person_present()
                {
                    output::print_note(
                        "note: other users can read --token in the list of processes; use --token @FILE, WHARF_TOKEN or wharf context",
                    );
                }
                Ok(HostLocator::for_remote(RemoteHost::new(options)?, program))
            }
        }
    }

    fn locate_local_host(
        &self,
        may_start: bool,
        program: &'static str,
    ) -> anyhow::Result<HostLocator> {
        let config = self.config_file().map(std::path::absolute).transpose();
        let config = config.context("finding the configuration file")?;
        Ok(HostLocator::new(self.state_dir()?, config, may_start, program))
    }

    /// Connects to the host, which is started if needed and allowed. Fails if its version is not
    /// compatible.
    pub(crate) async fn connect_client(&self) -> anyhow::Result<HostClient> {
        self.connect_client_as("wharf").await
    }

    /// Connects like [`Self::connect_client`]; `program` is its name in messages.
    pub(crate) async fn connect_client_as(
        &self,
        program: &'static str,
    ) -> anyhow::Result<HostClient> {
        HostClient::open(self.locate_host(program)?, self.verbose).await
    }

    /// Connects to a running host of a compatible version; never starts one.
    pub(crate) async fn connect_running_client(&self) -> anyhow::Result<HostClient> {
        HostClient::open(self.without_start().locate_host("wharf")?, self.verbose).await
    }

    /// Connects to a running host of any version.
    pub(crate) async fn connect_if_running(&self) -> anyhow::Result<HostClient> {
        HostClient::open_any(self.without_start().locate_host("wharf")?, self.verbose).await
    }

    pub(crate) fn without_start(&self) -> Self {
        Self { no_start: true, ..self.clone() }
    }

    /// Returns the options for the host of this machine, whatever else is chosen.
    pub(crate) fn for_local_host(&self) -> Self {
        let context = Some(crate::contexts::LOCAL_CONTEXT.to_owned());
        Self { url: None, token: None, context, ca: None, ..self.clone() }
    }

    /// Returns a command that runs this program with the same options of every verb, and these
    /// arguments.
    pub(crate) fn own_command(&self, arguments: &[String]) -> anyhow::Result<Vec<String>> {
        let text =
            |path: &Path| path.to_str().map(ToOwned::to_owned).context("a path is not UTF-8");
        let mut command = vec![text(&std::env::current_exe().context("finding this program")?)?];
        command.extend(["--state-dir".to_owned(), text(&self.state_dir()?)?]);
        if let Some(config) = self.config_file() {
            command.extend(["--config".to_owned(), text(&config)?]);
        }
        if self.no_start {
            command.push("--no-start".to_owned());
        }
        command.extend_from_slice(arguments);
        Ok(command)
    }

    /// Returns the options with which another process of this program reaches the same host without
    /// starting one, and the token that it reads from its stdin.
    pub(crate) fn to_host_arguments(&self) -> anyhow::Result<(Vec<OsString>, Option<String>)> {
        let mut arguments: Vec<OsString> = vec!["--no-start".into()];
        let options = match self.choose_host()? {
            HostChoice::Local => {
                let state_dir = std::path::absolute(self.state_dir()?)
                    .context("finding the state directory")?;
                arguments.extend(["--state-dir".into(), state_dir.into_os_string()]);
                return Ok((arguments, None));
            }
            HostChoice::Remote { options, .. } => options,
        };
        arguments.extend(["--url".into(), options.url.to_string().into()]);
        if let Some(ca) = options.ca {
            let ca = std::path::absolute(ca).context("finding the file of --ca")?;
            arguments.extend(["--ca".into(), ca.into_os_string()]);
        }
        if options.plain_http {
            arguments.push("--insecure-plain-http".into());
        }
        let token = options.token.map(|token| token.text);
        if token.is_some() {
            arguments.extend(["--token".into(), "-".into()]);
        }
        Ok((arguments, token))
    }

    pub(crate) fn screen(&self) -> Screen {
        format::stdout_screen(self.color)
    }

    /// Returns true if text on stderr has colours.
    pub(crate) fn colours_stderr(&self) -> bool {
        format::wants_colour(self.color, std::io::stderr().is_terminal())
    }
}
