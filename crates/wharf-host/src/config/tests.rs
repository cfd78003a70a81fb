//! Tests of `config.toml` as a person writes it.

use super::*;

#[test]
fn an_empty_file_is_the_default() {
    let config = Config::parse("").unwrap();
    assert_eq!(config.listen, "127.0.0.1:7433");
    assert_eq!(config.limits.frame, Size(32 << 20));
    assert_eq!(config.ask_timeout, Duration::NEVER);
}

#[test]
fn durations_and_sizes_are_words() {
    let config = Config::parse("cancel_timeout = \"100ms\"\nask_timeout = \"2m\"\n[limits]\nframe = \"1MiB\"").unwrap();
    assert_eq!(config.cancel_timeout, Duration::from_millis(100));
    assert_eq!(config.ask_timeout, Duration::from_millis(120_000));
    assert_eq!(config.limits.frame, Size(1 << 20));
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    let message = Config::parse("[limits]\nframes = \"1MiB\"").unwrap_err();
    assert!(message.contains("limits.frames") && message.contains("limits.frame"), "{message}");
    let message = Config::parse("cancel_timout = \"1s\"").unwrap_err();
    assert!(message.contains("did you mean \"cancel_timeout\""), "{message}");
}

#[test]
fn an_agent_without_a_command_is_refused() {
    let message = Config::parse("[agents.mine]\nenv = { A = \"b\" }").unwrap_err();
    assert!(message.contains("agents.mine has no command"), "{message}");
}

#[test]
fn a_bad_duration_says_what_a_good_one_is() {
    let message = Config::parse("ask_timeout = \"soon\"").unwrap_err();
    assert!(message.contains("\"100ms\"") && message.contains("never"), "{message}");
}

#[test]
fn amux_turns_are_a_number_or_a_word() {
    let turns = |value: &str| Config::parse(&format!("[amux]\nreplay_turns = {value}")).map(|c| c.amux.replay_turns);
    assert_eq!(Config::default().amux.replay_turns, ReplayTurns::Unbounded);
    assert_eq!(turns("\"unbounded\""), Ok(ReplayTurns::Unbounded));
    assert_eq!(turns("0"), Ok(ReplayTurns::Last(0)));
    assert_eq!(turns("\"3\""), Ok(ReplayTurns::Last(3)));
    assert!(turns("\"many\"").unwrap_err().contains("unbounded"));
}

#[test]
fn going_without_tokens_must_be_said() {
    assert_eq!(Config::default().auth, Auth::Token);
    assert_eq!(Config::parse("auth = \"none\"").unwrap().auth, Auth::None);
    assert!(Config::parse("auth = \"off\"").is_err());
}

#[test]
fn an_agent_with_a_manifest_needs_only_its_sandbox_and_must_be_there() {
    let config = Config::parse("[agents.claude.sandbox]\nmode = \"landlock\"\nwritable = [\"~/.npm/\"]").unwrap();
    assert_eq!(config.agents["claude"].sandbox.mode, Some(SandboxMode::Landlock));
    assert!(config.check_sandboxes().is_ok());
    let config = Config::parse("[agents.claud.sandbox]\nmode = \"landlock\"").unwrap();
    assert!(config.check_sandboxes().unwrap_err().to_string().contains("did you mean \"claude\""));
    assert!(Config::parse("[agents.claude.sandbox]").unwrap_err().contains("no command"));
}

#[test]
fn a_sandbox_path_that_is_none_is_refused_rather_than_left_out() {
    for path in ["secrets", "./x", "~/../x", "~root/x", "$/x", ""] {
        for text in
            [format!("[sandbox]\nhidden = [{path:?}]"), format!("[agents.claude.sandbox]\nwritable = [{path:?}]")]
        {
            assert!(Config::parse(&text).unwrap_err().contains("is not a valid path"), "{text}");
        }
    }
    assert!(Config::parse("[sandbox]\nmode = \"maybe\"").is_err());
}

#[test]
fn memory_is_capped_only_if_that_is_said() {
    let default = Config::default().limits;
    assert_eq!((default.session_memory, default.memory), (Cap(None), Cap(None)));
    let limits = Config::parse("[limits]\nsession_memory = \"2GiB\"\nmemory = \"never\"").unwrap().limits;
    assert_eq!((limits.session_memory, limits.memory), (Cap(Some(2 << 30)), Cap(None)));
    let message = Config::parse("[limits]\nmemory = \"much\"").unwrap_err();
    assert!(message.contains("\"32MiB\"") && message.contains("\"never\""), "{message}");
}

#[test]
fn log_format_can_be_set() {
    let config = Config::parse("log_format = \"json\"").unwrap();
    assert_eq!((config.log_format, Config::default().log_format), (LogFormat::Json, LogFormat::Text));
    assert!(Config::parse("log_format = \"xml\"").is_err());
}
