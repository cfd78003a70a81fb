//! `wharf status`: is a host running?

use clap::Args;
use serde_json::{Value, json};

use crate::client::Call;
use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::look::table::tabbed;
use crate::look::{Screen, Style};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Exit code 3 if none runs, which is an answer and no error.
pub(crate) async fn run(global: &Global, verb: Status) -> anyhow::Result<Exit> {
    let state_dir = global.state_dir()?;
    let client = match global.client_if_running().await {
        Ok(client) => client,
        Err(error) if Failure::exit_of(&error) == Exit::NoHost => {
            if verb.json {
                output::line(&json!({ "running": false, "stateDir": state_dir }).to_string());
            } else {
                output::line(&format!("no host is running for {}", state_dir.display()));
            }
            return Ok(Exit::NoHost);
        }
        Err(error) => return Err(error),
    };
    // One of another version may not know this call.
    let mut host = client.value(&Call::get("/host")).await.unwrap_or_else(|_| json!({}));
    host["running"] = true.into();
    host["socket"] = client.socket().display().to_string().into();
    host["stateDir"] = state_dir.display().to_string().into();
    for (member, value) in [("pid", client.pid.map(Value::from)), ("version", client.version.map(Value::from))] {
        if let Some(value) = value {
            host[member] = value;
        }
    }
    if verb.json {
        output::line(&host.to_string());
    } else {
        show(global.screen(), &host);
    }
    Ok(Exit::Ok)
}

fn show(screen: Screen, host: &Value) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let sessions = &host["sessions"];
    let rows = [
        ("host", "running".to_owned()),
        ("version", text(&host["version"])),
        ("pid", text(&host["pid"])),
        ("address", text(&host["url"])),
        ("socket", text(&host["socket"])),
        ("state", text(&host["stateDir"])),
        ("agent", text(&host["defaultAgent"])),
        ("sessions", format!("{} live, {} in all", sessions["live"], sessions["total"])),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| value != "null" && !value.starts_with("null ")) {
        if screen.terminal {
            let style = if *name == "host" { Style::Good } else { Style::Plain };
            let name = screen.paint(Style::Faint, &format!("{name:<8}"));
            output::line(&format!("{name}  {}", screen.paint(style, value)));
        } else {
            output::line(&tabbed([*name, value]));
        }
    }
}
