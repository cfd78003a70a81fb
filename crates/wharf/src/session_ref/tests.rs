//! Abbreviations, labels and directories.

use std::path::PathBuf;

use serde_json::json;
use wharf_api::SessionInfo;

use super::{
    NoSingleMatch, hint_name, is_abbreviation, pick_session, refuse_other_meaning, short_ids,
};

fn session(id: &str, cwd: &str, status: &str, label: Option<&str>) -> SessionInfo {
    let mut value = json!({
        "id": format!("sess_{id}"), "adapterSlug": "demo", "workspaceSlug": "default", "cwd": cwd, "status": status,
        "startedAt": "2026-11-15T20:34:05.123Z", "turn": "idle", "queued": 0, "clients": 0, "lastSeq": 1, "resumable": false,
    });
    if let Some(label) = label {
        value["label"] = label.into();
    }
    serde_json::from_value(value).unwrap()
}

/// Newest first, as the host lists them.
fn sessions() -> Vec<SessionInfo> {
    vec![
        session("01k5zzzzzzaaaabbbbccccdddd", "/w", "killed", Some("docs")),
        session("01k5zzzzzyaaaa1111ccccdd11", "/w", "running", Some("docs")),
        session("01k5zzzzzxqqqq2222ccccdd22", "/x", "exited", Some("one")),
        session("01k5zzzzzwpppp3333ccccdd33", "/y", "running", None),
    ]
}

/// Returns the position of the session that is found, or the number of matches.
fn place(meant: Option<&str>, here: &str) -> Result<usize, usize> {
    let sessions = sessions();
    match pick_session(&sessions, meant, &[PathBuf::from(here)]) {
        Ok(found) => Ok(sessions.iter().position(|session| session.id == found.id).unwrap()),
        Err(NoSingleMatch::None) => Err(0),
        Err(NoSingleMatch::Many(found)) => Err(found.len()),
    }
}

#[test]
fn an_id_may_be_cut_at_either_end_and_go_without_its_prefix() {
    for meant in [
        "sess_01k5zzzzzxqqqq2222ccccdd22",
        "01k5zzzzzxqqqq2222ccccdd22",
        "01k5zzzzzx",
        "sess_01k5zzzzzx",
    ] {
        assert_eq!(place(Some(meant), "/"), Ok(2), "{meant}");
    }
    for meant in ["qqqq", "QQQQ2222", "dd22", "sess_qqq"] {
        assert_eq!(place(Some(meant), "/"), Ok(2), "{meant}");
    }
    assert!(
        !is_abbreviation("d22", "sess_x") && !is_abbreviation("22", &sessions()[2].id),
        "too short"
    );
    assert!(!is_abbreviation("2222", &sessions()[2].id), "the middle is no abbreviation");
}

#[test]
fn abbreviation_that_fits_several_sessions_names_none() {
    assert_eq!(place(Some("01k5"), "/"), Err(4));
    assert_eq!(place(Some("aaaa"), "/"), Err(2));
    assert_eq!(place(Some("nothing"), "/"), Err(0));
}

#[test]
fn a_label_means_the_session_at_work() {
    assert_eq!(place(Some("docs"), "/"), Ok(1));
    assert_eq!(place(Some("one"), "/"), Ok(2));
}

#[test]
fn a_label_that_several_sessions_have_means_the_newest_that_lives() {
    let place = |sessions: &[SessionInfo]| {
        let found = pick_session(sessions, Some("docs"), &[]).ok()?;
        sessions.iter().position(|session| session.id == found.id)
    };
    let mut both = sessions();
    both[0] = session("01k5zzzzzzaaaabbbbccccdddd", "/w", "running", Some("docs"));
    assert_eq!(place(&both), Some(0));
    for session in &mut both {
        session.status = wharf_api::SessionStatus::Exited;
        session.resumable = true;
    }
    assert_eq!(place(&both), Some(0), "the newest that can come back");
    both[0].archived = true;
    assert_eq!(place(&both), Some(1));
    both[1].resumable = false;
    assert_eq!(place(&both), None, "none of them can be prompted");
}

