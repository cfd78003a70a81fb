//! `wharf service`: has systemd keep the host running.

mod service_spec;
mod systemd;
mod unit_file;

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use crate::client::HostClient;
use crate::connect::{HostLocator, PortWatch};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::output;
use crate::start_check::RunningHost;
use service_spec::ServiceSpec;

/// How long the host of a new service may take to answer: it opens every log of a large state
/// directory first.
const START_TIMEOUT: Duration = Duration::from_secs(10);
const START_POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct ServiceVerb {
    #[command(subcommand)]
    verb: ServiceAction,
    /// The name of the service, for a second host with its own state directory.
    #[arg(long, value_name = "NAME", default_value = "wharf", global = true)]
    name: String,
}

#[derive(Debug, Subcommand)]
enum ServiceAction {
    /// Write the service's file, start the host now and at each login.
    Install {
        /// Only print the file.
        #[arg(long)]
        print: bool,
        /// Stop a host that runs already; its agents go on, and the service takes them over.
        #[arg(long)]
        replace: bool,
        /// Keep it running after you log out, and start it at boot (loginctl enable-linger).
        #[arg(long)]
        linger: bool,
    },
    /// Stop the service and remove its file. Sessions stay on disk.
    Uninstall,
    /// Show whether the service is installed and running; the exit code is 3 if it does not run.
    Status {
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(global: &GlobalOptions, verb: ServiceVerb) -> anyhow::Result<Exit> {
    global.refuse_remote("a service is of this machine")?;
    unit_file::check_name(&verb.name)?;
    match verb.verb {
        ServiceAction::Install { print: true, .. } => {
            let spec = ServiceSpec::of_this_program(global, &verb.name)?;
            output::print_line(systemd::file_text(&spec).trim_end());
            Ok(Exit::Ok)
        }
        ServiceAction::Install { replace, linger, .. } => {
            let spec = ServiceSpec::of_this_program(global, &verb.name)?;
            install(global, &spec, replace, linger).await
        }
        ServiceAction::Uninstall => service_spec::uninstall(global, &verb.name),
        ServiceAction::Status { json } => service_spec::print_status(global, &verb.name, json),
    }
}

async fn install(
    global: &GlobalOptions,
    spec: &ServiceSpec,
    replace: bool,
    linger: bool,
) -> anyhow::Result<Exit> {
    systemd::check_available(spec)?;
    let path = systemd::file_path(&spec.name)?;
    unit_file::check_replaceable(&path, spec)?;
    // The service gets no variables of this shell.
    let running = RunningHost::find(global).await;
    super::serve::check_start(&spec.arguments(), &[], running.address)?;
    stop_other_host(global, replace).await?;
    unit_file::write(&path, &systemd::file_text(spec))?;
    output::print_line(&format!("wrote {}", path.display()));
    let ports = PortWatch::begin(&spec.state_dir);
    systemd::enable(&spec.name)?;
    wait_for_host(spec, &systemd::log_command(&spec.name)).await?;
    if let Some(note) = ports.describe_change() {
        output::print_note(&note);
    }
    output::print_line(&format!("{} runs as a service; see: wharf service status", spec.name));
    systemd::explain_linger(linger)?;
    for note in &spec.notes {
        output::print_note(&format!("note: {note}"));
    }
    Ok(Exit::Ok)
}

/// Waits until the host of the service answers. Fails with the command that shows its log.
async fn wait_for_host(spec: &ServiceSpec, log_command: &str) -> anyhow::Result<()> {
    let give_up_at = Instant::now() + START_TIMEOUT;
    loop {
        let locator = HostLocator::new(spec.state_dir.clone(), None, false, "wharf");
        match HostClient::open_any(locator, false).await {
            Ok(_) => return Ok(()),
            Err(error) if Failure::exit_of(&error) != Exit::NoHost => return Err(error),
            Err(_) if Instant::now() < give_up_at => tokio::time::sleep(START_POLL_INTERVAL).await,
            Err(_) => {
                let words = format!(
                    "the service {} was started, and its host does not answer after {} s; see its log: {log_command}",
                    spec.name,
                    START_TIMEOUT.as_secs()
                );
                return Err(Failure::new(Exit::NoHost, words).into());
            }
        }
    }
}

/// A host that holds the state directory would keep the service from starting.
async fn stop_other_host(global: &GlobalOptions, replace: bool) -> anyhow::Result<()> {
    let client = match global.connect_if_running().await {
        Ok(client) => client,
        Err(error) if Failure::exit_of(&error) == Exit::NoHost => return Ok(()),
        Err(error) => return Err(error),
    };
    let host = super::status::describe_host(&client).await;
    if host.is_some_and(|host| super::restart::is_service(&host)) {
        // The service itself; enabling it again starts it with the new file.
        super::stop::stop_and_wait(&client, wharf_api::StopAgents::Leave).await?;
        return Ok(());
    }
    if !replace {
        let pid = client.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        let words = format!(
            "a host runs already{pid}; say --replace to have the service take its place and its agents, or stop it first (wharf stop)"
        );
        return Err(Failure::new(Exit::Refused, words).into());
    }
    super::stop::stop_and_wait(&client, wharf_api::StopAgents::Leave).await?;
    Ok(())
}

/// Restarts the installed service with this name. Returns false if there is none.
pub(super) fn restart_installed(name: &str) -> anyhow::Result<bool> {
    let path = systemd::file_path(name)?;
    if !unit_file::is_ours(&path) {
        return Ok(false);
    }
    systemd::restart(name)?;
    Ok(true)
}
