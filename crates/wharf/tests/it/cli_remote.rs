//! Verbs and both bridges against a host at a URL: TLS, tokens, named contexts, and paths of
//! another machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result};
use wharf_testkit::host::TestHost;

use crate::program::wharf_command;
use crate::tls::CertificatePair;
use crate::transports::create_observer_token;
use crate::{cwd, scripted_host};

/// A home from which another machine's host is used: there is no local one.
struct Away {
    folder: tempfile::TempDir,
    host: TestHost,
    pair: CertificatePair,
}

impl Away {
    fn new() -> Result<Self> {
        let pair = CertificatePair::new()?;
        let host = pair.on(scripted_host(&[])?, "127.0.0.1:0").start_host()?;
        let folder = tempfile::tempdir()?;
        let away = Self { folder, host, pair };
        fs::write(away.token_file(), format!("{}\n", away.host.token()))?;
        Ok(away)
    }

    fn token_file(&self) -> PathBuf {
        self.folder.path().join("box.token")
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.host.url().rsplit(':').next().unwrap_or_default())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = wharf_command(arguments);
        command
            .env("HOME", self.folder.path())
            .env_remove("WHARF_TOKEN")
            .env_remove("WHARF_SESSION");
        command
    }

    /// Starts a session in the host and returns its id. The testkit's own client has no TLS.
    fn start_session(&self) -> Result<String> {
        let ran = self.trusted(&["run", "scripted", "--keep", "-C", &cwd(&self.host)?]).output()?;
        anyhow::ensure!(ran.status.success(), "{}", told(&ran).1);
        Ok(String::from_utf8(ran.stdout)?.trim().to_owned())
    }

    /// A verb with the URL, the certificate and the token in the environment.
    fn trusted(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command
            .env("WHARF_URL", self.url())
            .env("WHARF_CA", self.pair.cert())
            .env("WHARF_TOKEN", self.host.token());
        command
    }
}

fn told(output: &Output) -> (Option<i32>, String) {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.code(), text)
}

#[test]
fn verbs_work_over_tls_and_start_nothing_here() -> Result<()> {
    let away = Away::new()?;
    let cwd = cwd(&away.host)?;
    let ran = away
        .trusted(&["run", "scripted", "--keep", "--label", "far", "-C", &cwd, "echo over the wire"])
        .output()?;
    assert_eq!(ran.status.code(), Some(0), "{}", told(&ran).1);
    assert!(ran.stdout.starts_with(b"over the wire\n"), "{}", told(&ran).1);
    let asked = away.trusted(&["prompt", "far", "--wait", "echo again"]).output()?;
    assert!(asked.status.success() && asked.stdout.starts_with(b"again\n"), "{}", told(&asked).1);
    let status = told(&away.trusted(&["status"]).output()?).1;
    assert!(status.contains(&away.url()) && status.contains("host\trunning"), "{status}");
    assert!(!away.folder.path().join(".local").exists(), "a host was started here");
    Ok(())
}

#[test]
fn certificates_are_checked_and_plain_http_stays_on_this_machine() -> Result<()> {
    let away = Away::new()?;
    let (exit, said) = told(&away.trusted(&["sessions"]).env_remove("WHARF_CA").output()?);
    assert_eq!(exit, Some(5), "{said}");
    assert!(said.contains("not trusted") && said.contains("--ca"), "{said}");
    let other = CertificatePair::new()?;
    let (exit, said) = told(&away.trusted(&["sessions"]).env("WHARF_CA", other.cert()).output()?);
    assert_eq!(exit, Some(5), "{said}");
    let wrong_name = away.url().replace("localhost", "127.0.0.2");
    let (exit, said) = told(&away.trusted(&["sessions", "--url", &wrong_name]).output()?);
    assert!(matches!(exit, Some(3 | 5)), "{said}");
    let (exit, said) =
        told(&away.trusted(&["sessions", "--url", "http://box.example:1"]).output()?);
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("--insecure-plain-http"), "{said}");
    let (exit, said) = told(&away.trusted(&["sessions", "--url", "https://localhost:1"]).output()?);
    assert_eq!(exit, Some(3), "{said}");
    Ok(())
}

#[test]
fn certificate_that_cannot_be_trusted_is_explained_in_words() -> Result<()> {
    type Change = fn(&mut rcgen::CertificateParams);
    let causes: [(Change, &str); 3] = [
        (
            |params| params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained),
            "of an authority (CA:TRUE)",
        ),
        (|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1), "it expired on 2020-01-01"),
        (|params| params.subject_alt_names.clear(), "it names no host"),
    ];
    for (change, words) in causes {
        let pair = CertificatePair::with_params(change)?;
        let host = pair.on(scripted_host(&[])?, "127.0.0.1:0").start_host()?;
        let away = Away { folder: tempfile::tempdir()?, host, pair };
        let (exit, said) = told(&away.trusted(&["sessions"]).output()?);
        assert_eq!(exit, Some(5), "{said}");
        assert!(said.contains(words) && said.contains("docs/tls.md"), "{said}");
        assert!(!said.contains("Other"), "Debug output: {said}");
    }
    Ok(())
}

