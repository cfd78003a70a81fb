//! The tour: one turn with everything that a session can show, in about fifteen seconds at the
//! natural pace.
//!
//! The agent reads, runs and writes nothing: it only pretends the file, the tests and the edit.

use std::path::Path;

use serde_json::{Value, json};

use crate::replies::{self, FileEdit, text_content};
use crate::turn::TurnStop;
use crate::turn_writer::{PermissionResult, TurnWriter};

const TOUR_STEPS: [&str; 4] =
    ["Read hello.py", "Run the tests", "Change the greeting, if you allow it", "Sum up"];
/// The pause after each step, in pieces of text: about a second at the natural pace.
const STEP_PAUSE_CHUNKS: u32 = 70;
/// The tokens that the pretended model took for the tour.
const TOUR_INPUT_TOKENS: u64 = 1_480;
const TOUR_OUTPUT_TOKENS: u64 = 410;

const OLD_FILE: &str = "\
\"\"\"Says hello to a ship.\"\"\"


def greet(ship):
    return f\"Hello, {ship}!\"


print(greet(\"world\"))
";
const NEW_FILE: &str = "\
\"\"\"Says hello to a ship.\"\"\"


def greet(ship):
    return f\"Welcome to the harbour, {ship}!\"


print(greet(\"Aurora\"))
";
const TEST_COMMAND: &str = "python3 -m unittest -v";
/// The tests of the pretended run. Four more lines follow them.
const TEST_NAMES: [&str; 16] = [
    "barge",
    "brig",
    "clipper",
    "cutter",
    "dinghy",
    "empty_name",
    "ferry",
    "frigate",
    "galleon",
    "junk",
    "ketch",
    "long_name",
    "schooner",
    "sloop",
    "tug",
    "umlaut",
];

/// Performs the tour.
pub(crate) fn run(talk: &mut TurnWriter) -> Result<(), TurnStop> {
    talk.send_thought(
        "This is a tour, so I will show a bit of everything: a plan, a file, a command, a question and an answer.",
    )?;
    talk.pause_for_chunks(STEP_PAUSE_CHUNKS)?;
    talk.send_plan(&TOUR_STEPS, 0)?;
    talk.pause_for_chunks(STEP_PAUSE_CHUNKS)?;
    let path = talk.with_session(|session| {
        Path::new(&session.cwd).join("hello.py").to_string_lossy().into_owned()
    });
    read_file(talk, &path)?;
    talk.send_plan(&TOUR_STEPS, 1)?;
    run_tests(talk)?;
    talk.send_plan(&TOUR_STEPS, 2)?;
    talk.send_text(
        "All 16 tests pass. I would like to make the greeting friendlier. The change is shown below, and nothing \
         happens until you answer; every client of this session is asked, and the first answer counts.",
    )?;
    let edit = FileEdit { path: &path, line: 5, old: OLD_FILE, new: NEW_FILE };
    let (asked, verdict) = replies::make_edit(talk, &edit)?;
    talk.pause_for_chunks(STEP_PAUSE_CHUNKS)?;
    talk.send_plan(&TOUR_STEPS, 3)?;
    talk.pause_for_chunks(STEP_PAUSE_CHUNKS)?;
    talk.send_lines(&summary_text(asked, &verdict))?;
    talk.pause_for_chunks(STEP_PAUSE_CHUNKS)?;
    talk.send_plan(&TOUR_STEPS, TOUR_STEPS.len())?;
    report_usage(talk)?;
    talk.send_text(
        "That was the tour; no file was touched. Close this client or stop the host, come back, and everything is \
         still here. Then open two clients side by side, say `tour` again, and answer in the other one.",
    )
}

fn read_file(talk: &mut TurnWriter, path: &str) -> Result<(), TurnStop> {
    let more = json!({ "locations": [{ "path": path }], "rawInput": { "path": path } });
    let call = talk.open_tool_call("Read hello.py", "read", more)?;
    talk.update_tool_call(&call, "in_progress", None)?;
    talk.pause_for_chunks(STEP_PAUSE_CHUNKS)?;
    talk.update_tool_call(&call, "completed", Some(text_content(OLD_FILE)))?;
    talk.pause_for_chunks(STEP_PAUSE_CHUNKS)
}

/// Runs the pretended tests, whose twenty lines of output come five at a time.
fn run_tests(talk: &mut TurnWriter) -> Result<(), TurnStop> {
    let lines = test_output_lines();
    let call = talk.open_tool_call(
        TEST_COMMAND,
        "execute",
        json!({ "rawInput": { "command": TEST_COMMAND } }),
    )?;
    talk.update_tool_call(&call, "in_progress", None)?;
    for end in [5, 10, 15] {
        talk.pause_for_chunks(STEP_PAUSE_CHUNKS)?;
        talk.update_tool_call(&call, "in_progress", Some(text_content(&lines[..end].concat())))?;
    }
    talk.pause_for_chunks(STEP_PAUSE_CHUNKS)?;
    talk.update_tool_call(&call, "completed", Some(text_content(&lines.concat())))?;
    talk.pause_for_chunks(STEP_PAUSE_CHUNKS)
}

fn test_output_lines() -> Vec<String> {
    let tests = TEST_NAMES
        .iter()
        .map(|name| format!("test_{name} (test_hello.Greetings) ... ok\n"));
    let end = [
        format!("{}\n", "-".repeat(60)),
        "Ran 16 tests in 0.004s\n".to_owned(),
        "\n".to_owned(),
        "OK\n".to_owned(),
    ];
    tests.chain(end).collect()
}

/// Returns a table of the steps and the file as it would be now.
fn summary_text(asked: bool, verdict: &PermissionResult) -> String {
    let (change, file) = match verdict {
        PermissionResult::Once | PermissionResult::Always => ("changed: +2 −2", NEW_FILE),
        PermissionResult::Rejected | PermissionResult::Open(_) => ("left as it was", OLD_FILE),
    };
    let why = if asked { replies::describe_verdict(verdict) } else { "I did not need to ask" };
    format!(
        "| step | result |\n|---|---|\n| Read `hello.py` | 8 lines |\n| Run the tests | 16 passed |\n\
         | Edit `hello.py` | {change} ({why}) |\n\nThis is `hello.py` now:\n\n```python\n{file}```\n"
    )
}

/// Reports the pretended tokens, both those of the session and those of this turn.
fn report_usage(talk: &mut TurnWriter) -> Result<(), TurnStop> {
    talk.with_session(|session| session.used += TOUR_INPUT_TOKENS + TOUR_OUTPUT_TOKENS);
    talk.turn.usage = Some(turn_usage());
    replies::send_usage(talk)
}

fn turn_usage() -> Value {
    json!({
        "inputTokens": TOUR_INPUT_TOKENS,
        "outputTokens": TOUR_OUTPUT_TOKENS,
        "totalTokens": TOUR_INPUT_TOKENS + TOUR_OUTPUT_TOKENS,
    })
}
