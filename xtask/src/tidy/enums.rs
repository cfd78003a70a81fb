//! Rule: enums have few variants; a very large one shows that one place does everything.

use super::Finding;
use super::source::{Source, leading_block};

const RULE: &str = "enum-variants";
const NOTICED_VARIANTS: usize = 25;
const REFUSED_VARIANTS: usize = 40;

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for at in source.find("enum ") {
        let head = &source.code[at..];
        let Some(open) = head.find('{') else { continue };
        let name = head["enum ".len()..]
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
            .unwrap_or_default();
        let count = count_variants(leading_block(&head[open..]));
        let message = format!("{name} has {count} variants; the limit is {REFUSED_VARIANTS}");
        let line = source.line_of(at);
        if count > REFUSED_VARIANTS {
            findings.push(Finding::failure(&source.path, line, RULE, message));
        } else if count > NOTICED_VARIANTS {
            findings.push(Finding::notice(&source.path, line, RULE, message));
        }
    }
    findings
}

/// Counts the items between commas at the top level of a block.
fn count_variants(block: &str) -> usize {
    let mut depth = 0_usize;
    let mut count = 0;
    let mut in_variant = false;
    for byte in block.bytes() {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => in_variant = false,
            _ if depth == 1 && byte.is_ascii_alphabetic() && !in_variant => {
                in_variant = true;
                count += 1;
            }
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn many(n: usize) -> Source {
        let variants: String = (0..n)
            .map(|i| {
                format!("    /// One, two.\n    #[doc = \"x\"]\n    V{i}(u8, Vec<(u8, u8)>),\n")
            })
            .collect();
        Source::new(Path::new("a.rs"), format!("pub enum Everything<T> {{\n{variants}}}\n"))
    }

    #[test]
    fn variants_are_counted_without_their_fields() {
        assert_eq!(
            count_variants("{ A, B(u8, u8), C { x: u8, y: u8 }, D = 4, #[cfg(a, b)] E }"),
            5
        );
        assert_eq!(count_variants("{}"), 0);
    }

    #[test]
    fn too_many_variants_are_refused() {
        assert_eq!(check(&many(25)), []);
        assert!(check(&many(26)).iter().all(|finding| !finding.fails));
        assert!(check(&many(40)).iter().all(|finding| !finding.fails));
        let findings = check(&many(41));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].fails && findings[0].message.starts_with("Everything has 41"));
    }
}
