//! In force, joined spellings and restoration, without an agent.

use wharf_core::{AgentSetting, Raw, SettingSpelling, UpdateKind};

use super::{
    AgentSettings, Restoration, RestoreStep, ReturnTerms, SettingRequest, patched_options,
};

const BOTH: &str = r#"{"id":1,"result":{
    "modes":{"currentModeId":"yolo","availableModes":[{"id":"ask"},{"id":"yolo"},{"id":"secret"}]},
    "models":{"currentModelId":"big[low]","availableModels":[{"modelId":"big[low]"},{"modelId":"big[high]"}]},
    "configOptions":[
        {"id":"mode","category":"mode","type":"select","currentValue":"yolo","options":[{"value":"ask"},{"value":"yolo"}]},
        {"id":"model","category":"model","type":"select","currentValue":"big","options":[
            {"group":"g","name":"G","options":[{"value":"big"},{"value":"small"}]}]},
        {"id":"fast","type":"boolean","currentValue":true}]}}"#;

fn answered(answer: &str) -> AgentSettings {
    let mut settings = AgentSettings::default();
    settings.take_answer(answer.as_bytes());
    settings
}

fn request(method: &str, params: &str) -> SettingRequest {
    let frame = format!(r#"{{"id":1,"method":"{method}","params":{params}}}"#);
    SettingRequest::read(method, frame.as_bytes()).unwrap().unwrap()
}

fn set_mode(mode: &str) -> SettingRequest {
    request("session/set_mode", &format!(r#"{{"modeId":"{mode}"}}"#))
}

fn set_option(option: &str, value: &str) -> SettingRequest {
    request("session/set_config_option", &format!(r#"{{"configId":"{option}","value":{value}}}"#))
}

/// The settings as `mode="ask"`, sorted.
fn shown(in_force: &[AgentSetting]) -> Vec<String> {
    let mut shown: Vec<String> = in_force
        .iter()
        .map(|one| match one.of {
            SettingSpelling::Mode => format!("modes={}", one.value.as_str()),
            SettingSpelling::Model => format!("models={}", one.value.as_str()),
            SettingSpelling::Option => {
                format!("{}={}", one.id.as_ref().map_or("", Raw::as_str), one.value.as_str())
            }
        })
        .collect();
    shown.sort();
    shown
}

#[test]
fn every_spelling_of_an_answer_is_in_force() {
    let settings = answered(BOTH);
    let expected = [
        r#""fast"=true"#,
        r#""mode"="yolo""#,
        r#""model"="big""#,
        r#"models="big[low]""#,
        r#"modes="yolo""#,
    ];
    assert_eq!(shown(settings.in_force()), expected);
    for odd in [
        r#"{"id":1,"result":null}"#,
        r#"{"id":1}"#,
        r#"{"id":1,"result":{"modes":null,"configOptions":{}}}"#,
    ] {
        assert_eq!(shown(answered(odd).in_force()), Vec::<String>::new(), "{odd}");
    }
    let odd =
        r#"{"id":1,"result":{"x":1e400,"modes":{"y":"\ud83d","currentModeId":"ask","z":-1e999}}}"#;
    assert_eq!(shown(answered(odd).in_force()), [r#"modes="ask""#]);
}

#[test]
fn change_of_one_spelling_changes_the_other_when_both_offer_the_value() {
    let mut settings = answered(BOTH);
    settings.take_set(&set_mode("ask"));
    let shown_now = shown(settings.in_force());
    assert!(
        shown_now.contains(&r#"modes="ask""#.to_owned())
            && shown_now.contains(&r#""mode"="ask""#.to_owned())
    );
    settings.take_set(&set_option("mode", r#""yolo""#));
    let shown_now = shown(settings.in_force());
    assert!(
        shown_now.contains(&r#"modes="yolo""#.to_owned())
            && shown_now.contains(&r#""mode"="yolo""#.to_owned())
    );
    // Only one of them has this value.
    settings.take_set(&set_mode("secret"));
    let shown_now = shown(settings.in_force());
    assert!(
        shown_now.contains(&r#"modes="secret""#.to_owned())
            && shown_now.contains(&r#""mode"="yolo""#.to_owned())
    );
    // The spellings of the model have no value in common.
    settings.take_set(&request("session/set_model", r#"{"modelId":"big[high]"}"#));
    let shown_now = shown(settings.in_force());
    assert!(
        shown_now.contains(&r#"models="big[high]""#.to_owned())
            && shown_now.contains(&r#""model"="big""#.to_owned())
    );
}

#[test]
fn report_of_either_spelling_is_the_newest_value() {
    let mut settings = answered(BOTH);
    let update = r#"{"params":{"update":{"_meta":1e400,"sessionUpdate":"current_mode_update","currentModeId":"a\u0073k"}}}"#;
    settings.take_update(UpdateKind::CurrentModeUpdate, update.as_bytes()).unwrap();
    assert!(
        settings.is_in_force(&set_mode("ask"))
            && settings.is_in_force(&set_option("mode", r#""ask""#))
    );
    let list = r#"{"params":{"update":{"configOptions":[
        {"id":"mode","category":"mode","currentValue":"yolo","options":[{"value":"ask"},{"value":"yolo"}]}]}}}"#;
    settings.take_update(UpdateKind::ConfigOptionUpdate, list.as_bytes()).unwrap();
    let expected = [r#""mode"="yolo""#, r#"models="big[low]""#, r#"modes="yolo""#];
    assert_eq!(
        shown(settings.in_force()),
        expected,
        "options that the list does not have are gone"
    );
    for unreadable in
        [r#"{"currentModeId":7}"#, r#"{"currentModeId":"ask","currentModeId":"yolo"}"#, "{}"]
    {
        let frame = format!(r#"{{"params":{{"update":{unreadable}}}}}"#);
        settings
            .take_update(UpdateKind::CurrentModeUpdate, frame.as_bytes())
            .unwrap_err();
        assert_eq!(shown(settings.in_force()), expected, "{unreadable}");
    }
}

/// Sets what is due until nothing is; the agent agrees to everything and says nothing more.
fn restored(reported: &mut AgentSettings, wanted: Vec<AgentSetting>) -> Vec<String> {
    let mut restoration = Restoration::new(wanted);
    let mut sets = Vec::new();
    while let RestoreStep::Set(request) = restoration.next(reported) {
        sets.push(request.describe());
        reported.take_set(&request);
    }
    sets
}

#[test]
fn only_differences_are_set_and_the_mode_comes_first() {
    let mut wanted = answered(BOTH);
    wanted.take_set(&set_option("fast", "false"));
    wanted.take_set(&set_mode("ask"));
    let wanted = wanted.into_in_force();
    assert_eq!(
        restored(&mut answered(BOTH), wanted.clone()),
        [r#"mode "ask""#, r#"option "fast" = false"#]
    );
    let mut kept = answered(BOTH);
    kept.take_set(&set_option("mode", r#""ask""#));
    assert_eq!(restored(&mut kept, wanted), [r#"option "fast" = false"#]);
}

#[test]
fn spelling_that_contradicts_the_other_in_one_answer_is_set() {
    let mut wanted = answered(BOTH);
    wanted.take_set(&set_mode("ask"));
    let contradictory = BOTH.replacen("\"currentModeId\":\"yolo\"", "\"currentModeId\":\"ask\"", 1);
    assert_eq!(
        restored(&mut answered(&contradictory), wanted.into_in_force()),
        [r#"option "mode" = "ask""#]
    );
}

#[test]
fn mode_that_the_agent_does_not_tell_is_set() {
    let mut wanted = answered(BOTH);
    wanted.take_set(&set_mode("ask"));
    let wanted = wanted.into_in_force();
    let silent = restored(&mut answered(r#"{"id":1,"result":{}}"#), wanted.clone());
    assert_eq!(silent.first().map(String::as_str), Some(r#"mode "ask""#), "{silent:?}");
    // It is enough that one spelling tells it.
    let modes_only = r#"{"id":1,"result":{"modes":{"currentModeId":"ask","availableModes":[{"id":"ask"}]},"configOptions":[]}}"#;
    assert_eq!(restored(&mut answered(modes_only), wanted), [r#"model "big[low]""#]);
}

#[test]
fn setting_that_the_agent_does_not_keep_ends_the_restoration() {
    let mut wanted = answered(BOTH);
    wanted.take_set(&set_mode("ask"));
    let mut restoration = Restoration::new(wanted.into_in_force());
    let stubborn = answered(BOTH);
    for _ in 0..super::restore::SETS_PER_SETTING {
        assert_eq!(restoration.next(&stubborn), RestoreStep::Set(set_mode("ask")));
    }
    assert_eq!(restoration.next(&stubborn), RestoreStep::NotKept(set_mode("ask")));
}

#[test]
fn chosen_mode_replaces_the_one_in_force_in_the_spellings_there_are() {
    let ask = Some("ask".to_owned());
    let accept = ReturnTerms { session_mode: None, accept_agent_settings: true };
    assert_eq!(answered(BOTH).on_return(&accept), []);
    let both = ReturnTerms { session_mode: ask.clone(), ..accept };
    assert_eq!(shown(&answered(BOTH).on_return(&both)), [r#""mode"="ask""#, r#"modes="ask""#]);
    let mode = ReturnTerms { session_mode: ask, accept_agent_settings: false };
    let expected = [
        r#""fast"=true"#,
        r#""mode"="ask""#,
        r#""model"="big""#,
        r#"models="big[low]""#,
        r#"modes="ask""#,
    ];
    assert_eq!(shown(&answered(BOTH).on_return(&mode)), expected);
    let only_option = r#"{"id":1,"result":{"configOptions":[{"id":"m","category":"mode","currentValue":"b","options":[]}]}}"#;
    let plan = ReturnTerms {
        session_mode: Some("plan".to_owned()),
        accept_agent_settings: false,
    };
    assert_eq!(shown(&answered(only_option).on_return(&plan)), [r#""m"="plan""#]);
}

#[test]
fn patched_list_keeps_every_other_byte() {
    let list = r#"[ {"id":"a", "n":1.50,"currentValue":"x"} , {"currentValue":true,"id":"b"} ]"#;
    let json = wharf_json::Json::parse(list.as_bytes()).unwrap();
    let setting = |id: &str, value: &str| AgentSetting {
        of: SettingSpelling::Option,
        id: Raw::new(id.to_owned()),
        category: None,
        value: Raw::new(value.to_owned()).unwrap(),
    };
    assert_eq!(patched_options(json, &[setting(r#""a""#, r#""\u0078""#)]), list);
    let expected = r#"[{"id":"a", "n":1.50,"currentValue":"y"},{"currentValue":true,"id":"b"}]"#;
    assert_eq!(patched_options(json, &[setting(r#""a""#, r#""y""#)]), expected);
}