#[test]
fn token_on_stdin_is_read_once_and_never_for_completions() -> Result<()> {
    let away = Away::new()?;
    let session = away.start_session()?;
    let ca = away.pair.cert().display().to_string();
    let url = away.url();
    let choice = ["--url", &url, "--ca", &ca, "--token", "-"];
    for verb in [&["status"][..], &["sessions"], &["config", "list"], &["config", "get", "listen"]]
    {
        let mut command = away.command(&[verb, &choice].concat());
        let (exit, said) = told(&command.stdin(fs::File::open(away.token_file())?).output()?);
        assert_eq!(exit, Some(0), "{verb:?}: {said}");
    }
    let mut shown = away.command(&[&["__complete", "--"], &choice[..], &["show", ""]].concat());
    let (_, said) = told(&shown.stdin(fs::File::open(away.token_file())?).output()?);
    assert_eq!(said, "", "{session} is offered with a token that was not meant for Tab");
    Ok(())
}

#[test]
fn refused_token_is_named_by_its_source_and_never_shown() -> Result<()> {
    let away = Away::new()?;
    let (exit, said) =
        told(&away.trusted(&["sessions"]).env("WHARF_TOKEN", "wrong-token-1").output()?);
    assert_eq!(exit, Some(5), "{said}");
    assert!(
        said.contains("the variable WHARF_TOKEN") && said.contains("wharf token create"),
        "{said}"
    );
    assert!(!said.contains("wrong-token-1"), "{said}");
    let (exit, said) = told(&away.trusted(&["sessions"]).env_remove("WHARF_TOKEN").output()?);
    assert_eq!(exit, Some(5), "{said}");
    assert!(said.contains("none was given"), "{said}");
    let observer = create_observer_token(&away.host)?;
    let refused = away
        .trusted(&["run", "scripted", "-C", "/", "x"])
        .env("WHARF_TOKEN", observer)
        .output()?;
    assert_eq!(told(&refused).0, Some(5), "{}", told(&refused).1);
    Ok(())
}

#[test]
fn contexts_name_hosts_and_keep_their_tokens_private() -> Result<()> {
    let away = Away::new()?;
    let (url, token) = (away.url(), format!("@{}", away.token_file().display()));
    let ca = away.pair.cert().display().to_string();
    let add = ["context", "add", "box", "--url", &url, "--token", &token];
    let (exit, said) = told(&away.command(&add).output()?);
    assert_eq!(
        exit,
        Some(5),
        "the host is called first, and its certificate is not trusted: {said}"
    );
    let added = away.command(&[&add[..], &["--ca", &ca]].concat()).output()?;
    assert_eq!(told(&added).0, Some(0), "{}", told(&added).1);
    let file = away.folder.path().join(".config/wharf/contexts.toml");
    let by_variable = ["context", "add", "box2", "--url", &url, "--token", &token];
    let added = away.command(&by_variable).env("WHARF_CA", &ca).output()?;
    assert_eq!(told(&added).0, Some(0), "{}", told(&added).1);
    let shown = told(&away.command(&["context", "show", "box2"]).output()?).1;
    assert!(shown.contains(&format!("ca\t{ca}\n")), "{shown}");
    assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&file)?.contains(away.host.token()), "the token stays in its file");

    let session = away.start_session()?;
    let listed = |extra: &[&str]| -> Result<(Option<i32>, String)> {
        Ok(told(&away.command(&[&["sessions"], extra].concat()).output()?))
    };
    assert!(listed(&["--context", "box"])?.1.contains(&session));
    assert_eq!(listed(&["--no-start"])?.0, Some(3), "the local host is meant");
    assert_eq!(told(&away.command(&["context", "use", "box"]).output()?).0, Some(0));
    assert!(listed(&[])?.1.contains(&session));
    assert_eq!(listed(&["--no-start", "--context", "local"])?.0, Some(3));
    let shown = told(&away.command(&["context", "show"]).output()?).1;
    assert!(shown.contains(&url) && !shown.contains(away.host.token()), "{shown}");
    assert_eq!(listed(&["--context", "gone"])?.0, Some(4));
    assert_eq!(told(&away.command(&["context", "remove", "box"]).output()?).0, Some(0));
    assert_eq!(listed(&["--no-start"])?.0, Some(3));
    Ok(())
}

