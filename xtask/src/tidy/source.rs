//! A Rust file prepared for the rules: comments and literals are blanked and test code is marked.
//! It is no parser: it knows comments, strings, characters and brackets, which is sufficient for
//! the rules.

use std::ops::Range;
use std::path::{Path, PathBuf};

pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// The text with every comment and the content of every literal replaced by spaces, with the
    /// same length and lines.
    pub(super) code: String,
    /// True if the whole file is test code.
    is_test_file: bool,
    /// The byte ranges of `#[cfg(test)]` items.
    test_items: Vec<Range<usize>>,
}

impl Source {
    pub(super) fn new(path: &Path, text: String) -> Self {
        let code = blank_literals(&text);
        let test_items = test_items(&code);
        Self {
            path: path.to_path_buf(),
            is_test_file: is_test_file(path),
            text,
            code,
            test_items,
        }
    }

    /// Returns the byte offsets of `word` in the code, where it does not continue an identifier.
    pub(super) fn find<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let starts_as_name = word.starts_with(|c: char| c.is_ascii_alphanumeric());
        self.code.match_indices(word).map(|(at, _)| at).filter(move |at| {
            let before = self.code[..*at].chars().next_back();
            !starts_as_name || !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
    }

    pub(super) fn line_of(&self, offset: usize) -> usize {
        self.code[..offset].matches('\n').count() + 1
    }

    pub(super) fn is_test_at(&self, offset: usize) -> bool {
        self.is_test_file || self.test_items.iter().any(|range| range.contains(&offset))
    }

    /// Returns the number of lines that are not test code.
    pub(super) fn product_lines(&self) -> usize {
        if self.is_test_file {
            return 0;
        }
        let in_tests: usize = self
            .test_items
            .iter()
            .map(|range| self.text[range.clone()].lines().count())
            .sum();
        self.text.lines().count() - in_tests
    }
}

fn is_test_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let in_dir =
        |dir: &str| path.parent().is_some_and(|parent| parent.iter().any(|part| part == dir));
    name == "tests.rs" || name.ends_with("_tests.rs") || in_dir("tests") || in_dir("benches")
}

/// Returns the ranges from `#[cfg(test)]` to the end of the following item: its closing brace, or a
/// semicolon before any brace.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (start, attribute) in code.match_indices("#[cfg(test)]") {
        if ranges.last().is_some_and(|range| range.contains(&start)) {
            continue;
        }
        let rest = &code[start + attribute.len()..];
        let end = match rest.find(['{', ';']) {
            Some(at) if rest.as_bytes()[at] == b'{' => at + leading_block(&rest[at..]).len(),
            Some(at) => at + 1,
            None => rest.len(),
        };
        ranges.push(start..start + attribute.len() + end);
    }
    ranges
}

/// Returns the block at the beginning of `code`, braces included; all of `code` if it never ends.
pub(super) fn leading_block(code: &str) -> &str {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &code[..=at];
        }
    }
    code
}

fn blank_literals(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let continues_name = out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let (keep, hide) = measure_token(rest, first, continues_name);
        let (kept, after) = rest.split_at(keep);
        let (hidden, after) = after.split_at(hide);
        out.push_str(kept);
        for c in hidden.chars() {
            if c == '\n' {
                out.push('\n')
            } else {
                out.extend(std::iter::repeat_n(' ', c.len_utf8()))
            }
        }
        rest = after;
    }
    out
}

/// Returns the number of bytes to keep at the beginning of `rest`, and of those to hide after them.
fn measure_token(rest: &str, first: char, continues_name: bool) -> (usize, usize) {
    if rest.starts_with("//") {
        return (0, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (0, block_comment(rest));
    }
    if let Some(hashes) = raw_string(rest).filter(|_| !continues_name) {
        let open = rest.find('"').unwrap_or(0) + 1;
        let close = format!("\"{}", "#".repeat(hashes));
        return (open, rest[open..].find(&close).map_or(rest.len() - open, |at| at + close.len()));
    }
    match first {
        '"' => (1, string_length(&rest[1..])),
        '\'' => character_length(rest).map_or((1, 0), |inside| (1, inside)),
        other => (other.len_utf8(), 0),
    }
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Returns the number of hashes if `rest` begins with a raw string.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest
        .strip_prefix("br")
        .or_else(|| rest.strip_prefix("cr"))
        .or_else(|| rest.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// Returns the length of a string's content with its closing quote, which is hidden too so that it
/// opens no other string.
fn string_length(inside: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    inside.len()
}

/// Returns the length of a character literal's content with its closing quote; `None` if the quote
/// begins a lifetime.
fn character_length(rest: &str) -> Option<usize> {
    let inside = &rest[1..];
    if let Some(after) = inside.strip_prefix('\\') {
        let escape = after.chars().next()?.len_utf8();
        return after[escape..].find('\'').map(|at| 1 + escape + at + 1);
    }
    let len = inside.chars().next()?.len_utf8();
    inside[len..].starts_with('\'').then_some(len + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::new(Path::new(path), text.to_owned())
    }

    #[test]
    fn comments_and_literals_are_blanked_and_nothing_moves() {
        let text = "let a = \"todo!()\"; // todo!()\n/* { /* } */ */ let b = '{'; let c = r#\"{\"\"#; fn f<'a>() {}\n";
        let source = source("a.rs", text);
        assert_eq!(source.code.len(), text.len());
        assert_eq!(source.find("todo!").count(), 0);
        assert_eq!(source.code.matches('{').count(), 1, "{}", source.code);
        assert!(source.code.contains("fn f<'a>() {}"));
        assert!(source.code.contains("let b"));
    }

    #[test]
    fn escapes_do_not_end_a_literal() {
        let source =
            source("a.rs", r#"let a = "\"{"; let b = '\''; let c = '\u{7b}'; let d = b"\\"; g()"#);
        assert_eq!(source.code.matches('{').count(), 0, "{}", source.code);
        assert!(source.code.ends_with("g()"));
    }

    #[test]
    fn a_raw_string_ends_at_its_own_hashes() {
        let source = source("a.rs", "let a = r##\"one \"# two\"##; g(); let var\"x\"");
        assert!(source.code.contains("; g(); let"), "{}", source.code);
        assert!(!source.code.contains("two"));
    }

    #[test]
    fn words_are_found_whole() {
        let source = source("a.rs", "eprintln!(); println!(); x.println!()");
        assert_eq!(source.find("println!").count(), 2);
    }

    #[test]
    fn test_items_end_where_their_block_ends() {
        let source = source(
            "a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod more;\nfn d() {}\n",
        );
        let at = |what| source.code.find(what).unwrap();
        assert!(!source.is_test_at(at("fn a")) && source.is_test_at(at("fn b")));
        assert!(
            !source.is_test_at(at("fn c"))
                && source.is_test_at(at("mod more"))
                && !source.is_test_at(at("fn d"))
        );
        assert_eq!(source.product_lines(), 3);
        assert_eq!(source.line_of(at("fn b")), 4);
    }

    #[test]
    fn whole_files_can_be_tests() {
        for path in [
            "crates/x/tests/it/main.rs",
            "crates/x/src/session/tests.rs",
            "crates/x/src/walk_tests.rs",
        ] {
            assert!(source(path, "fn a() {}").is_test_at(0), "{path}");
        }
        assert!(!source("crates/x/src/testing.rs", "fn a() {}").is_test_at(0));
    }
}
