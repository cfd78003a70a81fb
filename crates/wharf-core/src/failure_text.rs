//! The text of a failed start or of an ending, as the log keeps it.

use std::fmt;

/// Stands between the reason and the stderr.
const STDERR_MARK: &str = "\nstderr: ";

/// Why an agent did not start or went away, and the end of its stderr. The log keeps both in one
/// text: the `message` of [`AgentEvent::StartFailed`](crate::AgentEvent::StartFailed) and of
/// [`Ending`](crate::Ending). Only this type joins and separates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureText<'a> {
    pub reason: &'a str,
    /// Empty if the agent wrote nothing.
    pub stderr: &'a str,
}

impl<'a> FailureText<'a> {
    /// Separates a text of the log.
    pub fn parse(text: &'a str) -> Self {
        let (reason, stderr) = text.split_once(STDERR_MARK).unwrap_or((text, ""));
        Self { reason, stderr }
    }
}

impl fmt::Display for FailureText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)?;
        if self.stderr.is_empty() { Ok(()) } else { write!(f, "{STDERR_MARK}{}", self.stderr) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_separated_as_they_were_joined() {
        for (reason, stderr) in
            [("it ended", "no key"), ("it ended", ""), ("", "no key"), ("a\nb", "c\nstderr: d\n")]
        {
            let text = FailureText { reason, stderr }.to_string();
            assert_eq!(FailureText::parse(&text), FailureText { reason, stderr }, "{text:?}");
        }
        assert_eq!(
            FailureText { reason: "it ended", stderr: "no key" }.to_string(),
            "it ended\nstderr: no key"
        );
    }
}
