//! Files that callers send with prompts. They are kept in the session's own folder and are deleted
//! with it (rule 17.9).

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use wharf_config::write_private;
use wharf_core::SessionId;

use super::Host;
use crate::ids::random_text;

/// Uploads of one session.
const MAX_UPLOADS: usize = 200;
/// The bytes of all uploads of one session.
const MAX_UPLOAD_BYTES: u64 = 256 << 20;
const ID_PREFIX: &str = "upl_";
/// 26 characters of five bits: nothing to guess.
const ID_CHARS: usize = 26;

/// Held while a quota is checked and used up.
static STORING: Mutex<()> = Mutex::new(());

/// A file that a caller sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Upload {
    pub id: String,
    pub name: String,
    pub mime_type: String,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error("no upload {0:?} in this session")]
    Unknown(String),
    #[error(
        "the session has {limit} of uploads, which is as much as it may have; start a new session"
    )]
    Quota { limit: String },
    #[error("the disk is full")]
    DiskFull,
    #[error("the upload cannot be kept: {0}")]
    Io(#[source] std::io::Error),
}

impl From<std::io::Error> for UploadError {
    fn from(error: std::io::Error) -> Self {
        let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        if is_full { Self::DiskFull } else { Self::Io(error) }
    }
}

impl Host {
    /// Keeps a file for a prompt of this session. Returns `None` if there is no such session.
    pub async fn store_upload(
        &self,
        session: &SessionId,
        name: String,
        mime_type: String,
        data: bytes::Bytes,
    ) -> Option<Result<Upload, UploadError>> {
        let folder = self.uploads_folder(session)?;
        let stored =
            tokio::task::spawn_blocking(move || store(&folder, name, mime_type, &data)).await;
        Some(stored.unwrap_or_else(|error| Err(UploadError::Io(std::io::Error::other(error)))))
    }

    /// Returns a file that was kept, with its content and its path. Returns `None` if there is no
    /// such session.
    pub async fn read_upload(
        &self,
        session: &SessionId,
        id: &str,
    ) -> Option<Result<(Upload, PathBuf, Vec<u8>), UploadError>> {
        let folder = self.uploads_folder(session)?;
        let id = id.to_owned();
        let read = tokio::task::spawn_blocking(move || read(&folder, &id)).await;
        Some(read.unwrap_or_else(|error| Err(UploadError::Io(std::io::Error::other(error)))))
    }

    fn uploads_folder(&self, session: &SessionId) -> Option<PathBuf> {
        let inner = Arc::clone(&self.inner);
        Some(inner.session_dir(inner.registry.get(session)?.log_id()).join("uploads"))
    }
}

fn store(
    folder: &Path,
    name: String,
    mime_type: String,
    data: &[u8],
) -> Result<Upload, UploadError> {
    let _one = STORING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut count = 0;
    let mut bytes = data.len() as u64;
    match std::fs::read_dir(folder) {
        Ok(entries) => {
            for entry in entries.filter_map(Result::ok) {
                count += 1;
                bytes += entry.metadata()?.len();
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    // Each upload has two files.
    if count / 2 >= MAX_UPLOADS {
        return Err(UploadError::Quota { limit: format!("{MAX_UPLOADS} files") });
    }
    if bytes > MAX_UPLOAD_BYTES {
        return Err(UploadError::Quota { limit: format!("{} MiB", MAX_UPLOAD_BYTES >> 20) });
    }
    // The folder of a session that was deleted meanwhile must not come back.
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    let id = format!("{ID_PREFIX}{}", random_text(ID_CHARS));
    let upload = Upload { id, name, mime_type, bytes: data.len() as u64 };
    let about = serde_json::to_vec(&upload).map_err(std::io::Error::other)?;
    write_private(&folder.join(format!("{}.data", upload.id)), data)?;
    write_private(&folder.join(format!("{}.json", upload.id)), &about)?;
    Ok(upload)
}

fn read(folder: &Path, id: &str) -> Result<(Upload, PathBuf, Vec<u8>), UploadError> {
    let unknown = || UploadError::Unknown(id.chars().take(100).collect());
    let random = id.strip_prefix(ID_PREFIX).ok_or_else(unknown)?;
    if random.is_empty() || !random.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(unknown());
    }
    let open = |path: &Path| match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(unknown()),
        read => read.map_err(UploadError::from),
    };
    let about = open(&folder.join(format!("{id}.json")))?;
    let upload = wharf_json::read_own(&about)
        .map_err(|error| UploadError::Io(std::io::Error::other(error)))?;
    let path = folder.join(format!("{id}.data"));
    let data = open(&path)?;
    Ok((upload, path, data))
}
