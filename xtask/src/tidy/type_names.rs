//! Rule: a type name that can be used outside of its file stands for one type in the whole repo.

use std::collections::BTreeMap;

use super::source::Source;
use super::{Finding, Repo};

const RULE: &str = "unique-type-name";

const TYPE_KEYWORDS: &[&str] = &["struct ", "enum ", "trait ", "type ", "union "];

/// How many names may still stand for several types. Lower it when you have renamed some; never
/// raise it.
const REMAINING_SHARED_NAMES: usize = 11;

pub(super) fn check(repo: &Repo) -> Vec<Finding> {
    excuse_remaining(REMAINING_SHARED_NAMES, shared_names(&repo.sources))
}

/// Returns a finding for each name that more than one file declares for others, at its second
/// place.
pub(super) fn shared_names(sources: &[Source]) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<(&Source, usize)>> = BTreeMap::new();
    for source in sources {
        for (name, at) in declared_types(source) {
            places.entry(name).or_default().push((source, at));
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    shared
        .map(|(name, places)| {
            let (first, second) = (&places[0], &places[1]);
            let message = format!(
                "`{name}` is also a type in {}: give one of them its own name",
                first.0.path.display()
            );
            Finding::failure(&second.0.path, second.0.line_of(second.1), RULE, message)
        })
        .collect()
}

/// Yields the types of a file, test code left out, that other files can name.
fn declared_types(source: &Source) -> impl Iterator<Item = (&str, usize)> + '_ {
    TYPE_KEYWORDS
        .iter()
        .flat_map(move |keyword| source.find(keyword).map(move |at| (keyword, at)))
        .filter_map(move |(keyword, at)| {
            let line_start = source.code[..at].rfind('\n').map_or(0, |newline| newline + 1);
            // A type that is indented belongs to an impl, a function or an inner module.
            let is_public = source.code[line_start..at].starts_with("pub");
            let name = source.code[at + keyword.len()..]
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()?;
            (is_public && !name.is_empty() && !source.is_test_at(at)).then_some((name, at))
        })
}

fn excuse_remaining(remaining: usize, findings: Vec<Finding>) -> Vec<Finding> {
    if findings.len() > remaining {
        return findings;
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn name_of_two_public_types_is_refused() {
        let source = |path: &str, text: &str| Source::new(Path::new(path), text.to_owned());
        let sources = [
            source(
                "crates/a/src/a.rs",
                "pub(crate) struct Place<T>(T);\nstruct Own;\nmod x { pub struct Inner; }\n",
            ),
            source("crates/b/src/b.rs", "pub enum Place {}\nstruct Own;\npub struct Inner;\n"),
            source("crates/b/tests/it/b.rs", "pub struct Place;\n"),
        ];
        let findings = shared_names(&sources);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].message.starts_with("`Place`")
                && findings[0].path == Path::new("crates/b/src/b.rs")
        );
        assert_eq!(excuse_remaining(1, findings.clone()), []);
        assert_eq!(excuse_remaining(0, findings.clone()).len(), 1);
        assert_eq!(excuse_remaining(2, findings), []);
    }
}
