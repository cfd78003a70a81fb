//! `cargo xtask clients` generates clients from `/openapi.json` of a running host, type checks a small program with each, and lets
//! it follow the rows of a session.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::bench::Host;
use crate::output::{print_line, print_progress};
use crate::process::{capture_stdout, cargo_command, command, find_program, run_checked};
use crate::repo::target_dir;

/// The answer of the demo agent, which each program prints.
const ANSWER: &str = "hello harbour";

/// The languages, each with the program that it needs.
const LANGUAGES: [(&str, &str); 2] = [("node", "npm"), ("python", "python3")];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let languages = read_languages(args)?;
    let began = Instant::now();
    run_checked(cargo_command(root).args(["build", "-p", "wharf", "--bins"]))?;
    let target = target_dir(root)?;
    let work = target.join("clients");
    fs::create_dir_all(&work).context("making a directory for the clients")?;
    let wharf = target.join("debug/wharf");
    let host = Host::start(&wharf, &wharf, &work.join("host"))?;
    let document = work.join("openapi.json");
    let url = format!("http://{}/openapi.json", host.authority);
    let token = format!("Authorization: Bearer {}", host.token);
    run_checked(command("curl").args(["-sSf", "-H", &token, "-o"]).arg(&document).arg(url))?;
    for language in &languages {
        print_progress(&format!("a client for {language}"));
        let folder = if *language == "node" { "typescript" } else { "python" };
        let dir = copy_sources(&root.join("clients").join(folder), &work.join(folder))?;
        let mut program = if *language == "node" { prepare_node(&dir)? } else { prepare_python(&dir)? };
        program.env("WHARF_URL", format!("http://{}", host.authority)).env("WHARF_TOKEN", &host.token);
        let said = capture_stdout(&mut program)?;
        ensure!(said.trim() == ANSWER, "the client for {language} printed {said:?} instead of {ANSWER:?}");
    }
    host.stop()?;
    print_line(&format!("clients: {} followed the rows in {} s", languages.join(" and "), began.elapsed().as_secs()));
    Ok(())
}

/// Reads `--without LANGUAGE`, which may be repeated.
fn read_languages(args: &[String]) -> Result<Vec<&'static str>> {
    let mut left_out = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let name = args.next().filter(|_| arg == "--without");
        let known = name.and_then(|name| LANGUAGES.iter().find(|(language, _)| language == name));
        let Some((language, _)) = known else { bail!("clients takes --without node and --without python") };
        left_out.push(*language);
    }
    let chosen: Vec<_> = LANGUAGES.iter().filter(|(language, _)| !left_out.contains(language)).collect();
    for (language, program) in &chosen {
        ensure!(find_program(program).is_some(), "missing: {program}; install it or add --without {language}");
    }
    Ok(chosen.into_iter().map(|(language, _)| *language).collect())
}

/// Copies the files of a client to where generated files may lie beside them. Installed packages stay from run to run.
fn copy_sources(from: &Path, to: &Path) -> Result<PathBuf> {
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from).with_context(|| format!("listing {}", from.display()))? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(to.to_path_buf())
}

fn prepare_node(dir: &Path) -> Result<Command> {
    let in_dir = |program: PathBuf| {
        let mut command = command(program);
        command.current_dir(dir);
        command
    };
    let (list, stamp) = (dir.join("package-lock.json"), dir.join("node_modules/installed.json"));
    if is_outdated(&stamp, &list)? {
        run_checked(in_dir("npm".into()).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]))?;
        fs::copy(&list, &stamp)?;
    }
    let bin = dir.join("node_modules/.bin");
    run_checked(in_dir(bin.join("openapi-typescript")).args(["../openapi.json", "-o", "api.d.ts"]))?;
    run_checked(in_dir(bin.join("tsc")).args(["-p", "."]))?;
    let mut program = in_dir("node".into());
    program.arg("out/follow_rows.js");
    Ok(program)
}

fn prepare_python(dir: &Path) -> Result<Command> {
    let in_dir = |program: PathBuf| {
        let mut command = command(program);
        command.current_dir(dir);
        command
    };
    let bin = dir.join("venv/bin");
    let (list, stamp) = (dir.join("requirements.txt"), dir.join("venv/installed.txt"));
    if is_outdated(&stamp, &list)? {
        run_checked(in_dir("python3".into()).args(["-m", "venv", "venv"]))?;
        run_checked(in_dir(bin.join("pip")).args(["install", "-q", "-r", "requirements.txt"]))?;
        fs::copy(&list, &stamp)?;
    }
    run_checked(in_dir(bin.join("datamodel-codegen")).args(GENERATOR_FLAGS))?;
    run_checked(in_dir(bin.join("mypy")).args(["--strict", "follow_rows.py"]))?;
    let mut program = in_dir(bin.join("python"));
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

/// Returns true if the packages were not installed from this list.
fn is_outdated(installed: &Path, wanted: &Path) -> Result<bool> {
    let wanted = fs::read(wanted).with_context(|| format!("reading {}", wanted.display()))?;
    Ok(fs::read(installed).ok() != Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_can_be_left_out() {
        let args = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let none = args(&["--without", "node", "--without", "python"]);
        assert_eq!(read_languages(&none).unwrap(), Vec::<&str>::new());
        for wrong in [&["--without"][..], &["--without", "ruby"], &["node"]] {
            assert!(read_languages(&args(wrong)).is_err(), "{wrong:?}");
        }
    }
}
