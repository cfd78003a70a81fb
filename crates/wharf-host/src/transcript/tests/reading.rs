//! Pages by kind, around a row, the whole text of a turn, and a database that loses rows.

use serde_json::json;
use wharf_store::{SqliteTranscripts, StoreError};
use wharf_testkit::random::TestRandom;

use super::{LogMaker, fold_entries, new_state};
use crate::transcript::pages::{PageAnchor, PageRequest, TurnPlace};

/// Lets the agent say so many bytes in chunks of 1,000.
fn say_long(maker: &mut LogMaker, bytes: usize) {
    for _ in 0..bytes / 1_000 {
        maker.update(
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "x".repeat(1_000) } }),
        );
    }
}

fn of_turn(place: TurnPlace) -> PageAnchor {
    PageAnchor::Turn { prompt: "prm_1".to_owned(), place }
}

#[test]
fn pages_of_one_kind_reach_every_row_however_large_they_are() {
    let mut maker = LogMaker::new(TestRandom::from_seed(1));
    maker.begin_turn();
    for n in 0..120 {
        maker.update(json!({ "sessionUpdate": "tool_call", "toolCallId": format!("{n}"), "title": "look", "status": "completed" }));
        say_long(&mut maker, 20_000);
    }
    maker.end_turn();
    let mut state = new_state(&SqliteTranscripts::in_memory().unwrap());
    fold_entries(&mut state, &maker.entries);
    for is_written in [false, true] {
        if is_written {
            state.write().unwrap();
        }
        let kinds = vec!["message".to_owned()];
        let read_all = |start: PageAnchor, go_on: fn(String) -> PageAnchor, is_older: bool| {
            let (mut anchor, mut count) = (start, 0);
            loop {
                let request = PageRequest { anchor, limit: 200, kinds: kinds.clone() };
                let page = state.page(&request).unwrap().unwrap();
                count += page.rows.len();
                match if is_older { page.before } else { page.after } {
                    Some(cursor) => anchor = go_on(cursor),
                    None => return count,
                }
            }
        };
        assert_eq!(
            read_all(PageAnchor::End, PageAnchor::Before, true),
            120,
            "from the end, written: {is_written}"
        );
        assert_eq!(
            read_all(PageAnchor::Start, PageAnchor::After, false),
            120,
            "from the start, written: {is_written}"
        );
        let (before, after) =
            (|id| of_turn(TurnPlace::Before(id)), |id| of_turn(TurnPlace::After(id)));
        assert_eq!(read_all(of_turn(TurnPlace::End), before, true), 120, "from the turn's end");
        assert_eq!(read_all(of_turn(TurnPlace::Start), after, false), 120, "from the turn's start");
    }
}

#[test]
fn text_of_a_turn_is_whole_although_its_row_is_cut() {
    let mut maker = LogMaker::new(TestRandom::from_seed(1));
    maker.begin_turn();
    say_long(&mut maker, 40_000);
    let half = maker.entries.len();
    say_long(&mut maker, 10_000);
    maker.end_turn();
    let mut state = new_state(&SqliteTranscripts::in_memory().unwrap());
    fold_entries(&mut state, &maker.entries[..half]);
    let running = state.turn_text("prm_1").unwrap().unwrap();
    assert_eq!((running.text.len(), running.is_cut), (40_000, false));
    fold_entries(&mut state, &maker.entries[half..]);
    let ended = state.turn_text("prm_1").unwrap().unwrap();
    assert_eq!((ended.text.len(), ended.is_cut), (50_000, false));
}

#[test]
fn page_around_a_row_begins_with_a_turn_of_at_most_twice_the_limit() {
    let mut maker = LogMaker::new(TestRandom::from_seed(1));
    maker.begin_turn();
    for n in 0..15 {
        maker.update(json!({ "sessionUpdate": "tool_call", "toolCallId": format!("{n}"), "title": "look", "status": "completed" }));
    }
    maker.end_turn();
    let mut state = new_state(&SqliteTranscripts::in_memory().unwrap());
    fold_entries(&mut state, &maker.entries);
    let all = PageRequest { anchor: PageAnchor::Start, limit: 100, kinds: Vec::new() };
    let middle = state.page(&all).unwrap().unwrap().rows[13].id.clone();
    let page = state.page(&PageRequest {
        anchor: PageAnchor::Around(middle),
        limit: 10,
        kinds: Vec::new(),
    });
    let page = page.unwrap().unwrap();
    assert_eq!((page.is_mid_turn, page.before), (false, None));
}

#[test]
fn nothing_is_written_after_the_database_has_lost_earlier_rows() {
    let mut maker = LogMaker::new(TestRandom::from_seed(1));
    maker.begin_turn();
    say_long(&mut maker, 2_000);
    maker.end_turn();
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteTranscripts::open(&folder.path().join("transcript.db")).unwrap();
    let mut state = new_state(&store);
    let half = maker.entries.len() - 1;
    fold_entries(&mut state, &maker.entries[..half]);
    state.write().unwrap();
    fold_entries(&mut state, &maker.entries[half..]);
    // Another session has met damage.
    store.recreate().unwrap();
    assert!(state.rows.is_lost());
    assert!(matches!(state.write(), Err(StoreError::Recreated)));
    assert_eq!(new_state(&store).load().unwrap(), None, "a checkpoint without its rows");
    let mut again = new_state(&store);
    fold_entries(&mut again, &maker.entries);
    again.write().unwrap();
}
