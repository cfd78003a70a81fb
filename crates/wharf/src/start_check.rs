//! Decides whether a host could start with given settings. Every verb that checks, changes or uses
//! settings asks here (rule 11.6).

use wharf_host::Config;
use wharf_server::AddressOutlook;

use crate::global::GlobalOptions;
use crate::verbs::serve::parse_log_filter;
use crate::verbs::status::describe_host;

/// The running host of this machine, as far as a start in its place depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunningHost {
    pub(crate) port: Option<u16>,
    /// It was started with `--insecure-no-tls`.
    pub(crate) insecure_no_tls: bool,
}

impl RunningHost {
    /// Asks the running host. Without one, every member has its default.
    pub(crate) async fn find(global: &GlobalOptions) -> Self {
        let Ok(client) = global.for_local_host().connect_if_running().await else { return Self::default() };
        let Some(host) = describe_host(&client).await else { return Self::default() };
        let arguments = host.process.map(|process| process.arguments).unwrap_or_default();
        let insecure_no_tls = arguments.iter().any(|word| word == "--insecure-no-tls");
        Self { port: port_of_url(&host.url), insecure_no_tls }
    }
}

/// Fails if a host could not start with these settings. `own_port` is that of the running host in
/// whose place it would start.
pub(crate) fn check_startable(config: &Config, own_port: Option<u16>) -> anyhow::Result<AddressOutlook> {
    parse_log_filter(&config.log_level)?;
    config.check_agents()?;
    // Its message names the causes.
    wharf_server::check_start(config, own_port).map_err(|error| anyhow::anyhow!("{error}"))
}

/// Returns the port in the URL of a host, which always names it.
pub(crate) fn port_of_url(url: &str) -> Option<u16> {
    url.trim_end_matches('/').rsplit(':').next()?.parse().ok()
}
