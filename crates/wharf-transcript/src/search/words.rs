//! The words of a text as search compares them: without case, accents and punctuation.

/// A longer word is compared by its beginning: it is data rather than a word.
const MAX_WORD_BYTES: usize = 64;

/// A word and the place where the text has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WordSpan {
    /// The word as it is compared.
    pub(super) word: String,
    /// The first byte of the word, and the byte after its last.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The kinds of characters that the division into words tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CharClass {
    /// Part of a longer word.
    Letter,
    /// A word by itself: a sign of a script without spaces between words, or an emoji.
    Single,
    /// An accent that is written as a character of its own. It belongs to the word and is not
    /// compared.
    Accent,
    Separator,
}

/// Returns the words of a text in their order.
pub(super) fn split_words(text: &str) -> Vec<WordSpan> {
    let mut words: Vec<WordSpan> = Vec::new();
    let mut is_open = false;
    for (start, c) in text.char_indices() {
        let end = start + c.len_utf8();
        match classify_char(c) {
            CharClass::Separator => is_open = false,
            CharClass::Accent => {
                if let Some(word) = words.last_mut().filter(|_| is_open) {
                    word.end = end;
                }
            }
            class @ (CharClass::Letter | CharClass::Single) => {
                if !is_open || class == CharClass::Single {
                    words.push(WordSpan { word: String::new(), start, end });
                }
                is_open = class == CharClass::Letter;
                if let Some(word) = words.last_mut() {
                    word.end = end;
                    push_folded(&mut word.word, c);
                }
            }
        }
    }
    words.retain(|word| !word.word.is_empty());
    words
}

fn classify_char(c: char) -> CharClass {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => CharClass::Letter,
        '\0'..='\u{7f}' => CharClass::Separator,
        '\u{300}'..='\u{36f}' => CharClass::Accent,
        // Thai and Lao, Myanmar, Khmer, kana, Han.
        '\u{e01}'..='\u{eff}'
        | '\u{1000}'..='\u{109f}'
        | '\u{1780}'..='\u{17ff}'
        | '\u{3041}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' => CharClass::Single,
        // Arrows, technical signs, symbols and emoji.
        '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{23ff}'
        | '\u{2600}'..='\u{27bf}'
        | '\u{2b00}'..='\u{2bff}'
        | '\u{1f000}'..='\u{1faff}' => CharClass::Single,
        c if c.is_alphanumeric() => CharClass::Letter,
        _ => CharClass::Separator,
    }
}

/// Adds a character without its case and accents.
fn push_folded(word: &mut String, c: char) {
    for lower in c.to_lowercase() {
        if word.len() + lower.len_utf8() > MAX_WORD_BYTES {
            return;
        }
        match lower {
            'ß' => word.push_str("ss"),
            'æ' => word.push_str("ae"),
            'œ' => word.push_str("oe"),
            '\u{300}'..='\u{36f}' => {}
            lower => word.push(strip_accent(lower)),
        }
    }
}

/// Returns the letter below an accent. Only Latin letters have theirs removed; others are compared
/// as they are.
const fn strip_accent(c: char) -> char {
    match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => 'c',
        'ď' | 'đ' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ĥ' | 'ħ' => 'h',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' => 'i',
        'ĵ' => 'j',
        'ķ' => 'k',
        'ĺ' | 'ļ' | 'ľ' | 'ŀ' | 'ł' => 'l',
        'ñ' | 'ń' | 'ņ' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' => 'o',
        'ŕ' | 'ŗ' | 'ř' => 'r',
        'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => 's',
        'ţ' | 'ť' | 'ŧ' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' => 'u',
        'ŵ' => 'w',
        'ý' | 'ÿ' | 'ŷ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        split_words(text).into_iter().map(|span| span.word).collect()
    }

    #[test]
    fn words_have_no_case_accents_and_punctuation() {
        assert_eq!(words("Crème BRÛLÉE, Größe: 3.5"), ["creme", "brulee", "grosse", "3", "5"]);
        assert_eq!(words("cafe\u{301}s"), ["cafes"], "an accent of its own is part of the word");
        assert_eq!(words("src/row_store.rs"), ["src", "row", "store", "rs"]);
        assert_eq!(words("\u{301} -- \u{0} …"), Vec::<String>::new());
        assert_eq!(words("Привет ΜΈΡΑ"), ["привет", "μέρα"]);
    }

    #[test]
    fn signs_of_scripts_without_spaces_and_emoji_are_words() {
        assert_eq!(words("解析器ok🎉🎉"), ["解", "析", "器", "ok", "🎉", "🎉"]);
        assert_eq!(words("✅ done ❤\u{fe0f}"), ["✅", "done", "❤"]);
    }

    #[test]
    fn long_word_is_compared_by_its_beginning() {
        let found = split_words(&format!("{}é b", "x".repeat(1_000)));
        assert_eq!((found[0].word.len(), found[0].end), (MAX_WORD_BYTES, 1_002));
        assert_eq!(found[1].word, "b");
    }

    #[test]
    fn spans_cover_the_words_in_the_text() {
        let text = "Fix Größe, now";
        let spans: Vec<&str> =
            split_words(text).iter().map(|span| &text[span.start..span.end]).collect();
        assert_eq!(spans, ["Fix", "Größe", "now"]);
    }
}
