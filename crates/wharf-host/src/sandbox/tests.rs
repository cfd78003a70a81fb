//! The profile; that the kernel enforces it is shown end to end, with real agents.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::paths::all_but;
use super::{Profile, SandboxError};

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["home/work", "home/state/logs", "home/other", "temp"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    (dir, root)
}

#[test]
fn all_but_a_hidden_place_is_what_is_beside_it_at_every_level() {
    let (_dir, root) = place();
    let mut rest = all_but(&root, &[root.join("home/state")]);
    rest.sort();
    assert_eq!(rest, [root.join("home/other"), root.join("home/work"), root.join("temp")]);
    assert_eq!(all_but(&root.join("temp"), &[root.join("home/state")]), [root.join("temp")]);
    assert!(all_but(&root.join("home/state/logs"), &[root.join("home/state")]).is_empty());
}

#[test]
fn a_link_to_a_hidden_place_does_not_open_it() {
    let (_dir, root) = place();
    symlink(root.join("home/state"), root.join("home/door")).unwrap();
    symlink(root.join("home"), root.join("temp/up")).unwrap();
    let rest = all_but(&root, &[root.join("home/state")]);
    assert!(!rest.contains(&root.join("home/door")), "{rest:?}");
}

#[test]
fn a_place_to_write_that_holds_a_hidden_one_is_refused() {
    let (_dir, root) = place();
    let profile = Profile { write: vec![root.join("home")], hidden: vec![root.join("home/state")] };
    match profile.resolved() {
        Err(SandboxError::Overlap { write, .. }) => assert_eq!(write, root.join("home")),
        Err(SandboxError::Unsupported(_)) => {}
        Ok(profile) => panic!("{profile:?}"),
    }
}

#[test]
fn what_wharf_writes_for_an_agent_obeys_the_same_profile() {
    let profile = Profile { write: vec!["/w".into()], hidden: vec!["/s".into(), "/w/secret".into()] };
    assert!(profile.allows_write(Path::new("/w/a/b")));
    assert!(!profile.allows_write(Path::new("/w/secret/x")));
    assert!(!profile.allows_write(Path::new("/wide")));
    assert!(profile.allows_read(Path::new("/etc/hosts")));
    assert!(!profile.allows_read(Path::new("/s/token")));
}
