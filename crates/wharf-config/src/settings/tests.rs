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
    let config = Config::parse(
        "cancel_timeout = \"100ms\"\nask_timeout = \"2m\"\n[limits]\nframe = \"1MiB\"",
    )
    .unwrap();
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
    let turns = |value: &str| {
        Config::parse(&format!("[amux]\nreplay_turns = {value}")).map(|c| c.amux.replay_turns)
    };
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
    let config =
        Config::parse("[agents.claude.sandbox]\nmode = \"landlock\"\nwritable = [\"~/.npm/\"]")
            .unwrap();
    assert_eq!(config.agents["claude"].sandbox.mode, Some(SandboxMode::Landlock));
    assert!(config.check_sandboxes().is_ok());
    let config = Config::parse("[agents.claud.sandbox]\nmode = \"landlock\"").unwrap();
    assert!(
        config
            .check_sandboxes()
            .unwrap_err()
            .to_string()
            .contains("did you mean \"claude\"")
    );
    assert!(Config::parse("[agents.claude.sandbox]").unwrap_err().contains("no command"));
}

#[test]
fn a_sandbox_path_that_is_none_is_refused_rather_than_left_out() {
    for path in ["secrets", "./x", "~/../x", "~root/x", "$/x", ""] {
        for text in [
            format!("[sandbox]\nhidden = [{path:?}]"),
            format!("[agents.claude.sandbox]\nwritable = [{path:?}]"),
        ] {
            assert!(Config::parse(&text).unwrap_err().contains("is not a valid path"), "{text}");
        }
    }
    assert!(Config::parse("[sandbox]\nmode = \"maybe\"").is_err());
}

#[test]
fn memory_is_capped_only_if_that_is_said() {
    let default = Config::default().limits;
    assert_eq!((default.session_memory, default.memory), (Cap(None), Cap(None)));
    let limits = Config::parse("[limits]\nsession_memory = \"2GiB\"\nmemory = \"never\"")
        .unwrap()
        .limits;
    assert_eq!((limits.session_memory, limits.memory), (Cap(Some(2 << 30)), Cap(None)));
    let message = Config::parse("[limits]\nmemory = \"much\"").unwrap_err();
    assert!(message.contains("\"32MiB\"") && message.contains("\"never\""), "{message}");
}

#[test]
fn log_format_can_be_set() {
    let config = Config::parse("log_format = \"json\"").unwrap();
    assert_eq!(
        (config.log_format, Config::default().log_format),
        (LogFormat::Json, LogFormat::Text)
    );
    assert!(Config::parse("log_format = \"xml\"").is_err());
}

/// Returns the cells of the documentation's table: key, default, effect.
fn documented_keys() -> Vec<[String; 3]> {
    let page = include_str!("../../../../docs/configuration.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = |row: &str| {
        let mut cells = row
            .trim_start_matches("| ")
            .split(" | ")
            .map(|cell| cell.trim_matches('`').to_owned());
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    };
    rows.map(cells).collect()
}

#[test]
fn documentation_has_the_keys_defaults_and_effects_of_the_table() {
    let documented = |key: &ConfigKey| {
        let path = key.path.strip_suffix(".*").unwrap_or(key.path).replace('*', "NAME");
        [path, key.default.to_owned(), key.effect.as_str().to_owned()]
    };
    assert_eq!(documented_keys(), CONFIG_KEYS.iter().map(documented).collect::<Vec<_>>());
}

#[test]
fn defaults_of_the_table_are_those_of_the_code() {
    let mut text = toml::Table::new();
    let fixed = |key: &&ConfigKey| {
        !key.path.contains('*') && key.default != NO_DEFAULT && key.path != "limits.starts"
    };
    for key in CONFIG_KEYS.iter().filter(fixed) {
        layers::insert_at(&mut text, key.path, values::parse_toml(key.default).unwrap());
    }
    let mut stated = Config::parse(&text.to_string()).unwrap();
    stated.settings = LayeredSettings::default();
    // "off" is what a host without the setting does.
    assert_eq!(stated.sandbox.mode.take(), Some(SandboxMode::Off));
    assert_eq!(format!("{stated:?}"), format!("{:?}", Config::default()));
}

