//! The backup that docs/maintenance.md describes, taken while the host works.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::program::shell_command;
use crate::{connect_client, cwd, log, open_session, prompt_for_text, scripted_host};

const PAGE: &str = include_str!("../../../../docs/maintenance.md");

/// Returns the documented command, for the state directory of `host` and the archive `archive`.
fn documented_backup(host: &TestHost, archive: &Path) -> Result<String> {
    let (_, section) = PAGE.split_once("## Back up and restore").context("no section")?;
    let (_, block) = section.split_once("```sh\n").context("no command")?;
    let (command, _) = block.split_once("\n```").context("the command has no end")?;
    let state_dir = host.state_dir();
    let name = state_dir.file_name().and_then(|name| name.to_str()).context("no name")?;
    let parent = state_dir.parent().context("no parent")?.display().to_string();
    let command = command.replace("~/.local/state", &parent);
    let command =
        command.replace("wharf-backup.tar.gz wharf", &format!("{} {name}", archive.display()));
    let command = command
        .replace("=wharf/", &format!("={name}/"))
        .replace("='wharf/", &format!("='{name}/"));
    ensure!(
        command.contains(&format!("-C {parent} -czf {}", archive.display())),
        "another command: {command}"
    );
    Ok(command)
}

#[tokio::test]
async fn backup_of_a_working_host_holds_every_session_and_goes_on() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, finished) = open_session(&host).await?;
    prompt_for_text(&client, &finished, "echo before the backup").await?;
    let (client, working) = open_session(&host).await?;
    let streaming = client.start_prompt(&working, "tick 2000 1000").await;
    log::expect_event(&host, &working, "agent_updated", |_| true).await?;

    // The names of things that the backup leaves out are good names for a workspace, too.
    let mut in_workspaces = Vec::new();
    for slug in ["run", "reserve"] {
        let folder = host.directory().join(slug);
        fs::create_dir(&folder)?;
        let workspace = json!({ "slug": slug, "path": folder });
        RestClient::new(&host).post("/workspaces", &workspace).await?.expect(201)?;
        let session = client.new_session(folder.to_str().context("not UTF-8")?).await?;
        prompt_for_text(&client, &session, "echo in a workspace").await?;
        in_workspaces.push((slug, session));
    }

    let archive = host.directory().join("backup.tar.gz");
    let tar = shell_command(&documented_backup(&host, &archive)?).output()?;
    // 1: a file has changed while it was read.
    ensure!(matches!(tar.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&tar.stderr));
    assert_eq!(
        fs::metadata(&archive)?.permissions().mode() & 0o777,
        0o600,
        "the backup holds tokens"
    );
    streaming.wait_answer().await?;

    let mut restored = scripted_host(&[])?.start_host()?;
    restored.kill()?;
    fs::remove_dir_all(restored.state_dir())?;
    let parent = restored.state_dir().parent().context("no parent")?.display().to_string();
    let unpack = shell_command("tar -C \"$1\" -xzf \"$2\"").arg(parent).arg(&archive).output()?;
    ensure!(unpack.status.success(), "{}", String::from_utf8_lossy(&unpack.stderr));
    restored.restart()?;

    let sessions = [("default", finished.clone()), ("default", working)]
        .into_iter()
        .chain(in_workspaces);
    for (workspace, session) in sessions {
        let read = |host: &TestHost| log::read_records_in(host, workspace, &session);
        let (whole, copy) = (read(&host)?, read(&restored)?);
        let epoch = whole.first().context("an empty log")?["epoch"].clone();
        let kept: Vec<_> =
            copy.iter().take_while(|record| record["epoch"] == epoch).cloned().collect();
        ensure!(!kept.is_empty(), "nothing of {session} is in the backup");
        assert_eq!(kept, whole.get(..kept.len()).unwrap_or_default(), "{session} is another one");
    }
    let client = connect_client(&restored).await?;
    client.load_session(&finished, &cwd(&host)?).await?;
    assert_eq!(
        prompt_for_text(&client, &finished, "echo after the restore").await?,
        "after the restore"
    );
    Ok(())
}
