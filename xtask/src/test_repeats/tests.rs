//! Reports of both runners as they are, and the commands that repeat a test.

use super::*;

const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="2" errors="1">
    <testsuite name="wharf::it" tests="3" failures="2">
        <testcase name="turns::one" classname="wharf::it" timestamp="2026-01-01T00:00:00.000+00:00" time="0.1">
            <failure type="test failure">assertion failed</failure>
            <system-out>said &lt;testcase name=</system-out>
        </testcase>
        <testcase name="turns::two" classname="wharf::it" time="0.1">
        </testcase>
        <testcase name="clients_end_the_same" classname="wharf::it" time="0.1">
            <failure type="test failure">another story</failure>
            <system-err>WHARF_WALK_SEED=7</system-err>
        </testcase>
    </testsuite>
    <testsuite name="wharf-core" tests="1" errors="1">
        <testcase name="starts" classname="wharf-core" time="0.1"><error type="execution failure"/></testcase>
    </testsuite>
</testsuites>
"#;

const OUTPUT: &str = "
running 3 tests
test turns::one ... FAILED
test turns::two ... ok
test clients_end_the_same ... FAILED

failures:

---- turns::one stdout ----
thread 'turns::one' panicked at src/lib.rs:1:1:
    indented

---- clients_end_the_same stdout ----
WHARF_WALK_SEED=7


failures:
    clients_end_the_same
    turns::one

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s


running 1 test
test starts ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

fn failed(name: &str, binary: Option<&str>, has_seed: bool) -> FailedTest {
    FailedTest {
        name: name.to_owned(),
        binary: binary.map(str::to_owned),
        has_seed,
    }
}

#[test]
fn report_of_nextest_names_the_failed_tests() {
    let expected = [
        failed("turns::one", Some("wharf::it"), false),
        failed("clients_end_the_same", Some("wharf::it"), true),
        failed("starts", Some("wharf-core"), false),
    ];
    assert_eq!(read_nextest_report(REPORT), expected);
}

#[test]
fn output_of_cargo_test_names_the_failed_tests() {
    let expected = [failed("clients_end_the_same", None, true), failed("turns::one", None, false)];
    assert_eq!(read_cargo_output(OUTPUT).unwrap(), expected);
}

#[test]
fn test_binary_that_crashed_is_no_failed_test() {
    let crashed = format!("{OUTPUT}\nrunning 2 tests\ntest a ... ok\n");
    assert_eq!(read_cargo_output(&crashed), None);
}

#[test]
fn walks_are_known_by_their_names_and_their_seeds() {
    assert!(failed("walk::random_clients_end_with_the_same_transcript", None, false).is_walk());
    assert!(failed("fuzz::tests::envelope", None, false).is_walk());
    assert!(failed("clients_end_the_same", None, true).is_walk());
    assert!(!failed("turns::one", None, false).is_walk());
}

#[test]
fn one_test_is_repeated_alone_with_either_runner() {
    let test = failed("turns::one", Some("wharf::it"), false);
    let root = Path::new("/");
    let shown = |runner| {
        let repeating = RepeatingRunner { root, runner, is_strict: false };
        let command = repeating.alone_command(&["--workspace"], &test);
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        shown(TestRunner::Nextest),
        "nextest run --workspace --no-tests fail -E binary_id(=wharf::it) & test(=turns::one)"
    );
    assert_eq!(shown(TestRunner::Cargo), "test --all-targets --workspace -- --exact turns::one");
}

#[test]
fn work_is_repeated_once_and_never_in_a_strict_run() {
    let tries = std::cell::Cell::new(0);
    let fail_until = |good: u32| {
        tries.set(tries.get() + 1);
        if tries.get() < good { Err(anyhow::anyhow!("try {}", tries.get())) } else { Ok(()) }
    };
    let run = |is_strict, good| {
        tries.set(0);
        let outcome = repeat_once(is_strict, "a story", || fail_until(good));
        (outcome.map_err(|error| error.to_string()), tries.get())
    };
    assert_eq!(run(false, 1), (Ok(Vec::new()), 1));
    assert_eq!(run(false, 2), (Ok(vec!["a story".to_owned()]), 2));
    assert_eq!(run(false, 3), (Err("try 2".to_owned()), 2));
    assert_eq!(run(true, 2), (Err("try 1".to_owned()), 1));
}
