//! Manifests, modes and options, lookup, import (rule 8.7).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wharf_core::TokenSpan;

use super::manifest::Manifest;
use super::*;
use crate::settings::SandboxMode;

const GOOD: &str = r#"---
name: mine
id: mine
description: An agent of mine.
version: 1.2.3
bin: mine-agent
bin_args: [acp, --stdio]
install: [{ method: npm, package: "@me/mine" }]
version_check: { cmd: "mine-agent --version", parse: '(\d+\.\d+\.\d+)', range: ">=1.0 <3" }
auth: { state: { env: [MINE_KEY] }, login: { cmd: mine login } }
models: { default: big, env: { main: MODEL_KEY } }
sandbox: {}
protocol: acp
acp: ./ACP.md
env: { COLOUR: never }
capabilities: { streaming: true }
modes:
  - { id: plan, bin_args_append: [--plan], env: { MODE: plan } }
  - { id: bare }
options:
  - { id: turns, type: integer, min: 1, max: 9, default: 5, bin_args_template: [--turns, "{value}"] }
  - { id: model, type: string, bin_args_template: ["--model={value}"], env: { MODEL: "m/{value}" } }
  - { id: auto, type: boolean, bin_args_append_when_true: [--auto] }
  - { id: effort, type: enum, enum: [low, high], env: { EFFORT: "{value}" } }
---
# Mine
"#;

fn place() -> PathBuf {
    PathBuf::from("/adapters/mine/AGENT-CLI.md")
}

fn parse(text: &str) -> Result<Manifest, ManifestError> {
    Manifest::parse(text, &place())
}

fn options(given: Value) -> BTreeMap<String, Value> {
    serde_json::from_value(given).unwrap()
}

fn patched(
    mode: Option<&str>,
    given: Value,
) -> Result<(Vec<String>, BTreeMap<String, String>), String> {
    let patched = parse(GOOD)
        .unwrap()
        .patch_command(mode, &options(given))
        .map_err(|error| error.to_string())?;
    Ok((patched.command, patched.env))
}

/// A configuration whose user has these manifests.
fn with_manifests(manifests: &[(&str, &str)]) -> (tempfile::TempDir, Config) {
    let dir = tempfile::tempdir().unwrap();
    for (folder, text) in manifests {
        let folder = dir.path().join("adapters").join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("AGENT-CLI.md"), text).unwrap();
    }
    let config = Config { config_dir: Some(dir.path().to_owned()), ..Config::default() };
    (dir, config)
}

fn find(config: &Config, slug: &str) -> Result<Launchable, AdapterError> {
    config.adapters().find(slug, None, &BTreeMap::new())
}

#[test]
fn a_manifest_says_how_its_agent_is_started() {
    let (_dir, config) = with_manifests(&[("mine", GOOD)]);
    let found = find(&config, "mine").unwrap();
    assert_eq!(found.command, ["mine-agent", "acp", "--stdio"]);
    assert_eq!(found.env, BTreeMap::from([("COLOUR".to_owned(), "never".to_owned())]));
    assert_eq!(found.variables, ["MINE_KEY", "MODEL_KEY"]);
    assert_eq!(
        (found.comes_back, found.install.as_deref()),
        (None, Some("npm install -g @me/mine"))
    );
}

