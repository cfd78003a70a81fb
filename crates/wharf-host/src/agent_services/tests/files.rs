//! Reading and writing beneath the roots, and the ways out that must be shut.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::super::{Roots, ServiceError, files};
use crate::sandbox::SandboxProfile;

const MAX: usize = 1 << 20;

/// `inside` is the root; `outside` is its neighbour, with a secret in it.
struct Tree {
    _temp: tempfile::TempDir,
    inside: PathBuf,
    outside: PathBuf,
    roots: Roots,
}

fn tree() -> Tree {
    let temp = tempfile::tempdir().unwrap();
    let inside = temp.path().join("inside");
    let outside = temp.path().join("outside");
    fs::create_dir_all(inside.join("deep/er")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(inside.join("plain"), "one\ntwo\nthree\n").unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    let roots = Roots::new(inside.clone(), Vec::new());
    Tree { _temp: temp, inside, outside, roots }
}

impl Tree {
    fn read(&self, path: impl AsRef<Path>) -> Result<String, ServiceError> {
        files::read_text(&self.roots, &self.inside.join(path), None, None, MAX)
    }

    fn write(&self, path: impl AsRef<Path>, content: &str) -> Result<(), ServiceError> {
        files::write_text(&self.roots, &self.inside.join(path), content)
    }

    fn link(&self, target: impl AsRef<Path>, at: &str) {
        symlink(target, self.inside.join(at)).unwrap();
    }

    /// Neither readable nor writable, and the text says why.
    fn refuses(&self, path: &str) {
        for error in [self.read(path).unwrap_err(), self.write(path, "x").unwrap_err()] {
            assert!(matches!(error, ServiceError::Outside { .. }), "{path}: {error:?}");
            assert!(error.to_string().contains("outside of the session's directories"), "{error}");
            assert_eq!(error.code(), -32602);
        }
    }
}

impl Drop for Tree {
    /// Checks that the test changed nothing outside of the session's directories.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let names: Vec<_> = fs::read_dir(&self.outside)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert_eq!(names, ["secret"]);
            assert_eq!(fs::read_to_string(self.outside.join("secret")).unwrap(), "secret");
        }
    }
}

#[test]
fn paths_outside_are_refused() {
    let tree = tree();
    tree.refuses("/etc/passwd");
    tree.refuses("../outside/secret");
    tree.refuses("deep/../../outside/secret");
    tree.refuses("/");
    // A name that only begins like the root.
    tree.refuses(&format!("{}side", tree.inside.display()));
    let relative = files::read_text(&tree.roots, Path::new("plain"), None, None, MAX).unwrap_err();
    assert_eq!(relative.to_string(), "plain is not an absolute path");
}

#[test]
fn symlinks_do_not_lead_outside() {
    let tree = tree();
    tree.link("../outside/secret", "relative");
    tree.link(tree.outside.join("secret"), "absolute");
    tree.link("../outside", "folder");
    tree.link("../../../outside", "deep/er/far");
    tree.link("/proc/self/root", "proc");
    tree.link("/proc/self/cwd", "cwd");
    tree.link("absolute", "chain");
    tree.link("..", "up");
    tree.link(tree.outside.join("new"), "dangling");
    for path in [
        "relative",
        "absolute",
        "folder/secret",
        "deep/er/far/secret",
        "chain",
        "up/outside/secret",
    ] {
        tree.refuses(path);
    }
    tree.refuses("dangling");
    tree.refuses("folder/new/file");
    tree.refuses("cwd/Cargo.toml");
    // Even when the way round ends inside: it is not ours to follow.
    tree.refuses(&format!("proc{}", tree.inside.join("plain").display()));
}

#[test]
fn symlinks_within_the_roots_work() {
    let tree = tree();
    tree.link("plain", "relative");
    tree.link(tree.inside.join("plain"), "absolute");
    tree.link("../../plain", "deep/er/up");
    tree.link("deep", "folder");
    tree.link(&tree.inside, "whole");
    // Out of the root and in again.
    tree.link("../inside/plain", "round");
    for path in [
        "relative",
        "absolute",
        "deep/er/up",
        "folder/er/up",
        "whole/whole/plain",
        "round",
        "deep/../plain",
    ] {
        assert_eq!(tree.read(path).unwrap(), "one\ntwo\nthree\n", "{path}");
    }
    tree.link("b", "a");
    tree.link("a", "b");
    assert!(
        tree.read("a")
            .unwrap_err()
            .to_string()
            .ends_with("goes through too many symlinks")
    );
}

