//! Brings the host of this machine back after it has ended: its service manager goes first, then one is started as other
//! verbs do.

use crate::client::{HostClient, version};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;

/// Starts the host again, once for each time that it is lost: a host that does not come up is not started over and over.
#[derive(Debug)]
pub(super) struct HostReviver {
    global: GlobalOptions,
    /// The reason why a start has failed since the last connection.
    failure: Option<String>,
}

impl HostReviver {
    pub(super) const fn new(global: GlobalOptions) -> Self {
        Self { global, failure: None }
    }

    /// Describes what happens now, for the person who waits.
    pub(super) fn describe_plan(&self) -> String {
        match &self.failure {
            Some(reason) => reason.clone(),
            None if self.global.no_start => "waiting for it · your text is kept".to_owned(),
            None => "starting it again · your text is kept".to_owned(),
        }
    }

    /// Waits until the host answers, and starts one if none comes by itself. Fails with the reason for a person.
    pub(super) async fn revive_host(&mut self) -> Result<(), String> {
        let mut global = self.global.clone();
        global.no_start |= self.failure.is_some();
        let (sender, outcome) = tokio::sync::oneshot::channel();
        // The start of a process blocks its thread, which must not be the one that reads the keys. The thread has a runtime of
        // its own, so that a client that leaves does not wait for it.
        let spawned = std::thread::Builder::new().name("revive".to_owned()).spawn(move || {
            // Without a receiver the client has left.
            let _ = sender.send(open_again(&global));
        });
        let revived = match spawned {
            Ok(_) => outcome.await.unwrap_or_else(|error| Err(error.into())),
            Err(error) => Err(error.into()),
        };
        let is_absent = revived.as_ref().is_err_and(|error| Failure::exit_of(error) == Exit::NoHost);
        let outcome = revived.map_err(|error| describe_failure(&error));
        // A later attempt waits without starting one; its own reason says less.
        self.failure = outcome
            .as_ref()
            .err()
            .filter(|_| is_absent)
            .map(|reason| self.failure.clone().unwrap_or_else(|| reason.clone()));
        outcome
    }
}

fn open_again(global: &GlobalOptions) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let locator = global.locate_host("wharf")?.without_notes();
    let client = runtime.block_on(HostClient::open_again(locator, false))?;
    Ok(version::check_version(client.version.as_deref())?)
}

/// Returns the reason why there is no connection in one line, with the next step.
pub(super) fn describe_failure(error: &anyhow::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().next().unwrap_or_default().trim_end_matches(':');
    let is_known = Failure::exit_of(error) == Exit::Version;
    if is_known { reason.to_owned() } else { format!("{reason} · more: wharf doctor") }
}
