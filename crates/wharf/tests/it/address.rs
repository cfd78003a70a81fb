//! The address of a host: whose port it takes, what it says about it, and whether it could start
//! with given settings (rules 11.5, 11.6).

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::program::{Lines, start_and_read_lines, terminal_command, wharf_command};
use crate::tls::CertificatePair;

/// A home whose user has set nothing. Its host is stopped when the test ends.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()? })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = wharf_command(arguments);
        command
            .env("HOME", self.folder.path())
            .env("WHARF_STATE_DIR", self.folder.path().join("state"));
        command
    }

    fn config_file(&self) -> PathBuf {
        self.folder.path().join(".config/wharf/config.toml")
    }

    fn write_config(&self, text: &str) -> Result<()> {
        let file = self.config_file();
        fs::create_dir_all(file.parent().context("no folder")?)?;
        Ok(fs::write(file, text)?)
    }

    /// Has the host of this home take a port that no other test tries.
    fn keep_free_port(&self) -> Result<()> {
        self.keep_port(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
    }

    /// Runs a verb on a terminal of its own. `editor` is the program that changes files.
    fn start_on_terminal(&self, arguments: &str, editor: &str) -> Result<Lines> {
        let mut command =
            terminal_command(&format!("exec {} {arguments}", crate::wharf_binary().display()));
        for name in [
            "WHARF_CONFIG",
            "WHARF_LISTEN",
            "WHARF_URL",
            "WHARF_CONTEXT",
            "XDG_CONFIG_HOME",
            "VISUAL",
        ] {
            command.env_remove(name);
        }
        command
            .env("HOME", self.folder.path())
            .env("WHARF_STATE_DIR", self.folder.path().join("state"));
        command.env("TERM", "xterm").env("NO_COLOR", "1").env("EDITOR", editor);
        start_and_read_lines(command)
    }

    /// Has the host of this home try this port first.
    fn keep_port(&self, port: u16) -> Result<()> {
        let state = self.folder.path().join("state");
        fs::create_dir_all(&state)?;
        Ok(fs::write(state.join("port"), format!("{port}\n"))?)
    }

    fn run(&self, arguments: &[&str], code: i32) -> Result<Told> {
        let Output { status, stdout, stderr } = self.command(arguments).output()?;
        let told = Told {
            out: String::from_utf8(stdout)?,
            err: String::from_utf8(stderr)?,
        };
        ensure!(
            status.code() == Some(code),
            "{arguments:?}: {status:?} instead of {code}\n{told:?}"
        );
        Ok(told)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.command(&["stop", "--force"]).output();
    }
}

/// The output of a verb.
#[derive(Debug)]
struct Told {
    out: String,
    err: String,
}

/// Takes the usual port, or leaves it to the program that has it already: to a host both are the
/// same.
fn take_usual_port() -> Option<TcpListener> {
    TcpListener::bind("127.0.0.1:7433").ok()
}

#[test]
fn first_command_works_while_another_program_has_the_port() -> Result<()> {
    let _other = take_usual_port();
    let home = Home::new()?;
    let first = home.run(&["run", "demo", "echo hello"], 0)?;
    assert!(first.out.starts_with("hello\n"), "{first:?}");
    assert!(
        first.err.contains("started one (pid ") && first.err.contains("usual port"),
        "{first:?}"
    );
    let url = home.run(&["status", "--url"], 0)?.out.trim().to_owned();
    let port = url.strip_prefix("http://127.0.0.1:").context("another address")?;
    assert_ne!(port, "7433");
    assert_eq!(home.run(&["config", "get", "listen"], 0)?.out.trim(), format!("127.0.0.1:{port}"));
    home.run(&["stop"], 0)?;
    assert_eq!(home.run(&["config", "get", "listen"], 0)?.out.trim(), format!("127.0.0.1:{port}"));
    let again = home.run(&["sessions", "-a"], 0)?;
    assert!(
        again.err.contains("started one") && !again.err.contains("usual port"),
        "it is said once: {again:?}"
    );
    assert_eq!(home.run(&["status", "--url"], 0)?.out.trim(), url, "the port is kept");
    let restarted = home.run(&["restart"], 0)?;
    assert!(!restarted.err.contains("usual port"), "{restarted:?}");
    assert_eq!(home.run(&["status", "--url"], 0)?.out.trim(), url);
    let doctor = home.run(&["doctor", "--json"], 0)?;
    let found: Value = serde_json::from_str(&doctor.out)?;
    let findings = found["findings"].as_array().context("no findings")?;
    let address = findings
        .iter()
        .find(|finding| finding["check"] == "address")
        .context("the address is not tried")?;
    assert!(address["says"].as_str().is_some_and(|says| says.contains(port)), "{address}");
    Ok(())
}

