//! Completions in the shells themselves: the scripts ask a running host, and never start one.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::cli::{run_wharf, start_kept_session};
use crate::program::{shell_command, wharf_command};
use crate::rest::wait_until_idle;
use crate::{scripted_host, wharf_binary};

/// Returns false, and says so, if the shell is not installed.
fn has_shell(name: &str) -> Result<bool> {
    let found = shell_command("command -v \"$1\" > /dev/null").arg(name).status()?.success();
    if !found {
        println!("SKIPPED: there is no {name}");
    }
    Ok(found)
}

/// Returns a shell that runs this script, with the directory of the binary first in its PATH.
fn command_in_shell(shell: &str, script: &str, state: &Path) -> Result<Command> {
    let flags = match shell {
        "bash" => "--norc --noprofile",
        "zsh" => "-f",
        _ => "--no-config",
    };
    let mut command = shell_command(&format!("exec {shell} {flags} -c \"$1\""));
    let binary = wharf_binary();
    let folder = binary.parent().context("no folder")?.display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    command
        .arg(script)
        .env("PATH", path)
        .env("WHARF_STATE_DIR", state)
        .env("HOME", state);
    Ok(command)
}

/// Returns the words that the shell offers for a line of `wharf`, whose words are separated by
/// single blanks.
fn complete_in(shell: &str, line: &str, state: &Path) -> Result<Vec<String>> {
    let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
    let current = words.last().cloned().unwrap_or_default();
    let all = words.join(" ");
    let script = match shell {
        "bash" => format!(
            "source <(wharf completions bash); COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({all}); \
             COMP_CWORD={}; compopt() {{ :; }}; _wharf wharf {current} x; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        ),
        // `_describe` needs the line editor; its input is what counts.
        "zsh" => format!(
            "compdef() {{ }}; _describe() {{ print -rl -- \"${{candidates[@]%%:*}}\" }}; source <(wharf completions zsh); \
             words=({all}); CURRENT={}; _wharf",
            words.len()
        ),
        _ => format!("wharf completions fish | source; complete -C '{line}'"),
    };
    let output = command_in_shell(shell, &script, state)?.output()?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(output.stderr.is_empty(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(said
        .lines()
        .filter_map(|line| line.split('\t').next())
        .map(ToOwned::to_owned)
        .collect())
}

async fn host_with_names() -> Result<(TestHost, String)> {
    let host = scripted_host(&["--models"])?.start_host()?;
    let id = start_kept_session(&host, &["--label", "docs"])?;
    wait_until_idle(&RestClient::new(&host), &id).await?;
    run_wharf(&host, &["workspace", "add", "website"])?;
    Ok((host, id))
}

/// Completes the line until the word is offered. A completion does not wait long for a busy host.
fn expect_completion(shell: &str, line: &str, offered: &str, host: &TestHost) -> Result<()> {
    let give_up_at = Instant::now() + WAIT_LIMIT;
    loop {
        let found = complete_in(shell, line, &host.state_dir())?;
        if found.iter().any(|word| word == offered) {
            return Ok(());
        }
        ensure!(Instant::now() < give_up_at, "{shell}: {offered:?} for {line:?}: {found:?}");
    }
}

#[tokio::test]
async fn shells_complete_sessions_agents_workspaces_and_options() -> Result<()> {
    let (host, id) = host_with_names().await?;
    let short = id[id.len() - 6..].to_owned();
    for shell in ["bash", "zsh", "fish"] {
        if !has_shell(shell)? {
            continue;
        }
        for (line, offered) in [
            ("wharf sess", "sessions"),
            ("wharf show do", "docs"),
            ("wharf kill ", &short),
            ("wharf run scr", "scripted"),
            ("wharf run demo -w web", "website"),
            ("wharf sessions --wat", "--watch"),
            ("wharf set docs mo", "model"),
            ("wharf set docs mode a", "ask"),
            ("wharf token create --role obs", "observer"),
        ] {
            expect_completion(shell, line, offered, &host)?;
        }
        // Bash completes only what follows the sign.
        let expected = if shell == "bash" { "scripted" } else { "agent=scripted" };
        expect_completion(shell, "wharf ls --filter agent=scr", expected, &host)?;
    }
    Ok(())
}

#[test]
fn completing_never_starts_a_host() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");
    let offered = |words: &[&str]| -> Result<String> {
        let mut command = wharf_command(&["__complete", "--"]);
        let output = command.args(words).env("WHARF_STATE_DIR", &state).output()?;
        ensure!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    assert_eq!(offered(&["show", ""])?, "");
    assert!(offered(&["run", ""])?.contains("demo\t"), "agents are known without a host");
    assert!(offered(&[""])?.contains("sessions\t"));
    let contexts = folder.path().join("contexts.toml");
    std::fs::write(&contexts, "[contexts.box]\nurl = \"https://box\"\n")?;
    std::fs::set_permissions(&contexts, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let config = folder.path().join("config.toml").display().to_string();
    assert_eq!(
        offered(&["--config", &config, "context", "use", ""])?,
        "local\tthe host of this machine\nbox\thttps://box\n"
    );
    assert!(!state.exists(), "something was made");
    Ok(())
}
