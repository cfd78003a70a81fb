//! Searches in real directories.

use std::os::unix::fs::symlink;

use tempfile::TempDir;
use wharf_testkit::pauses::PauseWatch;

use super::*;

fn tree(files: &[(&str, &str)]) -> (TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    (temp, root)
}

/// Searches without a limit of time.
fn search(roots: &[&Path], query: &str, limit: usize) -> FoundFiles {
    let roots = roots.iter().map(|root| root.to_path_buf()).collect();
    let search = Search::new(
        roots,
        FileNameQuery::new(query),
        limit,
        Instant::now() + Duration::from_secs(60),
    );
    search.run();
    search.take_found(false)
}

fn paths(found: &FoundFiles) -> Vec<&str> {
    found.files.iter().map(|file| file.path.as_str()).collect()
}

#[test]
fn best_matches_come_first() {
    let (_temp, root) = tree(&[
        ("src/main.rs", ""),
        ("src/domain.rs", ""),
        ("docs/main/notes.md", ""),
        ("src/mxaxixn.rs", ""),
        ("z", ""),
    ]);
    let found = search(&[&root], "MAIN", 20);
    assert_eq!(
        paths(&found),
        ["docs/main", "src/main.rs", "src/domain.rs", "docs/main/notes.md", "src/mxaxixn.rs"]
    );
    assert!(found.files[0].is_directory && !found.partial);
    assert_eq!(found.files[1].absolute, root.join("src/main.rs"));
    assert_eq!(paths(&search(&[&root], "src/m", 1)), ["src/main.rs"]);
    assert_eq!(paths(&search(&[&root], "", 2)), ["z", "src"], "shallow and short paths first");
    assert!(search(&[&root], "nothing", 20).files.is_empty());
}

#[test]
fn ignored_files_and_version_control_are_left_out() {
    let (_temp, root) = tree(&[
        (".gitignore", "target/\n*.log\n!keep.log\n"),
        (".git/config.rs", ""),
        ("target/a.rs", ""),
        ("a.log", ""),
        ("keep.log", ""),
        ("sub/.gitignore", "/own.rs\n"),
        ("sub/own.rs", ""),
        ("sub/deep/own.rs", ""),
        ("sub/.ignore", "secret.rs"),
        ("sub/secret.rs", ""),
    ]);
    assert_eq!(paths(&search(&[&root], ".rs", 20)), ["sub/deep/own.rs"]);
    assert_eq!(paths(&search(&[&root], ".log", 20)), ["keep.log"]);
}

#[test]
fn rules_above_the_root_count_up_to_the_repository() {
    let (_temp, root) = tree(&[
        ("outer/.gitignore", "*.rs"),
        ("outer/repo/.git/info/exclude", "excluded.rs"),
        ("outer/repo/.gitignore", "/sub/gone.rs"),
        ("outer/repo/sub/gone.rs", ""),
        ("outer/repo/sub/excluded.rs", ""),
        ("outer/repo/sub/there.rs", ""),
    ]);
    assert_eq!(paths(&search(&[&root.join("outer/repo/sub")], ".rs", 20)), ["there.rs"]);
}

#[test]
fn links_do_not_lead_out_of_the_roots() {
    let (_other, outside) = tree(&[("secret.rs", ""), ("dir/secret2.rs", "")]);
    let (_temp, root) = tree(&[("inside.rs", "")]);
    symlink(outside.join("secret.rs"), root.join("secret-link.rs")).unwrap();
    symlink(outside.join("dir"), root.join("secret-dir")).unwrap();
    symlink(root.join("inside.rs"), root.join("inside-link.rs")).unwrap();
    symlink(&root, root.join("loop")).unwrap();
    assert_eq!(paths(&search(&[&root], "secret", 20)), Vec::<&str>::new());
    assert_eq!(paths(&search(&[&root], "inside", 20)), ["inside.rs", "inside-link.rs"]);
    let both = search(&[&root, &outside], "secret-link", 20);
    assert_eq!(paths(&both), ["secret-link.rs"], "it leads to a file of another root");
}

#[test]
fn other_roots_have_absolute_paths() {
    let (_temp, root) = tree(&[("a.rs", "")]);
    let (_other, other) = tree(&[("b.rs", "")]);
    let found = search(&[&root, &other], ".rs", 20);
    assert_eq!(paths(&found), ["a.rs", other.join("b.rs").to_str().unwrap()]);
}

#[test]
fn search_that_is_out_of_time_says_so() {
    let (_temp, root) = tree(&[("a.rs", "")]);
    let search = Search::new(vec![root], FileNameQuery::new(""), 20, Instant::now());
    search.run();
    assert!(search.take_found(false).partial);
}

#[tokio::test]
async fn large_tree_is_answered_in_time_with_a_part() {
    let (_temp, root) = tree(&[]);
    for at in 0..40 {
        let directory = root.join(format!("d{at}"));
        std::fs::create_dir(&directory).unwrap();
        for file in 0..500 {
            std::fs::write(directory.join(format!("f{file}")), "").unwrap();
        }
    }
    let pauses = PauseWatch::start();
    let found = find_files(vec![root], "f1", 20).await;
    // The bound is 50 ms; a busy machine may need longer to wake the task.
    pauses.expect_within(Duration::from_secs(10), "the search").unwrap();
    assert!(found.partial || found.files.len() == 20, "{found:?}");
}
