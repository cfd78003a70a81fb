//! `wharf doctor`: checks what this machine can do for a host, and what stands in the way.

use std::net::SocketAddr;

use clap::Args;
use serde_json::json;
use wharf_config::Config;
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::to_printable;

use crate::client::version;
use crate::doctor::{Finding, Level, examine_machine};
use crate::exit::{Exit, Failure};
use crate::format::table::join_with_tabs;
use crate::global::GlobalOptions;
use crate::output;
use crate::start_check::{RunningHost, check_startable};

#[derive(Debug, Args)]
pub(crate) struct DoctorVerb {
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Returns the exit code 1 if something is broken. Starts no host.
pub(crate) async fn run(global: &GlobalOptions, verb: DoctorVerb) -> anyhow::Result<Exit> {
    if global.url.is_some() || global.context.is_some() {
        global.refuse_remote("doctor checks this machine")?;
    }
    // Whichever host verbs talk to, the checks are of this machine.
    let global = &global.for_local_host();
    let mut findings = Vec::new();
    let mut is_loaded = true;
    let config = match super::serve::load_config(global) {
        Ok(config) => {
            findings.push(check_settings(&config));
            config
        }
        // The other checks still run.
        Err(error) => {
            is_loaded = false;
            let says = format!("{error:#}");
            findings.push(Finding::broken(
                "settings",
                says,
                "correct the file: docs/configuration.md lists every key",
            ));
            let program = std::env::current_exe().unwrap_or_default();
            Config { state_dir: global.state_dir()?, program, ..Config::default() }
        }
    };
    let running = RunningHost::find(global).await;
    findings.push(check_host(global).await);
    if is_loaded {
        let config = Config { insecure_no_tls: running.insecure_no_tls, ..config.clone() };
        findings.push(check_address(&config, running.address));
    }
    findings.extend(examine_machine(&config));
    let broken = findings.iter().any(|finding| finding.level == Level::Broken);
    if verb.json {
        output::print_line(&json!({ "usable": !broken, "findings": findings }).to_string());
    } else {
        format_findings(global.screen(), &findings)
            .iter()
            .for_each(|line| output::print_line(line));
    }
    Ok(if broken { Exit::Error } else { Exit::Ok })
}

/// Tries the address as a host would at its start.
fn check_address(config: &Config, own: Option<SocketAddr>) -> Finding {
    let outlook = match check_startable(config, own) {
        Ok(outlook) => outlook,
        Err(error) => {
            let says = format!("no host could start with these settings: {error:#}");
            return Finding::broken(
                "address",
                says,
                "mend them: wharf config edit; then: wharf config check",
            );
        }
    };
    let address = match outlook.address {
        address if outlook.is_own => format!("the running host has {address}"),
        address if address.port() == 0 => format!("a host takes a free port of {}", address.ip()),
        address => format!("{address} is free"),
    };
    match outlook.taken {
        None => Finding::ok("address", address),
        Some(taken) => Finding::note(
            "address",
            format!("another program has {taken}; {address}, and a host keeps it"),
        ),
    }
}

fn check_settings(config: &Config) -> Finding {
    if let Err(error) = config.check_sandboxes() {
        return Finding::broken(
            "settings",
            format!("a sandbox is set for no agent: {error}"),
            "correct the name",
        );
    }
    match &config.config_file {
        Some(path) => Finding::ok("settings", format!("{} is right", path.display())),
        None => Finding::ok("settings", "there is no file: every setting has its default"),
    }
}

async fn check_host(global: &GlobalOptions) -> Finding {
    match global.connect_if_running().await {
        Ok(client) => {
            let pid = client.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
            let says = format!(
                "one of version {} is running{pid}",
                client.version.as_deref().unwrap_or("unknown")
            );
            match version::check_version(client.version.as_deref()) {
                Ok(()) => Finding::ok("host", says),
                Err(error) => Finding::broken(
                    "host",
                    format!("{says}: {error:#}"),
                    "restart it: wharf restart",
                ),
            }
        }
        Err(error) if Failure::exit_of(&error) == Exit::NoHost => {
            Finding::note("host", "none is running")
        }
        Err(error) => Finding::broken(
            "host",
            format!("{error:#}"),
            "look at its log; `wharf stop`, then start it again",
        ),
    }
}

fn format_findings(screen: Screen, findings: &[Finding]) -> Vec<String> {
    if !screen.terminal {
        return findings.iter().map(plain_row).collect();
    }
    let told = |finding: &Finding| {
        let (word, style) = level_style(finding.level);
        let word = screen.paint(style, &format!("{word:<7}"));
        let check = format!("{:<13}", finding.check);
        // Lines are not cut at the edge of the screen, since the end may matter.
        let line = format!(
            "{word}  {}  {}",
            screen.paint(TextStyle::Strong, &check),
            to_printable(&finding.says)
        );
        let advice = finding
            .advice
            .as_ref()
            .map(|advice| format!("{:24}-> {}", "", to_printable(advice)));
        std::iter::once(line).chain(advice)
    };
    findings.iter().flat_map(told).collect()
}

const fn level_style(level: Level) -> (&'static str, TextStyle) {
    match level {
        Level::Ok => ("ok", TextStyle::Good),
        Level::Note => ("note", TextStyle::Plain),
        Level::Warning => ("warning", TextStyle::Wants),
        Level::Broken => ("broken", TextStyle::Bad),
    }
}

fn plain_row(finding: &Finding) -> String {
    join_with_tabs([
        level_style(finding.level).0,
        finding.check,
        &finding.says,
        finding.advice.as_deref().unwrap_or_default(),
    ])
}
