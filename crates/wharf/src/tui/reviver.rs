//! Starts the host of this machine again, after its service manager had the chance to do so.

use tokio::sync::mpsc::Sender;
use wharf_tui::TuiInput;

use crate::client::{HostClient, version};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;

/// Starts a host unless it comes back by itself, and sends the outcome as an input. An urgent start
/// does not wait for a service manager to restart the host.
pub(super) fn start_host(global: &GlobalOptions, is_urgent: bool, inputs: &Sender<TuiInput>) {
    let global = global.clone();
    let sender = inputs.clone();
    // Starting a process blocks the thread, which must not be the thread that reads the keys. The
    // new thread has a runtime of its own, so that a client that leaves does not wait for it.
    let spawned = std::thread::Builder::new().name("revive".to_owned()).spawn(move || {
        let outcome = open_host(&global, is_urgent).map_err(|error| describe_failure(&error));
        // Without a receiver the client has left.
        let _ = sender.blocking_send(TuiInput::HostStarted(outcome));
    });
    if let Err(error) = spawned {
        // The loop may be the only reader of a full queue; it then shows the loss without the
        // reason.
        let _ = inputs.try_send(TuiInput::HostStarted(Err(error.to_string())));
    }
}

fn open_host(global: &GlobalOptions, is_urgent: bool) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let locator = global.locate_host("wharf")?.without_notes();
    let client = runtime.block_on(async {
        if is_urgent {
            HostClient::open_any(locator, false).await
        } else {
            HostClient::open_again(locator, false).await
        }
    })?;
    Ok(version::check_version(client.version.as_deref())?)
}

/// Returns in one line why the start failed, with the next step.
fn describe_failure(error: &anyhow::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().next().unwrap_or_default().trim_end_matches(':');
    let is_known = Failure::exit_of(error) == Exit::Version;
    if is_known { reason.to_owned() } else { format!("{reason} · more: wharf doctor") }
}
