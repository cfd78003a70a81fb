//! Rule: a type has few methods in few files; one with very many holds several objects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::source::{Source, leading_block};
use super::{Finding, Repo};

const RULE: &str = "type-methods";
const MAX_METHODS: usize = 60;
const MAX_FILES: usize = 6;

/// A type that is larger than that, with its size. The size may only fall.
struct LargeType {
    owner: &'static str,
    name: &'static str,
    size: TypeSize,
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TypeSize {
    methods: usize,
    files: usize,
}

const LARGE_TYPES: &[LargeType] = &[
    LargeType {
        owner: "wharf-core",
        name: "Session",
        size: TypeSize { methods: 113, files: 11 },
        reason: "its methods are private, pure and walked at random",
    },
    LargeType {
        owner: "wharf-host",
        name: "AgentConnection",
        size: TypeSize { methods: 64, files: 5 },
        reason: "the connection and what it settles are one object",
    },
    LargeType {
        owner: "wharf-host",
        name: "Host",
        size: TypeSize { methods: 99, files: 23 },
        reason: "its facets are no types of their own yet",
    },
    LargeType {
        owner: "wharf-host",
        name: "Inner",
        size: TypeSize { methods: 37, files: 12 },
        reason: "its methods stand beside those of the host that call them",
    },
    LargeType {
        owner: "wharf-tui",
        name: "TuiState",
        size: TypeSize { methods: 253, files: 32 },
        reason: "its panes are no types of their own yet",
    },
];

/// The methods of one type of one crate.
#[derive(Debug, Default)]
struct TypeMethods {
    count: usize,
    files: BTreeSet<PathBuf>,
}

impl TypeMethods {
    fn size(&self) -> TypeSize {
        TypeSize { methods: self.count, files: self.files.len() }
    }
}

pub(super) fn check(repo: &Repo) -> Vec<Finding> {
    check_types(&repo.sources, LARGE_TYPES)
}

fn check_types(sources: &[Source], large_types: &[LargeType]) -> Vec<Finding> {
    let mut types: BTreeMap<(String, String), TypeMethods> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path.starts_with("crates")) {
        let owner = source.path.iter().nth(1).unwrap_or_default().to_string_lossy().into_owned();
        for block in impl_blocks(source) {
            let methods = types.entry((owner.clone(), block.name)).or_default();
            methods.count += block.methods;
            methods.files.insert(source.path.clone());
        }
    }
    let mut findings = Vec::new();
    for ((owner, name), methods) in &types {
        let size = methods.size();
        let listed = large_types.iter().find(|large| large.owner == owner && large.name == name);
        let is_large = size.methods > MAX_METHODS || size.files > MAX_FILES;
        if listed.map(|large| large.size) == is_large.then_some(size) {
            continue;
        }
        let TypeSize { methods: count, files } = size;
        let advice = match listed {
            Some(large) => format!(
                "its listed size is {:?} ({}): it may only fall, and the list with it",
                large.size, large.reason
            ),
            None => format!(
                "at most {MAX_METHODS} in {MAX_FILES} are allowed: give a part of it a type of its own"
            ),
        };
        let path = methods.files.first().map_or(Path::new("crates"), PathBuf::as_path);
        findings.push(Finding::failure(
            path,
            1,
            RULE,
            format!("{name} has {count} methods in {files} files; {advice}"),
        ));
    }
    findings
}

/// An `impl` block of product code.
struct ImplBlock {
    name: String,
    methods: usize,
}

fn impl_blocks(source: &Source) -> Vec<ImplBlock> {
    let mut blocks = Vec::new();
    for at in source.find("impl") {
        let is_item = source.code[..at].ends_with('\n') || at == 0;
        if !is_item || source.is_test_at(at) {
            continue;
        }
        let Some(open) = source.code[at..].find('{') else { continue };
        let head = &source.code[at..at + open];
        // The methods of a trait are those that the trait asks for.
        if head.contains(" for ") {
            continue;
        }
        let block = leading_block(&source.code[at + open..]);
        blocks.push(ImplBlock { name: type_name(head), methods: count_methods(block) });
    }
    blocks
}

/// Returns the name of the type in `impl<T: Bound> path::Name<T> where …`.
fn type_name(head: &str) -> String {
    let mut depth = 0_usize;
    let mut after_generics = head.trim_start_matches("impl");
    if after_generics.starts_with('<') {
        let end = after_generics.find(|character| {
            match character {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        });
        after_generics = end.map_or("", |end| &after_generics[end + 1..]);
    }
    let path = after_generics
        .trim_start()
        .split(|c: char| c == '<' || c == '{' || c.is_whitespace())
        .next();
    path.unwrap_or_default().rsplit("::").next().unwrap_or_default().to_owned()
}

/// Counts the functions at the top level of a block.
fn count_methods(block: &str) -> usize {
    let mut depth = 0_usize;
    let mut count = 0;
    for (at, byte) in block.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b'f' if depth == 1 && block[at..].starts_with("fn ") => {
                let is_word = !block[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                count += usize::from(is_word);
            }
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::new(Path::new(path), text.to_owned())
    }

    fn screen(methods: usize) -> Source {
        let text: String = (0..methods)
            .map(|number| format!("    fn act_{number}() {{ let a = |fn_| {{}}; }}\n"))
            .collect();
        source(
            "crates/a/src/screen.rs",
            &format!(
                "impl<T: Into<Vec<u8>>> Screen<T> {{\n{text}}}\nimpl Clone for Screen {{\n fn clone() {{}}\n}}\n"
            ),
        )
    }

    #[test]
    fn type_with_too_many_methods_is_refused() {
        assert_eq!(check_types(&[screen(60)], &[]), []);
        let found = check_types(&[screen(61)], &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.starts_with("Screen has 61 methods in 1 files"), "{}", found[0]);
    }

    #[test]
    fn types_of_two_crates_are_two_types_and_files_count() {
        let at = |path: &str| source(path, "impl x::Screen {\n pub(crate) const fn act() {}\n}\n");
        let files: Vec<Source> =
            (0..7).map(|number| at(&format!("crates/a/src/s{number}.rs"))).collect();
        assert_eq!(check_types(&files[..6], &[]), []);
        assert!(
            check_types(&files, &[])[0]
                .message
                .starts_with("Screen has 7 methods in 7 files")
        );
        assert_eq!(check_types(&[screen(60), at("crates/b/src/screen.rs")], &[]), []);
    }

    #[test]
    fn listed_size_of_a_large_type_may_only_fall() {
        let listed = |methods| LargeType {
            owner: "a",
            name: "Screen",
            size: TypeSize { methods, files: 1 },
            reason: "it is being split",
        };
        assert_eq!(check_types(&[screen(61)], &[listed(61)]), []);
        for size in [60, 62, 10] {
            assert!(
                check_types(&[screen(size)], &[listed(61)])[0]
                    .message
                    .contains("it is being split")
            );
        }
    }
}
