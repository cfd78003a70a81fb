//! `wharf restart`: stops the host in order and starts it again, in the way in which it was
//! started. Agents go on meanwhile.

use std::net::SocketAddr;

use clap::Args;
use wharf_api::{HostInfo, HostProcess, StartKind, StopAgents};

use super::{serve, service, status, stop};
use crate::client::HostClient;
use crate::connect::{HostLocator, PortWatch};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::output;
use crate::start_check::RunningHost;

#[derive(Debug, Args)]
pub(crate) struct RestartVerb {}

pub(crate) async fn run(global: &GlobalOptions, _: RestartVerb) -> anyhow::Result<Exit> {
    global.refuse_remote("restart is for the host of this machine")?;
    let client = match global.connect_if_running().await {
        Ok(client) => client,
        Err(error) if Failure::exit_of(&error) == Exit::NoHost && !global.no_start => {
            let client = global.connect_client().await?;
            return Ok(report(None, &client));
        }
        Err(error) => return Err(error),
    };
    let old_pid = client.pid;
    let host = status::describe_host(&client).await;
    let own = match &host {
        Some(host) => RunningHost::of(&client, host).await.address,
        None => None,
    };
    let process = host.and_then(|host| host.process);
    let ports = PortWatch::begin(&global.state_dir()?);
    let started = match process {
        Some(HostProcess {
            started_as: StartKind::Service,
            service: Some(name),
            arguments,
        }) => {
            // The service manager gives the host no variables of this shell.
            check_settings(&arguments, &[], own, &client)?;
            if !service::restart_installed(&name)? {
                return Err(not_restartable(
                    "its service is not one that wharf installed",
                    &client,
                ));
            }
            HostClient::open_again(
                HostLocator::new(global.state_dir()?, None, false, "wharf"),
                global.verbose,
            )
            .await?
        }
        Some(HostProcess { started_as: StartKind::Background, arguments, .. }) => {
            check_settings(&arguments, &wharf_config::own_variables(), own, &client)?;
            stop::stop_and_wait(&client, StopAgents::Leave).await?;
            let locator =
                HostLocator::with_arguments(global.state_dir()?, arguments, "wharf restart")
                    .without_notes();
            HostClient::open_any(locator, global.verbose).await?
        }
        Some(HostProcess { started_as: StartKind::Foreground, .. }) => {
            return Err(not_restartable(
                "it runs in a terminal, or another program started it",
                &client,
            ));
        }
        Some(_) | None => {
            return Err(not_restartable("it does not tell how it was started", &client));
        }
    };
    if let Some(note) = ports.describe_change() {
        output::print_note(&note);
    }
    Ok(report(old_pid, &started))
}

/// Refuses settings with which the host could not start again, before it is ended.
fn check_settings(
    arguments: &[String],
    variables: &[(String, String)],
    own: Option<SocketAddr>,
    client: &HostClient,
) -> Result<(), Failure> {
    serve::check_start(arguments, variables, own).map_err(|why| {
        let pid = client.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        Failure::new(
            Exit::Usage,
            format!(
                "{why}\nthe host{pid} goes on as it is; check the file with: wharf config check"
            ),
        )
    })
}

fn not_restartable(why: &str, client: &HostClient) -> anyhow::Error {
    let pid = client.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    let words = format!(
        "the host{pid} is not restarted from here: {why}; stop it (wharf stop --keep-agents), and start it again as before"
    );
    Failure::new(Exit::Refused, words).into()
}

fn report(old_pid: Option<u32>, client: &HostClient) -> Exit {
    let pid = |pid: Option<u32>| pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
    match old_pid {
        Some(old) => output::print_line(&format!(
            "restarted: pid {old} has ended, pid {} runs",
            pid(client.pid)
        )),
        None => {
            output::print_line(&format!("no host was running; pid {} runs now", pid(client.pid)))
        }
    }
    Exit::Ok
}

/// Tells whether a service manager runs this host.
pub(super) fn is_service(host: &HostInfo) -> bool {
    host.process
        .as_ref()
        .is_some_and(|process| process.started_as == StartKind::Service)
}
