//! The normaliser.

use serde_json::json;
use wharf_testkit::normaliser::Normaliser;

#[test]
fn ids_and_times_get_stable_names() {
    let mut normal = Normaliser::new();
    normal.set_name("scripted-12-1", "agent-session");
    let (one, two) = ("sess_01ARZ3NDEKTSV4RRFFQ69G5FAV", "sess_01ARZ3NDEKTSV4RRFFQ69G5FAW");
    let value = json!({
        "sessionId": one,
        "url": format!("/sessions/{two}?after=3-17"),
        "again": [one, "scripted-12-1"],
        "clientId": "d290f1ee-6c54-4b01-90e6-d701748f0851",
        "startedAt": "2026-11-15T19:17:40.854Z",
        "endedAt": 1_700_000_000,
        "text": "ordinary words, 1-2-3 and sess_short stay",
        "count": 5,
    });
    let expected = json!({
        "sessionId": "<session-1>",
        "url": "/sessions/<session-2>?after=<event-1>",
        "again": ["<session-1>", "<agent-session>"],
        "clientId": "<uuid-1>",
        "startedAt": "<time>",
        "endedAt": 0,
        "text": "ordinary words, 1-2-3 and sess_short stay",
        "count": 5,
    });
    // Objects of serde_json are sorted by key, so the order of appearance is that of the keys.
    assert_eq!(normal.normalise_value(&json!([one, two]))[1], "<session-2>");
    assert_eq!(normal.normalise_value(&value), expected);
}
