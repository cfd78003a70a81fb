//! The web page in a real browser: `cargo xtask page` tests it in headless Chromium, `cargo xtask
//! bench page` measures it, and `cargo xtask picture page` makes the pictures of the documentation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::needs::Need;
use crate::output::print_progress;
use crate::packages::install_node_packages;
use crate::process::{cargo_command, command, run_and_copy_stdout, run_checked};
use crate::repo::target_dir;
use crate::test_repeats::MAX_REPEATED_TESTS;

/// The name of these tests in `--without`.
pub(crate) const BROWSER_NAME: &str = "browser";
const SOURCES: &str = "crates/wharf-server/page_tests";
const PAGE: &str = "crates/wharf-server/page";

/// The programs that the tests of the page call.
pub(crate) const BROWSER_NEEDS: &[Need] = &[
    Need {
        command: "chromium",
        probe: &[],
        packages: &["chromium"],
        reason: "the web page is tested in it",
    },
    Need {
        command: "npm",
        probe: &[],
        packages: &["npm"],
        reason: "axe and the type checker of the web page come by it",
    },
    Need {
        command: "openssl",
        probe: &[],
        packages: &["openssl"],
        reason: "a proxy with TLS is put before the host",
    },
];

/// Runs the command `cargo xtask page [PART OF A NAME]`.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    ensure!(
        args.len() <= 1,
        "page takes a part of the names of the tests that are to run, or nothing"
    );
    run_checked(cargo_command(root).args(["build", "-p", "wharf", "--bins"]))?;
    test_page(root, args)
}

/// Checks the page's modules, and runs the tests whose names have this part. The binary has been
/// built.
pub(crate) fn test_page(root: &Path, names: &[String]) -> Result<()> {
    let work = prepare_work(root)?;
    check_modules(&work)?;
    run_checked(page_test_command(root, &work)?.args(names))
}

/// The same for all tests; each that fails is run once more, alone. Returns the names of those that
/// passed then.
pub(crate) fn test_page_repeating(root: &Path, is_strict: bool) -> Result<Vec<String>> {
    let work = prepare_work(root)?;
    check_modules(&work)?;
    let failed = run_page_tests(&mut page_test_command(root, &work)?)?;
    let names: Vec<String> = failed.iter().map(|test| test.name.clone()).collect();
    if failed.is_empty() {
        return Ok(names);
    }
    let has_walk = failed.iter().any(|test| test.has_seed);
    ensure!(
        !is_strict && !has_walk && failed.len() <= MAX_REPEATED_TESTS,
        "failed: {}",
        names.join(", ")
    );
    for name in &names {
        print_progress(&format!("once more, alone: {name}"));
        let failed = run_page_tests(page_test_command(root, &work)?.arg(name))?;
        ensure!(failed.is_empty(), "{name} failed twice");
    }
    Ok(names)
}

/// Runs tests of the page and returns those that failed. A run that did not come to its end is an
/// error.
fn run_page_tests(tests: &mut Command) -> Result<Vec<FailedPageTest>> {
    let (status, said) = run_and_copy_stdout(tests)?;
    let failed = read_page_output(&said)
        .with_context(|| format!("the tests of the page ended early: {status}"))?;
    ensure!(status.success() == failed.is_empty(), "the tests of the page: {status}");
    Ok(failed)
}

/// A test of the page that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedPageTest {
    name: String,
    /// True if it printed its random seed.
    has_seed: bool,
}

/// Returns the failed tests of a run, or `None` if it did not come to its end or ran no test. The
/// last line has their names: `7 of 8 tests of the page passed in 9.0 s; failed: a_name, another`.
fn read_page_output(text: &str) -> Option<Vec<FailedPageTest>> {
    let end = text.trim_end().lines().last()?;
    let (counts, rest) = end.split_once(" tests of the page passed in ")?;
    let (passed, count) = counts.split_once(" of ")?;
    let passed = passed.parse::<usize>().ok()?;
    let count = count.parse::<usize>().ok()?;
    let names: Vec<&str> = rest
        .split_once("; failed: ")
        .map_or_else(Vec::new, |(_, names)| names.split(", ").collect());
    if count == 0 || passed + names.len() != count {
        return None;
    }
    let mut seeded = Vec::new();
    let mut has_seed = false;
    for line in text.lines() {
        if line.starts_with("  seed ") {
            has_seed = true;
        } else if let Some(name) = line.strip_prefix("FAIL ").filter(|name| names.contains(name)) {
            seeded.extend(has_seed.then_some(name));
            has_seed = false;
        } else if line.starts_with("ok   ") {
            has_seed = false;
        }
    }
    let failed =
        |name: &str| FailedPageTest { name: name.to_owned(), has_seed: seeded.contains(&name) };
    Some(names.into_iter().map(failed).collect())
}

