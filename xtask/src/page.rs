//! The web page in a real browser: `cargo xtask page` tests it in headless Chromium, `cargo xtask bench page` measures it, and
//! `cargo xtask picture page` makes the pictures of the documentation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::needs::Need;
use crate::output::print_progress;
use crate::process::{cargo_command, command, run_and_copy_stdout, run_checked};
use crate::repo::target_dir;
use crate::test_repeats::MAX_REPEATED_TESTS;

/// The name of these tests in `--without`.
pub(crate) const BROWSER_NAME: &str = "browser";
const SOURCES: &str = "crates/wharf-server/page_tests";
const PAGE: &str = "crates/wharf-server/page";

/// The programs that the tests of the page call.
pub(crate) const BROWSER_NEEDS: &[Need] = &[
    Need { command: "chromium", probe: &[], packages: &["chromium"], reason: "the web page is tested in it" },
    Need {
        command: "npm",
        probe: &[],
        packages: &["npm"],
        reason: "axe and the type checker of the web page come by it",
    },
    Need { command: "openssl", probe: &[], packages: &["openssl"], reason: "a proxy with TLS is put before the host" },
];

/// Runs the command `cargo xtask page [PART OF A NAME]`.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    ensure!(args.len() <= 1, "page takes a part of the names of the tests that are to run, or nothing");
    run_checked(cargo_command(root).args(["build", "-p", "wharf", "--bins"]))?;
    test_page(root, args)
}

/// Checks the types of the page's modules, and runs the tests whose names have this part. The binary has been built.
pub(crate) fn test_page(root: &Path, names: &[String]) -> Result<()> {
    let work = prepare_work(root)?;
    run_checked(&mut type_check_command(&work))?;
    run_checked(page_test_command(root, &work)?.args(names))
}

/// The same for all tests; each that fails is run once more, alone. Returns the names of those that passed then.
pub(crate) fn test_page_repeating(root: &Path, is_strict: bool) -> Result<Vec<String>> {
    let work = prepare_work(root)?;
    run_checked(&mut type_check_command(&work))?;
    let mut tests = page_test_command(root, &work)?;
    let (status, said) = run_and_copy_stdout(&mut tests)?;
    let failed: Vec<String> = said.lines().filter_map(|line| line.strip_prefix("FAIL ")).map(str::to_owned).collect();
    if status.success() {
        return Ok(Vec::new());
    }
    ensure!(!is_strict && !failed.is_empty() && failed.len() <= MAX_REPEATED_TESTS, "failed: {}", failed.join(", "));
    for name in &failed {
        print_progress(&format!("once more, alone: {name}"));
        run_checked(page_test_command(root, &work)?.arg(name)).with_context(|| format!("{name} failed twice"))?;
    }
    Ok(failed)
}

fn type_check_command(work: &Path) -> Command {
    let mut check = command(work.join("node_modules/.bin/tsc"));
    check.current_dir(work).args(["-p", "."]);
    check
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
    run_checked(pictures.arg(root.join("docs/images")).env("WHARF_BIN", target_dir(root)?.join("debug/wharf")))
}

fn node_command(root: &Path, work: &Path, script: &str) -> Result<Command> {
    let mut node = command("node");
    node.current_dir(root)
        .arg(work.join(script))
        .env("WHARF_AXE", work.join("node_modules/axe-core/axe.min.js"))
        .env("WHARF_PAGE_PICTURES", target_dir(root)?.join("page-pictures"));
    Ok(node)
}

/// Copies the tests and the page to where packages can be installed beside them, and installs these.
fn prepare_work(root: &Path) -> Result<PathBuf> {
    let work = target_dir(root)?.join("page-tests");
    copy_folder(&root.join(SOURCES), &work)?;
    copy_folder(&root.join(PAGE), &work.join("page"))?;
    let (list, stamp) = (work.join("package-lock.json"), work.join("node_modules/installed.json"));
    if fs::read(&stamp).ok() != fs::read(&list).ok() {
        let flags = ["ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"];
        run_checked(command("npm").current_dir(&work).args(flags))?;
        fs::copy(&list, &stamp)?;
    }
    Ok(work)
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
