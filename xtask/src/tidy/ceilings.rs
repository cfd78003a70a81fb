//! Rule: figures of plain code never rise. Each has a ceiling, which is the number of today; who
//! makes the number smaller lowers the ceiling too, so that it cannot come back.

use std::ops::Range;
use std::path::Path;

use super::source::{Source, leading_block};
use super::{Finding, Repo};

const RULE: &str = "ceiling";
const MAX_COMMENT_COLUMNS: usize = 100;
/// The number of statements and arms above which a function is noticed, and too long.
const NOTICED_STATEMENTS: usize = 30;
const REFUSED_STATEMENTS: usize = 40;

/// A figure and the number that it must not exceed.
struct Ceiling {
    name: &'static str,
    limit: usize,
    /// Returns the offsets of its places in a file.
    places: fn(&Source) -> Vec<usize>,
    advice: &'static str,
}

const CEILINGS: &[Ceiling] = &[
    Ceiling {
        name: "tuples that pack several `let` into one",
        limit: 4,
        places: packed_lets,
        advice: "write one `let` per line",
    },
    Ceiling {
        name: "tuple patterns in parameters",
        limit: 20,
        places: tuple_parameters,
        advice: "give what travels together a struct with names",
    },
    Ceiling {
        name: "nested options",
        limit: 11,
        places: nested_options,
        advice: "write an enum whose variants have names",
    },
    Ceiling {
        name: "comment lines over 100 columns",
        limit: 0,
        places: wide_comments,
        advice: "break the comment at 100 columns",
    },
    Ceiling {
        name: "functions of more than 30 statements and arms",
        limit: 20,
        places: |source| long_functions(source, NOTICED_STATEMENTS),
        advice: "give a part of it a name and a function of its own",
    },
    Ceiling {
        name: "functions of more than 40 statements and arms",
        limit: 5,
        places: |source| long_functions(source, REFUSED_STATEMENTS),
        advice: "give a part of it a name and a function of its own",
    },
];

pub(super) fn check(repo: &Repo) -> Vec<Finding> {
    let product: Vec<&Source> =
        repo.sources.iter().filter(|source| is_product(&source.path)).collect();
    CEILINGS.iter().flat_map(|ceiling| check_ceiling(ceiling, &product)).collect()
}

fn is_product(path: &Path) -> bool {
    path.starts_with("crates")
}

fn check_ceiling(ceiling: &Ceiling, sources: &[&Source]) -> Vec<Finding> {
    let mut places = Vec::new();
    for source in sources {
        let found = (ceiling.places)(source).into_iter().filter(|at| !source.is_test_at(*at));
        places.extend(found.map(|at| (*source, at)));
    }
    let Ceiling { name, limit, advice, .. } = ceiling;
    let count = places.len();
    if count < *limit {
        let message =
            format!("there are {count} {name}: lower the ceiling of {limit} to that number");
        return vec![Finding::failure(Path::new(file!()), 1, RULE, message)];
    }
    if count == *limit {
        return Vec::new();
    }
    let message = format!("one of {count} {name}; at most {limit} are allowed: {advice}");
    let to_finding = |(source, at): (&Source, usize)| {
        Finding::failure(&source.path, source.line_of(at), RULE, message.clone())
    };
    places.into_iter().map(to_finding).collect()
}

/// Finds `let (a, b) = (x, y)`.
fn packed_lets(source: &Source) -> Vec<usize> {
    let is_packed = |at: &usize| {
        let rest = &source.code[at + "let ".len()..];
        let pattern = leading_group(rest);
        let value = rest[pattern.len()..].trim_start().strip_prefix('=').map(str::trim_start);
        value.is_some_and(|value| {
            value.starts_with('(') && value[leading_group(value).len()..].starts_with(';')
        })
    };
    source.find("let (").filter(is_packed).collect()
}