/// Checks the types and the format of the page's own files.
fn check_modules(work: &Path) -> Result<()> {
    let mut types = command(work.join("node_modules/.bin/tsc"));
    run_checked(types.current_dir(work).args(["-p", "."]))?;
    let mut format = command(work.join("node_modules/.bin/prettier"));
    let own_files = ["page/js", "page/sw.js", "page/app.css"];
    run_checked(
        format
            .current_dir(work)
            .args(["--log-level", "warn", "--check"])
            .args(own_files),
    )
    .context("the page's files have another format; write it: npx prettier --write")
}

fn page_test_command(root: &Path, work: &Path) -> Result<Command> {
    let mut tests = node_command(root, work, "run.mjs")?;
    tests.env("WHARF_BIN", target_dir(root)?.join("debug/wharf"));
    Ok(tests)
}

/// Measures the page with this binary. A quick run has a smaller session and a shorter flood.
pub(crate) fn measure_page(root: &Path, wharf: &Path, quick: bool) -> Result<()> {
    let work = prepare_work(root)?;
    let mut bench = node_command(root, &work, "bench.mjs")?;
    bench.env("WHARF_BIN", wharf);
    if quick {
        bench.env("WHARF_PAGE_ROWS", "5000").env("WHARF_PAGE_MINUTES", "1");
    }
    run_checked(&mut bench)
}

/// Makes the pictures in docs/images.
pub(crate) fn draw_pictures(root: &Path) -> Result<()> {
    run_checked(cargo_command(root).args(["build", "-p", "wharf", "--bins"]))?;
    let work = prepare_work(root)?;
    let mut pictures = node_command(root, &work, "pictures.mjs")?;
    run_checked(
        pictures
            .arg(root.join("docs/images"))
            .env("WHARF_BIN", target_dir(root)?.join("debug/wharf")),
    )
}

fn node_command(root: &Path, work: &Path, script: &str) -> Result<Command> {
    let mut node = command("node");
    node.current_dir(root)
        .arg(work.join(script))
        .env("WHARF_AXE", work.join("node_modules/axe-core/axe.min.js"))
        .env("WHARF_PAGE_PICTURES", target_dir(root)?.join("page-pictures"));
    Ok(node)
}

/// Copies the tests and the page to where packages can be installed beside them, and installs
/// these.
fn prepare_work(root: &Path) -> Result<PathBuf> {
    let work = target_dir(root)?.join("page-tests");
    copy_folder(&root.join(SOURCES), &work)?;
    copy_folder(&root.join(PAGE), &work.join("page"))?;
    install_node_packages(&work, checker_parts())?;
    Ok(work)
}

/// Returns the parts of the checkers: scripts, and the program for this processor, which npm takes
/// for optional.
const fn checker_parts() -> &'static [&'static str] {
    if cfg!(target_arch = "x86_64") {
        &[".bin/prettier", ".bin/tsc", "@typescript/typescript-linux-x64"]
    } else if cfg!(target_arch = "aarch64") {
        &[".bin/prettier", ".bin/tsc", "@typescript/typescript-linux-arm64"]
    } else {
        &[".bin/prettier", ".bin/tsc"]
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("listing {}", from.display()))? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_folder(&source, &target)?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
ok   reads_a_row (10 ms)
  seed 7
ok   host_killed (900 ms)
FAIL opens_a_card
Error: waited in vain; the page says:
FAIL reads_a_row
ok   said by an agent
    at file:///run.mjs:1:1
  seed 8
FAIL host_killed_amid_a_turn
AssertionError: the text differs
2 of 4 tests of the page passed in 9.1 s; failed: opens_a_card, host_killed_amid_a_turn
";

    fn failed(name: &str, has_seed: bool) -> FailedPageTest {
        FailedPageTest { name: name.to_owned(), has_seed }
    }

    #[test]
    fn failed_tests_of_the_page_are_those_of_the_last_line_with_their_seeds() {
        let expected = vec![failed("opens_a_card", false), failed("host_killed_amid_a_turn", true)];
        assert_eq!(read_page_output(OUTPUT), Some(expected));
        assert_eq!(
            read_page_output("ok   a (1 ms)\n1 of 1 tests of the page passed in 0.1 s\n"),
            Some(Vec::new())
        );
    }

    #[test]
    fn run_of_the_page_without_its_last_line_did_not_come_to_its_end() {
        let lines: Vec<&str> = OUTPUT.lines().collect();
        for count in 0..lines.len() {
            assert_eq!(read_page_output(&lines[..count].join("\n")), None, "{count} lines");
        }
        assert_eq!(
            read_page_output("0 of 0 tests of the page passed in 0.1 s"),
            None,
            "no test has this name"
        );
        assert_eq!(
            read_page_output("1 of 3 tests of the page passed in 0.1 s; failed: a"),
            None,
            "one is missing"
        );
    }
}
