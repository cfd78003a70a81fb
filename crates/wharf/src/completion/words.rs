//! Splits an unfinished command line into words, as a shell does.

/// Returns the words of the line; the last one is at the cursor and may be empty. Quotes may be
/// open at the end.
pub(super) fn split_line(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        let Some(last) = words.last_mut() else { break };
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None | Some('"'), '\\') => last.extend(rest.next()),
            (None, c) if c.is_whitespace() => {
                if !last.is_empty() {
                    words.push(String::new());
                }
            }
            (_, c) => last.push(c),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_line_is_split_into_words() {
        assert_eq!(split_line("wharf "), ["wharf", ""]);
        assert_eq!(split_line("wharf run  \"a b\" c\\ d 'e"), ["wharf", "run", "a b", "c d", "e"]);
        assert_eq!(
            split_line("wharf ls --filter agent=cl"),
            ["wharf", "ls", "--filter", "agent=cl"]
        );
    }
}
