//! `wharf service` with a service manager that only notes how it is called.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::Result;
use wharf_testkit::{WAIT_LIMIT, processes};

use crate::program::wharf_command;

/// A home, and a PATH with `systemctl` and `loginctl` that write their arguments to a file. A host
/// that they start is stopped when the test ends.
struct FakeSystem {
    folder: tempfile::TempDir,
}

impl Drop for FakeSystem {
    fn drop(&mut self) {
        let _ = self.command(&["stop", "--force", "--no-start"]).output();
        let _ = processes::kill_marked(self.folder.path(), WAIT_LIMIT);
    }
}

impl FakeSystem {
    /// `answer` is a line of shell that runs in `systemctl`.
    fn new(answer: &str) -> Result<Self> {
        let system = Self { folder: tempfile::tempdir()? };
        fs::create_dir(system.folder.path().join("bin"))?;
        system.add_program("systemctl", answer)?;
        system.add_program("loginctl", "echo Linger=no")?;
        Ok(system)
    }

    /// A system whose `systemctl` starts the unit's host, and answers with this line of shell.
    fn with_running_service(answer: &str) -> Result<Self> {
        let system = Self::new("")?;
        let unit = system.unit().display().to_string();
        let start = format!("sed -n 's/^ExecStart=/exec /p' '{unit}' | sh > /dev/null 2>&1 &");
        system.add_program(
            "systemctl",
            &format!("case \"$*\" in *restart*) {start};; esac\n{answer}").replace("&;;", "& ;;"),
        )?;
        let config = system.folder.path().join(".config/wharf");
        fs::create_dir_all(&config)?;
        fs::write(config.join("config.toml"), "listen = \"127.0.0.1:0\"\n")?;
        Ok(system)
    }

    fn config_file(&self) -> PathBuf {
        self.folder.path().join(".config/wharf/config.toml")
    }

    fn add_program(&self, name: &str, answer: &str) -> Result<()> {
        let path = self.folder.path().join("bin").join(name);
        let calls = self.folder.path().join("calls");
        fs::write(
            &path,
            format!("#!/bin/sh\necho {name} \"$@\" >> {}\n{answer}\n", calls.display()),
        )?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        Ok(self.command(arguments).output()?)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = wharf_command(arguments);
        let path = format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display());
        command
            .env("HOME", self.folder.path())
            .env("PATH", path)
            .env("WHARF_STATE_DIR", self.folder.path().join("st ate"));
        processes::mark_command(&mut command, self.folder.path());
        command
    }

    fn unit(&self) -> PathBuf {
        self.folder.path().join(".config/systemd/user/wharf.service")
    }

    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn service_is_installed_shown_and_removed() -> Result<()> {
    let system = FakeSystem::with_running_service(
        "case \"$*\" in *show\\ wharf*) echo ActiveState=active; echo SubState=running; echo MainPID=7;; esac",
    )?;
    let output = system.run(&["service", "install"])?;
    assert!(
        output.status.success() && said(&output).contains("loginctl enable-linger"),
        "{}",
        said(&output)
    );
    let unit = fs::read_to_string(system.unit())?;
    let command = format!(
        "ExecStart=\"{}\" \"serve\" \"--json\" \"--started-as\" \"service:wharf\" \"--state-dir\" \"{}\" \"--config\" \"{}\"\n",
        crate::wharf_binary().display(),
        system.folder.path().join("st ate").display(),
        system.config_file().display()
    );
    assert!(
        unit.contains(&command)
            && unit.contains("KillMode=process\n")
            && unit.contains("Environment=WHARF_KEEPER_SCOPE=user\n")
            && unit.contains("Environment=\"PATH="),
        "{unit}"
    );
    let called =
        ["show-environment", "daemon-reload", "enable wharf.service", "restart wharf.service"];
    let calls: Vec<String> = system
        .calls()
        .into_iter()
        .filter(|call| call.starts_with("systemctl"))
        .collect();
    assert_eq!(calls, called.map(|call| format!("systemctl --user {call}")));

    let output = system.run(&["service", "status"])?;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        said(&output).contains("service\trunning\n") && said(&output).contains("pid\t7\n"),
        "{}",
        said(&output)
    );
    assert!(
        system.run(&["service", "install", "--linger"])?.status.success(),
        "it may be installed again"
    );
    assert!(system.calls().contains(&"loginctl enable-linger".to_owned()));

    let output = system.run(&["service", "uninstall"])?;
    assert!(output.status.success() && !system.unit().exists(), "{}", said(&output));
    assert!(
        system
            .calls()
            .contains(&"systemctl --user disable --now wharf.service".to_owned())
    );
    assert_eq!(system.run(&["service", "status"])?.status.code(), Some(4));
    assert!(system.run(&["service", "uninstall"])?.status.success(), "there is nothing to remove");
    Ok(())
}

#[test]
fn unit_of_another_author_or_state_directory_is_left_alone() -> Result<()> {
    let system = FakeSystem::with_running_service("")?;
    fs::create_dir_all(system.unit().parent().unwrap_or(&system.unit()))?;
    fs::write(system.unit(), "[Service]\nExecStart=mine\n")?;
    for verb in [&["service", "install"][..], &["service", "uninstall"]] {
        let output = system.run(verb)?;
        assert_eq!(output.status.code(), Some(5), "{}", said(&output));
        assert_eq!(fs::read_to_string(system.unit())?, "[Service]\nExecStart=mine\n");
    }
    fs::remove_file(system.unit())?;
    assert!(system.run(&["service", "install"])?.status.success());
    let before = fs::read_to_string(system.unit())?;
    let other = system
        .command(&["service", "install"])
        .env("WHARF_STATE_DIR", "/tmp/other")
        .output()?;
    assert_eq!(other.status.code(), Some(5), "{}", said(&other));
    assert_eq!(fs::read_to_string(system.unit())?, before);
    Ok(())
}

