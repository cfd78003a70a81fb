//! The stages of `cargo xtask test`: what each cost, whether it passed, and which tests passed only
//! when repeated.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::output::{print_line, print_progress};

/// One stage that has run.
#[derive(Debug)]
struct Stage {
    name: &'static str,
    took: Duration,
    /// The names of the tests that failed once and passed when they were repeated.
    outcome: Result<Vec<String>>,
}

/// The stages that have run. A stage that fails does not keep later ones from running.
#[derive(Debug)]
pub(crate) struct StageList {
    began: Instant,
    stages: Vec<Stage>,
}

impl StageList {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), stages: Vec::new() }
    }

    /// Runs a stage whose tests are not repeated.
    pub(crate) fn run(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) {
        self.run_tests(name, || work().map(|()| Vec::new()));
    }

    /// Runs a stage that returns the names of its flaky tests.
    pub(crate) fn run_tests(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<Vec<String>>,
    ) {
        print_progress(name);
        let began = Instant::now();
        let outcome = work();
        self.stages.push(Stage { name, took: began.elapsed(), outcome });
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.stages.iter().any(|stage| stage.outcome.is_err())
    }

    /// Prints what each stage cost, the flaky tests and a summary, and fails if a stage failed.
    pub(crate) fn report(self, skipped: &[String]) -> Result<()> {
        for line in self.describe_costs() {
            print_line(&line);
        }
        for name in self.flaky_tests() {
            print_line(&format!("FLAKY {name}: it failed, and passed when it was repeated alone"));
        }
        let failed: Vec<String> = self.stages.iter().filter_map(Stage::describe_failure).collect();
        print_line(&format!(
            "test summary: {} of {} stages passed in {:.0} s{}",
            self.stages.len() - failed.len(),
            self.stages.len(),
            self.began.elapsed().as_secs_f64(),
            if skipped.is_empty() {
                String::new()
            } else {
                format!("; skipped: {}", skipped.join(", "))
            }
        ));
        if !failed.is_empty() {
            bail!("failed: {}", failed.join("; "));
        }
        Ok(())
    }

    fn describe_costs(&self) -> Vec<String> {
        self.stages
            .iter()
            .map(|stage| format!("{:6.0} s  {}", stage.took.as_secs_f64(), stage.name))
            .collect()
    }

    fn flaky_tests(&self) -> impl Iterator<Item = &String> {
        self.stages.iter().filter_map(|stage| stage.outcome.as_ref().ok()).flatten()
    }
}

impl Stage {
    fn describe_failure(&self) -> Option<String> {
        self.outcome.as_ref().err().map(|error| format!("{} ({error:#})", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_stage_fails_the_run_and_is_named() {
        let mut stages = StageList::new();
        stages.run("good", || Ok(()));
        stages.run("bad", || Err(anyhow::anyhow!("exit status: 1")));
        stages.run("later", || Ok(()));
        assert_eq!(stages.describe_costs(), ["     0 s  good", "     0 s  bad", "     0 s  later"]);
        assert_eq!(stages.report(&[]).unwrap_err().to_string(), "failed: bad (exit status: 1)");
    }

    #[test]
    fn flaky_test_is_named_and_does_not_fail_the_run() {
        let mut stages = StageList::new();
        stages.run_tests("tests", || Ok(vec!["wharf::it orphans".to_owned()]));
        assert_eq!(stages.flaky_tests().collect::<Vec<_>>(), ["wharf::it orphans"]);
        stages.report(&[]).unwrap();
    }
}
