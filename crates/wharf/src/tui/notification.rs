//! Notifications by the terminal, in the sequence that it knows.

/// The sequence by which a terminal shows a notification. A terminal gets one of them: many know
/// both and would show two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotificationSequence {
    /// OSC 9: the text alone.
    Osc9,
    /// OSC 777: title and text; urxvt, foot, and terminals of VTE.
    Osc777,
}

/// The terminal that shows notifications, as its environment describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotifyingTerminal {
    sequence: NotificationSequence,
    /// tmux hands a marked sequence on to the terminal around it, or drops it.
    is_tmux: bool,
}

impl NotifyingTerminal {
    pub(super) fn of_process() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(read: impl Fn(&str) -> Option<String>) -> Self {
        const OSC9_PROGRAMS: [&str; 3] = ["iTerm.app", "WezTerm", "ghostty"];
        let is_program =
            read("TERM_PROGRAM").is_some_and(|name| OSC9_PROGRAMS.contains(&name.as_str()));
        let is_iterm = read("LC_TERMINAL").is_some_and(|name| name == "iTerm2");
        let knows_osc9 = is_program || is_iterm || read("KITTY_WINDOW_ID").is_some();
        let sequence =
            if knows_osc9 { NotificationSequence::Osc9 } else { NotificationSequence::Osc777 };
        Self {
            sequence,
            is_tmux: read("TMUX").is_some_and(|value| !value.is_empty()),
        }
    }

    /// Returns the bytes that show a notification. Both texts are printable already.
    pub(super) fn format_notification(self, title: &str, body: &str) -> String {
        let sequence = match self.sequence {
            NotificationSequence::Osc9 => format!("\x1b]9;{title}: {body}\x07"),
            NotificationSequence::Osc777 => {
                format!("\x1b]777;notify;{};{body}\x07", title.replace(';', ","))
            }
        };
        if self.is_tmux {
            format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b"))
        } else {
            sequence
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notify_in(variables: &[(&str, &str)]) -> String {
        let read = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        NotifyingTerminal::from_variables(read).format_notification("wharf", "blog; asks")
    }

    #[test]
    fn terminals_get_the_sequence_that_they_know() {
        assert_eq!(notify_in(&[]), "\x1b]777;notify;wharf;blog; asks\x07");
        assert_eq!(notify_in(&[("TERM_PROGRAM", "WezTerm")]), "\x1b]9;wharf: blog; asks\x07");
        assert_eq!(notify_in(&[("KITTY_WINDOW_ID", "1")]), "\x1b]9;wharf: blog; asks\x07");
    }

    #[test]
    fn tmux_hands_the_sequence_on() {
        let wrapped = notify_in(&[("TMUX", "/tmp/tmux-0/default,1,0")]);
        assert_eq!(wrapped, "\x1bPtmux;\x1b\x1b]777;notify;wharf;blog; asks\x07\x1b\\");
    }
}