#[test]
fn status_prints_no_address_without_a_host() -> Result<()> {
    let home = Home::new()?;
    let told = home.run(&["status", "--url"], 3)?;
    assert_eq!(told.out, "");
    assert!(told.err.contains("wharf serve"), "{told:?}");
    Ok(())
}

#[test]
fn address_of_the_user_is_strict_and_the_error_is_that_of_this_start() -> Result<()> {
    let other = TcpListener::bind("127.0.0.1:0")?;
    let taken = other.local_addr()?;
    let home = Home::new()?;
    home.write_config(&format!("listen = \"{taken}\"\n"))?;
    for round in 0..2 {
        let told = home.run(&["sessions"], 3)?;
        assert!(told.err.contains(&format!("cannot listen on {taken}")), "{told:?}");
        assert!(told.err.contains("wharf config set listen"), "{told:?}");
        assert!(!told.err.contains("started one"), "{told:?}");
        assert_eq!(told.err.matches("cannot listen").count(), 1, "round {round}: {told:?}");
    }
    let doctor = home.run(&["doctor"], 1)?;
    assert!(doctor.out.contains(&taken.to_string()), "{doctor:?}");
    home.run(&["config", "check"], 2)?;
    // An unrelated change is no worse than what is there; the note says so.
    let changed = home.run(&["config", "set", "ask_timeout", "1h"], 0)?;
    assert!(changed.err.contains("could not start"), "{changed:?}");
    home.run(&["config", "unset", "listen"], 0)?;
    home.run(&["config", "check"], 0)?;
    Ok(())
}

#[test]
fn settings_that_no_host_could_start_with_are_refused_everywhere() -> Result<()> {
    let home = Home::new()?;
    home.keep_free_port()?;
    home.run(&["sessions"], 0)?;
    let url = home.run(&["status", "--url"], 0)?.out;
    let told = home.run(&["config", "set", "listen", "127.0.0.1"], 2)?;
    assert!(told.err.contains("\"127.0.0.1\" is not an address"), "{told:?}");
    assert!(!home.config_file().exists(), "nothing is written");
    home.run(&["config", "set", "listen", "0.0.0.0:0"], 2)?;
    let half = home.run(&["config", "set", "tls.cert", "/no/such.pem"], 2)?;
    assert!(half.err.contains("tls.key") && half.err.contains("KEY VALUE KEY VALUE"), "{half:?}");
    home.write_config("listen = \"127.0.0.1\"\n")?;
    for verb in [&["config", "check"][..], &["restart"]] {
        let told = home.run(verb, 2)?;
        assert!(told.err.contains("is not an address"), "{verb:?}: {told:?}");
    }
    let doctor = home.run(&["doctor"], 1)?;
    assert!(doctor.out.contains("is not an address"), "{doctor:?}");
    assert_eq!(home.run(&["status", "--url"], 0)?.out, url, "the host goes on");
    // The address of the running host is free for the one that follows it.
    let own = url.trim().trim_start_matches("http://").to_owned();
    home.run(&["config", "set", "listen", &own], 0)?;
    home.run(&["restart"], 0)?;
    assert_eq!(home.run(&["status", "--url"], 0)?.out, url);
    Ok(())
}

#[test]
fn several_settings_are_changed_in_one_step() -> Result<()> {
    let home = Home::new()?;
    home.run(&["config", "set", "ask_timeout", "2h", "limits.queue", "7"], 0)?;
    assert_eq!(
        fs::read_to_string(home.config_file())?,
        "ask_timeout = \"2h\"\n\n[limits]\nqueue = 7\n"
    );
    home.run(&["config", "set", "ask_timeout", "2h", "limits.queue"], 2)?;
    home.run(&["config", "unset", "ask_timeout", "limits.queue"], 0)?;
    assert_eq!(fs::read_to_string(home.config_file())?.trim(), "");
    Ok(())
}

