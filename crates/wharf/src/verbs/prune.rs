//! `wharf prune`: deletes ended sessions that have been silent for long, after asking.

use clap::Args;
use wharf_api::SessionInfo;
use wharf_config::Duration;
use wharf_host::core::Millis;
use wharf_host::format_timestamp;

use crate::confirm::{confirm, describe_sessions};
use crate::exit::{Exit, Failure};
use crate::format::table::join_with_tabs;
use crate::format::times;
use crate::global::GlobalOptions;
use crate::{output, session_ref, session_state};

#[derive(Debug, Args)]
pub(crate) struct PruneVerb {
    /// Sessions that ended, and did nothing, for at least so long: 12h, 30d.
    #[arg(long, value_name = "TIME")]
    older_than: Duration,
    /// Sleeping sessions too, which the next prompt would wake.
    #[arg(long)]
    asleep: bool,
    /// Only list them.
    #[arg(short = 'n', long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

impl PruneVerb {
    /// Returns true if the session ended, and its last activity is before `limit`.
    fn selects(&self, session: &SessionInfo, limit: u64) -> bool {
        let has_ended =
            !session.status.is_alive() && (self.asleep || !session_state::is_asleep(session));
        has_ended && times::last_activity(session) <= limit
    }
}

pub(crate) async fn run(global: &GlobalOptions, verb: PruneVerb) -> anyhow::Result<Exit> {
    let Some(age) = verb.older_than.to_millis() else {
        return Err(Failure::new(
            Exit::Usage,
            "no session is older than \"never\"; say --older-than 30d",
        )
        .into());
    };
    let client = global.connect_client().await?;
    let limit = times::now_millis().saturating_sub(age.0);
    let ended = session_ref::list_sessions(&client, "&alive=false")
        .await?
        .into_iter()
        .map(|listed| listed.session);
    let sessions: Vec<SessionInfo> = ended.filter(|session| verb.selects(session, limit)).collect();
    if sessions.is_empty() {
        output::print_note("no ended session is that old");
        return Ok(Exit::Ok);
    }
    if verb.dry_run {
        let lines = if global.screen().terminal {
            describe_sessions(&sessions)
        } else {
            plain_sessions(&sessions)
        };
        lines.iter().for_each(|line| output::print_line(line.trim_start_matches(' ')));
        output::print_note(&format!("{} would be forgotten", count(&sessions)));
        return Ok(Exit::Ok);
    }
    let question = format!("forget {} with their history for good?", count(&sessions));
    if !verb.yes && !confirm(&sessions, &question, "pruning deletes the history for good")? {
        output::print_note("nothing is forgotten");
        return Ok(Exit::Refused);
    }
    for session in &sessions {
        super::forget::forget_session(&client, &session.id).await?;
    }
    Ok(Exit::Ok)
}

/// Returns one line per session for a program: its id, state, agent, last activity and name.
fn plain_sessions(sessions: &[SessionInfo]) -> Vec<String> {
    let describe = |session: &SessionInfo| {
        let (word, _) = session_state::state_word(session);
        let active_at = format_timestamp(Millis(times::last_activity(session)));
        let name = session_state::display_name(session).unwrap_or_default();
        join_with_tabs([session.id.as_str(), word, &session.adapter_slug, &active_at, name])
    };
    sessions.iter().map(describe).collect()
}

fn count(sessions: &[SessionInfo]) -> String {
    format!("{} session{}", sessions.len(), if sessions.len() == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(status: &str, end_reason: &str, resumable: bool, ended_at: &str) -> SessionInfo {
        let json = serde_json::json!({
            "id": "sess_1", "adapterSlug": "demo", "workspaceSlug": "default", "cwd": "/", "status": status,
            "startedAt": "2026-01-01T00:00:00.000Z", "endedAt": ended_at, "turn": "idle", "queued": 0, "clients": 0,
            "lastSeq": 1, "resumable": resumable, "endReason": end_reason,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn prune_selects_old_ended_sessions_only() {
        let limit = wharf_host::parse_timestamp("2026-03-01T00:00:00.000Z").unwrap().0;
        let old = "2026-02-01T00:00:00.000Z";
        let new = "2026-04-01T00:00:00.000Z";
        let verb = |asleep| PruneVerb {
            older_than: Duration::NEVER,
            asleep,
            dry_run: false,
            yes: false,
        };
        for (session, selected) in [
            (session("killed", "user", true, old), [true, true]),
            (session("exited", "agent_exited", false, old), [true, true]),
            (session("killed", "user", true, new), [false, false]),
            (session("killed", "host_shutdown", true, old), [false, true]),
            (session("running", "user", true, old), [false, false]),
        ] {
            assert_eq!(
                [false, true].map(|asleep| verb(asleep).selects(&session, limit)),
                selected,
                "{session:?}"
            );
        }
    }
}
