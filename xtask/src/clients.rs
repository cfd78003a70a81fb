//! `cargo xtask clients` generates clients from `/openapi.json` of a running host, type checks a
//! small program with each, and lets it walk a story with a session. It also runs the official
//! clients (`stories`).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::bench::{Host, fetch_text};
use crate::needs::{Need, describe_missing, list_missing};
use crate::output::{print_line, print_progress};
use crate::packages::{command_in, copy_sources, install_node_packages, install_python_packages};
use crate::process::{capture_stdout, cargo_command, run_checked};
use crate::repo::target_dir;
use crate::stories;

/// The answer of the demo agent, which each program prints.
const ANSWER: &str = "hello harbour";

/// The parts of `cargo xtask clients`, each of which can be run alone.
const PARTS: [&str; 4] = ["generated", "acp", "mcp", "goose"];

/// A language of clients: generated ones, and official ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientLanguage {
    Node,
    Python,
}

impl ClientLanguage {
    pub(crate) const ALL: [Self; 2] = [Self::Node, Self::Python];

    /// Returns its name in `--without`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Python => "python",
        }
    }

    /// Returns the tests that need it, for the line of those that were left out.
    pub(crate) const fn tests(self) -> &'static str {
        match self {
            Self::Node => "the clients for node and the real agent",
            Self::Python => "the clients for python",
        }
    }

    /// Returns the programs that install, generate, check and run the clients.
    pub(crate) const fn needs(self) -> &'static [Need] {
        match self {
            Self::Node => &[Need {
                command: "npm",
                probe: &[],
                packages: &["npm"],
                reason: "clients in TypeScript are generated and run",
            }],
            Self::Python => &[Need {
                command: "python3",
                probe: &["-c", "import ensurepip, venv"],
                packages: &["python3", "python3-venv"],
                reason: "clients in Python are generated and run",
            }],
        }
    }
}

/// Runs the command `cargo xtask clients`: everything, or `generated`, `acp`, `mcp` or `goose`.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let (part, args) = match args.split_first() {
        Some((name, rest)) if PARTS.contains(&name.as_str()) => (name.as_str(), rest),
        _ => ("", args),
    };
    let languages = remaining_languages(&read_left_out(args)?)?;
    for language in &languages {
        let missing = list_missing(language.needs());
        ensure!(
            missing.is_empty(),
            "{}, or add --without {}",
            describe_missing(&missing),
            language.name()
        );
    }
    run_checked(cargo_command(root).args([
        "build",
        "-p",
        "wharf",
        "-p",
        "wharf-testkit",
        "--bins",
    ]))?;
    if ["", "generated"].contains(&part) {
        follow_rows(root, &languages)?;
    }
    if ["", "acp", "mcp"].contains(&part) {
        stories::tell_stories(root, &languages, part, true)?;
    }
    if ["", "goose"].contains(&part)
        && languages.contains(&ClientLanguage::Node)
        && stories::has_real_agent()
    {
        stories::tell_real_agent(root)?;
    }
    Ok(())
}

/// Reads `--without NAME,NAME`, which may be repeated. Returns the names.
pub(crate) fn read_left_out(args: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Some(list) = args.next().filter(|_| arg == "--without") else {
            bail!("{arg:?} is not known here")
        };
        names.extend(list.split(',').map(str::to_owned));
    }
    Ok(names)
}

/// Returns the languages that are left without these.
pub(crate) fn remaining_languages(left_out: &[String]) -> Result<Vec<ClientLanguage>> {
    let is_known = |name: &&String| {
        ClientLanguage::ALL.iter().any(|language| language.name() == name.as_str())
    };
    if let Some(unknown) = left_out.iter().find(|name| !is_known(name)) {
        bail!("{unknown:?} cannot be left out");
    }
    let is_left = |language: &ClientLanguage| !left_out.iter().any(|name| name == language.name());
    Ok(ClientLanguage::ALL.into_iter().filter(is_left).collect())
}

/// Generates a client for each language, and lets it follow the rows of a session. The binary has
/// been built.
pub(crate) fn follow_rows(root: &Path, languages: &[ClientLanguage]) -> Result<()> {
    let began = Instant::now();
    let target = target_dir(root)?;
    let work = target.join("clients");
    fs::create_dir_all(&work).context("making a directory for the clients")?;
    let wharf = target.join("debug/wharf");
    let host = Host::start(&wharf, &wharf, &work.join("host"))?;
    fs::write(work.join("openapi.json"), fetch_text(&host, "/openapi.json")?)
        .context("writing openapi.json")?;
    for language in languages {
        print_progress(&format!("a client for {}", language.name()));
        let (folder, prepare): (_, fn(&Path) -> Result<Command>) = match language {
            ClientLanguage::Node => ("typescript", prepare_node),
            ClientLanguage::Python => ("python", prepare_python),
        };
        let mut program =
            prepare(&copy_sources(&root.join("clients").join(folder), &work.join(folder))?)?;
        program
            .env("WHARF_URL", format!("http://{}", host.authority))
            .env("WHARF_TOKEN", &host.token);
        let said = capture_stdout(&mut program)?;
        ensure!(
            said.trim() == ANSWER,
            "the client for {} printed {said:?} instead of {ANSWER:?}",
            language.name()
        );
    }
    host.stop()?;
    let names: Vec<_> = languages.iter().map(|language| language.name()).collect();
    print_line(&format!(
        "clients: the generated ones for {} walked the story in {} s",
        names.join(" and "),
        began.elapsed().as_secs()
    ));
    Ok(())
}

fn prepare_node(dir: &Path) -> Result<Command> {
    let bin = install_node_packages(dir, &[".bin/openapi-typescript", ".bin/tsc"])?;
    run_checked(command_in(dir, bin.join("openapi-typescript")).args([
        "../openapi.json",
        "-o",
        "api.d.ts",
    ]))?;
    run_checked(command_in(dir, bin.join("tsc")).args(["-p", "."]))?;
    let mut program = command_in(dir, "node");
    program.arg("out/follow_rows.js");
    Ok(program)
}

fn prepare_python(dir: &Path) -> Result<Command> {
    let bin = install_python_packages(dir, "requirements.txt", "venv")?;
    run_checked(command_in(dir, bin.join("datamodel-codegen")).args(GENERATOR_FLAGS))?;
    run_checked(command_in(dir, bin.join("mypy")).args(["--strict", "follow_rows.py"]))?;
    let mut program = command_in(dir, bin.join("python"));
    program.arg("follow_rows.py");
    Ok(program)
}

const GENERATOR_FLAGS: [&str; 13] = [
    "--input",
    "../openapi.json",
    "--input-file-type",
    "openapi",
    "--output",
    "models.py",
    "--output-model-type",
    "pydantic_v2.BaseModel",
    "--target-python-version",
    "3.11",
    "--enum-field-as-literal",
    "all",
    "--use-annotated",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_can_be_left_out() {
        let args = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let read = |words: &[&str]| {
            read_left_out(&args(words)).and_then(|names| remaining_languages(&names))
        };
        assert_eq!(read(&[]).unwrap(), ClientLanguage::ALL);
        assert_eq!(read(&["--without", "node"]).unwrap(), [ClientLanguage::Python]);
        assert_eq!(read(&["--without", "node,python"]).unwrap(), []);
        for wrong in [&["--without"][..], &["--without", "ruby"], &["node"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
