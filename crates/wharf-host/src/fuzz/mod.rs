//! Properties of the parsers that read bytes from a peer, a disk or a person: one function per target of `fuzz/`,
//! called by `cargo fuzz` and by a test alike. A function panics if its property does not hold.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use bytes::Bytes;
use wharf_core::{decode, encode};
use wharf_json::Json;

use crate::adapters::AnyManifest as Manifest;
use crate::frame::{self, FrameKind};
use crate::workspaces::WorkspaceList;

/// A frame is refused, or its ids are where the scanner says, and replacing them changes nothing else about it.
pub fn envelope(data: &[u8]) {
    let Ok(found) = frame::scan(data) else { return };
    if let Some(id) = &found.id {
        assert!(Json::parse(&data[id.clone()]).is_ok(), "the id is not a value");
    }
    if let Some(session) = &found.session {
        let text = Json::parse(&data[session.span.clone()]).ok().and_then(Json::text);
        assert_eq!(text.as_deref(), Some(&*session.value), "the session is not what stands there");
    }
    assert_eq!(found.kind == FrameKind::Notification, found.id.is_none(), "all but notifications have an id");
    let line = frame::one_line(Bytes::copy_from_slice(data));
    assert!(!line.contains(&b'\n'), "one line has no break");
    assert!(frame::scan(&line).is_ok_and(|line| line.kind == found.kind), "one line is the same frame");
    let changed = frame::with_session(data, &found, "other", Some(b"\"x\""));
    match frame::scan(&changed) {
        Ok(again) => {
            assert_eq!((again.kind, &again.method, again.update), (found.kind, &found.method, found.update));
            assert_eq!(again.session.map(|session| session.value), found.session.map(|_| "other".into()));
            assert_eq!(again.id.map(|id| &changed[id]), found.id.map(|_| &b"\"x\""[..]));
        }
        Err(error) => panic!("the frame with other ids is refused: {error}"),
    }
}

/// A record is refused, or read the same again after it was written.
pub fn event(data: &[u8]) {
    let Ok((at, event)) = decode(&Bytes::copy_from_slice(data)) else { return };
    let mut written = Vec::new();
    encode(&event, at, &mut written);
    match decode(&Bytes::from(written)) {
        Ok(again) => assert_eq!(again, (at, event)),
        Err(error) => panic!("what was written cannot be read: {error}"),
    }
}

/// A manifest is refused with a field and a reason, or each of its modes makes a command or is refused.
pub fn manifest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Its folder has its name, or little would be looked at.
    let name = text.lines().find_map(|line| line.strip_prefix("name: ")).unwrap_or("mine");
    let path = PathBuf::from("/adapters").join(name.trim()).join("AGENT-CLI.md");
    match Manifest::parse(text, &path) {
        Ok(manifest) => manifest.try_all_modes(),
        Err(error) => assert!(!error.field.is_empty() && !error.why.is_empty(), "an error without a place"),
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