#[test]
fn paths_are_of_the_hosts_machine() -> Result<()> {
    let away = Away::new()?;
    away.start_session()?;
    for verb in [
        &["run", "scripted", "-C", "here", "x"][..],
        &["run", "scripted", "-C", "/", "--add-dir", "here", "x"],
        &["workspace", "add", "site"],
        &["workspace", "add", "site", "here"],
        &["output"],
        &["show", "."],
    ] {
        let (exit, said) = told(&away.trusted(verb).output()?);
        assert_eq!(exit, Some(2), "{verb:?} {said}");
        assert!(said.contains(&away.url()), "{verb:?} {said}");
    }
    let cwd = cwd(&away.host)?;
    assert_eq!(told(&away.trusted(&["workspace", "add", "site", &cwd]).output()?).0, Some(0));
    assert_eq!(told(&away.trusted(&["workspace", "use", "site"]).output()?).0, Some(0));
    let ran = away
        .trusted(&["run", "scripted", "cwd"])
        .current_dir(away.folder.path())
        .output()?;
    assert_eq!(ran.status.code(), Some(0), "{}", told(&ran).1);
    let shown = told(&away.trusted(&["sessions", "--all", "--json"]).output()?).1;
    assert!(!shown.contains(&format!("\"cwd\":\"{}\"", away.folder.path().display())), "{shown}");
    Ok(())
}

#[test]
fn agent_on_another_machine_gets_no_variables_of_the_caller() -> Result<()> {
    let pair = CertificatePair::new()?;
    let mut options = scripted_host(&[])?;
    options
        .config
        .get_or_insert_default()
        .insert_str(0, "env_passthrough = [\"CALLER_KEY\"]\n");
    let away = Away {
        folder: tempfile::tempdir()?,
        host: pair.on(options, "127.0.0.1:0").start_host()?,
        pair,
    };
    let cwd = cwd(&away.host)?;
    let mut far = away.trusted(&["run", "scripted", "-C", &cwd, "env CALLER_KEY"]);
    let far = far.env("CALLER_KEY", "hush").output()?;
    assert!(told(&far).1.contains("CALLER_KEY=(unset)"), "{}", told(&far).1);
    let mut near = away.command(&["run", "scripted", "-C", &cwd, "env CALLER_KEY", "--state-dir"]);
    let near = near.arg(away.host.state_dir()).env("CALLER_KEY", "hush").output()?;
    assert!(told(&near).1.contains("CALLER_KEY=hush"), "{}", told(&near).1);
    Ok(())
}

#[test]
fn agents_variables_lead_verbs_to_their_own_socket() -> Result<()> {
    let away = Away::new()?;
    let session = away.start_session()?;
    // As an agent of another host has them: the URL would not answer, and its token is no one
    // else's business.
    let mut command = away.command(&["sessions", "--no-start"]);
    command
        .env("WHARF_SESSION", "sess_1")
        .env("WHARF_URL", "http://127.0.0.1:1")
        .env("WHARF_TOKEN", "agents-own");
    let (exit, said) = told(&command.env("WHARF_STATE_DIR", away.host.state_dir()).output()?);
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains(&session), "{said}");
    let mut command = away.command(&["sessions", "--url", &away.url()]);
    command
        .env("WHARF_SESSION", "sess_1")
        .env("WHARF_URL", "http://127.0.0.1:1")
        .env("WHARF_CA", away.pair.cert());
    let (exit, said) = told(&command.env("WHARF_TOKEN", away.host.token()).output()?);
    assert_eq!(exit, Some(5), "the token of the environment is for another host: {said}");
    assert!(said.contains("none was given"), "{said}");
    Ok(())
}

#[test]
fn bridge_reaches_a_host_elsewhere() -> Result<()> {
    let away = Away::new()?;
    let cwd = cwd(&away.host)?;
    let input = Path::new(&cwd).join("input.jsonl");
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;
    fs::write(&input, format!("{initialize}\n"))?;
    let output = away.trusted(&["acp"]).stdin(fs::File::open(&input)?).output()?;
    let said = told(&output).1;
    let answer = said.lines().find(|line| line.contains("\"id\":1")).context(said.clone())?;
    assert!(answer.contains("agentCapabilities"), "{said}");
    let refused = away
        .trusted(&["acp"])
        .env("WHARF_TOKEN", "wrong")
        .stdin(fs::File::open(&input)?)
        .output()?;
    assert!(told(&refused).1.contains("the variable WHARF_TOKEN"), "{}", told(&refused).1);
    Ok(())
}

#[test]
fn mcp_reaches_a_host_elsewhere() -> Result<()> {
    let away = Away::new()?;
    let initialize = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
        r#""capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#
    );
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let input = away.folder.path().join("input.jsonl");
    fs::write(&input, format!("{initialize}\n{initialized}\n{list}\n"))?;
    let output = away.trusted(&["mcp"]).stdin(fs::File::open(&input)?).output()?;
    let (exit, said) = told(&output);
    assert_eq!(exit, Some(0), "{said}");
    let answer = said.lines().find(|line| line.contains("\"id\":2")).context(said.clone())?;
    assert!(answer.contains("start_agent_session"), "{said}");
    let refused = away
        .trusted(&["mcp"])
        .env("WHARF_TOKEN", "wrong")
        .stdin(fs::File::open(&input)?)
        .output()?;
    assert!(told(&refused).1.contains("the variable WHARF_TOKEN"), "{}", told(&refused).1);
    Ok(())
}
