//! `cargo xtask soak NAME` runs tests for a long time that find more the longer they run.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::output::{print_line, print_progress};
use crate::process::{cargo_command, run_checked};
use crate::repo;

/// A long run of a test that has a short one among the ordinary tests.
struct Soak {
    name: &'static str,
    test: &'static str,
    /// The variable that sets the length of the run, and its value.
    length: (&'static str, &'static str),
    summary: &'static str,
}

const SOAKS: [Soak; 3] = [
    Soak {
        name: "walk",
        test: "walk::random_clients_end_with_the_same_transcript",
        length: ("WHARF_WALK_SECONDS", "600"),
        summary: "thirty rounds of 20 s with clients that do as they please and reconnect",
    },
    Soak {
        name: "kills",
        test: "faults::kills::two_hundred_kills_lose_and_duplicate_no_records",
        length: ("WHARF_FAULT_ROUNDS", "500"),
        summary: "500 kills of the host amid traffic",
    },
    Soak {
        name: "keepers",
        test: "keepers::long_turn::one_turn_goes_on_over_twenty_kills_of_the_host",
        length: ("WHARF_KEEPER_KILLS", "200"),
        summary: "one turn of a million updates over 200 kills of the host",
    },
];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let [name] = args else { bail!("soak takes one name: {}", list_names()) };
    let soak = SOAKS.iter().find(|soak| soak.name == name);
    let soak =
        soak.with_context(|| format!("no soak called {name:?}; there are: {}", list_names()))?;
    let (variable, length) = soak.length;
    // A variable that is set already is kept, so that a shorter run can be tried.
    let length = std::env::var(variable).unwrap_or_else(|_| length.to_owned());
    print_progress("building the programs that the tests drive");
    // A debug build of the host would be the slowest part of a long run.
    run_checked(cargo_command(root).args([
        "build",
        "--release",
        "-p",
        "wharf",
        "-p",
        "wharf-testkit",
        "--bins",
    ]))?;
    let programs = repo::target_dir(root)?.join("release");
    print_progress(soak.summary);
    let began = Instant::now();
    // `cargo test` is used because nextest would end a long test. The test prints its seed and its
    // figures.
    let test = ["test", "-p", "wharf", "--test", "it", "--", "--exact", "--nocapture", soak.test];
    let mut command = cargo_command(root);
    command.args(test).env(variable, &length);
    for name in ["WHARF_BIN", "WHARF_TEST_BINARY"] {
        command.env(name, programs.join("wharf"));
    }
    run_checked(command.env("WHARF_SCRIPTED_AGENT_BIN", programs.join("wharf-scripted-agent")))?;
    print_line(&format!(
        "soak {name}: passed in {} s ({variable}={length})",
        began.elapsed().as_secs()
    ));
    Ok(())
}

fn list_names() -> String {
    SOAKS.map(|soak| format!("{} ({})", soak.name, soak.summary)).join(", ")
}
