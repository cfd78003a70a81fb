//! `cargo xtask test` runs every test, on a machine that has only Rust and git.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::clients::{self, ClientLanguage};
use crate::needs::{Need, install_missing};
use crate::output::{print_line, print_progress};
use crate::page::{self, BROWSER_NAME, BROWSER_NEEDS};
use crate::process::{capture_stdout, cargo_command, run_checked};
use crate::stories;

/// The name of the stage that generates clients.
const CLIENTS_STAGE: &str = "generated clients walk a story";
/// The name of the stage of the official MCP and ACP clients.
const STORIES_STAGE: &str = "official MCP and ACP clients walk a story";
/// The name of the stage of the real agent.
const AGENT_STAGE: &str = "a real agent with a scripted model";
/// The name of the stage that drives a browser.
const PAGE_STAGE: &str = "the web page in Chromium";
/// The crate that holds the official ACP SDK.
const CONFORMANCE: &str = "wharf-conformance";

/// The required programs. All of them are in Debian.
const NEEDS: &[Need] = &[
    Need {
        command: "cc",
        probe: &[],
        packages: &["gcc", "libc6-dev"],
        reason: "SQLite is compiled from source, and Rust links with it",
    },
    Need {
        command: "curl",
        probe: &[],
        packages: &["curl"],
        reason: "the transcript in docs/protocol/rest.md is made with it",
    },
];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let TestChoice { fast, languages, browser } = parse_arguments(args)?;
    let began = Instant::now();
    install_missing(NEEDS)?;
    for language in &languages {
        let missing = format!("{} need it; --without {} leaves them out", language.tests(), language.name());
        install_missing(language.needs()).context(missing)?;
    }
    if browser {
        let missing = format!("the tests of the web page need it; --without {BROWSER_NAME} leaves them out");
        install_missing(BROWSER_NEEDS).context(missing)?;
    }

    print_progress("building the programs that the tests drive");
    run_checked(cargo_command(root).args(["build", "-p", "wharf", "-p", "wharf-testkit", "--bins"]))?;

    let mut stages = Vec::new();
    let mut stage = |name: &'static str, args: &[&str]| {
        print_progress(name);
        let result = run_checked(cargo_command(root).args(args));
        stages.push((name, result));
    };
    let runner: &[&str] = if has_nextest(root) { &["nextest", "run"] } else { &["test", "--no-fail-fast"] };
    // The official SDK brings a TLS stack and enables features that no user's build has, so it is built separately.
    let own: &[&str] = &["--workspace", "--exclude", CONFORMANCE];
    stage("the tests of every crate", &[runner, own].concat());
    if !fast {
        stage("the examples in the documentation", &[&["test", "--quiet", "--doc"], own].concat());
        stage("the official SDK as client and as agent", &[runner, &["-p", CONFORMANCE]].concat());
        // Debug builds walk fewer steps; this is the full number, in a build that does it in seconds.
        stage("the core's random walks, optimised", &[runner, &["--release", "-p", "wharf-core"]].concat());
    }
    if !languages.is_empty() {
        print_progress(CLIENTS_STAGE);
        stages.push((CLIENTS_STAGE, clients::follow_rows(root, &languages)));
        print_progress(STORIES_STAGE);
        stages.push((STORIES_STAGE, stories::tell_stories(root, &languages, "")));
    }
    if stories::has_real_agent() && languages.contains(&ClientLanguage::Node) {
        print_progress(AGENT_STAGE);
        stages.push((AGENT_STAGE, stories::tell_real_agent(root)));
    }
    if browser {
        print_progress(PAGE_STAGE);
        stages.push((PAGE_STAGE, page::test_page(root, &[])));
    }
    report_stages(stages, &list_skipped(&languages, browser), began)
}

/// The stages that are to run.
#[derive(Debug, PartialEq, Eq)]
struct TestChoice {
    fast: bool,
    languages: Vec<ClientLanguage>,
    browser: bool,
}

