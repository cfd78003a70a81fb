//! Tests of the making of profiles. The end-to-end tests show with real agents that the kernel
//! enforces them.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::confine::judge_support;
use super::paths::list_all_but;
use super::{SandboxError, SandboxPlan, SandboxProfile, SandboxSupport, SessionRoot};

const HERE: SandboxSupport = SandboxSupport::Landlock { abi: 3 };

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["home/project", "home/state/logs", "home/other", "temp"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    (dir, root)
}

fn plan(root: &Path) -> SandboxPlan {
    SandboxPlan {
        roots: vec![SessionRoot { given: root.join("home/project"), was: None }],
        temporary: root.join("temp"),
        kept: vec![root.join("home/state")],
        ..SandboxPlan::default()
    }
}

/// Where it lets an agent write, of what is beneath `root`.
fn written(profile: &SandboxProfile, root: &Path) -> Vec<String> {
    let below = profile.write.iter().filter_map(|path| path.strip_prefix(root).ok());
    below.map(|path| path.display().to_string()).collect()
}

#[test]
fn list_without_a_hidden_path_has_its_siblings_at_every_level() {
    let (_dir, root) = place();
    let mut rest = list_all_but(&root, &[root.join("home/state")]);
    rest.sort();
    assert_eq!(rest, [root.join("home/other"), root.join("home/project"), root.join("temp")]);
    assert_eq!(list_all_but(&root.join("temp"), &[root.join("home/state")]), [root.join("temp")]);
    assert!(list_all_but(&root.join("home/state/logs"), &[root.join("home/state")]).is_empty());
}

#[test]
fn a_link_to_a_hidden_place_does_not_open_it() {
    let (_dir, root) = place();
    symlink(root.join("home/state"), root.join("home/door")).unwrap();
    let rest = list_all_but(&root, &[root.join("home/state")]);
    assert!(!rest.contains(&root.join("home/door")), "{rest:?}");
}

#[test]
fn an_agent_writes_in_its_directories_and_its_own_and_for_a_while() {
    let (_dir, root) = place();
    symlink(root.join("home/other"), root.join("home/.agent")).unwrap();
    let own =
        vec![root.join("home/.agent"), root.join("home/missing"), root.join("home/project/deep")];
    let profile = SandboxPlan { own, ..plan(&root) }.make_profile(&HERE).unwrap();
    assert_eq!(written(&profile, &root), ["home/project", "temp", "home/other"]);
    assert!(
        profile.allows_write(Path::new("/dev/null"))
            && !profile.allows_write(Path::new("/dev/sda"))
    );
    assert!(
        profile.allows_write(&root.join("home/project/a/b"))
            && !profile.allows_write(&root.join("home/projects"))
    );
    assert!(
        profile.allows_read(Path::new("/etc/hosts"))
            && !profile.allows_read(&root.join("home/state/token"))
    );
}

#[test]
fn a_place_to_write_that_holds_what_is_kept_is_refused_and_so_is_one_inside_it() {
    let (_dir, root) = place();
    for cwd in ["home", "home/state", "home/state/logs", ""] {
        let roots = vec![SessionRoot { given: root.join(cwd), was: None }];
        match (SandboxPlan { roots, ..plan(&root) }).make_profile(&HERE) {
            Err(SandboxError::Overlap { write, kept }) => {
                assert_eq!(
                    (write, kept),
                    (root.join(cwd).components().collect(), root.join("home/state"))
                );
            }
            other => panic!("{cwd}: {other:?}"),
        }
    }
    // An agent that could write its own settings would have no sandbox, even if the file does not
    // exist yet.
    let sealed = vec![root.join("home/project/config.toml")];
    let refused = SandboxPlan { sealed, ..plan(&root) }.make_profile(&HERE);
    assert!(matches!(refused, Err(SandboxError::Overlap { .. })), "{refused:?}");
    // A link to the state directory is the state directory.
    symlink(root.join("home/state"), root.join("home/door")).unwrap();
    let roots = vec![SessionRoot { given: root.join("home/door"), was: None }];
    assert!(SandboxPlan { roots, ..plan(&root) }.make_profile(&HERE).is_err());
}

