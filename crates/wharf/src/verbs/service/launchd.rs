//! An agent of launchd. Written by its documentation; not yet tried on a Mac.

use std::path::PathBuf;

use anyhow::Context;

use super::manager::{ServiceManager, ServiceSpec, ServiceState};
use super::unit_file::{MARK, state_dir_mark};
use crate::connect::run_manager;
use crate::exit::{Exit, Failure};
use crate::output;

#[derive(Debug)]
pub(super) struct Launchd;

const PROPERTY_LIST: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- {mark}; `wharf service uninstall` removes it. Not yet tried on a Mac. -->
<!-- {state_dir} -->
<plist version="1.0">
<dict>
  <key>Label</key><string>{label}</string>
  <key>ProgramArguments</key>
  <array>
{arguments}
  </array>
  <key>EnvironmentVariables</key>
  <dict><key>PATH</key><string>{path}</string></dict>
  <key>RunAtLoad</key><true/>
  <!-- A crash starts it again, `wharf stop` does not. -->
  <key>KeepAlive</key>
  <dict><key>SuccessfulExit</key><false/></dict>
  <!-- Only the host is ended: its agents are left to their keepers. -->
  <key>AbandonProcessGroup</key><true/>
  <key>ExitTimeOut</key><integer>90</integer>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
"#;

impl ServiceManager for Launchd {
    fn file_path(&self, name: &str) -> anyhow::Result<PathBuf> {
        let home = std::env::var_os("HOME")
            .map(PathBuf::from)
            .context("finding the home directory; set HOME")?;
        Ok(home.join("Library/LaunchAgents").join(format!("{}.plist", label(name))))
    }

    fn file_text(&self, spec: &ServiceSpec) -> String {
        let arguments: Vec<String> = spec
            .command()
            .iter()
            .map(|word| format!("    <string>{}</string>", escape(word)))
            .collect();
        PROPERTY_LIST
            .replace("{mark}", MARK)
            .replace("{state_dir}", &state_dir_mark(spec))
            .replace("{label}", &label(&spec.name))
            .replace("{arguments}", &arguments.join("\n"))
            .replace("{path}", &escape(&spec.path))
            .replace("{log}", &escape(&spec.state_dir.join("host.log").display().to_string()))
    }

    fn check_available(&self, spec: &ServiceSpec) -> anyhow::Result<()> {
        match launchctl(&["version"])? {
            Some(_) => Ok(()),
            None => {
                let words = format!(
                    "this machine has no launchd; nothing was installed. Have your own init run: {}",
                    shell_words::join(spec.command())
                );
                Err(Failure::new(Exit::Refused, words).into())
            }
        }
    }

    fn enable(&self, name: &str) -> anyhow::Result<()> {
        let file = self.file_path(name)?.display().to_string();
        // A service that is loaded already has the old file.
        let _ = launchctl(&["bootout", &target(name)])?;
        run_launchctl(&["bootstrap", &domain(), &file])
    }

    fn disable(&self, name: &str) -> anyhow::Result<()> {
        run_launchctl(&["bootout", &target(name)])
    }

    fn restart(&self, name: &str) -> anyhow::Result<()> {
        run_launchctl(&["kickstart", "-k", &target(name)])
    }

    fn explain_linger(&self, wanted: bool) -> anyhow::Result<()> {
        if wanted {
            anyhow::bail!(
                "--linger is for systemd; an agent of launchd runs while you are logged in"
            );
        }
        output::print_note(
            "it runs while you are logged in. wharf's support of launchd has not been tried on a Mac yet",
        );
        Ok(())
    }

    fn state(&self, name: &str) -> anyhow::Result<ServiceState> {
        let output = launchctl(&["print", &target(name)])?;
        let text = output
            .filter(|output| output.success)
            .map(|output| output.stdout)
            .unwrap_or_default();
        let running = text.lines().any(|line| line.trim() == "state = running");
        let pid = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("pid = "))
            .map(str::to_owned);
        Ok(ServiceState {
            running,
            facts: pid.map(|pid| ("pid", pid)).into_iter().collect(),
        })
    }

    fn log_command(&self, spec: &ServiceSpec) -> String {
        shell_words::join(["tail", &spec.state_dir.join("host.log").display().to_string()])
    }
}

fn label(name: &str) -> String {
    format!("dev.wharf.{name}")
}

fn domain() -> String {
    format!("gui/{}", rustix::process::getuid().as_raw())
}

fn target(name: &str) -> String {
    format!("{}/{}", domain(), label(name))
}

fn launchctl(arguments: &[&str]) -> anyhow::Result<Option<crate::connect::ManagerOutput>> {
    run_manager("launchctl", arguments)
}

fn run_launchctl(arguments: &[&str]) -> anyhow::Result<()> {
    match launchctl(arguments)? {
        Some(output) if output.success => Ok(()),
        Some(output) => {
            Err(anyhow::anyhow!("launchctl {} failed: {}", arguments.join(" "), output.stderr))
        }
        None => Err(anyhow::anyhow!("this machine has no launchctl")),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
