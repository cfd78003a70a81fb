//! Selects the variables of a caller that an agent gets: the named ones and no other (rule 8.7).

use std::collections::BTreeMap;

/// Variables of one caller that are looked at; far more than a person's shell has.
const MAX_VARIABLES: usize = 1_000;
/// Bounds the bytes of all variables together that an agent gets from a caller. The system's own
/// limit for one variable is 128 KiB.
const MAX_TOTAL_BYTES: usize = 96 << 10;

/// Tells whether this can be the name of a variable.
pub(crate) fn is_variable_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.len() <= 256
        && name.bytes().next().is_some_and(letter)
        && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}

/// Tells whether every agent gets the variable: the search path, and the user's language.
pub fn is_always_passed(name: &str) -> bool {
    matches!(name, "PATH" | "LANG" | "LANGUAGE") || name.starts_with("LC_")
}

/// Returns the variables of `given` that are passed on to an agent: those that are always passed
/// and those in `named`, the list of its adapter or of the configuration.
pub(crate) fn select_passed(
    given: &BTreeMap<String, String>,
    named: &[String],
) -> BTreeMap<String, String> {
    let wanted = |name: &str| is_always_passed(name) || named.iter().any(|known| known == name);
    let mut room = MAX_TOTAL_BYTES;
    let mut passed = BTreeMap::new();
    for (name, value) in given.iter().take(MAX_VARIABLES) {
        // The host recognises its processes by Wharf's own variables: no caller may set them.
        if !is_variable_name(name)
            || name.starts_with("WHARF_")
            || value.contains('\0')
            || !wanted(name)
        {
            continue;
        }
        let size = name.len() + value.len();
        if size > room {
            tracing::warn!(
                name,
                "a caller's variable is not passed on: all of them together are too long"
            );
            continue;
        }
        room -= size;
        passed.insert(name.clone(), value.clone());
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_variables_are_passed_on() {
        let given =
            ["PATH", "LANG", "LC_ALL", "KEY", "SECRET", "LD_PRELOAD", "WHARF_TAG", "A=B", ""];
        let mut given: BTreeMap<String, String> =
            given.into_iter().map(|name| (name.to_owned(), "x".to_owned())).collect();
        given.insert("NUL".to_owned(), "a\0b".to_owned());
        let named = ["KEY", "WHARF_TAG", "NUL", "ABSENT", "A=B"].map(str::to_owned);
        let passed = select_passed(&given, &named);
        assert_eq!(passed.keys().collect::<Vec<_>>(), ["KEY", "LANG", "LC_ALL", "PATH"]);
    }

    #[test]
    fn passed_variables_have_a_bound() {
        let given = BTreeMap::from([
            ("KEY".to_owned(), "x".repeat(MAX_TOTAL_BYTES)),
            ("PATH".to_owned(), "/bin".to_owned()),
        ]);
        assert_eq!(select_passed(&given, &["KEY".to_owned()]).keys().collect::<Vec<_>>(), ["PATH"]);
    }
}
