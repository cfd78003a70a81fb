//! The host's answers, and its refusals as errors.

use anyhow::Context;
use bytes::Bytes;
use hyper::StatusCode;
use serde::de::DeserializeOwned;
use wharf_api::ProblemBody;
use wharf_render::text::to_printable_line;

use crate::exit::Failure;

/// A complete answer of the host.
#[derive(Debug)]
pub(crate) struct HostAnswer {
    body: Bytes,
}

impl HostAnswer {
    pub(super) fn new(body: Bytes) -> Self {
        Self { body }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.body.into()
    }

    /// Returns the body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        wharf_json::read_own(&self.body)
            .with_context(|| format!("reading what the host answered: {}", self.text()))
    }
}

/// Returns the refusal as an error in the host's own words, with the install command and the
/// agent's stderr.
pub(super) fn read_refusal(status: StatusCode, body: &[u8]) -> Failure {
    let problem: ProblemBody = wharf_json::read_own(body).unwrap_or_default();
    let some = |text: &Option<String>| {
        text.as_deref()
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let mut words = match some(&Some(problem.detail)) {
        Some(detail) => detail,
        // Refusals before the routes are plain text.
        None => match String::from_utf8_lossy(body).trim() {
            "" => format!("the host answers {status}"),
            said => format!("{said} ({status})"),
        },
    };
    if let Some(install) = some(&problem.install).filter(|install| !words.contains(install)) {
        words.push_str(&format!("; install it with: {install}"));
    }
    if let Some(stderr) = some(&problem.stderr).filter(|stderr| !words.contains(stderr)) {
        let lines: Vec<String> = stderr
            .lines()
            .map(|line| format!("\n  | {}", to_printable_line(line)))
            .collect();
        words.push_str(&format!("\nthe agent's stderr ends with:{}", lines.concat()));
    }
    Failure::refusal(status.as_u16(), problem.code, words).about_session(problem.session_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn told(status: u16, body: &str) -> (Exit, String) {
        let error = anyhow::Error::from(read_refusal(
            StatusCode::from_u16(status).unwrap(),
            body.as_bytes(),
        ));
        (Failure::exit_of(&error), error.to_string())
    }

    #[test]
    fn a_refusal_is_told_in_the_hosts_words() {
        let busy = r#"{"status":409,"code":"turn_in_progress","detail":"a turn is running; send queue or interrupt"}"#;
        assert_eq!(
            told(409, busy),
            (Exit::Refused, "a turn is running; send queue or interrupt".to_owned())
        );
        assert_eq!(told(404, r#"{"code":"unknown_session","detail":"no"}"#).0, Exit::NotFound);
        assert_eq!(
            told(403, "agents may not use the socket\n").1,
            "agents may not use the socket (403 Forbidden)"
        );
        assert_eq!(told(500, "").1, "the host answers 500 Internal Server Error");
    }

    #[test]
    fn install_command_and_stderr_follow_the_refusal() {
        let missing = r#"{"code":"adapter_not_installed","detail":"goose is not installed","install":"brew install goose"}"#;
        let (exit, words) = told(501, missing);
        assert_eq!(
            (exit, words.as_str()),
            (Exit::NotFound, "goose is not installed; install it with: brew install goose")
        );
        let failed =
            r#"{"code":"start_failed","detail":"the agent ended","stderr":"one\n\u001b[31mtwo\n"}"#;
        let (exit, words) = told(502, failed);
        assert_eq!(
            (exit, words.as_str()),
            (Exit::Agent, "the agent ended\nthe agent's stderr ends with:\n  | one\n  | two")
        );
    }
}