#[test]
fn each_variable_sets_its_key_alone() {
    let mut seen = std::collections::BTreeMap::new();
    for key in CONFIG_KEYS {
        let path = key.variable_path();
        assert_eq!(
            *seen.entry(key.variable()).or_insert(path),
            path,
            "two keys have the variable {}",
            key.variable()
        );
    }
    assert_eq!(ConfigKey::find("limits.frame").unwrap().variable(), "WHARF_LIMITS_FRAME");
    assert_eq!(ConfigKey::find("agents.mine.env.A").unwrap().variable(), "WHARF_AGENTS");
}

fn write_sources(
    text: &str,
    variables: &[(&str, &str)],
) -> Result<(tempfile::TempDir, ConfigSources), ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, text).unwrap();
    let owned: Vec<(String, String)> =
        variables.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    Ok((folder, ConfigSources::new(Some(file), false, &owned)?))
}

fn load_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let (_folder, sources) = write_sources(text, variables)?;
    sources.load()
}

#[test]
fn variables_count_before_the_file_and_flags_before_variables() {
    let text = "default_agent = \"demo\"\nask_timeout = \"1s\"\n[limits]\nqueue = 1\n[agents.mine]\ncommand = [\"a\"]\n";
    let variables = [
        ("WHARF_ASK_TIMEOUT", "2s"),
        ("WHARF_LIMITS_ASKS", "7"),
        ("WHARF_AGENTS", "{ mine = { env = { A = \"b\" } }, yours = { command = [\"c\"] } }"),
        ("WHARF_DELEGATION_ALLOW", "{ claude = \"*\" }"),
        ("WHARF_REDACT_OUTPUT", "false"),
        ("WHARF_LOG", "debug"),
        ("WHARF_LOG_LEVEL", "trace"),
    ];
    let (_folder, mut sources) = write_sources(text, &variables).unwrap();
    let config = sources.load().unwrap();
    assert_eq!(
        (config.ask_timeout, config.limits.queue, config.limits.asks),
        (Duration::from_millis(2_000), 1, 7)
    );
    assert_eq!(
        (&*config.agents["mine"].command, &*config.agents["mine"].env["A"]),
        (&["a".to_owned()][..], "b")
    );
    assert_eq!(
        (config.agents["yours"].command.len(), config.redact_output, &*config.log_level),
        (1, false, "debug")
    );
    assert!(config.delegation.allows("claude", "codex"));
    sources.add_flag("--agent", "default_agent", "mine");
    sources.add_flag("--session-ttl-seconds", "session.idle_ttl", "9s");
    let config = sources.load().unwrap();
    assert_eq!(
        (&*config.default_agent, config.session.idle_ttl),
        ("mine", Duration::from_millis(9_000))
    );
    let listed = config.describe_settings().settings;
    let source = |key: &str| {
        let found = listed.iter().find(|setting| setting.key == key).unwrap();
        (
            found.value.clone().unwrap_or_default(),
            found.source.to_string(),
            found.set_by.clone().unwrap_or_default(),
        )
    };
    let expected = |value: &str, source: &str, name: &str| {
        (value.to_owned(), source.to_owned(), name.to_owned())
    };
    assert_eq!(source("ask_timeout"), expected("\"2s\"", "environment", "WHARF_ASK_TIMEOUT"));
    assert_eq!(source("log_level"), expected("\"debug\"", "environment", "WHARF_LOG"));
    assert_eq!(source("default_agent"), expected("\"mine\"", "flag", "--agent"));
    assert_eq!(source("listen"), expected("\"127.0.0.1:7433\"", "default", ""));
    assert_eq!(source("agents.mine.env.A"), expected("(set)", "environment", "WHARF_AGENTS"));
}

