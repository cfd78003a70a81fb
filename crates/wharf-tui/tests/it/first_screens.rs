//! The first screen: the form without sessions, else the list.

use serde_json::{Value, json};
use wharf_tui::TuiEffect;

use crate::frames::check_frame;
use crate::scene::{Scene, attention, session};

fn adapter(slug: &str, installed: bool) -> Value {
    json!({ "slug": slug, "name": slug, "description": "", "version": "", "source": "built-in", "command": [slug],
        "protocol": "acp", "installed": installed, "variables": ["DEMO_KEY"], "modes": [{ "id": "plan" }], "options": [],
        "capabilities": {}, "default": false, "login": "yes" })
}

#[test]
fn form_opens_without_sessions_and_starts_the_agent_used_here_last() {
    let mut scene = Scene::connected(80, 24);
    let calls = scene.take_calls();
    let paths: Vec<&str> = calls.iter().map(|(_, call)| call.path.as_str()).collect();
    assert_eq!(paths, ["/adapters", "/places", "/host"]);
    let mut codex = adapter("codex", true);
    codex["missing"] = json!(["no login was found; run: wharf login codex"]);
    scene.answer(calls[0].0, &json!({ "adapters": [adapter("demo", true), codex] }));
    let place =
        json!({ "cwd": "/w/blog", "adapterSlug": "codex", "lastUsedAt": "", "sessions": 1 });
    scene.answer(calls[1].0, &json!({ "recent": [place], "workspaces": [] }));
    scene.list(&[]);
    assert!(
        scene.text().contains("New session") && scene.text().contains("codex"),
        "{}",
        scene.text()
    );
    scene.take_effects();
    scene.type_text("fix it");
    scene.press("ctrl-j");
    scene.type_text("please");
    scene.press("enter");
    let (id, call) = scene.take_calls().pop().unwrap();
    let body: Value = serde_json::from_str(call.body.as_deref().unwrap()).unwrap();
    assert_eq!(body, json!({ "adapter": "codex", "cwd": "/w/blog", "prompt": "fix it\nplease" }));
    assert_eq!(
        (call.path.as_str(), call.forwarded_variables),
        ("/sessions/agent", Some(vec!["DEMO_KEY".to_owned()]))
    );
    scene.answer(id, &session("sess_new", "fix it", json!({ "status": "starting" })));
    let opens = |effect: &TuiEffect| matches!(effect, TuiEffect::OpenRows { session, .. } if session == "sess_new");
    assert!(scene.take_effects().iter().any(opens));
    assert!(!scene.text().contains("New session"), "{}", scene.text());
}

#[test]
fn form_proposes_a_configured_agent_before_the_demo() {
    for (login, proposed) in [("unknown", "goose"), ("no", "demo")] {
        let mut scene = Scene::connected(80, 24);
        let calls = scene.take_calls();
        let mut goose = adapter("goose", true);
        (goose["source"], goose["login"]) = (json!("config"), json!(login));
        // Without `default_agent` the demo is the default agent of the host.
        let mut demo = adapter("demo", true);
        demo["default"] = json!(true);
        scene.answer(calls[0].0, &json!({ "adapters": [demo, goose] }));
        scene.list(&[]);
        scene.take_effects();
        scene.type_text("fix it");
        scene.press("enter");
        let (_, call) = scene.take_calls().pop().unwrap();
        let body: Value = serde_json::from_str(call.body.as_deref().unwrap()).unwrap();
        assert_eq!(body["adapter"], proposed, "login: {login}");
    }
}

#[test]
fn refused_start_keeps_the_form_and_its_text() {
    let mut scene = Scene::connected(80, 24);
    let calls = scene.take_calls();
    scene.answer(calls[0].0, &json!({ "adapters": [adapter("demo", true)] }));
    scene.list(&[]);
    scene.type_text("fix it");
    scene.press("enter");
    let (id, _) = scene.take_calls().pop().unwrap();
    let failure = wharf_tui::ApiFailure { code: None, text: "the disk is full".to_owned() };
    scene.feed(wharf_tui::TuiInput::Answer { call: id, answer: Err(failure) });
    assert!(
        scene.text().contains("the disk is full") && scene.text().contains("fix it"),
        "{}",
        scene.text()
    );
}

#[test]
fn list_opens_at_the_session_of_this_directory_else_at_the_first_that_waits() {
    let elsewhere = |id: &str, members: Value| {
        let mut session = session(id, id, members);
        session["cwd"] = json!("/w/other");
        session
    };
    let waiting =
        elsewhere("waiting", attention("needs_answer", "2026-11-17T09:58:00.000Z", Some("may I?")));
    let opened = |scene: &mut Scene| {
        scene.take_effects();
        scene.press("enter");
        scene.take_effects().into_iter().find_map(|effect| match effect {
            TuiEffect::OpenRows { session, .. } => Some(session),
            _ => None,
        })
    };
    let mut scene = Scene::connected(80, 24);
    scene.list(&[elsewhere("quiet", json!({})), waiting.clone()]);
    assert_eq!(opened(&mut scene).as_deref(), Some("waiting"));
    let mut scene = Scene::connected(80, 24);
    scene.list(&[waiting, session("here", "here", json!({}))]);
    assert_eq!(opened(&mut scene).as_deref(), Some("here"));
}

#[test]
fn form_offers_recent_directories_and_names_other_agents() {
    let mut scene = Scene::connected(100, 24);
    let calls = scene.take_calls();
    scene.answer(
        calls[0].0,
        &json!({ "adapters": [adapter("demo", true), adapter("gemini", false)] }),
    );
    let place =
        |cwd: &str| json!({ "cwd": cwd, "adapterSlug": "demo", "lastUsedAt": "", "sessions": 1 });
    scene.answer(
        calls[1].0,
        &json!({ "recent": [place("/w/blog"), place("/w/shop")], "workspaces": [] }),
    );
    scene.list(&[]);
    scene.press("tab right");
    check_frame(&scene, "new_session_100x24");
    scene.press("right");
    assert!(scene.text().contains("/w/blog"), "the choice goes around: {}", scene.text());
}

#[test]
fn other_version_of_the_host_is_told() {
    let mut scene = Scene::connected(100, 24);
    let calls = scene.take_calls();
    let host = json!({ "version": "9.9.9", "pid": 1, "url": "", "stateDir": "", "defaultAgent": "demo",
        "sessions": { "total": 0, "live": 0 } });
    scene.answer(calls[2].0, &host);
    scene.list(&[session("a", "a", json!({}))]);
    assert!(scene.text().contains("host 9.9.9, this is"), "{}", scene.text());
}
