//! Asks a person before something is ended or deleted for many sessions, or for good.

use std::io::BufRead;

use wharf_api::SessionInfo;
use wharf_render::text::{format_millis_ago, to_printable};

use crate::exit::{Exit, Failure};
use crate::format::times;
use crate::{output, session_state};

/// Lists the sessions and asks whether `question` is meant. A program, which cannot be asked, has
/// to pass `--yes`; the error begins with `reason`.
pub(crate) fn confirm(
    sessions: &[SessionInfo],
    question: &str,
    reason: &str,
) -> anyhow::Result<bool> {
    if !output::is_person_present() {
        let words = format!("{reason}, and there is no terminal to ask on; say --yes");
        return Err(Failure::new(Exit::Usage, words).into());
    }
    describe_sessions(sessions).iter().for_each(|line| output::print_note(line));
    output::print_question(&format!("{question} [y/N] "));
    let mut typed = String::new();
    std::io::stdin().lock().read_line(&mut typed)?;
    Ok(matches!(typed.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Returns one line per session: its id, state, agent, last activity and name.
pub(crate) fn describe_sessions(sessions: &[SessionInfo]) -> Vec<String> {
    let now = times::now_millis();
    let describe = |session: &SessionInfo| {
        let (word, _) = session_state::state_word(session);
        let called = to_printable(session_state::display_name(session).unwrap_or_default());
        let ago = format_millis_ago(times::last_activity(session), now);
        format!("  {}  {word}  {}  {ago}  {called}", session.id, session.adapter_slug)
            .trim_end()
            .to_owned()
    };
    sessions.iter().map(describe).collect()
}
