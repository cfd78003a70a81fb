//! `cargo xtask test` runs every test, on a machine that has only Rust and git.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::clients::{self, ClientLanguage};
use crate::needs::{Need, install_missing};
use crate::page::{self, BROWSER_NAME, BROWSER_NEEDS};
use crate::process::{cargo_command, run_checked};
use crate::stories;
use crate::test_repeats::{RepeatingRunner, repeat_once};
use crate::test_stages::StageList;

/// The name of the stage that builds.
const PROGRAMS_STAGE: &str = "building the programs that the tests drive";
/// The name of the stage of the doc tests.
const EXAMPLES_STAGE: &str = "the examples in the documentation";
/// The name of the stage of the official Rust SDK.
const SDK_STAGE: &str = "the official SDK as client and as agent";
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
    let TestChoice { fast, strict, languages, browser } = parse_arguments(args)?;
    install_missing(NEEDS)?;
    for language in &languages {
        let missing =
            format!("{} need it; --without {} leaves them out", language.tests(), language.name());
        install_missing(language.needs()).context(missing)?;
    }
    if browser {
        let missing =
            format!("the tests of the web page need it; --without {BROWSER_NAME} leaves them out");
        install_missing(BROWSER_NEEDS).context(missing)?;
    }

    let mut stages = StageList::new();
    stages.run(PROGRAMS_STAGE, || {
        run_checked(cargo_command(root).args([
            "build",
            "-p",
            "wharf",
            "-p",
            "wharf-testkit",
            "--bins",
        ]))
    });
    if stages.has_failed() {
        return stages.report(&[]);
    }
    let runner = RepeatingRunner::new(root, strict);
    // The official SDK brings a TLS stack and enables features that no user's build has, so it is
    // built separately.
    let own = ["--workspace", "--exclude", CONFORMANCE];
    stages.run_tests("the tests of every crate", || runner.run(&own));
    if !fast {
        let examples = [&["test", "--quiet", "--doc"], own.as_slice()].concat();
        stages.run(EXAMPLES_STAGE, || run_checked(cargo_command(root).args(examples)));
        stages.run_tests(SDK_STAGE, || runner.run(&["-p", CONFORMANCE]));
    }
    if !languages.is_empty() {
        stages.run_tests(CLIENTS_STAGE, || {
            repeat_once(strict, CLIENTS_STAGE, || clients::follow_rows(root, &languages))
        });
        stages.run_tests(STORIES_STAGE, || stories::tell_stories(root, &languages, "", strict));
    }
    if stories::has_real_agent() && languages.contains(&ClientLanguage::Node) {
        stages.run_tests(AGENT_STAGE, || {
            repeat_once(strict, AGENT_STAGE, || stories::tell_real_agent(root))
        });
    }
    if browser {
        stages.run_tests(PAGE_STAGE, || page::test_page_repeating(root, strict));
    }
    stages.report(&list_skipped(fast, &languages, browser))
}

/// The stages that are to run.
#[derive(Debug, PartialEq, Eq)]
struct TestChoice {
    fast: bool,
    /// True if a failed test is not repeated.
    strict: bool,
    languages: Vec<ClientLanguage>,
    browser: bool,
}

/// Reads which stages are left out, the long ones by `--fast` and others by `--without`, and
/// whether a failed test counts at once.
fn parse_arguments(args: &[String]) -> Result<TestChoice> {
    let usage =
        "test takes --fast, --strict, and --without with a list of browser, node and python";
    let has_flag = |flag: &str| args.iter().any(|arg| arg == flag);
    let fast = has_flag("--fast");
    let strict = has_flag("--strict");
    let rest: Vec<String> = args
        .iter()
        .filter(|arg| !["--fast", "--strict"].contains(&arg.as_str()))
        .cloned()
        .collect();
    let left_out = clients::read_left_out(&rest).context(usage)?;
    let (browser, left_out): (Vec<String>, Vec<String>) =
        left_out.into_iter().partition(|name| name == BROWSER_NAME);
    let languages = clients::remaining_languages(&left_out).context(usage)?;
    let languages = if fast { Vec::new() } else { languages };
    Ok(TestChoice {
        fast,
        strict,
        languages,
        browser: browser.is_empty() && !fast,
    })
}

/// Returns the stages that were left out.
fn list_skipped(fast: bool, languages: &[ClientLanguage], browser: bool) -> Vec<String> {
    let long_stages = [EXAMPLES_STAGE, SDK_STAGE].into_iter().filter(|_| fast).map(str::to_owned);
    let all = ClientLanguage::ALL.into_iter().filter(|language| !languages.contains(language));
    let clients = all.map(|language| language.tests().to_owned());
    let lacks_agent = languages.contains(&ClientLanguage::Node) && !stories::has_real_agent();
    let agent = lacks_agent.then(|| format!("{AGENT_STAGE} (it exists for x86-64 only)"));
    long_stages
        .chain(clients)
        .chain(agent)
        .chain((!browser).then(|| PAGE_STAGE.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_args(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn none() -> TestChoice {
        TestChoice {
            fast: false,
            strict: false,
            languages: Vec::new(),
            browser: false,
        }
    }

    #[test]
    fn arguments_leave_out_stages() {
        let parse = |words: &[&str]| parse_arguments(&to_args(words)).unwrap();
        let all = vec![ClientLanguage::Node, ClientLanguage::Python];
        let python = vec![ClientLanguage::Python];
        assert_eq!(parse(&[]), TestChoice { languages: all.clone(), browser: true, ..none() });
        assert_eq!(
            parse(&["--without", "node"]),
            TestChoice { languages: python, browser: true, ..none() }
        );
        assert_eq!(parse(&["--without", "browser"]), TestChoice { languages: all, ..none() });
        assert_eq!(parse(&["--fast"]), TestChoice { fast: true, ..none() });
        let listed = parse(&["--without", "browser,node", "--without", "python"]);
        assert_eq!(listed, none());
        assert_eq!(
            parse(&["--strict", "--fast"]),
            TestChoice { fast: true, strict: true, ..none() }
        );
        assert!(parse_arguments(&to_args(&["--without", "rust"])).is_err());
        assert!(parse_arguments(&to_args(&["--without"])).is_err());
        assert!(parse_arguments(&to_args(&["--slow"])).is_err());
    }

    #[test]
    fn fast_run_names_all_stages_that_it_leaves_out() {
        assert_eq!(
            list_skipped(false, &ClientLanguage::ALL, true).len(),
            usize::from(!stories::has_real_agent())
        );
        let skipped = list_skipped(true, &[], false);
        for stage in [EXAMPLES_STAGE, SDK_STAGE, PAGE_STAGE] {
            assert!(skipped.contains(&stage.to_owned()), "{skipped:?}");
        }
    }
}