/// Finds parameters of functions that are taken apart.
fn tuple_parameters(source: &Source) -> Vec<usize> {
    let has_tuple = |function: &Function| {
        let mut depth = 0_usize;
        let mut is_first = true;
        for character in source.code[function.parameters.clone()].chars() {
            match character {
                '(' if depth == 1 && is_first => return true,
                '(' | '[' | '{' | '<' => depth += 1,
                ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            let goes_on = depth == 1 && (character == ',' || character.is_whitespace() && is_first);
            is_first = goes_on || depth == 1 && character == '(';
        }
        false
    };
    functions(source).filter(has_tuple).map(|function| function.begin).collect()
}

fn nested_options(source: &Source) -> Vec<usize> {
    source.find("Option<Option<").collect()
}

fn wide_comments(source: &Source) -> Vec<usize> {
    let mut begin = 0;
    let mut wide = Vec::new();
    for line in source.text.split_inclusive('\n') {
        if line.trim_start().starts_with("//")
            && line.trim_end().chars().count() > MAX_COMMENT_COLUMNS
        {
            wide.push(begin);
        }
        begin += line.len();
    }
    wide
}

/// Finds functions with more statements and arms than that.
fn long_functions(source: &Source, limit: usize) -> Vec<usize> {
    let is_long = |function: &Function| {
        let body = &source.code[function.body.clone()];
        body.matches(';').count() + body.matches("=>").count() > limit
    };
    functions(source).filter(is_long).map(|function| function.begin).collect()
}

/// The places of a function in the code.
struct Function {
    begin: usize,
    parameters: Range<usize>,
    body: Range<usize>,
}

/// Yields the functions that have a body.
fn functions(source: &Source) -> impl Iterator<Item = Function> + '_ {
    source.find("fn ").filter_map(|begin| {
        let open = begin + source.code[begin..].find('(')?;
        let parameters = open..open + leading_group(&source.code[open..]).len();
        let end = source.code[parameters.end..].find(['{', ';'])? + parameters.end;
        let body = end..end + leading_block(&source.code[end..]).len();
        source.code[end..]
            .starts_with('{')
            .then_some(Function { begin, parameters, body })
    })
}

/// Returns the group in round brackets at the beginning of `code`, brackets included.
fn leading_group(code: &str) -> &str {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &code[..=at];
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new(Path::new("crates/a/src/a.rs"), text.to_owned())
    }

    fn lines(places: fn(&Source) -> Vec<usize>, text: &str) -> Vec<usize> {
        let source = source(text);
        places(&source).into_iter().map(|at| source.line_of(at)).collect()
    }

    #[test]
    fn packed_lets_are_found_and_values_that_are_tuples_are_not() {
        let text = "let (a, b) = (1, f(2));\nlet (c, d) = pair();\nlet (e, f) = (g)(1);\nlet (mut h, i) =\n (1, 2);\n";
        assert_eq!(lines(packed_lets, text), [1, 4]);
    }

    #[test]
    fn tuple_parameters_are_found_and_tuple_types_are_not() {
        let text = "fn a((b, c): (u8, u8)) {}\nfn d(e: (u8, u8), f: fn(u8)) {}\nfn g(\n h: u8,\n (i, j): Pair,\n) {}\n";
        assert_eq!(lines(tuple_parameters, text), [1, 3]);
    }

    #[test]
    fn statements_and_arms_are_counted_not_lines() {
        let text = "fn a() {\n\n\n b(\n 1,\n );\n}\nfn c() { match d { 1 => {} _ => {} } e(); }\n";
        assert_eq!(lines(|source| long_functions(source, 1), text), [8]);
    }

    #[test]
    fn figure_above_its_ceiling_names_its_places_and_one_below_it_lowers_it() {
        let text = "fn a() -> Option<Option<u8>> {}\nfn b() -> Option<Option<u8>> {}\n";
        let source = source(text);
        let at = |limit| Ceiling {
            name: "nested options",
            limit,
            places: nested_options,
            advice: "write an enum",
        };
        assert_eq!(check_ceiling(&at(2), &[&source]), []);
        let above = check_ceiling(&at(1), &[&source]);
        assert_eq!(above.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 2]);
        assert!(
            above
                .iter()
                .all(|finding| finding.fails && finding.message.ends_with("write an enum"))
        );
        let below = check_ceiling(&at(3), &[&source]);
        assert!(below[0].fails && below[0].message.contains("lower the ceiling of 3"), "{below:?}");
    }
}
