//! The backup that docs/maintenance.md describes, taken while the host works.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use wharf_testkit::host::TestHost;

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
    let command = command.replace("wharf-backup.tar.gz wharf", &format!("{} {name}", archive.display()));
    ensure!(command.contains(&format!("-C {parent} -czf {}", archive.display())), "another command: {command}");
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

    let archive = host.directory().join("backup.tar.gz");
    let tar = shell_command(&documented_backup(&host, &archive)?).output()?;
    // 1: a file has changed while it was read.
    ensure!(matches!(tar.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&tar.stderr));
    streaming.wait_answer().await?;

    let mut restored = scripted_host(&[])?.start_host()?;
    restored.kill()?;
    fs::remove_dir_all(restored.state_dir())?;
    let parent = restored.state_dir().parent().context("no parent")?.display().to_string();
    let unpack = shell_command("tar -C \"$1\" -xzf \"$2\"").arg(parent).arg(&archive).output()?;
    ensure!(unpack.status.success(), "{}", String::from_utf8_lossy(&unpack.stderr));
    restored.restart()?;

    for session in [&finished, &working] {
        let (whole, copy) = (log::read_records(&host, session)?, log::read_records(&restored, session)?);
        let epoch = whole.first().context("an empty log")?["epoch"].clone();
        let kept: Vec<_> = copy.iter().take_while(|record| record["epoch"] == epoch).cloned().collect();
        ensure!(!kept.is_empty(), "nothing of {session} is in the backup");
        assert_eq!(kept, whole.get(..kept.len()).unwrap_or_default(), "{session} is another one");
    }
    let client = connect_client(&restored).await?;
    client.load_session(&finished, &cwd(&host)?).await?;
    assert_eq!(prompt_for_text(&client, &finished, "echo after the restore").await?, "after the restore");
    Ok(())
}
