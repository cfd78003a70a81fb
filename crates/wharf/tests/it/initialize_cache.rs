//! `initialize` is answered from earlier answers of agents (rules 3.2, 12.8): without a start, also
//! after a restart of the host, and not if the agent has changed since.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::{HostOptions, TestHost};

use crate::{connect_client_of, cwd, scripted_host};

/// An agent that is a script and can be replaced.
struct ScriptedProgram {
    directory: tempfile::TempDir,
}

impl ScriptedProgram {
    fn new(flags: &str) -> Result<Self> {
        let program = Self { directory: tempfile::TempDir::with_prefix("wharf-program-")? };
        program.replace_file(&program.script_path(), flags)?;
        Ok(program)
    }

    fn script_path(&self) -> PathBuf {
        self.directory.path().join("agent")
    }

    /// Replaces the file with another version.
    fn replace_file(&self, file: &PathBuf, flags: &str) -> Result<()> {
        let agent = wharf_testkit::program::find_scripted_agent()?;
        let starts = self.directory.path().join("starts");
        let new = self.directory.path().join("new");
        let text = format!(
            "#!/bin/sh\necho >> {}\nexec {} {flags} \"$@\"\n",
            starts.display(),
            agent.display()
        );
        fs::write(&new, text)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
        Ok(fs::rename(&new, file)?)
    }

    fn count_starts(&self) -> usize {
        fs::read_to_string(self.directory.path().join("starts"))
            .unwrap_or_default()
            .lines()
            .count()
    }

    fn host_options(&self, command: &[&str]) -> Result<HostOptions> {
        let script = self.script_path().display().to_string();
        let command =
            command.iter().map(|word| word.replace("SCRIPT", &script)).collect::<Vec<_>>();
        Ok(scripted_host(&[])?.with_agent("mine", &command))
    }
}

/// Returns a client and the number of logins that the agent offers at `initialize`.
async fn count_logins(host: &TestHost) -> Result<(TestClient, usize)> {
    let client = connect_client_of(host, "mine").await?;
    let answer = client.initialize().await?;
    Ok((client, answer["authMethods"].as_array().context("no list of logins")?.len()))
}

#[tokio::test]
async fn agent_upgraded_in_place_is_asked_again() -> Result<()> {
    // The command is the program itself, or an interpreter with a script.
    for command in [&["SCRIPT"][..], &["/bin/sh", "SCRIPT"]] {
        let program = ScriptedProgram::new("")?;
        let host = program.host_options(command)?.start_host()?;
        assert_eq!(count_logins(&host).await?.1, 0);
        assert_eq!(count_logins(&host).await?.1, 0);
        assert_eq!(program.count_starts(), 1, "the second was answered from memory");
        program.replace_file(&program.script_path(), "--auth")?;
        assert_eq!(count_logins(&host).await?.1, 1, "{command:?}");
        assert_eq!((count_logins(&host).await?.1, program.count_starts()), (1, 2));
    }
    Ok(())
}

#[tokio::test]
async fn restarted_host_answers_initialize_without_starting_an_agent() -> Result<()> {
    let program = ScriptedProgram::new("--auth")?;
    let options = program
        .host_options(&["SCRIPT"])?
        .with_variable("MINE_KEY", "a-secret-of-the-user");
    let mut host =
        crate::add_section(options, "env = { OTHER = \"another-secret\" }").start_host()?;
    count_logins(&host).await?;
    host.kill()?;
    host.restart()?;
    assert_eq!((count_logins(&host).await?.1, program.count_starts()), (1, 1));
    let file = host.state_dir().join("initialize.json");
    assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file)?;
    for word in
        ["secret", "MINE_KEY", "OTHER", "/bin/", &program.script_path().display().to_string()]
    {
        assert!(!text.contains(word), "{word}: {text}");
    }
    // An agent that was replaced meanwhile is asked again.
    host.kill()?;
    program.replace_file(&program.script_path(), "")?;
    host.restart()?;
    assert_eq!((count_logins(&host).await?.1, program.count_starts()), (0, 2));
    Ok(())
}

#[tokio::test]
async fn every_real_start_refreshes_the_answer() -> Result<()> {
    // The program never changes; the script that it runs does.
    let program = ScriptedProgram::new("")?;
    let inner = program.directory.path().join("inner");
    program.replace_file(&inner, "")?;
    fs::write(program.script_path(), format!("#!/bin/sh\nexec {}\n", inner.display()))?;
    fs::set_permissions(program.script_path(), fs::Permissions::from_mode(0o755))?;
    let host = program.host_options(&["SCRIPT"])?.start_host()?;
    let (client, before) = count_logins(&host).await?;
    program.replace_file(&inner, "--terminal-auth --auth")?;
    assert_eq!((before, count_logins(&host).await?.1), (0, 0), "nothing tells of the change");
    // The session needs a login: its agent is started and answers.
    let refused = client.new_session(&cwd(&host)?).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(count_logins(&host).await?.1, 1);
    Ok(())
}

#[tokio::test]
async fn answers_are_cached_per_capabilities_and_variables() -> Result<()> {
    let program = ScriptedProgram::new("")?;
    let host = program.host_options(&["SCRIPT"])?.start_host()?;
    let greet = async |capabilities: Value, env: Value| {
        let client = connect_client_of(&host, "mine").await?;
        let meta = json!({ "wharf": { "env": env } });
        let params =
            json!({ "protocolVersion": 1, "clientCapabilities": capabilities, "_meta": meta });
        client.call_method("initialize", params).await?;
        anyhow::Ok(program.count_starts())
    };
    assert_eq!(greet(json!({}), json!({})).await?, 1);
    assert_eq!(greet(json!({ "terminal": true }), json!({})).await?, 2);
    assert_eq!(greet(json!({}), json!({ "LANG": "fr_FR.UTF-8" })).await?, 3);
    assert_eq!(greet(json!({ "terminal": true }), json!({})).await?, 3);
    // A variable that the agent does not get makes no difference.
    assert_eq!(greet(json!({}), json!({ "NOT_PASSED": "1" })).await?, 3);
    Ok(())
}