#[test]
fn an_error_names_the_file_and_the_field() {
    let cases = [
        (
            "name: mine\n",
            "name: other\n",
            "name: \"other\" must be the name of its folder, \"mine\"",
        ),
        ("id: mine\n", "id: ../x\n", "id: \"../x\" does not match"),
        ("version: 1.2.3", "version: 1.2", "version: must be a string"),
        ("bin: mine-agent\n", "", "bin: is missing"),
        ("bin: mine-agent", "bin: mine agent", "bin: \"mine agent\" does not match"),
        (
            "bin: mine-agent",
            "bin: bin/mine",
            "bin: \"bin/mine\" must be absolute, or a name that is on the PATH",
        ),
        ("[acp, --stdio]", "[acp, 7]", "bin_args[1]: must be a string"),
        ("method: npm", "method: magic", "install[0].method: \"magic\" is none of: brew"),
        ("package: \"@me/mine\"", "url: x", "install[0].package: is missing"),
        (r"'(\d+\.\d+\.\d+)'", r"'\d+'", "version_check.parse: must have a group"),
        (">=1.0 <3", "soon", "version_check.range: \"soon\" is not a version range"),
        ("[MINE_KEY]", "[7]", "auth.state.env[0]: must be a string"),
        ("sandbox: {}", "", "sandbox: is missing"),
        ("sandbox: {}", "sandbox: 7", "sandbox: must be a mapping"),
        (
            "sandbox: {}",
            "sandbox: { mode: strong }",
            "sandbox.mode: \"strong\" is none of: off, landlock",
        ),
        (
            "sandbox: {}",
            "sandbox: { hidden: [secrets] }",
            "sandbox: \"secrets\" is not a valid path",
        ),
        (
            "protocol: acp",
            "protocol: telepathy",
            "protocol: \"telepathy\" is none of: acp, mcp, proprietary",
        ),
        ("acp: ./ACP.md", "", "acp: is missing"),
        (
            "streaming: true",
            "streaming: yes please",
            "capabilities.streaming: must be true or false",
        ),
        ("id: bare", "id: plan", "modes: \"plan\" is there twice"),
        (
            "MODE: plan",
            "MO-DE: plan",
            "modes[0].env.MO-DE: is not the name of an environment variable",
        ),
        ("type: boolean", "type: maybe", "options[2].type: \"maybe\" is none of"),
        ("enum: [low, high]", "enum: []", "options[3].enum: must name at least one"),
        ("default: 5", "default: 50", "options[0].default: takes 9 or less"),
        ("---\n# Mine", "# Mine", "front matter: must stand first"),
        (
            "sandbox: {}",
            "sandbox: {}\nsession: { mode: resumable }",
            "session: mode resumable needs capabilities.resumable",
        ),
        (
            "sandbox: {}",
            "sandbox: {}\ncontinuation: { default: native-resume, supported: [native-resume] }",
            "continuation: default",
        ),
        (
            "sandbox: {}",
            "sandbox: {}\ncontinuation: { default: none, supported: [hope] }",
            "continuation.supported[0]: \"hope\"",
        ),
        ("modes:", "modes: [", "front matter: "),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("/adapters/mine/AGENT-CLI.md: {expected}")),
            "{to}: {error}"
        );
    }
}

#[test]
fn an_unknown_field_is_ignored_and_said() {
    let manifest =
        parse(&GOOD.replace("sandbox: {}", "sandbox: ./SANDBOX.md\ncolour: red")).unwrap();
    assert_eq!(manifest.sandbox, crate::settings::SandboxSettings::default());
    assert_eq!(
        manifest.warnings,
        ["the field \"colour\" is not known and ignored", "its sandbox is ignored"]
    );
}

#[test]
fn a_manifest_can_ask_for_a_sandbox_and_cannot_loosen_one() {
    let with = |block: &str| GOOD.replace("sandbox: {}", &format!("sandbox: {block}"));
    let asks = with("{ mode: landlock, writable: [~/.mine/], network: none }");
    assert_eq!(
        parse(&asks).unwrap().warnings,
        ["these members of its sandbox are ignored: network"]
    );
    let mode = |manifest: &str, general: Option<SandboxMode>, own: Option<SandboxMode>| {
        let (_dir, mut config) = with_manifests(&[("mine", manifest)]);
        config.sandbox = SandboxSettings {
            mode: general,
            writable: vec!["/all".to_owned()],
            ..config.sandbox
        };
        let sandbox = SandboxSettings {
            mode: own,
            writable: vec!["/own".to_owned()],
            ..SandboxSettings::default()
        };
        config
            .agents
            .insert("mine".to_owned(), AgentCommand { sandbox, ..AgentCommand::default() });
        find(&config, "mine").unwrap().sandbox
    };
    let (off, on) = (Some(SandboxMode::Off), Some(SandboxMode::Landlock));
    assert_eq!(mode(&asks, None, None).mode, on);
    assert_eq!(mode(&asks, None, None).writable, ["/all", "~/.mine/", "/own"]);
    assert_eq!(mode(&asks, off, None).mode, on);
    assert_eq!(mode(&asks, on, off).mode, off, "the user's word for this agent");
    assert_eq!(mode(&with("{ mode: off }"), on, None).mode, on);
    assert_eq!(mode(&with("{}"), None, on).mode, on);
    assert_eq!(mode(&with("{}"), None, None).mode, None);
}

