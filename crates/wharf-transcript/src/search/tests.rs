//! The words of rows: the parts of each kind that search looks at, and their bound.

use serde_json::json;

use super::{SEARCHED_KINDS, SearchQuery, index_words, make_snippet};
use crate::tests::Transcript;

fn transcript() -> Transcript {
    let mut log = Transcript::started();
    log.prompt("prm_1", "Find the Größe of the wombat");
    log.think("a secret thought about numbats");
    log.say("The quokka is in the parser.");
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Run the tests", "kind": "execute",
        "rawInput": { "command": "cargo test --lib bilby" }, "status": "completed",
        "locations": [{ "path": "/w/blog/src/row_store.rs" }],
        "content": [{ "type": "content", "content": { "type": "text", "text": "output with a dingo" } }] }));
    let ask = log
        .ask(&json!({ "toolCallId": "c2", "title": "Delete the burrow", "rawInput": { "command": "rm -rf burrow" } }));
    log.answer(ask);
    log.update(
        json!({ "sessionUpdate": "plan", "entries": [{ "content": "plan for a possum", "status": "pending" }] }),
    );
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    log
}

/// Returns the kinds of the rows whose words have this one.
fn kinds_with(log: &Transcript, word: &str) -> Vec<&'static str> {
    let has = |words: &str| words.split(' ').any(|known| known == word);
    log.rows()
        .iter()
        .filter(|row| has(&index_words(row)))
        .map(|row| row.body.kind())
        .collect()
}

#[test]
fn prompts_messages_titles_commands_and_paths_are_searched_and_nothing_else() {
    let log = transcript();
    for (word, kinds) in [
        ("wombat", &["prompt"][..]),
        ("grosse", &["prompt"]),
        ("quokka", &["message"]),
        ("tests", &["tool"]),
        ("bilby", &["tool"]),
        ("store", &["tool"]),
        ("burrow", &["tool", "ask"]),
        ("numbats", &[]),
        ("dingo", &[]),
        ("possum", &[]),
        ("¶", &["tool", "tool", "ask"]),
    ] {
        assert_eq!(kinds_with(&log, word), kinds, "{word}");
    }
    for row in log.rows() {
        assert_eq!(
            !index_words(row).is_empty(),
            SEARCHED_KINDS.contains(&row.body.kind()),
            "{row:?}"
        );
    }
}

#[test]
fn words_of_a_row_are_bounded() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "x");
    log.say(&"many words é ".repeat(20_000));
    let words = index_words(&log.rows()[1]);
    assert!((10_000..=32 * 1024).contains(&words.len()), "{}", words.len());
}

#[test]
fn snippet_is_of_the_text_that_has_most_of_the_query() {
    let log = transcript();
    let tool = log.rows().iter().find(|row| row.body.kind() == "tool").unwrap();
    let shown = |query: &str| {
        let parts = make_snippet(tool, &SearchQuery::parse(query).unwrap());
        parts.into_iter().map(|part| (part.text, part.is_match)).collect::<Vec<_>>()
    };
    assert_eq!(
        shown("src/row_sto"),
        [("src/row_store".to_owned(), true), (".rs".to_owned(), false)]
    );
    let command = [
        ("cargo ".to_owned(), false),
        ("test".to_owned(), true),
        (" --lib ".to_owned(), false),
        ("bilby".to_owned(), true),
    ];
    assert_eq!(shown("test bilby"), command);
}