#[test]
fn other_roots_are_reached_and_a_root_may_be_a_symlink() {
    let tree = tree();
    let other = tree.inside.with_file_name("other");
    let alias = tree.inside.with_file_name("alias");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), "other").unwrap();
    symlink(&other, &alias).unwrap();
    tree.link("../other/file", "relative");
    tree.link(alias.join("file"), "absolute");
    let roots = Roots::new(tree.inside.clone(), vec![alias.clone()]);
    for path in [
        alias.join("file"),
        other.join("file"),
        tree.inside.join("relative"),
        tree.inside.join("absolute"),
    ] {
        assert_eq!(
            files::read_text(&roots, &path, None, None, MAX).unwrap(),
            "other",
            "{}",
            path.display()
        );
    }
    // The root is what it was at the start: nobody can turn it round later.
    fs::remove_file(other.join("file")).unwrap();
    fs::remove_dir(&other).unwrap();
    symlink(&tree.outside, &other).unwrap();
    assert!(files::read_text(&roots, &alias.join("secret"), None, None, MAX).is_err());
}

#[test]
fn a_tree_that_changes_all_the_time_never_lets_anyone_out() {
    let tree = tree();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let spot = tree.inside.join("spot");
    fs::create_dir(tree.inside.join("good")).unwrap();
    fs::write(tree.inside.join("good/secret"), "harmless").unwrap();
    tree.link("../outside", "bad");
    fs::rename(tree.inside.join("good"), &spot).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fs::rename(&spot, tree.inside.join("good")).unwrap();
                fs::rename(tree.inside.join("bad"), &spot).unwrap();
                fs::rename(&spot, tree.inside.join("bad")).unwrap();
                fs::rename(tree.inside.join("good"), &spot).unwrap();
            }
        });
        for _ in 0..20_000 {
            if let Ok(text) = tree.read("spot/secret") {
                assert_eq!(text, "harmless");
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn lines_are_counted_from_one() {
    let tree = tree();
    let read = |line, limit| {
        files::read_text(&tree.roots, &tree.inside.join("plain"), line, limit, MAX).unwrap()
    };
    assert_eq!(read(None, None), "one\ntwo\nthree\n");
    assert_eq!(read(Some(0), Some(1)), "one\n");
    assert_eq!(read(Some(1), Some(1)), "one\n");
    assert_eq!(read(Some(2), None), "two\nthree\n");
    assert_eq!(read(Some(2), Some(1)), "two\n");
    assert_eq!(read(None, Some(2)), "one\ntwo\n");
    assert_eq!(read(Some(3), Some(u32::MAX)), "three\n");
    assert_eq!(read(Some(9), None), "");
    assert_eq!(read(None, Some(0)), "");
    fs::write(tree.inside.join("plain"), "no end\r\nlast").unwrap();
    assert_eq!(read(Some(1), Some(1)), "no end\r\n");
    assert_eq!(read(Some(2), Some(5)), "last");
}

#[test]
fn a_large_file_is_read_in_parts_only() {
    let tree = tree();
    let line = format!("{}\n", "x".repeat(99));
    fs::write(tree.inside.join("large"), line.repeat(2_000)).unwrap();
    let read = |line, limit| {
        files::read_text(&tree.roots, &tree.inside.join("large"), line, limit, 10_000)
    };
    let error = read(None, None).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("large is larger than 10000 bytes; read a part of it with line and limit")
    );
    assert_eq!(error.code(), -32602);
    assert!(read(Some(5), None).is_err());
    assert!(read(Some(1), Some(101)).is_err());
    assert_eq!(read(Some(1_999), Some(100)).unwrap().len(), 200);
    // A sparse terabyte with no line in reach is given up soon.
    fs::File::create(tree.inside.join("huge")).unwrap().set_len(1 << 40).unwrap();
    assert!(
        files::read_text(&tree.roots, &tree.inside.join("huge"), Some(2), Some(1), 10_000).is_err()
    );
}

#[test]
fn only_regular_text_files_are_read_and_written() {
    let tree = tree();
    fs::write(tree.inside.join("binary"), b"\xff\xfe\0").unwrap();
    assert!(
        tree.read("binary")
            .unwrap_err()
            .to_string()
            .ends_with("binary is not UTF-8 text")
    );
    let _socket = std::os::unix::net::UnixListener::bind(tree.inside.join("socket")).unwrap();
    for (path, why) in
        [("deep", "is a directory"), ("", "is a directory"), ("socket", "is not a regular file")]
    {
        for error in [tree.read(path).unwrap_err(), tree.write(path, "x").unwrap_err()] {
            assert!(error.to_string().ends_with(why), "{error}");
        }
    }
    assert!(tree.read("plain/below").is_err());
    let missing = tree.read("deep/not here").unwrap_err();
    assert_eq!(missing.code(), -32002);
    let uri = missing.data().unwrap()["uri"].as_str().unwrap().to_owned();
    assert!(uri.starts_with("file:///") && uri.ends_with("/inside/deep/not%20here"), "{uri}");
    assert_eq!(tree.read("none/at/all").unwrap_err().code(), -32002);
}

#[test]
fn a_fifo_does_not_hang_anyone() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let tree = tree();
    mknodat(CWD, tree.inside.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    for error in [tree.read("fifo").unwrap_err(), tree.write("fifo", "x").unwrap_err()] {
        assert!(error.to_string().ends_with("fifo is not a regular file"), "{error}");
    }
}

#[test]
fn writing_makes_files_and_their_directories() {
    let tree = tree();
    tree.write("new", "1").unwrap();
    tree.write("a/b/c/new", "2").unwrap();
    assert_eq!(tree.read("new").unwrap(), "1");
    assert_eq!(tree.read("a/b/c/new").unwrap(), "2");
    tree.link("a/b/later", "dangling");
    tree.write("dangling", "3").unwrap();
    assert_eq!(tree.read("a/b/later").unwrap(), "3");
}

#[test]
fn writing_replaces_whole_files_and_keeps_mode_and_links() {
    let tree = tree();
    let target = tree.inside.join("deep/script");
    fs::write(&target, "long old content").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o751)).unwrap();
    tree.link("deep/script", "script");
    let old = fs::File::open(&target).unwrap();
    tree.write("script", "new").unwrap();
    assert!(tree.inside.join("script").is_symlink());
    let found = fs::symlink_metadata(&target).unwrap();
    assert!(found.is_file());
    assert_eq!(found.mode() & 0o777, 0o751);
    assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    // A reader that was there before sees the old text to its end.
    assert_eq!(std::io::read_to_string(old).unwrap(), "long old content");
    let names = fs::read_dir(tree.inside.join("deep")).unwrap().count();
    assert_eq!(names, 2, "no draft is left behind");
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced() {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let tree = tree();
    let path = tree.inside.join("plain");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let error = tree.write("plain", "x").unwrap_err();
    assert!(error.to_string().starts_with("cannot write "), "{error}");
    assert_eq!(error.code(), -32603);
}

