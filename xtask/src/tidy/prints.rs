//! Rule: stdout belongs to protocols and to command output, so only output modules print.

use super::Finding;
use super::source::Source;

const RULE: &str = "stray-print";
const MACROS: &[&str] = &["println!", "print!", "eprintln!", "eprint!", "dbg!"];
const MAY_PRINT: &[&str] = &[
    "crates/wharf/src/output.rs",
    "xtask/src/output.rs",
    "crates/wharf-testkit/src/fuzzing.rs",
    "crates/wharf-testkit/src/random.rs",
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if MAY_PRINT.iter().any(|path| source.path.ends_with(path)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for name in MACROS {
        for at in source.find(name).filter(|at| !source.is_test_at(*at)) {
            let message = format!("`{name}` outside an output module");
            findings.push(Finding::failure(&source.path, source.line_of(at), RULE, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Source::new(Path::new(path), text.to_owned())).len()
    }

    #[test]
    fn prints_are_for_output_modules() {
        assert_eq!(count("crates/wharf-host/src/a.rs", "fn a() { println!(); eprint!(\"x\") }"), 2);
        assert_eq!(count("crates/wharf/src/output.rs", "fn a() { println!() }"), 0);
        assert_eq!(count("crates/wharf/tests/it/main.rs", "fn a() { println!() }"), 0);
        assert_eq!(
            count("crates/wharf-host/src/a.rs", "#[cfg(test)]\nmod tests { fn a() { dbg!(1) } }"),
            0
        );
    }
}
