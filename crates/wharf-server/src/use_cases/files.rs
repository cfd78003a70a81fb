//! Files that a prompt may name (rule 17.6).

use std::path::PathBuf;

use wharf_api::{DirectoryFileQuery, ErrorCode, FileInfo, FileKind, FileList, FileQuery};
use wharf_host::core::SessionId;
use wharf_host::{FoundFile, FoundFiles};

use super::faults::{fault_from_create_error, invalid_query, unknown_session};
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

/// Files in an answer if the caller names no limit.
const DEFAULT_FILES: usize = 20;
const MAX_FILES: usize = 100;

/// Finds files beneath the directories of a session, for a caller that may prompt there.
pub(crate) async fn find_session_files(
    app: &App,
    caller: &Caller,
    id: &str,
    query: &FileQuery,
) -> Result<FileList, Fault> {
    caller.may_work_in(app, id)?;
    let limit = check_limit(query.limit)?;
    open_session(app, caller, id).await?;
    let text = query.q.as_deref().unwrap_or_default();
    let found = app.host.find_session_files(&SessionId::new(id), text, limit).await;
    found.map(to_file_list).ok_or_else(|| unknown_session(id))
}

/// Finds files beneath a directory in which the caller could start a session.
pub(crate) async fn find_directory_files(
    app: &App,
    caller: &Caller,
    query: &DirectoryFileQuery,
) -> Result<FileList, Fault> {
    caller.may_change()?;
    if caller.identity.agent_session().is_some() {
        return Err(Fault::new(
            ErrorCode::NOT_FOR_AGENTS,
            "an agent reads its own directory itself",
        ));
    }
    let limit = check_limit(query.limit)?;
    let scope = caller.identity.directory_scope();
    let text = query.q.as_deref().unwrap_or_default();
    let found = app.host.find_files_in(scope, PathBuf::from(&query.cwd), text, limit).await;
    found.map(to_file_list).map_err(|error| fault_from_create_error(&error))
}

fn check_limit(limit: Option<usize>) -> Result<usize, Fault> {
    let limit = limit.unwrap_or(DEFAULT_FILES);
    if limit == 0 || limit > MAX_FILES {
        return Err(invalid_query(format!("limit: {limit} is not between 1 and {MAX_FILES}")));
    }
    Ok(limit)
}

fn to_file_list(found: FoundFiles) -> FileList {
    FileList {
        files: found.files.into_iter().map(to_file_info).collect(),
        partial: found.partial,
    }
}

fn to_file_info(file: FoundFile) -> FileInfo {
    let kind = if file.is_directory { FileKind::Directory } else { FileKind::File };
    FileInfo {
        path: file.path,
        absolute: file.absolute.display().to_string(),
        kind,
    }
}