#[test]
fn a_mode_comes_before_the_options_and_these_in_the_order_of_the_manifest() {
    let given = json!({ "auto": true, "model": "x y", "turns": 7, "effort": "high" });
    let (command, env) = patched(Some("plan"), given).unwrap();
    let expected =
        ["mine-agent", "acp", "--stdio", "--plan", "--turns", "7", "--model=x y", "--auto"];
    assert_eq!(command, expected);
    let expected = [("COLOUR", "never"), ("EFFORT", "high"), ("MODE", "plan"), ("MODEL", "m/x y")];
    assert_eq!(
        env,
        expected
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    );
}

#[test]
fn a_default_or_a_false_adds_nothing() {
    let plain = patched(None, json!({})).unwrap();
    assert_eq!(patched(None, json!({ "turns": 5, "auto": false })).unwrap(), plain);
    assert_eq!(patched(Some("bare"), json!({})).unwrap(), plain);
}

#[test]
fn options_that_a_manifest_lacks_are_refused() {
    let wrong = [
        (json!({ "turns": 0 }), "\"turns\": takes 1 or more"),
        (json!({ "turns": 10 }), "\"turns\": takes 9 or less"),
        (json!({ "turns": "7" }), "\"turns\": takes a whole number"),
        (json!({ "turns": 1.5 }), "\"turns\": takes a whole number"),
        (json!({ "auto": "true" }), "\"auto\": takes true or false"),
        (json!({ "effort": "huge" }), "\"effort\": takes one of: low, high"),
        (json!({ "model": 7 }), "\"model\": takes a string"),
        (json!({ "model": "--yolo" }), "\"model\": takes no value that begins with a dash"),
        (json!({ "model": "a\nb" }), "\"model\": takes one line"),
        (json!({ "model": "m".repeat(5000) }), "\"model\": takes at most 4 KiB"),
        (
            json!({ "speed": 1 }),
            "\"speed\": there is no option of that name; known: turns, model, auto, effort",
        ),
    ];
    for (given, expected) in wrong {
        let error = patched(None, given.clone()).unwrap_err();
        assert!(error.contains(expected), "{given}: {error}");
    }
    let error = patched(Some("yolo"), json!({})).unwrap_err();
    assert_eq!(error, "agent \"mine\" has no mode \"yolo\"; it has: plan, bare");
}

#[test]
fn only_acp_is_started_and_the_other_protocols_are_named() {
    let mcp =
        GOOD.replace("protocol: acp\nacp: ./ACP.md", "protocol: mcp\nmcp: { transport: stdio }");
    let own =
        GOOD.replace("protocol: acp\nacp: ./ACP.md", "protocol: proprietary\nadapter: '@me/x'");
    for (text, protocol) in [(mcp, "mcp"), (own, "proprietary")] {
        let (_dir, config) = with_manifests(&[("mine", &text)]);
        let error = find(&config, "mine").unwrap_err();
        assert_eq!(
            error,
            AdapterError::Protocol { adapter: "mine".to_owned(), protocol: protocol.to_owned() }
        );
        let listed = config.adapters().list();
        let mine = listed.iter().find(|known| known.slug == "mine").unwrap();
        assert!(mine.missing.iter().any(|why| why.contains(protocol)), "{mine:?}");
    }
}

#[test]
fn only_what_a_manifest_states_keeps_sessions_from_coming_back() {
    let stated = |text: &str| {
        parse(&GOOD.replace("capabilities: { streaming: true }", text))
            .unwrap()
            .comes_back()
    };
    assert_eq!(stated(""), None);
    assert_eq!(stated("session: { max_turns: 3 }"), None);
    assert_eq!(stated("session: { mode: persistent }"), None);
    assert_eq!(stated("session: { mode: resumable }\ncapabilities: { resumable: true }"), None);
    assert_eq!(stated("session: { mode: ephemeral }"), Some(false));
    assert_eq!(stated("capabilities: { resumable: false }"), Some(false));
}