#[test]
fn archived_session_is_meant_by_its_label_only_if_no_other_can_be() {
    let newest = session("01k5zzzzzzaaaabbbbccccdddd", "/w", "running", Some("docs"));
    let older = session("01k5zzzzzyaaaa1111ccccdd11", "/w", "exited", Some("docs"));
    let mut both = [newest, older];
    both[0].archived = true;
    both[1].resumable = true;
    assert_eq!(pick_session(&both, Some("docs"), &[]).unwrap().id, both[1].id);
    both[1].resumable = false;
    assert_eq!(pick_session(&both, Some("docs"), &[]).unwrap().id, both[0].id);
}

#[test]
fn hint_names_the_label_if_it_means_the_session() {
    let sessions = sessions();
    let hints: Vec<String> = sessions.iter().map(|session| hint_name(&sessions, session)).collect();
    assert_eq!(
        hints,
        ["ccdddd", "docs", "one", "ccdd33"],
        "the first has a label that means the second"
    );
    for (label, hint) in
        [("two words", "'two words'"), ("-f", "ccdddd"), (".", "ccdddd"), ("a\u{7}", "ccdddd")]
    {
        let odd = session("01k5zzzzzzaaaabbbbccccdddd", "/w", "running", Some(label));
        assert_eq!(hint_name(std::slice::from_ref(&odd), &odd), hint, "{label:?}");
    }
}

#[test]
fn word_that_means_a_session_already_is_no_label_of_a_new_one() {
    let sessions = sessions();
    let refused =
        |word: &str| refuse_other_meaning(&sessions, word).err().map(|error| error.to_string());
    for word in [".", "sess_01k5zzzzzxqqqq2222ccccdd22", "dd22", "qqqq"] {
        assert!(refused(word).is_some_and(|told| told.contains(word)), "{word}");
    }
    assert_eq!((refused("docs"), refused("new")), (None, None));
}

#[test]
fn title_names_a_session_if_nothing_else_does() {
    let mut titled = sessions();
    titled[3].title = Some("Fix the parser".to_owned());
    titled[2].title = Some("docs".to_owned());
    let find = |meant: &str| pick_session(&titled, Some(meant), &[]).map(|found| found.id.as_str());
    assert_eq!(find("Fix the parser"), Ok(titled[3].id.as_str()));
    assert_eq!(find("docs"), Ok(titled[1].id.as_str()), "a label comes first");
    assert_eq!(find("Fix"), Err(NoSingleMatch::None), "only the whole title");
}

#[test]
fn without_a_name_it_is_the_newest_of_the_directory_that_lives() {
    assert_eq!(place(None, "/w"), Ok(1));
    assert_eq!(place(Some("."), "/w"), Ok(1));
    assert_eq!(place(None, "/x"), Ok(2), "an ended one if there is no other");
    assert_eq!(place(None, "/nowhere"), Err(0));
    let sessions = sessions();
    let two_names = [PathBuf::from("/link"), PathBuf::from("/y")];
    assert_eq!(pick_session(&sessions, None, &two_names).unwrap().id, sessions[3].id);
}

#[test]
fn short_ids_are_as_long_as_it_takes() {
    let sessions = sessions();
    let all: Vec<&SessionInfo> = sessions.iter().collect();
    assert_eq!(short_ids(&all), ["ccdddd", "ccdd11", "ccdd22", "ccdd33"]);
    let twin = session("01k5zzzzzzaaaabbbbxcccdddd", "/w", "killed", None);
    assert_eq!(short_ids(&[&sessions[0], &twin]), ["ccccdddd", "xcccdddd"]);
    assert!(short_ids(&[]).is_empty());
}

#[test]
fn session_with_words_of_a_newer_host_is_shown_as_it_is() {
    let mut novel = session("01k5zzzzzzaaaabbbbccccdddd", "/w", "dreaming", None);
    assert!(!novel.status.is_alive());
    assert_eq!(crate::session_state::state_word(&novel).0, "dreaming");
    novel.status = "running".into();
    novel.turn = "pondering".into();
    assert_eq!(crate::session_state::state_word(&novel).0, "pondering");
}
