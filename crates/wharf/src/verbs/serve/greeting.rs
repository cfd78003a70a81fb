//! The first lines that `wharf serve` prints: on a terminal the commands to try next, else only the
//! address.

use std::path::{Path, PathBuf};

use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::display_width;

/// The facts that the greeting tells.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) url: String,
    /// Says that the host has taken another port than the usual one, when it has just done so.
    pub(super) new_port: Option<String>,
    /// The address that signs a browser in, for a person on a terminal.
    pub(super) sign_in: Option<String>,
    /// The command that reaches this host from another terminal, as a shell takes it.
    pub(super) command: String,
    /// The agents that are installed.
    pub(super) agents: Vec<String>,
    /// How many other agents are known.
    pub(super) missing_agents: usize,
    /// How many sessions are on disk.
    pub(super) sessions: usize,
    pub(super) state_dir: String,
}

impl Greeting {
    /// Returns the lines to print.
    pub(super) fn to_lines(&self, screen: Screen) -> Vec<String> {
        if !screen.terminal {
            return vec![format!("wharf is listening on {}", self.url)];
        }
        let title = format!("wharf {} is running on {}", env!("CARGO_PKG_VERSION"), self.url);
        let mut lines = vec![screen.paint(TextStyle::Strong, &title)];
        lines.extend(self.new_port.clone());
        lines.push(String::new());
        if let Some(address) = &self.sign_in {
            let meaning =
                screen.paint(TextStyle::Faint, "signs a browser in, once, within ten minutes");
            lines.extend([format!("Open: {address}  {meaning}"), String::new()]);
        }
        lines.push("Try in another terminal:".to_owned());
        let tries = [
            ("run demo tour", "watch the built-in agent work; it needs no account"),
            ("chat demo", "talk to it, line by line"),
            ("attach", "all sessions on the full screen"),
            ("web --phone", "sign a phone in to the web page"),
        ];
        let width = tries.iter().map(|(verb, _)| verb.len()).max().unwrap_or_default();
        let longest = tries.iter().map(|(_, meaning)| meaning.len()).max().unwrap_or_default();
        let fits = "  ".len() + display_width(&self.command) + 1 + width + "  ".len() + longest
            <= screen.width;
        for (verb, meaning) in tries {
            let meaning = screen.paint(TextStyle::Faint, meaning);
            if fits {
                lines.push(format!("  {} {verb:<width$}  {meaning}", self.command));
            } else {
                lines.extend([format!("  {} {verb}", self.command), format!("      {meaning}")]);
            }
        }
        let facts = [
            ("agents", self.describe_agents()),
            ("sessions", self.describe_sessions()),
            ("state", self.state_dir.clone()),
        ];
        lines.push(String::new());
        lines.extend(facts.iter().map(|(name, value)| {
            format!("  {}  {value}", screen.paint(TextStyle::Faint, &format!("{name:<8}")))
        }));
        lines.push(String::new());
        lines.push("Ctrl-C stops the host and its agents. Sessions stay on disk.".to_owned());
        lines
    }

    fn describe_agents(&self) -> String {
        let installed = self.agents.join(", ");
        match self.missing_agents {
            0 => installed,
            count => format!("{installed}; {count} more can be installed: {} agents", self.command),
        }
    }

    fn describe_sessions(&self) -> String {
        match self.sessions {
            0 => "none yet".to_owned(),
            count => format!("{count} on disk"),
        }
    }
}

/// Returns the command that reaches this host from another terminal: `wharf` if the shell finds
/// this program by that name, else the program's path, with `--state-dir` if the verbs would not
/// look there by themselves.
pub(super) fn find_command(
    program: &Path,
    state_dir: &Path,
    default_state_dir: Option<&Path>,
) -> String {
    let directory = std::env::current_dir().ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("wharf"))
        .find(|file| file.is_file());
    let mut command = name_program(program, directory.as_deref(), found.as_deref());
    if default_state_dir != Some(state_dir) {
        command = format!("{command} --state-dir {}", quote(state_dir));
    }
    command
}

/// Returns the shortest name by which a shell in `directory` starts `program`; `found` is the
/// `wharf` of its path.
fn name_program(program: &Path, directory: Option<&Path>, found: Option<&Path>) -> String {
    let resolve = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if found.is_some_and(|found| resolve(found) == resolve(program)) {
        return "wharf".to_owned();
    }
    match directory.and_then(|directory| program.strip_prefix(directory).ok()) {
        Some(below) => quote(&PathBuf::from(".").join(below)),
        None => quote(program),
    }
}