#[test]
fn serve_on_a_terminal_takes_another_port_and_says_which() -> Result<()> {
    let other = TcpListener::bind("127.0.0.1:0")?;
    let taken = other.local_addr()?;
    let home = Home::new()?;
    home.keep_port(taken.port())?;
    let mut serve = home.start_on_terminal("serve", "true")?;
    let mut lines =
        serve.read_through(|line| line.contains("another program has this host's usual port"))?;
    let url = home.run(&["status", "--url"], 0)?.out;
    let address = url.trim().strip_prefix("http://").context("another scheme")?;
    let moved = lines.last().context("no line")?;
    assert!(moved.contains(address) && address != taken.to_string(), "{address}: {moved}");
    home.run(&["stop", "--force"], 0)?;
    lines.extend(serve.read_rest()?);
    assert!(
        !lines.iter().any(|line| line.contains(&taken.to_string())),
        "the port of another program: {lines:#?}"
    );
    let told = lines.iter().filter(|line| line.contains("another program")).count();
    assert_eq!(told, 1, "the move is told once: {lines:#?}");
    Ok(())
}

#[test]
fn restart_does_not_end_the_host_if_its_new_port_is_taken() -> Result<()> {
    let home = Home::new()?;
    home.keep_free_port()?;
    home.run(&["sessions"], 0)?;
    let before = home.run(&["status", "--json"], 0)?;
    let other = TcpListener::bind("127.0.0.1:0")?;
    let taken = other.local_addr()?;
    home.write_config(&format!("listen = \"{taken}\"\n"))?;
    let told = home.run(&["restart"], 2)?;
    for words in [&format!("cannot listen on {taken}"), "another program", "goes on"] {
        assert!(told.err.contains(words), "no {words:?}: {told:?}");
    }
    let pid =
        |told: &Told| serde_json::from_str::<Value>(&told.out).map(|status| status["pid"].clone());
    assert_eq!(pid(&home.run(&["status", "--json"], 0)?)?, pid(&before)?, "the host goes on");
    Ok(())
}

#[test]
fn port_of_another_address_is_not_taken_for_that_of_the_running_host() -> Result<()> {
    let home = Home::new()?;
    home.keep_free_port()?;
    home.run(&["sessions"], 0)?;
    let url = home.run(&["status", "--url"], 0)?.out;
    let port = url.trim().rsplit(':').next().context("no port")?;
    // All of 127.0.0.0/8 is this machine.
    let other = TcpListener::bind(format!("127.0.0.2:{port}"))?;
    let listen = other.local_addr()?.to_string();
    let told = home.run(&["config", "set", "listen", &listen], 2)?;
    assert!(told.err.contains("another program"), "{told:?}");
    drop(other);
    home.run(&["config", "set", "listen", &listen], 0)?;
    home.run(&["restart"], 0)?;
    assert_eq!(home.run(&["status", "--url"], 0)?.out.trim(), format!("http://{listen}"));
    home.run(&["config", "set", "listen", &listen], 0)?;
    Ok(())
}

#[test]
fn certificate_with_the_key_of_another_is_refused() -> Result<()> {
    let home = Home::new()?;
    let one = CertificatePair::new()?;
    let two = CertificatePair::new()?;
    let cert = one.cert().display().to_string();
    let key = two.key().display().to_string();
    let told = home.run(&["config", "set", "tls.cert", &cert, "tls.key", &key], 2)?;
    assert!(told.err.contains("is not that of the certificate"), "{told:?}");
    assert!(!home.config_file().exists(), "nothing is written");
    let own_key = one.key().display().to_string();
    home.run(&["config", "set", "tls.cert", &cert, "tls.key", &own_key], 0)?;
    home.run(&["config", "set", "tls.key", &key], 2)?;
    Ok(())
}

#[test]
fn variable_hides_no_mistake_of_the_file() -> Result<()> {
    let home = Home::new()?;
    let set = home
        .command(&["config", "set", "listen", "127.0.0.1"])
        .env("WHARF_LISTEN", "127.0.0.1:0")
        .output()?;
    assert_eq!(set.status.code(), Some(2), "{}", String::from_utf8_lossy(&set.stderr));
    assert!(!home.config_file().exists(), "nothing is written");
    Ok(())
}

#[test]
fn edit_saves_a_change_beside_a_fault_that_was_there() -> Result<()> {
    let other = TcpListener::bind("127.0.0.1:0")?;
    let listen = format!("listen = \"{}\"\n", other.local_addr()?);
    let home = Home::new()?;
    home.write_config(&format!("ask_timeout = \"1h\"\n{listen}"))?;
    let mut edit = home.start_on_terminal("config edit", "sed -i s/1h/2h/")?;
    let said = edit.read_rest()?;
    assert_eq!(edit.code()?, Some(0), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("note: a host could not start")), "{said:#?}");
    assert_eq!(fs::read_to_string(home.config_file())?, format!("ask_timeout = \"2h\"\n{listen}"));
    Ok(())
}
