//! Runs tests, and repeats each failed one once, alone, since other work on the machine may have
//! failed it. Random walks are never repeated: the repeat would make other choices, so that it
//! proves nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::output::{print_error, print_progress};
use crate::process::{
    capture_stdout, cargo_command, describe_command, run_and_copy_stdout, run_command,
};
use crate::repo::target_dir;

/// With more failed tests the change is at fault and not the machine.
pub(crate) const MAX_REPEATED_TESTS: usize = 10;
/// The exit code of nextest when tests have failed. Others stand for builds that failed, and the
/// like.
const NEXTEST_TESTS_FAILED: i32 = 100;
/// The exit code of `cargo test` when tests have failed, and when something else went wrong too.
const CARGO_TESTS_FAILED: i32 = 101;
/// Parts of the names of tests that make random choices.
const WALK_NAMES: [&str; 5] = ["walk", "random", "fuzz", "propert", "soak"];

/// Does the work, and does it again if it fails. Returns its name if only the second try succeeded.
pub(crate) fn repeat_once(
    is_strict: bool,
    name: &str,
    work: impl Fn() -> Result<()>,
) -> Result<Vec<String>> {
    let Err(error) = work() else { return Ok(Vec::new()) };
    if is_strict {
        return Err(error);
    }
    print_error(&format!("{error:#}"));
    print_progress(&format!("once more, alone: {name}"));
    work()?;
    Ok(vec![name.to_owned()])
}

/// The program that runs tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestRunner {
    Nextest,
    Cargo,
}

/// Runs tests with the runner of this machine.
#[derive(Debug)]
pub(crate) struct RepeatingRunner<'a> {
    root: &'a Path,
    runner: TestRunner,
    /// True if no test is repeated.
    is_strict: bool,
}

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedTest {
    name: String,
    /// The test binary, as nextest calls it.
    binary: Option<String>,
    /// True if it printed its random seed.
    has_seed: bool,
}

impl FailedTest {
    fn is_walk(&self) -> bool {
        self.has_seed || WALK_NAMES.iter().any(|part| self.name.contains(part))
    }

    fn describe(&self) -> String {
        self.binary
            .as_ref()
            .map_or_else(|| self.name.clone(), |binary| format!("{binary} {}", self.name))
    }
}

impl<'a> RepeatingRunner<'a> {
    pub(crate) fn new(root: &'a Path, is_strict: bool) -> Self {
        let has_nextest =
            capture_stdout(cargo_command(root).args(["nextest", "--version"])).is_ok();
        if !has_nextest {
            print_progress("cargo-nextest is not installed: using cargo test");
        }
        let runner = if has_nextest { TestRunner::Nextest } else { TestRunner::Cargo };
        Self { root, runner, is_strict }
    }

    /// Runs the tests of these packages. Returns the names of those that failed and passed when
    /// they were repeated.
    pub(crate) fn run(&self, packages: &[&str]) -> Result<Vec<String>> {
        let failed = match self.runner {
            TestRunner::Nextest => self.run_nextest(packages)?,
            TestRunner::Cargo => self.run_cargo_test(packages)?,
        };
        let names = |tests: &[FailedTest]| {
            tests.iter().map(FailedTest::describe).collect::<Vec<_>>().join(", ")
        };
        if failed.is_empty() {
            return Ok(Vec::new());
        }
        let has_walk = failed.iter().any(FailedTest::is_walk);
        if self.is_strict || has_walk || failed.len() > MAX_REPEATED_TESTS {
            bail!("failed tests: {}", names(&failed));
        }
        let mut still_failed = failed.clone();
        still_failed.retain(|test| !self.passes_alone(packages, test));
        if !still_failed.is_empty() {
            bail!("tests that failed twice: {}", names(&still_failed));
        }
        Ok(failed.iter().map(FailedTest::describe).collect())
    }