#[test]
fn bad_variable_is_named_and_an_unknown_one_is_warned_about() {
    for (name, value) in [
        ("WHARF_LIMITS_FRAME", "big"),
        ("WHARF_LIMITS_QUEUE", "-1"),
        ("WHARF_AUTH", "maybe"),
        ("WHARF_REDACT_OUTPUT", "yes"),
        ("WHARF_AGENTS", "claude"),
        ("WHARF_AGENTS", "{ mine = { comand = [] } }"),
    ] {
        let error = load_with("", &[(name, value)]).unwrap_err().to_string();
        assert!(error.contains(name), "{name}={value}: {error}");
    }
    let config =
        load_with("", &[("WHARF_LIMIT_FRAME", "1MiB"), ("WHARF_STATE_DIR", "/x")]).unwrap();
    assert_eq!(
        config.warnings,
        ["the variable WHARF_LIMIT_FRAME sets nothing; did you mean WHARF_LIMITS_FRAME?"]
    );
}

#[test]
fn relative_paths_begin_at_the_file_or_in_the_current_directory() {
    let config =
        load_with("adapters = \"more\"\n[tls]\ncert = \"/c.pem\"\n", &[("WHARF_TLS_KEY", "k.pem")])
            .unwrap();
    assert_eq!(config.adapters, config.config_dir.as_ref().map(|dir| dir.join("more")));
    assert_eq!(config.tls.cert.as_deref(), Some(Path::new("/c.pem")));
    assert_eq!(config.tls.key, std::path::absolute("k.pem").ok());
}

#[test]
fn mistake_in_the_file_is_told_by_its_position_without_the_line() {
    for (text, position, words) in [
        (
            "[agents.mine]\ncommand = [\"a\"]\nenv = { API_KEY = \"hush-1234\" ",
            "line 3, column 30",
            "",
        ),
        ("[agents.mine.env]\nAPI_KEY = \"hush-1234\nB = \"c\"\n", "line 2, column", ""),
        ("[agents.mine.env]\n  API_KEY = hush-1234\n", "line 2, column 13", ""),
        (
            "[agents.mine]\ncommand = [\"a\"]\nenv = \"hush-1234\"\n",
            "line 3, column 7",
            "agents.mine.env",
        ),
        ("[agents]\nmine = \"hush-1234, expected a b\"\n", "line 2, column 8", "agents.mine"),
        ("[agents.mine.env]\nPORT = 123498\n", "line 2, column 8", "expected a string"),
        ("[notify]\nwebhook = 123498\n", "line 2, column 11", "notify.webhook"),
        ("[notify]\nwebhook = \"hush-1234\"\n", "line 2, column 11", "https://"),
        ("[limits]\nqueue = \"zwölf\" # é\n", "line 2, column 9", "zwölf"),
    ] {
        let (_folder, sources) = write_sources(text, &[]).unwrap();
        let message = sources.load().unwrap_err().to_string();
        assert!(message.contains(position) && message.contains(words), "{text:?} gives {message}");
        assert!(!message.contains("hush") && !message.contains("1234"), "{text:?} gives {message}");
        assert!(!message.contains('\n'), "{text:?} gives {message}");
    }
}

#[test]
fn mistake_in_a_variable_is_told_without_its_secrets() {
    for value in [
        "hush-1234",
        "\"hush-1234\"",
        "{ mine = { env = { API_KEY = \"hush-1234\" }",
        "{ mine = { command = [\"a\"], env = \"hush-1234\" } }",
        "{ mine = { command = [\"a\"], env = { API_KEY = 123498 } } }",
    ] {
        let message = load_with("", &[("WHARF_AGENTS", value)]).unwrap_err().to_string();
        assert!(message.contains("WHARF_AGENTS"), "{message}");
        assert!(
            !message.contains("hush") && !message.contains("1234"),
            "{value:?} gives {message}"
        );
    }
    let message = load_with("", &[("WHARF_NOTIFY_WEBHOOK", "hush-1234")]).unwrap_err().to_string();
    assert!(!message.contains("hush"), "{message}");
}
