//! The repo's tasks: `cargo xtask tidy`, `cargo xtask test`, `cargo xtask soak`, `cargo xtask
//! bench`, `cargo xtask clients`, `cargo xtask page`, `cargo xtask picture`.
//!
//! It is *not* part of the product and depends on none of the repo's crates, so that it builds in
//! seconds and still runs when they do not compile.
#![expect(clippy::disallowed_methods, reason = "it reads what cargo and Wharf wrote")]

mod bench;
mod clients;
mod needs;
mod output;
mod packages;
mod page;
mod picture;
mod process;
mod repo;
mod soak;
mod stories;
mod test_repeats;
mod test_run;
mod test_stages;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--fast] [--strict] [--without node] [--without python] [--without browser]
                                run every test; --fast leaves out the doc tests, the clients of others and the web page,
                                --without leaves out the clients of that language (with node also the real agent) or the
                                tests of the web page in Chromium; a failed test is repeated once, --strict repeats none
  page [NAME]                   run the tests of the web page in Chromium, those with NAME in their name
  tidy                          check the invariants that a machine can check
  soak NAME                     run a test for long: walk (ten minutes), kills (500 kills of the host) or
                                keepers (200 kills of the host in one turn)
  clients [generated|acp|mcp|goose] [--without node] [--without python]
                                generate clients from /openapi.json and walk a story with each, and with the official
                                clients of ACP and MCP; and with goose, a real agent, and a scripted model
  picture                       turn a terminal screen (tmux capture-pane -ep) into an SVG picture
  picture page                  make the pictures of the web page in docs/images
  bench [--quick] [--no-build] [--against PATH] [MEASURE …]
                                measure the binary of the dist profile: burst, burst_packed, tick, never_reading,
                                status, bridge, restart, rows_page, rows_burst, search, tui; or, if it is named, the
                                first build itself: build, or the web page in Chromium: page;
                                --against measures another wharf binary in the same rounds";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::print_error(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Result<()> {
    let root = repo::find_root()?;
    let Some((command, rest)) = args.split_first() else { bail!("no command given\n\n{USAGE}") };
    match command.as_str() {
        "test" => test_run::run(&root, rest),
        "tidy" => tidy::run(&root, rest),
        "soak" => soak::run(&root, rest),
        "bench" => bench::run(&root, rest),
        "clients" => clients::run(&root, rest),
        "picture" if rest == ["page"] => page::draw_pictures(&root),
        "picture" => picture::run(rest),
        "page" => page::run(&root, rest),
        "help" | "--help" | "-h" => {
            output::print_line(USAGE);
            Ok(())
        }
        other => bail!("no command called {other:?}\n\n{USAGE}"),
    }
}
