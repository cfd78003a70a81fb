//! Reads a session's log from its files, as any tool could.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use wharf_testkit::host::TestHost;
use wharf_testkit::{WAIT_LIMIT, polling};

/// Returns the directory of a session.
pub(crate) fn session_dir(host: &TestHost, session: &str) -> PathBuf {
    session_dir_in(host, "default", session)
}

/// Returns the directory of a session of this workspace.
pub(crate) fn session_dir_in(host: &TestHost, workspace: &str, session: &str) -> PathBuf {
    host.state_dir()
        .join("workspaces")
        .join(workspace)
        .join("sessions")
        .join(session)
}

/// Returns the records in order. A record is a line: a checksum, a blank, and
/// `{"seq":…,"epoch":…,"event":{…}}`.
pub(crate) fn read_records(host: &TestHost, session: &str) -> Result<Vec<Value>> {
    read_records_in(host, "default", session)
}

/// Returns the records of a session of this workspace.
pub(crate) fn read_records_in(
    host: &TestHost,
    workspace: &str,
    session: &str,
) -> Result<Vec<Value>> {
    let mut segments = list_segments(&session_dir_in(host, workspace, session).join("log"))?;
    segments.sort();
    let mut records = Vec::new();
    for segment in segments {
        // A line that is being written has no line break yet.
        let text = String::from_utf8_lossy(&fs::read(&segment)?).into_owned();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let (checksum, body) =
                line.split_once(' ').with_context(|| format!("not a record: {line}"))?;
            let record = wharf_json::Json::parse(body.as_bytes())
                .with_context(|| format!("not a record: {line}"))?
                .to_value();
            ensure!(is_checksum(checksum), "not a checksum: {checksum}");
            // The first line of a segment states its format.
            if record.get("wharf_log").is_none() {
                records.push(record);
            }
        }
    }
    Ok(records)
}

fn is_checksum(word: &str) -> bool {
    word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn list_segments(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("reading {}", folder.display())),
    };
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "log"))
        .collect())
}

/// Returns the events of one kind.
pub(crate) fn list_events(host: &TestHost, session: &str, kind: &str) -> Result<Vec<Value>> {
    let events = read_records(host, session)?
        .into_iter()
        .map(|mut record| record["event"].take());
    Ok(events.filter(|event| event["kind"] == kind).collect())
}

/// Waits for an event in the log that clients are not notified of.
pub(crate) async fn expect_event(
    host: &TestHost,
    session: &str,
    kind: &str,
    fits: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let found = polling::poll_until(WAIT_LIMIT, || {
        Ok(list_events(host, session, kind)?.into_iter().find(&fits))
    })
    .await?;
    if let Some(event) = found {
        return Ok(event);
    }
    let kinds: Vec<String> = read_records(host, session)?.iter().map(ToString::to_string).collect();
    let last: Vec<&str> = kinds.iter().rev().take(20).rev().map(String::as_str).collect();
    bail!("no fitting {kind} in the log, which ends with\n{}", last.join("\n"));
}

/// Returns the one session that the host has.
pub(crate) fn only_session(host: &TestHost) -> Result<String> {
    let sessions = all_sessions(host)?;
    match sessions.as_slice() {
        [one] => Ok(one.clone()),
        _ => bail!("{} sessions", sessions.len()),
    }
}

pub(crate) fn all_sessions(host: &TestHost) -> Result<Vec<String>> {
    let folder = session_dir(host, "");
    let entries = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}
