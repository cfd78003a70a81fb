//! Lets programs that others wrote walk a whole story: the official MCP and ACP clients of Node and
//! Python, and a real agent with a scripted model.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::bench::{Host, quote_path};
use crate::clients::ClientLanguage;
use crate::output::{print_error, print_line};
use crate::packages::{command_in, copy_sources, install_node_packages, install_python_packages};
use crate::process::run_checked;
use crate::repo::target_dir;
use crate::test_repeats::repeat_once;

/// Runs a program of a story: what it drives the host with, and over which transport.
struct Story {
    language: ClientLanguage,
    /// The virtual environment that it runs in, if it is one of Python's.
    venv: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

/// The virtual environment of the newest official Python clients.
const NEWEST: &str = "venv";
/// The virtual environment of the first generation of the official MCP client, which excludes the
/// newest.
const FIRST_MCP: &str = "venv-mcp1";

const STORIES: [Story; 13] = [
    node("acp.mjs", &["ws"]),
    node("acp.mjs", &["http"]),
    node("acp.mjs", &["stdio"]),
    node("mcp.mjs", &["newest", "http"]),
    node("mcp.mjs", &["newest", "stdio"]),
    node("mcp.mjs", &["first", "http"]),
    node("mcp.mjs", &["first", "stdio"]),
    python(NEWEST, "acp_story.py", &["ws"]),
    python(NEWEST, "acp_story.py", &["stdio"]),
    python(NEWEST, "mcp_story.py", &["http"]),
    python(NEWEST, "mcp_story.py", &["stdio"]),
    python(FIRST_MCP, "mcp_story.py", &["http"]),
    python(FIRST_MCP, "mcp_story.py", &["stdio"]),
];

const fn node(program: &'static str, arguments: &'static [&'static str]) -> Story {
    Story { language: ClientLanguage::Node, venv: "", program, arguments }
}

const fn python(
    venv: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
) -> Story {
    Story { language: ClientLanguage::Python, venv, program, arguments }
}

impl Story {
    /// Returns the arguments of its interpreter.
    fn words(&self) -> Vec<&'static str> {
        [&[self.program], self.arguments].concat()
    }
}

/// Lets the official clients of these languages, those with `part` in the name of their program,
/// walk their stories with one host and the scripted agent. A story that fails does not keep the
/// others from being told, and is then told once more. Returns the names of those that only this
/// helped; a strict run repeats none.
pub(crate) fn tell_stories(
    root: &Path,
    languages: &[ClientLanguage],
    part: &str,
    is_strict: bool,
) -> Result<Vec<String>> {
    let began = Instant::now();
    let work = target_dir(root)?.join("clients");
    let debug = target_dir(root)?.join("debug");
    let wharf = debug.join("wharf");
    let agent =
        format!("{} --close --resume --fork", quote_path(&debug.join("wharf-scripted-agent")));
    let mut wanted = Vec::new();
    for story in &STORIES {
        if languages.contains(&story.language) && story.program.contains(part) {
            wanted.push((story, install_interpreter(root, &work, story)?));
        }
    }
    let installed = began.elapsed().as_secs();
    let host = Host::start_with(&wharf, &agent, &work.join("stories-host"))?;
    let tell = |story: &Story, interpreter: &Path| {
        let mut program = command_in(&story.folder(&work), interpreter);
        program
            .args(story.words())
            .env("WHARF_BIN", &wharf)
            .env("WHARF_STATE_DIR", host.state_dir());
        program
            .env("WHARF_URL", format!("http://{}", host.authority))
            .env("WHARF_TOKEN", &host.token);
        run_checked(&mut program)
    };
    let mut failed = Vec::new();
    let mut flaky = Vec::new();
    for (story, interpreter) in &wanted {
        let name = story.words().join(" ");
        match repeat_once(is_strict, &name, || tell(story, interpreter)) {
            Ok(repeated) => flaky.extend(repeated),
            Err(error) => {
                print_error(&format!("{error:#}"));
                failed.push(name);
            }
        }
    }
    host.stop()?;
    if !failed.is_empty() {
        bail!("{} of {} stories failed: {}", failed.len(), wanted.len(), failed.join(", "));
    }
    let told = began.elapsed().as_secs() - installed;
    print_line(&format!(
        "clients: {} stories told in {told} s, packages installed in {installed} s",
        wanted.len()
    ));
    Ok(flaky)
}

impl Story {
    /// Returns the folder that holds the program and its packages.
    fn folder(&self, work: &Path) -> PathBuf {
        work.join(match self.language {
            ClientLanguage::Node => NODE_STORIES,
            ClientLanguage::Python => PYTHON_STORIES,
        })
    }
}

/// The folder of the stories in JavaScript, in `clients` and in the target directory.
const NODE_STORIES: &str = "stories-node";
/// The folder of the stories in Python.
const PYTHON_STORIES: &str = "stories-python";

/// Copies the programs of the story's language, installs their packages, and returns the
/// interpreter.
fn install_interpreter(root: &Path, work: &Path, story: &Story) -> Result<PathBuf> {
    let folder = story.folder(work);
    let name = folder.file_name().context("naming the folder of the stories")?;
    copy_sources(&root.join("clients").join(name), &folder)?;
    match (story.language, story.venv) {
        // Node comes with the packages: the newest SDKs need a newer one than Debian has.
        (ClientLanguage::Node, _) => {
            Ok(install_node_packages(&folder, node_programs())?.join("node"))
        }
        (ClientLanguage::Python, NEWEST) => {
            Ok(install_python_packages(&folder, "requirements.txt", NEWEST)?.join("python"))
        }
        (ClientLanguage::Python, venv) => {
            Ok(install_python_packages(&folder, "requirements-mcp1.txt", venv)?.join("python"))
        }
    }
}

/// Returns the programs that the packages of the stories bring, below `node_modules`.
const fn node_programs() -> &'static [&'static str] {
    if has_real_agent() { &[".bin/node", ".bin/goose-binary-linux-x64"] } else { &[".bin/node"] }
}

/// Returns true if the real agent exists for this machine's processor.
pub(crate) const fn has_real_agent() -> bool {
    cfg!(target_arch = "x86_64")
}

/// Lets goose, with a scripted model, walk a story that kills the host in mid-turn. It starts its
/// own hosts.
pub(crate) fn tell_real_agent(root: &Path) -> Result<()> {
    let target = target_dir(root)?;
    let story = node("goose.mjs", &[]);
    let interpreter = install_interpreter(root, &target.join("clients"), &story)?;
    let mut program = command_in(&story.folder(&target.join("clients")), interpreter);
    run_checked(program.args(story.words()).env("WHARF_BIN", target.join("debug/wharf")))
}
