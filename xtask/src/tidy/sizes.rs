//! Rule: files stay small enough to be read at once.

use super::Finding;
use super::source::Source;

const RULE: &str = "file-size";
/// The number of lines above which a file gets a notice. (The aim is 300.)
const NOTICED_LINES: usize = 500;
/// The number of lines above which a file fails.
const REFUSED_LINES: usize = 800;

pub(super) fn check(source: &Source) -> Option<Finding> {
    let lines = source.product_lines();
    let message = format!("{lines} lines besides tests; the aim is 300, the limit {REFUSED_LINES}");
    if lines > REFUSED_LINES {
        Some(Finding::failure(&source.path, 1, RULE, message))
    } else if lines > NOTICED_LINES {
        Some(Finding::notice(&source.path, 1, RULE, message))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn verdict(path: &str, lines: usize) -> Option<bool> {
        check(&Source::new(Path::new(path), "x\n".repeat(lines))).map(|finding| finding.fails)
    }

    #[test]
    fn long_files_are_noticed_then_refused() {
        assert_eq!(verdict("a.rs", 500), None);
        assert_eq!(verdict("a.rs", 501), Some(false));
        assert_eq!(verdict("a.rs", 800), Some(false));
        assert_eq!(verdict("a.rs", 801), Some(true));
    }

    #[test]
    fn tests_do_not_count() {
        assert_eq!(verdict("crates/a/tests/it/main.rs", 2_000), None);
        let text = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n", "x\n".repeat(2_000));
        assert_eq!(check(&Source::new(Path::new("a.rs"), text)), None);
    }
}
