//! Rule: tests wait for events, never for time.

use super::Finding;
use super::source::Source;

const RULE: &str = "sleeping-test";

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let in_tests = source.find("sleep(").filter(|at| source.is_test_at(*at));
    in_tests
        .map(|at| Finding::failure(&source.path, source.line_of(at), RULE, "a test waits for an event, not for time"))
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
    fn a_command_line_that_sleeps_is_no_sleep() {
        assert_eq!(count("crates/a/tests/it/a.rs", "spawn(\"sleep(1)\"); spawn(\"sleep 1000\")"), 0);
    }
}
