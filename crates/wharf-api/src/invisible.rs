//! Lists the characters that a reader cannot see, or that reorder the text around them. Every
//! front-end shows them by their names (rule 19.5). `fixtures/text/odd_characters.txt` has the same
//! list with examples; the web page is tested against it too.

/// A range of characters; `first` and `last` belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CharRange {
    first: char,
    last: char,
}

/// Characters that do their work in a script or an emoji directly after others, and are shown as
/// they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exception {
    characters: CharRange,
    /// A character that is marked itself does not count.
    after: &'static [CharRange],
}

/// The characters that are marked wherever they stand, but for the exceptions.
const INVISIBLE: &[CharRange] = &[
    range('\u{ad}', '\u{ad}'),
    range('\u{34f}', '\u{34f}'),
    range('\u{61c}', '\u{61c}'),
    range('\u{115f}', '\u{1160}'),
    range('\u{17b4}', '\u{17b5}'),
    range('\u{180b}', '\u{180f}'),
    range('\u{200b}', '\u{200f}'),
    range('\u{2028}', '\u{2029}'),
    range('\u{202a}', '\u{202e}'),
    range('\u{2060}', '\u{206f}'),
    range('\u{2800}', '\u{2800}'),
    range('\u{3164}', '\u{3164}'),
    range('\u{fe00}', '\u{fe0f}'),
    range('\u{feff}', '\u{feff}'),
    range('\u{ffa0}', '\u{ffa0}'),
    range('\u{fff0}', '\u{fffb}'),
    range('\u{13430}', '\u{1343f}'),
    range('\u{1bca0}', '\u{1bca3}'),
    range('\u{1d173}', '\u{1d17a}'),
    range('\u{e0000}', '\u{e0fff}'),
];

const EXCEPTIONS: &[Exception] = &[
    Exception {
        characters: range('\u{200c}', '\u{200d}'),
        after: &[
            range('\u{600}', '\u{8ff}'),
            range('\u{900}', '\u{dff}'),
            range('\u{f00}', '\u{109f}'),
            range('\u{1780}', '\u{18af}'),
            range('\u{fb50}', '\u{fdff}'),
            range('\u{fe70}', '\u{fefc}'),
            range('\u{11000}', '\u{11fff}'),
        ],
    },
    Exception {
        characters: range('\u{200d}', '\u{200d}'),
        after: &[
            range('\u{a9}', '\u{a9}'),
            range('\u{ae}', '\u{ae}'),
            range('\u{203c}', '\u{2bff}'),
            range('\u{3030}', '\u{3030}'),
            range('\u{303d}', '\u{303d}'),
            range('\u{3297}', '\u{3297}'),
            range('\u{3299}', '\u{3299}'),
            range('\u{fe0f}', '\u{fe0f}'),
            range('\u{1f000}', '\u{1faff}'),
        ],
    },
    Exception {
        characters: range('\u{fe00}', '\u{fe0f}'),
        after: &[
            range('#', '#'),
            range('*', '*'),
            range('0', '9'),
            range('\u{a9}', '\u{a9}'),
            range('\u{ae}', '\u{ae}'),
            range('\u{1000}', '\u{109f}'),
            range('\u{203c}', '\u{2bff}'),
            range('\u{3000}', '\u{9fff}'),
            range('\u{f900}', '\u{faff}'),
            range('\u{1f000}', '\u{1faff}'),
            range('\u{20000}', '\u{3ffff}'),
        ],
    },
    Exception {
        characters: range('\u{180b}', '\u{180d}'),
        after: &[range('\u{1820}', '\u{18af}')],
    },
    Exception {
        characters: range('\u{180f}', '\u{180f}'),
        after: &[range('\u{1820}', '\u{18af}')],
    },
    Exception {
        characters: range('\u{e0100}', '\u{e01ef}'),
        after: &[
            range('\u{3400}', '\u{9fff}'),
            range('\u{f900}', '\u{faff}'),
            range('\u{20000}', '\u{3ffff}'),
        ],
    },
    Exception {
        characters: range('\u{2800}', '\u{2800}'),
        after: &[range('\u{2800}', '\u{28ff}')],
    },
];

/// Flags of parts of a country are this flag, a few tag characters that name the part, and the end
/// of tags.
const BLACK_FLAG: char = '\u{1f3f4}';
const END_OF_TAGS: char = '\u{e007f}';
const MAX_FLAG_TAGS: u8 = 6;

/// The number of preceding characters that can decide whether a character is marked: the length of
/// the longest flag.
const MAX_CONTEXT_CHARS: usize = 8;

const fn range(first: char, last: char) -> CharRange {
    CharRange { first, last }
}

impl CharRange {
    const fn contains(self, c: char) -> bool {
        self.first <= c && c <= self.last
    }
}

/// Reads a text from its beginning, and finds the characters that are shown by their names.
#[derive(Clone, Copy, Debug, Default)]
pub struct InvisibleFinder {
    /// The character before, unless it is marked.
    previous: Option<char>,
    /// The number of tags since a black flag.
    flag_tags: Option<u8>,
}