#[test]
fn file_service_obeys_the_agents_sandbox() {
    let temp = tempfile::tempdir().unwrap();
    let [inside, outside] =
        ["inside", "outside"].map(|name| temp.path().canonicalize().unwrap().join(name));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    fs::write(outside.join("open"), "open").unwrap();
    symlink(outside.join("secret"), inside.join("door")).unwrap();
    let sandbox = SandboxProfile {
        write: vec![inside.clone()],
        hidden: vec![outside.join("secret")],
        ..SandboxProfile::default()
    };
    let roots = Roots::new(inside.clone(), vec![outside.clone()]).with_sandbox(Some(sandbox));
    let read = |path: PathBuf| files::read_text(&roots, &path, None, None, MAX);
    assert_eq!(read(outside.join("open")).unwrap(), "open");
    for path in [outside.join("secret"), inside.join("door")] {
        let error = read(path).unwrap_err();
        assert!(matches!(error, ServiceError::Confined(_)) && error.code() == -32602, "{error:?}");
    }
    for path in [outside.join("open"), outside.join("new/file"), inside.join("door")] {
        let error = files::write_text(&roots, &path, "x").unwrap_err();
        assert!(matches!(error, ServiceError::Confined(_)), "{error:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("open")).unwrap(), "open");
    assert!(!outside.join("new").exists(), "not even the directory");
    files::write_text(&roots, &inside.join("new/file"), "x").unwrap();
}