#[test]
fn the_configuration_wins_then_the_users_manifests_then_the_built_in_ones() {
    let claude = GOOD.replace("name: mine\nid: mine", "name: claude\nid: claude");
    let (dir, mut config) = with_manifests(&[("claude", &claude)]);
    assert_eq!(find(&Config::default(), "claude").unwrap().command, ["claude-agent-acp"]);
    assert_eq!(find(&config, "claude").unwrap().command[0], "mine-agent");
    let other = tempfile::tempdir().unwrap();
    for (folder, bin) in [("claude", "other"), ("goose", "other-goose")] {
        let text = claude.replace("claude", folder).replace("mine-agent", bin);
        std::fs::create_dir_all(other.path().join(folder)).unwrap();
        std::fs::write(other.path().join(folder).join("AGENT-CLI.md"), text).unwrap();
    }
    config.adapters = Some(other.path().to_owned());
    assert_eq!(find(&config, "claude").unwrap().command[0], "mine-agent");
    assert_eq!(find(&config, "goose").unwrap().command[0], "other-goose");
    let command = AgentCommand { command: vec!["own".to_owned()], ..AgentCommand::default() };
    config.agents.insert("claude".to_owned(), command);
    assert_eq!(find(&config, "claude").unwrap().command, ["own"]);
    let listed = config.adapters().list();
    let sources = |slug: &str| {
        listed
            .iter()
            .filter(|known| known.slug == slug)
            .map(|known| known.source)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (sources("claude"), sources("goose")),
        (vec![AdapterSource::Config], vec![AdapterSource::Manifest])
    );
    assert_eq!(
        (sources("demo"), sources("qwen")),
        (vec![AdapterSource::BuiltIn], vec![AdapterSource::BuiltIn])
    );
    drop(dir);
}

#[test]
fn token_counts_of_the_demo_agent_are_no_guess() {
    let config = Config::default();
    let stated = |slug| find(&config, slug).unwrap().usage.is_some();
    assert!(stated(DEMO_AGENT));
    assert!(stated("claude"));
}

#[test]
fn known_agents_count_as_they_report_however_they_were_added() {
    let manifest =
        |slug: &str| GOOD.replace("name: mine\nid: mine", &format!("name: {slug}\nid: {slug}"));
    let stated = GOOD
        .replace("sandbox: {}", "sandbox: {}\nusage: { tokens: process }")
        .replace(": mine\n", ": gemini\n");
    let (_dir, mut config) = with_manifests(&[
        ("mistral-vibe", &manifest("mistral-vibe")),
        ("codex-acp", &manifest("codex-acp")),
        ("gemini", &stated),
        ("mine", GOOD),
    ]);
    let command = AgentCommand {
        command: vec!["vibe-acp".to_owned()],
        ..AgentCommand::default()
    };
    config.agents.insert("vibe".to_owned(), command);
    let span = |slug, version| {
        let usage = find(&config, slug).unwrap().usage;
        usage.map(|usage| usage.meaning_for(Some(version)).tokens)
    };
    assert_eq!(
        (span("vibe", "3.0.2"), span("mistral-vibe", "3.0.2")),
        (Some(TokenSpan::Session), Some(TokenSpan::Session))
    );
    assert_eq!(
        (span("codex-acp", "1.6.0"), span("codex-acp", "2.6.0")),
        (Some(TokenSpan::LastCall), Some(TokenSpan::Turn))
    );
    assert_eq!(span("gemini", "0.61.0"), Some(TokenSpan::Process), "its manifest states it");
    assert_eq!((span("mine", "1.0.0"), span("kimi", "2.1.0")), (None, None), "nothing states it");
}

#[test]
fn a_bad_manifest_is_said_and_no_other_takes_its_place() {
    let (_dir, config) = with_manifests(&[("goose", "no front matter"), ("mine", GOOD)]);
    let error = find(&config, "goose").unwrap_err().to_string();
    assert!(error.contains("adapters/goose/AGENT-CLI.md: front matter"), "{error}");
    assert!(find(&config, "mine").is_ok());
    let listed = config.adapters().list();
    let goose = listed.iter().find(|known| known.slug == "goose").unwrap();
    assert!(!goose.installed && goose.missing[0].contains("cannot be used"), "{goose:?}");
}

#[test]
fn an_unknown_agent_is_refused_with_the_nearest_known_one() {
    let message = find(&Config::default(), "claud").unwrap_err().to_string();
    assert!(
        message.starts_with(
            "no agent called \"claud\"; did you mean \"claude\"?; known: claude, codex"
        ),
        "{message}"
    );
    for slug in ["", "..", "../mine", "/etc", "mine/../mine"] {
        let (_dir, config) = with_manifests(&[("mine", GOOD)]);
        assert!(matches!(find(&config, slug), Err(AdapterError::Unknown { .. })), "{slug}");
    }
}