#[test]
fn service_whose_host_does_not_answer_is_no_success() -> Result<()> {
    let system = FakeSystem::new("")?;
    let output = system.run(&["service", "install"])?;
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("journalctl --user -u wharf.service"), "{}", said(&output));
    assert!(!said(&output).contains("runs as a service"), "{}", said(&output));
    Ok(())
}

#[test]
fn service_is_not_installed_with_settings_that_cannot_be_used() -> Result<()> {
    let system = FakeSystem::with_running_service("")?;
    assert!(system.run(&["service", "install"])?.status.success());
    let before = system.calls();
    fs::write(system.config_file(), "listn = \"x\"\n")?;
    let output = system.run(&["service", "install"])?;
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("listn"), "{}", said(&output));
    let status = system.run(&["status"])?;
    assert!(status.status.success(), "the host was ended: {}", said(&status));
    assert!(
        !system.calls()[before.len()..].iter().any(|call| call.contains("restart")),
        "{:?}",
        system.calls()
    );
    Ok(())
}

#[test]
fn service_is_not_installed_with_settings_that_no_host_could_start_with() -> Result<()> {
    let system = FakeSystem::with_running_service("")?;
    for (text, complaint) in [
        ("listen = \"127.0.0.1\"\n", "is not an address"),
        ("listen = \"0.0.0.0:0\"\n", "not a loopback address"),
        ("[tls]\ncert = \"/no/such.pem\"\nkey = \"/no/such.key\"\n", "/no/such.pem"),
    ] {
        fs::write(system.config_file(), text)?;
        let output = system.run(&["service", "install"])?;
        assert_eq!(output.status.code(), Some(2), "{text}: {}", said(&output));
        assert!(said(&output).contains(complaint), "{text}: {}", said(&output));
        assert!(!system.unit().exists(), "{text}: a unit was written");
        assert!(
            !system.calls().iter().any(|call| call.contains("restart")),
            "{text}: {:?}",
            system.calls()
        );
    }
    Ok(())
}

#[test]
fn machine_without_systemd_is_told_what_to_run() -> Result<()> {
    let system = FakeSystem::new("echo Failed to connect to bus >&2; exit 1")?;
    let output = system.run(&["service", "install"])?;
    assert_eq!(output.status.code(), Some(5));
    let state = format!("--state-dir '{}'", system.folder.path().join("st ate").display());
    assert!(
        said(&output).contains("Failed to connect to bus")
            && said(&output).contains(&format!(" {state} ")),
        "{}",
        said(&output)
    );
    let none = system.command(&["service", "install"]).env("PATH", "/nonexistent").output()?;
    assert_eq!(none.status.code(), Some(5), "{}", said(&none));
    assert!(said(&none).contains("no systemd"), "{}", said(&none));
    assert!(!system.unit().exists());
    let printed = system
        .command(&["service", "install", "--print"])
        .env("PATH", "/nonexistent")
        .output()?;
    assert!(
        printed.status.success() && said(&printed).contains("KillMode=process"),
        "{}",
        said(&printed)
    );
    Ok(())
}

#[test]
fn service_takes_over_the_agents_of_a_host_that_it_replaces() -> Result<()> {
    let system = FakeSystem::with_running_service("")?;
    let keeping = |arguments: &[&str]| system.command(arguments).output();
    let ran = keeping(&["run", "demo", "--keep", "echo hello"])?;
    assert!(ran.status.success(), "{}", said(&ran));
    let refused = keeping(&["service", "install"])?;
    assert_eq!(refused.status.code(), Some(5), "{}", said(&refused));
    assert!(
        said(&refused).contains("--replace to have the service take its place and its agents"),
        "{}",
        said(&refused)
    );
    let replaced = keeping(&["service", "install", "--replace"])?;
    assert!(replaced.status.success(), "{}", said(&replaced));
    let status: serde_json::Value =
        serde_json::from_slice(&keeping(&["status", "--json"])?.stdout)?;
    assert_eq!(
        (&status["process"]["startedAs"], &status["sessions"]["live"]),
        (&"service".into(), &1.into()),
        "{status}"
    );
    Ok(())
}

#[test]
fn verbs_about_this_machine_refuse_a_host_elsewhere() -> Result<()> {
    let system = FakeSystem::new("")?;
    for verb in [
        &["service", "status"][..],
        &["stop"],
        &["restart"],
        &["doctor"],
        &["serve"],
        &["token", "list"],
        &["config", "set", "listen", "x"],
        &["config", "path"],
    ] {
        let mut command = system.command(&[verb, &["--url", "https://box.example:7433"]].concat());
        let output = command.env_remove("WHARF_STATE_DIR").output()?;
        assert_eq!(output.status.code(), Some(2), "{verb:?} {}", said(&output));
        assert!(said(&output).contains("https://box.example:7433"), "{verb:?} {}", said(&output));
    }
    Ok(())
}
