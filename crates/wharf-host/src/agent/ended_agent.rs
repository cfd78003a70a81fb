//! An agent that has ended without a host: its output, which its keeper has left on the disk, is
//! taken in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use wharf_core::{Seq, SessionId};

use super::adoption::{
    AdoptedAgent, AdoptionContext, FilePlace, FoundAgent, LeftAgent, first_turn_of, resume_files,
};
use super::agent_process::{AgentExit, AgentProcess, OutputFate};
use super::left_output::{LeftOutput, remove_output};
use super::process_records::{LeftTree, ProcessRecords};
use super::record_files::{UNUSABLE_OUTPUT_EXTENSION, keeper_of_output};
use super::turn_status::TurnStatus;

/// The output that the keeper of an agent has left on the disk.
#[derive(Debug)]
pub(crate) struct EndedAgent {
    pub(super) tree: LeftTree,
    path: PathBuf,
    output: LeftOutput,
}

/// Finds the agents whose output is on the disk. Output that no host could read is left alone.
/// Fails if the directory cannot be read: the sessions whose output is there must not be ended
/// without it.
pub(crate) fn find_ended_agents(records: &ProcessRecords) -> io::Result<Vec<LeftAgent>> {
    let mut found = Vec::new();
    for path in records.list_left_outputs()? {
        let tree = match records.read_left_tree(&path) {
            Ok(Some(tree)) => tree,
            Ok(None) => continue,
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "output of an agent without its record is left alone");
                // Its session ends now. A later host that can read the record would remove the
                // output.
                if may_pass(&error) {
                    set_output_aside(&path);
                }
                continue;
            }
        };
        found.extend(open_output(path, tree));
    }
    Ok(found)
}

