//! Rule: tests wait for events, never for time.

use super::Finding;
use super::source::Source;

const RULE: &str = "sleeping-test";

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let calls = source.find("sleep(");
    // A command of a shell that polls. A long sleep stands for a process that runs until the test
    // ends it.
    let commands = source.text.match_indices("sleep 0.").map(|(at, _)| at);
    calls
        .chain(commands)
        .filter(|at| source.is_test_at(*at))
        .map(|at| {
            Finding::failure(
                &source.path,
                source.line_of(at),
                RULE,
                "a test waits for an event, not for time",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Source::new(Path::new(path), text.to_owned())).len()
    }

    #[test]
    fn only_tests_may_not_sleep() {
        let text = "fn a() { tokio::time::sleep(one).await; std::thread::sleep(one); }";
        assert_eq!(count("crates/a/src/a.rs", text), 0);
        assert_eq!(count("crates/a/tests/it/a.rs", text), 2);
        assert_eq!(count("crates/a/src/a/tests.rs", text), 2);
        assert_eq!(count("crates/a/src/a.rs", &format!("#[cfg(test)]\nmod tests {{ {text} }}")), 2);
    }

    #[test]
    fn a_command_that_polls_is_refused_and_one_that_runs_for_long_is_not() {
        let path = "crates/a/tests/it/a.rs";
        assert_eq!(count(path, "spawn(\"sleep(1)\"); spawn(\"sleep 1000\")"), 0);
        assert_eq!(count(path, concat!("spawn(\"until [ -e go ]; do sleep ", "0.05; done\")")), 1);
    }
}
