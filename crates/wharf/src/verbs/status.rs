//! `wharf status`: shows whether a host is running.

use clap::Args;
use serde_json::{Map, Value, json};
use wharf_api::HostInfo;
use wharf_render::style::{Screen, TextStyle};

use super::config::SettingsView;
use crate::client::{HostCall, HostClient};
use crate::exit::{Exit, Failure};
use crate::format::table::join_with_tabs;
use crate::global::GlobalOptions;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct StatusVerb {
    /// One JSON object.
    #[arg(long)]
    json: bool,
    /// Without a URL: print only the address of the host. With one: the host at this URL.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    url: Option<String>,
}

/// Returns the exit code 3 if no host is running, which is not an error.
pub(crate) async fn run(global: &GlobalOptions, verb: StatusVerb) -> anyhow::Result<Exit> {
    let global = &global.without_empty_url();
    let prints_url = verb.url.as_deref() == Some("");
    let remote = global.is_remote()?;
    let state_dir = global.state_dir()?;
    let client = match global.connect_if_running().await {
        Ok(client) => client,
        Err(error) if Failure::exit_of(&error) == Exit::NoHost && !remote => {
            if prints_url {
                output::print_note(&format!(
                    "no host is running for {}; start it: wharf serve",
                    state_dir.display()
                ));
            } else if verb.json {
                output::print_line(&json!({ "running": false, "stateDir": state_dir }).to_string());
            } else {
                output::print_line(&format!("no host is running for {}", state_dir.display()));
            }
            return Ok(Exit::NoHost);
        }
        Err(error) => return Err(error),
    };
    // A host of another version may not know this route.
    let answer = client.send_call(&HostCall::get("/host")).await.ok();
    let host = answer.as_ref().and_then(|answer| answer.json::<HostInfo>().ok());
    if prints_url {
        return print_url(&client, host.as_ref());
    }
    let stale = match &host {
        Some(HostInfo { settings: Some(_), .. }) => SettingsView::of_host(global, &client)
            .await
            .map(|view| view.stale_variables())
            .unwrap_or_default(),
        Some(_) | None => Vec::new(),
    };
    let state_dir = match &host {
        Some(host) if remote => host.state_dir.clone(),
        Some(_) | None => state_dir.display().to_string(),
    };
    let report = Report { client: &client, host, state_dir, stale };
    if verb.json {
        output::print_line(
            &report
                .to_json(answer.and_then(|answer| answer.json().ok()).unwrap_or_default())
                .to_string(),
        );
    } else {
        report.print_report(global.screen());
    }
    Ok(Exit::Ok)
}

/// Prints the address of the host, as this machine reaches it.
fn print_url(client: &HostClient, host: Option<&HostInfo>) -> anyhow::Result<Exit> {
    let reached = client.address().remote().map(|remote| remote.options.url.to_string());
    let url = reached.or_else(|| host.map(|host| host.url.clone()));
    let url = url.ok_or_else(|| Failure::new(Exit::Error, "the host does not tell its address"))?;
    output::print_line(url.trim_end_matches('/'));
    Ok(Exit::Ok)
}

/// Returns the host's own description. A host of another version may not have it.
pub(crate) async fn describe_host(client: &HostClient) -> Option<HostInfo> {
    client.fetch_json(&HostCall::get("/host")).await.ok()
}

/// A running host: facts from the connection, and the host's own description.
struct Report<'a> {
    client: &'a HostClient,
    host: Option<HostInfo>,
    state_dir: String,
    /// Variables of the host's start that are not so here.
    stale: Vec<String>,
}

impl Report<'_> {
    /// Returns the host's own description with the facts from the connection.
    fn to_json(&self, mut host: Map<String, Value>) -> Value {
        let client = self.client;
        let known = [
            ("running", Some(true.into())),
            ("socket", client.address().socket().map(|socket| socket.display().to_string().into())),
            ("staleVariables", Some(self.stale.clone().into()).filter(|_| !self.stale.is_empty())),
            ("stateDir", Some(self.state_dir.as_str().into())),
            ("pid", client.pid.map(Value::from)),
            ("version", client.version.as_deref().map(Value::from)),
        ];
        host.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        Value::Object(host)
    }

    fn print_report(&self, screen: Screen) {
        let Report { client, host, state_dir, stale } = self;
        let settings = host.as_ref().and_then(|host| host.settings.as_ref());
        let told = |member: fn(&HostInfo) -> String| host.as_ref().map(member);
        let rows = [
            ("host", Some("running".to_owned())),
            ("version", client.version.clone().or_else(|| told(|host| host.version.clone()))),
            ("pid", client.pid.or(host.as_ref().map(|host| host.pid)).map(|pid| pid.to_string())),
            ("address", told(|host| host.url.clone())),
            ("socket", client.address().socket().map(|socket| socket.display().to_string())),
            ("reached", client.address().remote().map(|remote| remote.options.url.to_string())),
            ("state", Some(state_dir.clone())),
            ("agent", told(|host| host.default_agent.clone())),
            (
                "sessions",
                told(|host| format!("{} live, {} in all", host.sessions.live, host.sessions.total)),
            ),
            ("settings", settings.and_then(|settings| settings.file.clone())),
            (
                "waiting",
                settings
                    .filter(|it| !it.waiting.is_empty())
                    .map(|it| format!("{}: wharf restart", it.waiting.join(", "))),
            ),
            (
                "fault",
                settings
                    .and_then(|it| it.fault.as_ref())
                    .map(|fault| format!("the settings cannot be used as they are now: {fault}")),
            ),
            (
                "stale",
                Some(stale).filter(|it| !it.is_empty()).map(|it| {
                    format!(
                        "started with other values of {}; wharf restart uses those of this shell",
                        it.join(", ")
                    )
                }),
            ),
        ];
        for (name, value) in rows.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            if screen.terminal {
                let style = if *name == "host" { TextStyle::Good } else { TextStyle::Plain };
                let name = screen.paint(TextStyle::Faint, &format!("{name:<8}"));
                output::print_line(&format!("{name}  {}", screen.paint(style, value)));
            } else {
                output::print_line(&join_with_tabs([*name, value]));
            }
        }
    }
}