#[test]
fn the_demo_agents_own_place_is_the_one_exception() {
    let (_dir, root) = place();
    let own = vec![root.join("home/state/logs")];
    let except = Some(root.join("home/state/logs"));
    assert!(SandboxPlan { own: own.clone(), ..plan(&root) }.make_profile(&HERE).is_err());
    let profile = SandboxPlan { own, except, ..plan(&root) }.make_profile(&HERE).unwrap();
    assert!(
        profile.allows_write(&root.join("home/state/logs/x"))
            && !profile.allows_read(&root.join("home/state/x"))
    );
}

#[test]
fn a_directory_that_became_a_link_does_not_come_back_as_what_it_points_to() {
    let (_dir, root) = place();
    let (given, was) = (root.join("home/project"), Some(root.join("home/project")));
    let roots = vec![SessionRoot { given: given.clone(), was }];
    let same = SandboxPlan { roots: roots.clone(), ..plan(&root) }.make_profile(&HERE).unwrap();
    assert_eq!(written(&same, &root), ["home/project", "temp"]);
    std::fs::remove_dir(&given).unwrap();
    symlink(root.join("home/other"), &given).unwrap();
    let moved = SandboxPlan { roots, ..plan(&root) }.make_profile(&HERE);
    assert!(matches!(moved, Err(SandboxError::Moved { .. })), "{moved:?}");
}

#[test]
fn a_link_that_the_agent_could_have_made_is_not_followed() {
    let (_dir, root) = place();
    symlink(root.join("home/other"), root.join("home/project/cache")).unwrap();
    symlink(root.join("home/other"), root.join("temp/cache")).unwrap();
    for own in ["home/project/cache", "temp/cache", "home/project/cache/deeper"] {
        std::fs::create_dir_all(root.join("home/other/deeper")).unwrap();
        let profile = SandboxPlan { own: vec![root.join(own)], ..plan(&root) }
            .make_profile(&HERE)
            .unwrap();
        assert_eq!(written(&profile, &root), ["home/project", "temp"], "{own}");
    }
}

#[test]
fn hidden_paths_can_be_made_readable_and_the_hosts_own_cannot() {
    let (_dir, root) = place();
    let hidden = vec![root.join("home")];
    let readable = vec![root.join("home/other")];
    let profile = SandboxPlan { hidden: hidden.clone(), readable, ..plan(&root) }
        .make_profile(&HERE)
        .unwrap();
    let readable = ["home/other/x", "home/project/x", "temp/x"]
        .map(|path| profile.allows_read(&root.join(path)));
    assert_eq!(readable, [true; 3]);
    assert!(!profile.allows_read(&root.join("home/secret")));
    for readable in ["home", "home/state", "home/state/logs"] {
        let refused = SandboxPlan {
            hidden: hidden.clone(),
            readable: vec![root.join(readable)],
            ..plan(&root)
        }
        .make_profile(&HERE);
        assert!(matches!(refused, Err(SandboxError::Readable { .. })), "{refused:?}");
    }
    // A part of the session's own directory cannot be hidden.
    let hidden = vec![root.join("home/project/secret")];
    assert!(SandboxPlan { hidden, ..plan(&root) }.make_profile(&HERE).is_err());
}

#[test]
fn a_kernel_that_cannot_do_it_is_an_error_that_says_why() {
    assert_eq!(judge_support(7, false), SandboxSupport::Landlock { abi: 7 });
    let (_dir, root) = place();
    for (abi, pretend, word) in
        [(0, false, "no Landlock"), (2, false, "Linux 6.2"), (7, true, "WHARF_WITHOUT_LANDLOCK")]
    {
        let error = plan(&root).make_profile(&judge_support(abi, pretend)).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("wharf doctor"), "{error}");
    }
}