/// Finds what keepers have left of the agents of one session, while the host serves. Fails if it
/// cannot be found out whose an output is.
pub(crate) fn find_ended_agents_of(
    session: &SessionId,
    records: &ProcessRecords,
) -> io::Result<Vec<LeftAgent>> {
    let mut found = Vec::new();
    for path in records.list_left_outputs()? {
        match records.read_left_tree(&path) {
            Ok(Some(tree)) if tree.kept.session == session.as_str() => {
                found.extend(open_output(path, tree));
            }
            Err(error) if may_pass(&error) => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(found)
}

/// Opens the output of an agent. Returns `None` if no host can read it.
fn open_output(path: PathBuf, tree: LeftTree) -> Option<LeftAgent> {
    match LeftOutput::open(&path) {
        Ok(output) => {
            let ended = EndedAgent { tree, path, output };
            Some(LeftAgent::Found(FoundAgent::Ended(Box::new(ended))))
        }
        Err(error) => {
            let session = &tree.kept.session;
            tracing::error!(session, path = %path.display(), %error, "the output that a keeper has left cannot be read");
            may_pass(&error).then_some(LeftAgent::Unopened(tree))
        }
    }
}

/// Finds the output that the keeper of this tree has left. Returns `None` if there is none.
pub(super) fn find_ended_agent(
    tree: &LeftTree,
    records: &ProcessRecords,
) -> io::Result<Option<EndedAgent>> {
    let mut unread = None;
    for path in records.list_left_outputs()? {
        if keeper_of_output(&path) != Some(tree.keeper_pid()) {
            continue;
        }
        match records.read_left_tree(&path) {
            Ok(Some(found)) if found.is_same(tree) => {
                let output = LeftOutput::open(&path)?;
                return Ok(Some(EndedAgent { tree: found, path, output }));
            }
            Ok(_) => {}
            // It may be that of an earlier keeper with the same pid.
            Err(error) => unread = Some(error),
        }
    }
    unread.map_or(Ok(None), Err)
}

/// Returns true for an error of the system, such as a full disk, that may be over when the same is
/// tried again.
pub(crate) fn may_pass(error: &io::Error) -> bool {
    error.raw_os_error().is_some() && error.kind() != io::ErrorKind::NotFound
}

impl EndedAgent {
    /// Removes the output. Its session has taken all that it needs of it.
    pub(crate) fn remove(self) {
        remove_left_output(&self.path);
    }

    /// Takes the output in. All of the log up to `head` is on the disk.
    pub(super) fn adopt(
        self,
        head: Seq,
        context: &AdoptionContext<'_>,
    ) -> io::Result<AdoptedAgent> {
        let Self { tree, path, output: LeftOutput { files, stderr, exit } } = self;
        // The clock of its last host means nothing after a reboot, and no deadline counts for an
        // agent that has ended.
        let is_running = TurnStatus::read(&files.ledger).is_running;
        let turn_status = TurnStatus { is_running, ..TurnStatus::default() };
        let first_turn_at = first_turn_of(&tree);
        let resumed =
            resume_files(files, &stderr, head, context, FilePlace::Disk).inspect_err(|error| {
                if !may_pass(error) {
                    set_output_aside(&path);
                }
            })?;
        let exit = exit.unwrap_or_else(AgentExit::without_host);
        let process = AgentProcess::of_ended_agent(exit, move |fate| match fate {
            OutputFate::Logged => remove_left_output(&path),
            OutputFate::Unreadable => set_output_aside(&path),
        });
        Ok(resumed.into_adopted(process, turn_status, first_turn_at, true))
    }
}

fn remove_left_output(path: &Path) {
    if let Err(error) = remove_output(path) {
        tracing::warn!(path = %path.display(), %error, "output of an agent that is in the log stays on the disk");
    }
}

/// Renames output that no host can take in, so that none removes it.
fn set_output_aside(path: &Path) {
    let aside = path.with_extension(UNUSABLE_OUTPUT_EXTENSION);
    match fs::rename(path, &aside) {
        Ok(()) => {
            tracing::error!(path = %aside.display(), "the output of an agent is set aside; delete it when it is of no use")
        }
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "the output of an agent cannot be set aside")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::agent_log::AgentLogs;
    use super::super::directory_identity::DirectoryIdentity;
    use super::super::keeper::protocol::PROTOCOL_VERSION;
    use super::super::kept_files::{KeptFiles, create_file};
    use super::super::ledger::Ledger;
    use super::super::left_output::{AgentRemains, write_output};
    use super::super::process_records::KeptRecord;
    use super::super::record_files::LEFT_OUTPUT_EXTENSION;
    use super::*;

    /// Returns an agent whose output is in this directory, in a turn.
    fn leave_output(root: &Path, records: &ProcessRecords) -> EndedAgent {
        write_output_of("sess_a", root, records);
        open_left_output(records)
    }

    /// Writes the output of an agent of this session, as its keeper does.
    fn write_output_of(session: &str, root: &Path, records: &ProcessRecords) {
        let own = std::process::id();
        records.add(own, "tag", None);
        let session = session.to_owned();
        let version = "0.1.0".to_owned();
        let secret = "secret".to_owned();
        let kept = KeptRecord {
            session,
            start: 1,
            protocol: PROTOCOL_VERSION,
            version,
            secret,
            limits: None,
        };
        records.note_kept(own, kept).unwrap();
        let (_, stdin) = io::pipe().unwrap();
        let (stdout, _) = io::pipe().unwrap();
        let (stderr, _) = io::pipe().unwrap();
        let files = KeptFiles {
            stdin: stdin.into(),
            input: create_file("input").unwrap(),
            stdout: stdout.into(),
            output: create_file("output").unwrap(),
            stderr: stderr.into(),
            ledger: create_file("ledger").unwrap(),
        };
        let ledger = Ledger::create(files.ledger.try_clone().unwrap()).unwrap();
        let status = TurnStatus { is_running: true, deadline_ms: 5, clock_lead_ms: 7 };
        ledger.lock().set_turn_status(status).unwrap();
        let remains = AgentRemains { stderr: b"", exit: None };
        write_output(&root.join("run").join(own.to_string()), &files, &remains).unwrap();
    }

    /// Renames the only output as if a keeper with this pid had left it at the start of the epoch.
    fn rename_output(pid: u32, root: &Path, records: &ProcessRecords) -> PathBuf {
        let left = records.list_left_outputs().unwrap();
        let [path] = left.as_slice() else { panic!("{left:?}") };
        let renamed = root.join("run").join(format!("{pid}.0.{LEFT_OUTPUT_EXTENSION}"));
        fs::rename(path, &renamed).unwrap();
        renamed
    }

    fn make_records(root: &Path) -> ProcessRecords {
        let identity = DirectoryIdentity::load_or_create(root).unwrap();
        ProcessRecords::new(root.join("run"), identity)
    }

    fn open_left_output(records: &ProcessRecords) -> EndedAgent {
        match find_ended_agents(records).unwrap().pop() {
            Some(LeftAgent::Found(FoundAgent::Ended(ended))) => *ended,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn output_stays_if_it_cannot_be_taken_in_and_tells_that_a_turn_runs() {
        let temp = tempfile::tempdir().unwrap();
        let records = make_records(temp.path());
        let mut ended = leave_output(temp.path(), &records);
        let log = AgentLogs::new(false).get_or_create(&SessionId::new("sess_a"));
        let context = AdoptionContext {
            records: &records,
            tokens: &Arc::default(),
            log,
            frame_limit: 1 << 20,
        };
        // Nothing can be written to it, as on a full disk.
        let sealed =
            rustix::fs::memfd_create("ledger", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::fcntl_add_seals(
            &sealed,
            rustix::fs::SealFlags::WRITE | rustix::fs::SealFlags::GROW,
        )
        .unwrap();
        ended.output.files.ledger = sealed;
        let error = ended.adopt(Seq::ZERO, &context).unwrap_err();
        assert!(may_pass(&error), "{error}");
        let adopted = open_left_output(&records).adopt(Seq::ZERO, &context).unwrap();
        assert!(adopted.has_ended);
        assert_eq!(adopted.turn_status, TurnStatus { is_running: true, ..TurnStatus::default() });
        // Without an order to release it, it is there for the next host.
        drop(adopted);
        open_left_output(&records);
    }

    #[test]
    fn session_that_is_opened_again_finds_its_own_output_only() {
        let temp = tempfile::tempdir().unwrap();
        let records = make_records(temp.path());
        write_output_of("sess_a", temp.path(), &records);
        let others = rename_output(std::process::id(), temp.path(), &records);
        write_output_of("sess_b", temp.path(), &records);
        let found = find_ended_agents_of(&SessionId::new("sess_b"), &records).unwrap();
        let sessions: Vec<_> = found.iter().map(|agent| &agent.tree().kept.session).collect();
        assert_eq!(sessions, ["sess_b"]);
        assert!(others.exists(), "the output of another session is not touched");
        // The session of this output is unknown while its record cannot be read.
        fs::remove_file(others.join("record")).unwrap();
        std::os::unix::fs::symlink("record", others.join("record")).unwrap();
        let error = find_ended_agents_of(&SessionId::new("sess_b"), &records).unwrap_err();
        assert!(may_pass(&error), "{error}");
        assert!(others.exists(), "it is left for the next start");
    }

    #[test]
    fn unreadable_output_of_an_earlier_keeper_with_the_same_pid_hides_none() {
        let temp = tempfile::tempdir().unwrap();
        let records = make_records(temp.path());
        let own = leave_output(temp.path(), &records);
        let earlier = temp
            .path()
            .join("run")
            .join(format!("{}.0.{LEFT_OUTPUT_EXTENSION}", std::process::id()));
        fs::create_dir(&earlier).unwrap();
        fs::write(earlier.join("record"), "no record").unwrap();
        let found = find_ended_agent(&own.tree, &records).unwrap();
        assert_eq!(found.unwrap().path, own.path);
        // Without another output, the unreadable one may be this agent's.
        fs::remove_dir_all(&own.path).unwrap();
        assert!(find_ended_agent(&own.tree, &records).is_err());
    }
}
