//! The notify command: it gets the facts in its environment and as JSON on stdin, and a bounded
//! time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Notification;
use crate::agent::AgentExit;
use crate::host::Host;

/// The most bytes of the command's output that are kept, for a person who tries it.
const MAX_OUTPUT_BYTES: u64 = 1_024;

/// Why the command has not told anyone.
#[derive(Debug, thiserror::Error)]
pub enum CommandFailure {
    #[error("no command is set; set notify.command")]
    NotSet,
    #[error("{0}")]
    NotStarted(String),
    #[error("it took longer than {} s and was ended", limit.as_secs_f32())]
    TimedOut { limit: Duration },
    /// The output may hold texts of sessions: for a person, not for the host's log.
    #[error("{how}")]
    Failed { how: String, output: String },
}

impl Host {
    /// Runs the notify command for one notification. It runs below a keeper, as agents do: it does
    /// not outlive the host.
    pub async fn run_notify_command(
        &self,
        notification: &Notification,
    ) -> Result<(), CommandFailure> {
        let settings = &self.config().notify;
        if settings.command.is_empty() {
            return Err(CommandFailure::NotSet);
        }
        let limit = settings.timeout.to_std().unwrap_or_default();
        let launch = self.inner().launch_command(
            settings.command.clone(),
            list_variables(notification),
            home_dir(),
        );
        // Dropping the process ends its whole tree.
        let run = async {
            let (mut process, mut stdin, stdout, stderr) =
                launch.run_piped().await.map_err(CommandFailure::NotStarted)?;
            // A failed write does not matter: the command need not read its stdin.
            let _ = stdin.write_all(format!("{}\n", notification.to_json()).as_bytes()).await;
            drop(stdin);
            let mut output = Vec::new();
            let mut bounded = stdout.take(MAX_OUTPUT_BYTES);
            let _ = bounded.read_to_end(&mut output).await;
            // Read on, so that the command does not wait for a full pipe.
            let _ = tokio::io::copy(&mut bounded.into_inner(), &mut tokio::io::sink()).await;
            let exit = process.wait_for_exit().await;
            if exit.code == Some(0) {
                return Ok(());
            }
            let output = [String::from_utf8_lossy(&output).into_owned(), stderr.text()].concat();
            Err(CommandFailure::Failed {
                how: describe_exit(&exit),
                output: output.trim().to_owned(),
            })
        };
        tokio::time::timeout(limit, run)
            .await
            .unwrap_or(Err(CommandFailure::TimedOut { limit }))
    }
}

fn describe_exit(exit: &AgentExit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it was ended".to_owned(),
    }
}

/// The directory in which the command runs.
fn home_dir() -> PathBuf {
    std::env::home_dir()
        .filter(|home| home.is_dir())
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// The facts of the notification as variables. An absent fact is an empty variable.
fn list_variables(notification: &Notification) -> BTreeMap<String, String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let facts = [
        ("KIND", notification.kind_word().to_owned()),
        ("MESSAGE", notification.message.clone()),
        ("SESSION", text(&notification.session_id)),
        ("WORKSPACE", text(&notification.workspace)),
        ("TITLE", text(&notification.title)),
        ("AGENT", text(&notification.agent)),
        ("WHY", text(&notification.why)),
        ("TEXT", text(&notification.text)),
    ];
    // A variable cannot hold a NUL character, which a title could.
    facts
        .into_iter()
        .map(|(name, value)| (format!("WHARF_NOTIFY_{name}"), value.replace('\0', "")))
        .collect()
}
