//! Manifests in a directory: one folder each, `NAME/AGENT-CLI.md`.

use std::path::Path;

use super::error::ManifestError;
use super::manifest::{MAX_MANIFEST_BYTES, Manifest};

/// The file in each folder.
pub(crate) const MANIFEST_FILE: &str = "AGENT-CLI.md";
/// Folders that are looked into.
const MAX_FOLDERS: usize = 1_000;

/// A manifest, or the folder whose manifest cannot be used.
#[derive(Clone, Debug)]
pub(super) enum FoundManifest {
    Good(Box<Manifest>),
    Bad { folder: String, error: ManifestError },
}

/// Returns all manifests of a directory, sorted by the name of their folder. Returns an empty list
/// if the directory does not exist.
pub(super) fn read_manifests(dir: &Path) -> Vec<FoundManifest> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut folders: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    folders.sort();
    folders.truncate(MAX_FOLDERS);
    folders.into_iter().filter_map(|folder| read_folder(dir, folder)).collect()
}

fn read_folder(dir: &Path, folder: String) -> Option<FoundManifest> {
    let path = dir.join(&folder).join(MANIFEST_FILE);
    let size = path.metadata().ok()?.len();
    let bad = |why: String| ManifestError { path: path.clone(), field: "file".to_owned(), why };
    let read = if size > MAX_MANIFEST_BYTES {
        Err(bad(format!("is over {MAX_MANIFEST_BYTES} bytes long")))
    } else {
        let text = std::fs::read_to_string(&path).map_err(|error| bad(error.to_string()));
        text.and_then(|text| Manifest::parse(&text, &path))
    };
    Some(match read {
        Ok(manifest) => FoundManifest::Good(Box::new(manifest)),
        Err(error) => FoundManifest::Bad { folder, error },
    })
}
