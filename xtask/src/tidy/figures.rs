//! `cargo xtask tidy --figures`: how plain the language of the product's code is, in numbers to
//! compare over time.

use super::source::Source;
use super::{Repo, type_names, words};

/// A share of all things of a kind.
#[derive(Debug, Default, PartialEq, Eq)]
struct Share {
    counted: usize,
    of: usize,
}

/// Returns one line per figure.
pub(super) fn describe(repo: &Repo) -> Vec<String> {
    let product: Vec<&Source> =
        repo.sources.iter().filter(|source| source.product_lines() > 0).collect();
    let lines: usize = product.iter().map(|source| source.product_lines()).sum();
    let comments =
        sum(&product, |source| Share::of(words::product_comments(source), words::hides_subject));
    let functions = sum(&product, |source| Share::of(names_after(source, "fn "), is_one_word));
    let constants = sum(&product, |source| Share::of(names_after(source, "const "), is_one_word));
    vec![
        format!("files with product code: {}, lines: {lines}", product.len()),
        format!("comments that hide their subject: {comments}"),
        format!("function names of one word: {functions}"),
        format!("constants of one word: {constants}"),
        format!(
            "type names that stand for several types: {}",
            type_names::shared_names(&repo.sources).len()
        ),
    ]
}

fn sum(sources: &[&Source], share: impl Fn(&Source) -> Share) -> Share {
    sources
        .iter()
        .map(|source| share(source))
        .fold(Share::default(), |sum, next| Share {
            counted: sum.counted + next.counted,
            of: sum.of + next.of,
        })
}

impl Share {
    fn of<T>(things: impl Iterator<Item = T>, is_counted: impl Fn(&T) -> bool) -> Self {
        things.fold(Self::default(), |share, thing| Self {
            counted: share.counted + usize::from(is_counted(&thing)),
            of: share.of + 1,
        })
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let per_mille = (self.counted * 1000).checked_div(self.of).unwrap_or(0);
        write!(f, "{} of {} ({}.{} %)", self.counted, self.of, per_mille / 10, per_mille % 10)
    }
}

/// Yields the names that product code declares with a keyword.
fn names_after<'a>(source: &'a Source, keyword: &'a str) -> impl Iterator<Item = &'a str> + 'a {
    source.find(keyword).filter(|at| !source.is_test_at(*at)).filter_map(move |at| {
        let name = source.code[at + keyword.len()..]
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()?;
        let is_declared = name.starts_with(|c: char| c.is_alphabetic())
            && !["fn", "unsafe", "async"].contains(&name);
        is_declared.then_some(name)
    })
}

fn is_one_word(name: &&str) -> bool {
    !name.contains('_')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn names_and_comments_of_product_code_are_counted() {
        let text = "/// What it is.\nconst MOST: usize = 1;\nconst MAX_BYTES: usize = 2;\n/// Sends it.\nconst fn send() {}\nfn send_all() {}\n#[cfg(test)]\nmod tests {\n    /// Who knows.\n    fn a() {}\n}\n";
        let source = Source::new(Path::new("crates/a/src/a.rs"), text.to_owned());
        let repo = Repo { root: "/".into(), files: Vec::new(), sources: vec![source] };
        assert_eq!(
            describe(&repo),
            [
                "files with product code: 1, lines: 6",
                "comments that hide their subject: 1 of 2 (50.0 %)",
                "function names of one word: 1 of 2 (50.0 %)",
                "constants of one word: 1 of 2 (50.0 %)",
                "type names that stand for several types: 0",
            ]
        );
    }
}