fn quote(path: &Path) -> String {
    shell_words::quote(&path.display().to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> Greeting {
        Greeting {
            url: "http://127.0.0.1:7433".to_owned(),
            new_port: None,
            sign_in: Some("http://127.0.0.1:7433/#c=K7Q2-9FXM".to_owned()),
            command: "./target/release/wharf".to_owned(),
            agents: vec!["claude".to_owned(), "demo".to_owned()],
            missing_agents: 9,
            sessions: 0,
            state_dir: "~/.local/state/wharf".to_owned(),
        }
    }

    #[test]
    fn greeting_on_a_terminal_has_commands_that_work_as_printed() {
        let expected = format!(
            "\
wharf {} is running on http://127.0.0.1:7433

Open: http://127.0.0.1:7433/#c=K7Q2-9FXM  signs a browser in, once, within ten minutes

Try in another terminal:
  ./target/release/wharf run demo tour  watch the built-in agent work; it needs no account
  ./target/release/wharf chat demo      talk to it, line by line
  ./target/release/wharf attach         all sessions on the full screen
  ./target/release/wharf web --phone    sign a phone in to the web page

  agents    claude, demo; 9 more can be installed: ./target/release/wharf agents
  sessions  none yet
  state     ~/.local/state/wharf

Ctrl-C stops the host and its agents. Sessions stay on disk.",
            env!("CARGO_PKG_VERSION")
        );
        let screen = Screen { width: 100, ..Screen::TERMINAL };
        assert_eq!(greeting().to_lines(screen).join("\n"), expected);
    }

    #[test]
    fn new_port_stands_below_the_address() {
        let new_port = Some("another program has the port".to_owned());
        let lines = Greeting { new_port, ..greeting() }.to_lines(Screen::TERMINAL);
        assert_eq!(lines[1..3], ["another program has the port", ""]);
    }

    #[test]
    fn commands_fit_a_narrow_screen() {
        let command = "./target/release/wharf --state-dir /tmp/a-state-directory".to_owned();
        let lines =
            Greeting { command, ..greeting() }.to_lines(Screen { width: 80, ..Screen::TERMINAL });
        let tries: Vec<&str> = lines.iter().skip(5).take(6).map(String::as_str).collect();
        assert_eq!(
            tries,
            [
                "  ./target/release/wharf --state-dir /tmp/a-state-directory run demo tour",
                "      watch the built-in agent work; it needs no account",
                "  ./target/release/wharf --state-dir /tmp/a-state-directory chat demo",
                "      talk to it, line by line",
                "  ./target/release/wharf --state-dir /tmp/a-state-directory attach",
                "      all sessions on the full screen",
            ]
        );
    }

    #[test]
    fn greeting_in_a_pipe_is_the_address() {
        assert_eq!(
            greeting().to_lines(Screen::PIPE),
            ["wharf is listening on http://127.0.0.1:7433"]
        );
    }

    #[test]
    fn program_is_named_by_the_shortest_name_that_a_shell_finds() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("target/release/wharf");
        let installed = folder.path().join("wharf");
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        std::fs::write(&program, "").unwrap();
        std::os::unix::fs::symlink(&program, &installed).unwrap();
        let below = Some(folder.path());
        assert_eq!(name_program(&program, below, Some(&installed)), "wharf");
        assert_eq!(
            name_program(&program, below, Some(Path::new("/bin/other"))),
            "./target/release/wharf"
        );
        assert_eq!(name_program(&program, None, None), program.display().to_string());
        assert_eq!(name_program(Path::new("/my tools/wharf"), None, None), "'/my tools/wharf'");
    }

    #[test]
    fn command_names_a_state_directory_that_verbs_would_not_find() {
        let default = Path::new("/home/me/.local/state/wharf");
        assert!(find_command(Path::new("/x/wharf"), default, Some(default)).ends_with("/x/wharf"));
        let other = find_command(Path::new("/x/wharf"), Path::new("/tmp/my state"), Some(default));
        assert!(other.ends_with("/x/wharf --state-dir '/tmp/my state'"), "{other}");
    }
}
