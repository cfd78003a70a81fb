//! Decides whether a host could start with given settings. Every verb that checks, changes or uses
//! settings asks here (rule 11.6).

use std::net::SocketAddr;

use wharf_api::{HostInfo, HostSettingList};
use wharf_config::Config;
use wharf_server::AddressOutlook;

use crate::client::{HostCall, HostClient};
use crate::global::GlobalOptions;
use crate::verbs::serve::parse_log_filter;
use crate::verbs::status::describe_host;

/// The running host of this machine, as far as a start in its place depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunningHost {
    /// The address that it listens on.
    pub(crate) address: Option<SocketAddr>,
    /// It was started with `--insecure-no-tls`.
    pub(crate) insecure_no_tls: bool,
}

impl RunningHost {
    /// Asks the running host. Without one, every member has its default.
    pub(crate) async fn find(global: &GlobalOptions) -> Self {
        let Ok(client) = global.for_local_host().connect_if_running().await else {
            return Self::default();
        };
        let Some(host) = describe_host(&client).await else { return Self::default() };
        Self::of(&client, &host).await
    }

    pub(crate) async fn of(client: &HostClient, host: &HostInfo) -> Self {
        let arguments = host.process.iter().flat_map(|process| &process.arguments);
        let insecure_no_tls = arguments.into_iter().any(|word| word == "--insecure-no-tls");
        let settings: Option<HostSettingList> =
            client.fetch_json(&HostCall::get("/host/settings")).await.ok();
        let listen = settings
            .and_then(|known| known.settings.into_iter().find(|setting| setting.key == "listen"));
        let listen = listen.and_then(|setting| setting.value);
        Self {
            address: find_address(&host.url, listen.as_deref()),
            insecure_no_tls,
        }
    }
}

/// Returns the address of a host. Its URL has the port, but may have a name for clients instead of
/// the IP address, which is that of its setting `listen` (as TOML).
fn find_address(url: &str, listen: Option<&str>) -> Option<SocketAddr> {
    let authority = url.trim_end_matches('/').rsplit('/').next()?;
    let port = authority.rsplit(':').next()?.parse().ok()?;
    let listen = listen.and_then(|listen| listen.trim_matches('"').parse().ok());
    let listen: SocketAddr = listen.or_else(|| authority.parse().ok())?;
    Some(SocketAddr::new(listen.ip(), port))
}

/// Fails if a host could not start with these settings. `own` is the address of the running host in
/// whose place it would start.
pub(crate) fn check_startable(
    config: &Config,
    own: Option<SocketAddr>,
) -> anyhow::Result<AddressOutlook> {
    parse_log_filter(&config.log_level)?;
    config.check_agents()?;
    // Its message names the causes.
    wharf_server::check_start(config, own).map_err(|error| anyhow::anyhow!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_a_host_has_the_ip_that_it_listens_on_and_the_port_of_its_url() {
        let address = |url: &str, listen: Option<&str>| {
            find_address(url, listen).map(|address| address.to_string())
        };
        assert_eq!(
            address("http://127.0.0.1:7434", Some("\"127.0.0.1:0\"")).as_deref(),
            Some("127.0.0.1:7434")
        );
        assert_eq!(
            address("https://box.example:7434/", Some("\"0.0.0.0:7434\"")).as_deref(),
            Some("0.0.0.0:7434")
        );
        assert_eq!(address("http://[::1]:80", None).as_deref(), Some("[::1]:80"));
        assert_eq!(address("https://box.example:80", None), None);
    }
}
