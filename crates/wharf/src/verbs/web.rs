//! `wharf web`: signs a browser of this machine in to the web page, or a phone with `--phone`.

mod qr_code;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde_json::json;
use wharf_api::{CodesWithdrawn, HostInfo, LoginCode, LoginCodeArgs, LoginInfo, LoginList};
use wharf_render::style::TextStyle;
use wharf_server::Access;

use super::token::role_parser;
use crate::client::{HostCall, HostClient};
use crate::connect::open_in_browser;
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::output;

/// A phone has to be found, unlocked and pointed at the screen.
const PHONE_CODE_SECONDS: u64 = 600;
/// How often the host is asked whether the code was used.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct WebVerb {
    /// Show a QR code for a phone, and wait until it has signed in. The host needs `public_url`.
    #[arg(long)]
    phone: bool,
    /// Print the address, and open no browser.
    #[arg(long)]
    no_open: bool,
    /// The rights of the page [default: your own].
    #[arg(long, value_name = "ROLE", value_parser = role_parser())]
    role: Option<Access>,
    /// The one workspace that it covers.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
    /// How long it stays signed in [default: 30d since its last use].
    #[arg(long, value_name = "TIME")]
    ttl: Option<wharf_config::Duration>,
    /// Print one JSON object, and open no browser: url, code, goodForSeconds.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(global: &GlobalOptions, verb: WebVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let page = find_page_address(&client, verb.phone).await?;
    let before = if verb.phone { list_logins(&client).await? } else { Vec::new() };
    let made = make_code(&client, &verb).await?;
    let address = format!("{page}#c={}", made.code);
    if verb.json {
        let object =
            json!({ "url": address, "code": made.code, "goodForSeconds": made.good_for_seconds });
        output::print_line(&object.to_string());
        return Ok(Exit::Ok);
    }
    if verb.phone {
        return sign_phone_in(global, &client, &address, &made, &before).await;
    }
    output::print_line(&address);
    let is_opened = !verb.no_open && global.screen().terminal && open_in_browser(&address);
    let what = if is_opened { "the browser opens it" } else { "open it in a browser" };
    output::print_note(&format!(
        "{what}; it signs in once, within {} seconds",
        made.good_for_seconds
    ));
    Ok(Exit::Ok)
}

/// Returns the address of the page, which ends with a slash. For a phone, returns only an address
/// that a phone can reach, and fails without such an address.
async fn find_page_address(client: &HostClient, phone: bool) -> anyhow::Result<String> {
    let host: HostInfo = client.fetch_json(&HostCall::get("/host")).await?;
    let remote = client.address().remote().map(|remote| format!("{}/", remote.options.url));
    match (phone, host.public_url, remote) {
        (true, Some(public), _) | (false, Some(public), Some(_)) => Ok(public),
        (false, None, Some(remote)) => Ok(remote),
        (false, _, None) => Ok(format!("{}/", host.url)),
        (true, None, _) => {
            let port = host.url.rsplit(':').next().unwrap_or_default().to_owned();
            Err(Failure::new(Exit::Refused, describe_ways(&host.url, &port)).into())
        }
    }
}

/// Returns the ways by which a phone can reach a host that listens on this machine only.
fn describe_ways(url: &str, port: &str) -> String {
    format!(
        "no phone can reach {url}: the host has no public_url. One of these makes it reachable:
  tailscale serve {port}                  for the devices of your own network
  cloudflared tunnel --url {url}          for every device, by a name that changes
  a reverse proxy with TLS                see docs/page.md
then tell the host its name, and try again:
  wharf config set public_url https://NAME && wharf restart
Another computer can use: ssh -L {port}:127.0.0.1:{port} THIS-MACHINE, and `wharf web --no-open` here."
    )
}

async fn make_code(client: &HostClient, verb: &WebVerb) -> anyhow::Result<LoginCode> {
    let ttl = verb.ttl.map(|ttl| {
        ttl.to_std()
            .context("a login does not last for ever; give a --ttl of up to 31d")
    });
    let asked = LoginCodeArgs {
        role: verb.role.map(|role| role.to_string()),
        workspace: verb.workspace.clone(),
        ttl_seconds: ttl.transpose()?.map(|ttl| ttl.as_secs()),
        code_seconds: verb.phone.then_some(PHONE_CODE_SECONDS),
    };
    client.fetch_json(&HostCall::post("/login/codes", &asked)).await
}

async fn list_logins(client: &HostClient) -> anyhow::Result<Vec<LoginInfo>> {
    Ok(client.fetch_json::<LoginList>(&HostCall::get("/logins")).await?.logins)
}

/// Shows the code and waits until a device has used it. Ctrl-C withdraws the code.
async fn sign_phone_in(
    global: &GlobalOptions,
    client: &HostClient,
    address: &str,
    made: &LoginCode,
    before: &[LoginInfo],
) -> anyhow::Result<Exit> {
    let screen = global.screen();
    for line in qr_code::draw_qr_code(address)? {
        output::print_line(&line);
    }
    output::print_line(address);
    output::print_line(&format!(
        "to type into an installed page: {}",
        screen.paint(TextStyle::Strong, &made.code)
    ));
    if !screen.terminal {
        return Ok(Exit::Ok);
    }
    output::print_note("waiting for the phone; Ctrl-C withdraws the code");
    let known: HashSet<&str> = before.iter().map(|login| login.id.as_str()).collect();
    let until = Instant::now() + Duration::from_secs(made.good_for_seconds);
    while Instant::now() < until {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {
                let withdrawn: CodesWithdrawn = client.fetch_json(&HostCall::delete("/login/codes")).await?;
                output::print_note(&format!("withdrawn: {} unused", withdrawn.count));
                return Ok(Exit::Cancelled);
            }
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        if let Some(login) = list_logins(client)
            .await?
            .iter()
            .find(|login| !known.contains(login.id.as_str()))
        {
            output::print_line(&format!("signed in: {}", login.name));
            return Ok(Exit::Ok);
        }
    }
    output::print_note("the code has expired; run this again");
    Ok(Exit::TimedOut)
}
