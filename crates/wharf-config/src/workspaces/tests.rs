//! The registry: what is kept, what is refused, which directory a spawn gets (rule 8.6).

use super::*;

const NOW: Millis = Millis(1_770_000_000_000);

struct Bench {
    dir: tempfile::TempDir,
    workspaces: Workspaces,
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let workspaces = Workspaces::of(dir.path());
    Bench { dir, workspaces }
}

impl Bench {
    /// A directory below the temporary one.
    fn dir(&self, name: &str) -> PathBuf {
        let path = self.dir.path().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn add(&self, slug: &str) -> PathBuf {
        let path = self.dir(slug);
        self.workspaces.add(slug, &path, None, NOW).unwrap();
        path
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("workspaces.json")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }
}

#[test]
fn a_workspace_is_kept_in_the_format_of_the_seed() {
    let bench = bench();
    let path = bench.dir("code");
    let added = bench.workspaces.add("code", &path, Some("Main monorepo"), NOW).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&bench.text()).unwrap();
    let at = &added.added_at;
    let entry = serde_json::json!({ "slug": "code", "path": path, "addedAt": at, "updatedAt": at, "label": "Main monorepo" });
    assert_eq!(kept, serde_json::json!({ "version": 1, "active": "code", "workspaces": [entry] }));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(bench.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_hand_edit_counts_at_once_and_what_it_added_is_kept() {
    let bench = bench();
    bench.add("a");
    let mut kept: serde_json::Value = serde_json::from_str(&bench.text()).unwrap();
    kept["x-note"] = "mine".into();
    kept["workspaces"][0]["colour"] = "red".into();
    kept["workspaces"][0]["slug"] = "renamed".into();
    kept["active"] = "renamed".into();
    std::fs::write(bench.file(), kept.to_string()).unwrap();
    assert!(bench.workspaces.list().unwrap().get("renamed").is_some());
    bench.add("b");
    let kept: serde_json::Value = serde_json::from_str(&bench.text()).unwrap();
    assert_eq!(
        (&kept["x-note"], &kept["workspaces"][0]["colour"]),
        (&"mine".into(), &"red".into())
    );
    assert_eq!(kept["active"], "renamed");
}

#[test]
fn a_hand_written_file_without_time_stamps_is_read() {
    let bench = bench();
    let path = bench.dir("a");
    std::fs::write(
        bench.file(),
        format!("{{\"version\": 1, \"workspaces\": [{{\"slug\": \"a\", \"path\": {path:?}}}]}}"),
    )
    .unwrap();
    let written = std::fs::metadata(bench.file()).unwrap().modified().unwrap();
    let written = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let written = format_timestamp(wharf_core::Millis(u64::try_from(written).unwrap()));
    let list = bench.workspaces.list().unwrap();
    let known = list.get("a").unwrap();
    assert_eq!(
        (&known.path, &known.added_at, &known.updated_at),
        (&path, &written, &written),
        "the time of the file"
    );
    bench.add("b");
    let kept: serde_json::Value = serde_json::from_str(&bench.text()).unwrap();
    assert_eq!(kept["workspaces"][0]["addedAt"], *written, "and it stays");
}

#[test]
fn the_default_bucket_can_be_named_and_has_no_directory() {
    let bench = bench();
    let (a, own) = (bench.add("a"), std::env::current_dir().unwrap());
    let place = bench.workspaces.resolve_location(Some(&a), Some("default")).unwrap();
    assert_eq!((place.cwd, &*place.bucket, place.warnings.len()), (a, "default", 0));
    let place = bench.workspaces.resolve_location(None, Some("default")).unwrap();
    assert_eq!((place.cwd, &*place.bucket, place.warnings.len()), (own, "default", 1));
    let scope = DirectoryScope::Workspace("a".into());
    assert!(
        bench.workspaces.resolve_in_scope(&scope, None, Some("default")).is_err(),
        "a token of one workspace"
    );
}

#[test]
fn refused_slug_is_quoted_with_names_for_what_cannot_be_seen() {
    let told = "a\u{200b}b\n\"c\\".parse::<Slug>().unwrap_err().to_string();
    assert!(told.starts_with("\"a[U+200B]b[U+000A]\"c\\\" is not a slug"), "{told}");
}

#[test]
fn a_damaged_file_is_named_by_line_and_column_and_left_alone() {
    let bench = bench();
    let path = bench.dir("a");
    let place = format!("\"path\": {path:?}, \"addedAt\": \"x\", \"updatedAt\": \"x\"");
    let bad = [
        ("{\n  \"version\": 1,\n  \"workspaces\": [}", "line 3, column 18"),
        (
            "{\"version\": 1,\n\"workspaces\": [{\"slug\": \"../../x\"}]}",
            "line 2, column 34: \"../../x\" is not a slug",
        ),
        (
            "{\"version\": 1, \"workspaces\": [{\"slug\": \"a\",\n\"path\": \"b\"}]}",
            "line 2, column 12: \"b\" is not an absolute path",
        ),
        (
            &format!(
                "{{\"version\": 1,\n\"workspaces\": [{{\"slug\": \"a\", {place}}},\n{{\"slug\": \"a\", {place}}}\n]}}"
            ),
            "line 4",
        ),
        (
            &format!("{{\"version\": 1,\n\"workspaces\": [{{\"slug\": \"default\", {place}}}]}}"),
            "the slug \"default\" cannot be used",
        ),
        ("{\"version\": 1, \"workspaces\": [{\"slug\": \"a\"}]}", ": path is missing;"),
        ("", "line 1, column 0: the text ends too early;"),
    ];
    for (text, expected) in bad {
        std::fs::write(bench.file(), text).unwrap();
        let message = bench.workspaces.list().unwrap_err().to_string();
        assert!(message.contains(expected), "{text}: {message}");
        assert!(bench.workspaces.add("new", &path, None, NOW).is_err());
        assert!(
            bench.workspaces.remove("a").is_err() && bench.workspaces.activate("a", NOW).is_err()
        );
        assert_eq!(bench.text(), text, "a damaged file was overwritten");
    }
}

#[test]
fn a_newer_file_is_left_alone() {
    let bench = bench();
    let text = "{\"version\": 2, \"workspaces\": \"somewhere else\"}";
    std::fs::write(bench.file(), text).unwrap();
    let message = bench.workspaces.add("a", &bench.dir("a"), None, NOW).unwrap_err().to_string();
    assert!(message.contains("version 2") && message.contains("newer Wharf"), "{message}");
    assert_eq!(bench.text(), text);
}

#[test]
fn with_a_damaged_file_only_a_bare_cwd_goes_on() {
    let bench = bench();
    let cwd = bench.dir("a");
    std::fs::write(bench.file(), "{").unwrap();
    let place = bench.workspaces.resolve_location(Some(&cwd), None).unwrap();
    assert_eq!((place.cwd, &*place.bucket, place.warnings.len()), (cwd.clone(), "default", 1));
    assert!(place.warnings[0].contains("line 1"), "{:?}", place.warnings);
    assert!(bench.workspaces.resolve_location(Some(&cwd), Some("a")).is_err());
    assert!(bench.workspaces.resolve_location(None, None).is_err());
    assert!(!bench.workspaces.allows_path(&DirectoryScope::Workspaces, &cwd));
    assert_eq!(bench.workspaces.bucket_of(&cwd), "default");
}

#[test]
fn slugs_that_are_not_names_are_refused() {
    let bench = bench();
    let path = bench.dir("a");
    let long = "a".repeat(65);
    for slug in ["", ".", "..", "../../x", "a/b", "A", "-a", "_a", "a b", "ä", "a\0", "a.b", &long]
    {
        assert!(
            matches!(bench.workspaces.add(slug, &path, None, NOW), Err(WorkspaceError::Slug(_))),
            "{slug:?}"
        );
        assert!(
            matches!(
                bench.workspaces.resolve_location(None, Some(slug)),
                Err(WorkspaceError::Unknown { .. })
            ),
            "{slug:?}"
        );
    }
    for slug in ["default", "active"] {
        assert!(
            matches!(
                bench.workspaces.add(slug, &path, None, NOW),
                Err(WorkspaceError::Reserved(_))
            ),
            "{slug}"
        );
    }
    for slug in ["a", "0", "a-b_c9", &long[..64]] {
        bench.workspaces.add(slug, &path, None, NOW).unwrap();
    }
}

#[test]
fn only_directories_that_exist_are_registered_and_only_once() {
    let bench = bench();
    let path = bench.add("a");
    for bad in [Path::new("relative"), Path::new("/no/such/dir"), &bench.file()] {
        assert!(
            matches!(bench.workspaces.add("b", bad, None, NOW), Err(WorkspaceError::Path { .. })),
            "{bad:?}"
        );
    }
    assert!(matches!(
        bench.workspaces.add("a", &path, None, NOW),
        Err(WorkspaceError::Exists { .. })
    ));
    let label = "l".repeat(1025);
    assert!(matches!(
        bench.workspaces.add("b", &path, Some(&label), NOW),
        Err(WorkspaceError::Label)
    ));
}

#[test]
fn the_directory_is_the_callers_then_the_slugs_then_the_active_one_then_the_hosts() {
    let bench = bench();
    let own = std::env::current_dir().unwrap();
    let place = bench.workspaces.resolve_location(None, None).unwrap();
    assert_eq!((place.cwd, place.warnings.len()), (own.clone(), 1));
    assert!(place.warnings[0].contains("no workspace is active"), "{:?}", place.warnings);
    let (a, b) = (bench.add("a"), bench.add("b"));
    let resolved = |cwd: Option<&Path>, slug| {
        let place = bench.workspaces.resolve_location(cwd, slug).unwrap();
        assert_eq!(place.warnings, Vec::<String>::new());
        (place.cwd, place.bucket)
    };
    assert_eq!(resolved(None, None), (a.clone(), "a".to_owned()));
    bench.workspaces.activate("b", NOW).unwrap();
    assert_eq!(resolved(None, None), (b, "b".to_owned()));
    assert_eq!(resolved(None, Some("a")), (a.clone(), "a".to_owned()));
    let elsewhere = bench.dir("elsewhere");
    assert_eq!(resolved(Some(&elsewhere), None), (elsewhere.clone(), "default".to_owned()));
    assert_eq!(resolved(Some(&elsewhere), Some("a")), (elsewhere.clone(), "a".to_owned()));
    assert!(matches!(
        bench.workspaces.resolve_location(Some(&elsewhere), Some("c")),
        Err(WorkspaceError::Unknown { .. })
    ));
    bench.workspaces.remove("b").unwrap();
    assert_eq!(bench.workspaces.list().unwrap().active, None);
    assert_eq!(bench.workspaces.resolve_location(None, None).unwrap().cwd, own);
}

#[test]
fn a_bare_directory_belongs_to_the_innermost_workspace_that_holds_it() {
    let bench = bench();
    let outer = bench.add("outer");
    let inner = bench.dir("outer/inner");
    bench.workspaces.add("inner", &inner, None, NOW).unwrap();
    let deep = bench.dir("outer/inner/deep");
    let beside = bench.dir("outer-2");
    let bucket = |path: &Path| bench.workspaces.bucket_of(path);
    assert_eq!((&*bucket(&outer), &*bucket(&inner), &*bucket(&deep)), ("outer", "inner", "inner"));
    assert_eq!((&*bucket(&outer.join("inner/../")), &*bucket(&beside)), ("outer", "default"));
    assert_eq!(bucket(Path::new("/no/such/dir")), "default");
}

#[test]
fn a_link_out_of_a_workspace_is_not_covered_and_one_into_it_is() {
    let bench = bench();
    let inside = bench.add("a");
    let outside = bench.dir("outside");
    std::os::unix::fs::symlink(&outside, inside.join("way-out")).unwrap();
    std::os::unix::fs::symlink(&inside, outside.join("way-in")).unwrap();
    let covers = |path: &Path| bench.workspaces.allows_path(&DirectoryScope::Workspaces, path);
    assert!(covers(&inside) && covers(&outside.join("way-in")));
    assert!(!covers(&inside.join("way-out")) && !covers(&outside) && !covers(&inside.join("..")));
    assert!(!covers(&inside.join("not-there")));
}

#[test]
fn caller_with_one_workspace_sees_no_other_and_no_damage_elsewhere() {
    let bench = bench();
    let (secret, own) = (bench.add("secret"), bench.add("own"));
    let inner = bench.dir("own/inner");
    bench.workspaces.add("inner", &inner, None, NOW).unwrap();
    let scope = DirectoryScope::Workspace("own".into());
    let place = |cwd: Option<&Path>, slug| bench.workspaces.resolve_in_scope(&scope, cwd, slug);
    let expected = |cwd: &PathBuf| SpawnLocation {
        cwd: cwd.clone(),
        bucket: "own".to_owned(),
        warnings: Vec::new(),
    };
    assert_eq!(place(None, None).unwrap(), expected(&own), "not the active one");
    assert_eq!(
        place(Some(&inner), Some("own")).unwrap(),
        expected(&inner),
        "not kept under the inner one"
    );
    let refused = place(None, Some("inner")).unwrap_err().to_string();
    assert!(refused.contains("known: own") && !refused.contains("secret"), "{refused}");
    let allows = |path: &Path| bench.workspaces.allows_path(&scope, path);
    assert!(allows(&own) && allows(&inner) && !allows(&secret) && !allows(&own.join("..")));
    let known = bench.workspaces.list_in_scope(&scope).unwrap();
    assert_eq!((known.active, known.workspaces.len()), (None, 1));

    std::fs::write(bench.file(), bench.text().replace("\"inner\"", "\"secret\"")).unwrap();
    assert!(bench.workspaces.list().unwrap_err().to_string().contains("secret"));
    assert!(
        !bench
            .workspaces
            .list_in_scope(&scope)
            .unwrap_err()
            .to_string()
            .contains("secret")
    );
    assert!(!place(None, None).unwrap_err().to_string().contains("secret"));
    assert!(!allows(&own));
}