/// Reads which stages are left out: the long ones by `--fast`, others by `--without`.
fn parse_arguments(args: &[String]) -> Result<TestChoice> {
    let usage = "test takes --fast, and --without with a list of browser, node and python";
    let (fast, rest): (Vec<String>, Vec<String>) = args.iter().cloned().partition(|arg| arg == "--fast");
    let left_out = clients::read_left_out(&rest).context(usage)?;
    let (browser, left_out): (Vec<String>, Vec<String>) = left_out.into_iter().partition(|name| name == BROWSER_NAME);
    let languages = clients::remaining_languages(&left_out).context(usage)?;
    let (fast, browser) = (!fast.is_empty(), browser.is_empty());
    Ok(TestChoice { fast, languages: if fast { Vec::new() } else { languages }, browser: browser && !fast })
}

/// Returns the stages that were left out.
fn list_skipped(languages: &[ClientLanguage], browser: bool) -> Vec<String> {
    let all = ClientLanguage::ALL.into_iter().filter(|language| !languages.contains(language));
    let clients = all.map(|language| language.tests().to_owned());
    let lacks_agent = languages.contains(&ClientLanguage::Node) && !stories::has_real_agent();
    let agent = lacks_agent.then(|| format!("{AGENT_STAGE} (it exists for x86-64 only)"));
    clients.chain(agent).chain((!browser).then(|| PAGE_STAGE.to_owned())).collect()
}

/// Prints one line at the end with either runner, and fails if a stage failed; later stages run all the same.
fn report_stages(stages: Vec<(&'static str, Result<()>)>, skipped: &[String], began: Instant) -> Result<()> {
    let total = stages.len();
    let failed: Vec<String> =
        stages.into_iter().filter_map(|(name, result)| result.err().map(|e| format!("{name} ({e:#})"))).collect();
    print_line(&format!(
        "test summary: {} of {total} stages passed in {:.0} s{}",
        total - failed.len(),
        began.elapsed().as_secs_f64(),
        if skipped.is_empty() { String::new() } else { format!("; skipped: {}", skipped.join(", ")) }
    ));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join("; "));
    }
    Ok(())
}

fn has_nextest(root: &Path) -> bool {
    let found = capture_stdout(cargo_command(root).args(["nextest", "--version"])).is_ok();
    if !found {
        print_progress("cargo-nextest is not installed: using cargo test");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_args(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn arguments_leave_out_stages() {
        let parse = |words: &[&str]| parse_arguments(&to_args(words)).unwrap();
        let all = vec![ClientLanguage::Node, ClientLanguage::Python];
        let python = vec![ClientLanguage::Python];
        assert_eq!(parse(&[]), TestChoice { fast: false, languages: all.clone(), browser: true });
        assert_eq!(parse(&["--without", "node"]), TestChoice { fast: false, languages: python, browser: true });
        assert_eq!(parse(&["--without", "browser"]), TestChoice { fast: false, languages: all, browser: false });
        assert_eq!(parse(&["--fast"]), TestChoice { fast: true, languages: Vec::new(), browser: false });
        let listed = parse(&["--without", "browser,node", "--without", "python"]);
        assert_eq!(listed, TestChoice { fast: false, languages: Vec::new(), browser: false });
        assert!(parse_arguments(&to_args(&["--without", "rust"])).is_err());
        assert!(parse_arguments(&to_args(&["--without"])).is_err());
        assert!(parse_arguments(&to_args(&["--slow"])).is_err());
    }

    #[test]
    fn one_failed_stage_fails_the_run_and_is_named() {
        let stages = vec![("good", Ok(())), ("bad", Err(anyhow::anyhow!("exit status: 1")))];
        let error = report_stages(stages, &[], Instant::now()).unwrap_err();
        assert_eq!(error.to_string(), "failed: bad (exit status: 1)");
    }
}