#[test]
fn install_hint_is_the_first_way_that_suits_the_system() {
    let several = GOOD.replace(
        "install: [{ method: npm, package: \"@me/mine\" }]",
        "install: [{ method: brew, package: mine }, { method: apt, package: mine }, { method: npm, package: mine }]",
    );
    let manifest = parse(&several).unwrap();
    let hints =
        ["macos", "linux", "freebsd"].map(|system| manifest.install_hint_for(system).unwrap());
    assert_eq!(hints, ["brew install mine", "sudo apt install mine", "npm install -g mine"]);
}

#[test]
fn a_program_that_is_not_there_is_named_with_the_way_to_install_it() {
    let (dir, config) = with_manifests(&[("mine", GOOD)]);
    let found = find(&config, "mine").unwrap();
    let message = found.find_program(&BTreeMap::new()).unwrap_err().to_string();
    let expected = "agent \"mine\" is not installed: there is no `mine-agent` on the PATH; install it with: npm install -g @me/mine";
    assert_eq!(message, expected);
    let bin = dir.path().join("mine-agent");
    std::fs::write(&bin, "").unwrap();
    std::fs::set_permissions(&bin, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = BTreeMap::from([("PATH".to_owned(), dir.path().display().to_string())]);
    assert_eq!(found.find_program(&path), Ok(bin));
}

fn imported(dir: &Path, agents: &Value) -> ImportReport {
    let file = dir.join("registry.json");
    std::fs::write(&file, json!({ "version": "1", "agents": agents }).to_string()).unwrap();
    import_registry(&file, &dir.join("adapters")).unwrap()
}

fn agent(id: &str, distribution: Value) -> Value {
    json!({ "id": id, "name": "A", "version": "1.0.0", "description": "b: #c", "distribution": distribution, "icon": "x" })
}

#[test]
fn an_acp_registry_becomes_manifests() {
    let (dir, config) = with_manifests(&[("hand-made", GOOD)]);
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    let mut binary = json!({});
    binary[&platform] =
        json!({ "archive": "https://x/y.tgz", "cmd": "./bin/tool", "args": ["acp"] });
    let agents = json!([
        agent("node-one", json!({ "npx": { "package": "@a/b@1.0.0", "args": ["--acp"], "env": { "K": "v" } } })),
        agent("py-one", json!({ "uvx": { "package": "c==2", "args": ["acp"] } })),
        agent("bin-one", json!({ "binary": binary })),
        agent("elsewhere", json!({ "binary": { "windows-x86_64": { "archive": "x", "cmd": "y" } } })),
        agent("hand-made", json!({ "npx": { "package": "x" } })),
        agent("../../x", json!({ "npx": { "package": "x" } })),
        { "id": "half" },
    ]);
    let report = imported(dir.path(), &agents);
    assert_eq!(report.imported, ["node-one", "py-one", "bin-one"]);
    let skipped: Vec<&str> = report.skipped.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(skipped, ["elsewhere", "hand-made", "../../x", "half"]);
    assert!(!dir.path().join("x").exists());
    let node = find(&config, "node-one").unwrap();
    assert_eq!(
        (node.command, node.env["K"].as_str()),
        (["npx", "-y", "@a/b@1.0.0", "--acp"].map(str::to_owned).to_vec(), "v")
    );
    assert_eq!(find(&config, "py-one").unwrap().command, ["uvx", "c==2", "acp"]);
    let bin = find(&config, "bin-one").unwrap();
    assert_eq!(bin.command, ["tool", "acp"]);
    assert!(bin.install.unwrap().contains("https://x/y.tgz"));
    let listed = config.adapters().list();
    assert_eq!(
        listed.iter().find(|known| known.slug == "py-one").unwrap().source,
        AdapterSource::Registry
    );
    // Again: what was imported is renewed.
    let agents = json!([agent("py-one", json!({ "uvx": { "package": "c==3" } }))]);
    assert_eq!(imported(dir.path(), &agents).imported, ["py-one"]);
    assert_eq!(find(&config, "py-one").unwrap().command, ["uvx", "c==3"]);
}