    fn run_nextest(&self, packages: &[&str]) -> Result<Vec<FailedTest>> {
        let report = self.nextest_report()?;
        if report.exists() {
            fs::remove_file(&report).with_context(|| format!("deleting {}", report.display()))?;
        }
        let mut command = cargo_command(self.root);
        let status = run_command(command.args(["nextest", "run"]).args(packages))?;
        if status.success() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&report).unwrap_or_default();
        let failed = read_nextest_report(&text);
        if status.code() != Some(NEXTEST_TESTS_FAILED) || failed.is_empty() {
            bail!("{}: {status}", describe_command(&command));
        }
        Ok(failed)
    }

    fn run_cargo_test(&self, packages: &[&str]) -> Result<Vec<FailedTest>> {
        let mut command = cargo_command(self.root);
        // The examples of the documentation are a stage of their own, as with nextest.
        let flags = ["test", "--no-fail-fast", "--all-targets"];
        let (status, said) = run_and_copy_stdout(command.args(flags).args(packages))?;
        if status.success() {
            return Ok(Vec::new());
        }
        let failed = read_cargo_output(&said);
        match failed {
            Some(failed) if status.code() == Some(CARGO_TESTS_FAILED) && !failed.is_empty() => {
                Ok(failed)
            }
            _ => bail!("{}: {status}", describe_command(&command)),
        }
    }

    /// Repeats one test, with nothing beside it.
    fn passes_alone(&self, packages: &[&str], test: &FailedTest) -> bool {
        print_progress(&format!("once more, alone: {}", test.describe()));
        let mut command = self.alone_command(packages, test);
        match self.runner {
            TestRunner::Nextest => run_command(&mut command).is_ok_and(|status| status.success()),
            TestRunner::Cargo => run_and_copy_stdout(&mut command).is_ok_and(|(status, said)| {
                let passed = format!("test {} ... ok", test.name);
                status.success() && said.lines().any(|line| line == passed)
            }),
        }
    }

    fn alone_command(&self, packages: &[&str], test: &FailedTest) -> Command {
        let mut command = cargo_command(self.root);
        match self.runner {
            TestRunner::Nextest => {
                let binary = test.binary.as_deref().unwrap_or_default();
                let filter = format!("binary_id(={binary}) & test(={})", test.name);
                command
                    .args(["nextest", "run"])
                    .args(packages)
                    .args(["--no-tests", "fail", "-E"])
                    .arg(filter)
            }
            TestRunner::Cargo => command
                .args(["test", "--all-targets"])
                .args(packages)
                .args(["--", "--exact", &test.name]),
        };
        command
    }

    /// Returns the path of the report that nextest writes after each run.
    fn nextest_report(&self) -> Result<PathBuf> {
        Ok(target_dir(self.root)?.join("nextest/default/junit.xml"))
    }
}

/// Returns the failed tests of a report in JUnit's format.
fn read_nextest_report(text: &str) -> Vec<FailedTest> {
    let cases = text.split("<testcase ").skip(1);
    let failed = cases.filter(|case| case.contains("<failure") || case.contains("<error"));
    let read = failed.filter_map(|case| {
        let attribute = |name: &str| {
            let (_, rest) = case.split('>').next()?.split_once(name)?;
            rest.split('"').next().map(str::to_owned)
        };
        let name = case.strip_prefix("name=\"")?.split('"').next()?.to_owned();
        Some(FailedTest {
            name,
            binary: Some(attribute(" classname=\"")?),
            has_seed: has_seed(case),
        })
    });
    read.collect()
}

/// Returns the failed tests of the output of `cargo test`, or `None` if a test binary did not come
/// to its end.
fn read_cargo_output(text: &str) -> Option<Vec<FailedTest>> {
    let mut failed: Vec<FailedTest> = Vec::new();
    let mut in_list = false;
    let mut outputs: Vec<(&str, bool)> = Vec::new();
    let mut unfinished = 0_i64;
    for line in text.lines() {
        let output_of =
            line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = output_of {
            outputs.push((name, false));
            in_list = false;
        } else if line == "failures:" {
            in_list = true;
        } else if is_count_of_tests(line) {
            unfinished += 1;
        } else if line.starts_with("test result: ") {
            unfinished -= 1;
            in_list = false;
            let has_seed =
                |name: &str| outputs.iter().any(|(test, has_seed)| *has_seed && *test == name);
            failed.iter_mut().for_each(|test| test.has_seed |= has_seed(&test.name));
            outputs.clear();
        } else if let Some(name) =
            line.strip_prefix("    ").filter(|name| in_list && !name.contains(' '))
        {
            let known = failed.iter().any(|test| test.name == name);
            if !known {
                failed.push(FailedTest { name: name.to_owned(), binary: None, has_seed: false });
            }
        } else if let Some((_, seen)) = outputs.last_mut().filter(|_| !in_list) {
            *seen |= has_seed(line);
        }
    }
    (unfinished == 0).then_some(failed)
}

/// Returns true for the line with which a test binary begins: `running 7 tests`.
fn is_count_of_tests(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(|rest| rest.split_once(' '));
    count.is_some_and(|(count, unit)| count.parse::<u32>().is_ok() && unit.starts_with("test"))
}

/// Returns true if the output names a random seed.
fn has_seed(output: &str) -> bool {
    output.to_ascii_lowercase().contains("seed")
}

#[cfg(test)]
mod tests;