impl InvisibleFinder {
    /// Goes on after a text.
    pub fn after(text: &str) -> Self {
        let mut finder = Self::default();
        let start = text.char_indices().rev().nth(MAX_CONTEXT_CHARS - 1).map_or(0, |(at, _)| at);
        for c in text[start..].chars() {
            finder.is_invisible(c);
        }
        finder
    }

    /// Takes the next character. Returns true if it is shown by its name.
    pub fn is_invisible(&mut self, c: char) -> bool {
        let is_marked =
            c >= '\u{ad}' && INVISIBLE.iter().any(|range| range.contains(c)) && !self.is_at_work(c);
        self.flag_tags = match (c, self.flag_tags) {
            (BLACK_FLAG, _) => Some(0),
            (_, Some(tags)) if is_flag_tag(c) && !is_marked => Some(tags + 1),
            _ => None,
        };
        self.previous = (!is_marked).then_some(c);
        is_marked
    }

    fn is_at_work(&self, c: char) -> bool {
        if let Some(tags) = self.flag_tags {
            return (c == END_OF_TAGS && tags > 0)
                || (is_flag_tag(c) && tags < MAX_FLAG_TAGS)
                || self.is_excepted(c);
        }
        self.is_excepted(c)
    }

    fn is_excepted(&self, c: char) -> bool {
        let Some(previous) = self.previous else { return false };
        let mut exceptions = EXCEPTIONS.iter().filter(|exception| exception.characters.contains(c));
        exceptions.any(|exception| exception.after.iter().any(|range| range.contains(previous)))
    }
}

const fn is_flag_tag(c: char) -> bool {
    matches!(c, '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}')
}

/// Returns the name of a character, such as `[U+200B]`.
pub fn name_character(c: char) -> String {
    format!("[U+{:04X}]", u32::from(c))
}

/// Returns the text in quotes for a message, with names for invisible and control characters.
pub fn quote_visibly(text: &str) -> String {
    let mut finder = InvisibleFinder::default();
    let show = |c: char| {
        let is_hidden = finder.is_invisible(c) || c.is_control();
        if is_hidden { name_character(c) } else { c.to_string() }
    };
    let shown: String = text.chars().map(show).collect();
    format!("\"{shown}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("../../../fixtures/text/odd_characters.txt");
    const RULES: &str = include_str!("../../../docs/spec/page.md");

    fn parse_char(hex: &str) -> char {
        char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap()
    }

    fn parse_range(text: &str) -> CharRange {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        range(parse_char(first), parse_char(last))
    }

    fn find_lines(kind: &str) -> impl Iterator<Item = &'static str> {
        FIXTURE.lines().filter_map(move |line| line.strip_prefix(kind))
    }

    /// Replaces `\u{200B}` by the character.
    fn unescape(text: &str) -> String {
        let mut pieces = text.split("\\u{");
        let mut out = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (hex, rest) = piece.split_once('}').unwrap();
            out.push(parse_char(hex));
            out.push_str(rest);
        }
        out
    }

    fn mark(text: &str, finder: &mut InvisibleFinder) -> String {
        let show = |c| if finder.is_invisible(c) { name_character(c) } else { c.to_string() };
        text.chars().map(show).collect()
    }

    #[test]
    fn lists_are_those_of_the_fixture() {
        assert_eq!(INVISIBLE.to_vec(), find_lines("marked ").map(parse_range).collect::<Vec<_>>());
        let listed: Vec<(CharRange, Vec<CharRange>)> = EXCEPTIONS
            .iter()
            .map(|exception| (exception.characters, exception.after.to_vec()))
            .collect();
        let parse = |line: &str| {
            let (characters, after) = line.split_once(": ").unwrap();
            (parse_range(characters), after.split(' ').map(parse_range).collect())
        };
        assert_eq!(listed, find_lines("after ").map(parse).collect::<Vec<_>>());
    }

    #[test]
    fn rule_names_every_range_of_the_fixture() {
        let (_, rule) = RULES.split_once("### 19.5").unwrap();
        let rule = rule.split_once("### 19.6").unwrap().0.replace('\n', " ");
        let named = |range: &str| rule.contains(&format!("U+{}", range.replace('-', " to U+")));
        let afters = find_lines("after ")
            .flat_map(|line| line.split([' ', ':']))
            .filter(|range| !range.is_empty());
        let missing: Vec<&str> =
            find_lines("marked ").chain(afters).filter(|range| !named(range)).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    #[test]
    fn texts_are_marked_as_the_fixture_says_however_they_are_cut() {
        let mut count = 0;
        for case in find_lines("case ") {
            let (text, shown) = case.split_once(" => ").unwrap();
            let text = unescape(text);
            assert_eq!(mark(&text, &mut InvisibleFinder::default()), unescape(shown), "{case}");
            for (at, _) in text.char_indices() {
                let (before, rest) = text.split_at(at);
                let pieces = mark(before, &mut InvisibleFinder::default())
                    + &mark(rest, &mut InvisibleFinder::after(before));
                assert_eq!(pieces, unescape(shown), "{case}, cut at {at}");
            }
            count += 1;
        }
        assert!(count > 10, "{count} cases");
    }
}
