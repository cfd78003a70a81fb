//! Properties of the parsers that read bytes from a disk or a person: one function per target of
//! `fuzz/`, called by `cargo fuzz` and by a test alike. A function panics if its property does not
//! hold. Those of frames are in `wharf_acp::fuzz`.

use std::path::PathBuf;

use crate::adapters::AnyManifest as Manifest;
use crate::workspaces::WorkspaceList;

/// A manifest is refused with a field and a reason, or each of its modes makes a command or is
/// refused.
pub fn manifest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Its folder has its name, or little would be looked at.
    let name = text.lines().find_map(|line| line.strip_prefix("name: ")).unwrap_or("mine");
    let path = PathBuf::from("/adapters").join(name.trim()).join("AGENT-CLI.md");
    match Manifest::parse(text, &path) {
        Ok(manifest) => manifest.try_all_modes(),
        Err(error) => {
            assert!(!error.field.is_empty() && !error.why.is_empty(), "an error without a place")
        }
    }
}

/// A registry is refused, or read the same again after it was written.
pub fn workspaces(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let path = PathBuf::from("/state/workspaces.json");
    let Ok(list) = WorkspaceList::parse(text, &path) else { return };
    match serde_json::to_string_pretty(&list).map(|written| WorkspaceList::parse(&written, &path)) {
        Ok(Ok(again)) => assert_eq!(again, list),
        other => panic!("what was written cannot be read: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use wharf_testkit::fuzzing::run_fuzz_target;

    #[test]
    fn any_manifest_is_refused_with_a_reason_or_makes_commands() {
        run_fuzz_target("manifest", super::manifest).unwrap();
    }

    #[test]
    fn any_registry_is_refused_or_read_as_it_was_written() {
        run_fuzz_target("workspaces", super::workspaces).unwrap();
    }
}
