//! The commands of the demo agent, and how a prompt is matched with one.

use std::time::Duration;

use serde_json::{Value, json};

use crate::replies;
use crate::tour;
use crate::turn::TurnStop;
use crate::turn_writer::TurnWriter;

/// One word that a prompt may start with. `/word` works too, since clients offer the commands as
/// slash commands.
struct DemoCommand {
    name: &'static str,
    /// The arguments that may follow the name; empty if there are none.
    hint: &'static str,
    about: &'static str,
    perform: fn(&mut TurnWriter, CommandArguments<'_>) -> Result<(), TurnStop>,
}

/// The text after a command's name.
#[derive(Clone, Copy)]
struct CommandArguments<'a>(&'a str);

impl CommandArguments<'_> {
    /// Returns the number at this position, or a default.
    fn parse_number(self, place: usize, default: u64) -> u64 {
        self.0
            .split_whitespace()
            .nth(place)
            .and_then(|word| word.parse().ok())
            .unwrap_or(default)
    }
}

const DEMO_COMMANDS: [DemoCommand; 16] = [
    DemoCommand {
        name: "help",
        hint: "",
        about: "shows this list",
        perform: |talk, _| talk.send_lines(&help_text()),
    },
    DemoCommand {
        name: "tour",
        hint: "",
        about: "shows a bit of everything in fifteen seconds, with a question for you",
        perform: |talk, _| tour::run(talk),
    },
    DemoCommand {
        name: "echo",
        hint: "TEXT",
        about: "says it back",
        perform: |talk, words| talk.send_text(words.0),
    },
    DemoCommand {
        name: "think",
        hint: "",
        about: "thinks aloud for a moment",
        perform: |talk, _| replies::show_thoughts(talk),
    },
    DemoCommand {
        name: "plan",
        hint: "",
        about: "makes a plan and follows it",
        perform: |talk, _| replies::show_plan(talk),
    },
    DemoCommand {
        name: "tool",
        hint: "",
        about: "runs a (pretended) command",
        perform: |talk, _| replies::show_tool_call(talk),
    },
    DemoCommand {
        name: "edit",
        hint: "",
        about: "shows a diff, after asking you unless the mode is auto; nothing is written",
        perform: |talk, _| replies::ask_for_edit(talk),
    },
    DemoCommand {
        name: "ask",
        hint: "[N]",
        about: "asks for your permission, N times",
        perform: |talk, words| replies::ask_questions(talk, words.parse_number(0, 1)),
    },
    DemoCommand {
        name: "slow",
        hint: "",
        about: "tells a story slowly: try cancel",
        perform: |talk, _| replies::tell_story(talk),
    },
    DemoCommand {
        name: "burst",
        hint: "[N] [SIZE]",
        about: "N pieces of SIZE bytes, as fast as possible (1000 of 200)",
        perform: |talk, words| {
            talk.send_burst(
                words.parse_number(0, 1000),
                usize::try_from(words.parse_number(1, 200)).unwrap_or(200),
            )
        },
    },
    DemoCommand {
        name: "tick",
        hint: "[N] [MS]",
        about: "N pieces, one every MS milliseconds (10, 500)",
        perform: |talk, words| {
            talk.send_ticks(
                words.parse_number(0, 10),
                Duration::from_millis(words.parse_number(1, 500)),
            )
        },
    },
    DemoCommand {
        name: "hang",
        hint: "[hard]",
        about: "says nothing until cancelled; hard ignores that too",
        perform: |talk, words| {
            talk.turn.deaf = words.0 == "hard";
            Err(talk.turn.wait_for_stop())
        },
    },
    DemoCommand {
        name: "error",
        hint: "",
        about: "answers with an error",
        perform: |_, _| {
            Err(TurnStop::Refused(
                json!({ "code": -32603, "message": "you asked for an error: here it is" }),
            ))
        },
    },
    DemoCommand {
        name: "refuse",
        hint: "",
        about: "ends the turn with the stop reason refusal",
        perform: |_, _| Err(TurnStop::Ended("refusal".to_owned())),
    },
    DemoCommand {
        name: "die",
        hint: "[CODE]",
        about: "ends the agent's process at once",
        perform: |_, words| {
            std::process::exit(i32::try_from(words.parse_number(0, 1)).unwrap_or(1))
        },
    },
    DemoCommand {
        name: "hello",
        hint: "",
        about: "or anything else: a short answer",
        perform: |talk, _| replies::answer_text(talk, "hello", 0),
    },
];

/// Answers one prompt: sends a title if there is none yet, then runs the command, then sends the
/// usage.
pub(crate) fn answer_prompt(
    talk: &mut TurnWriter,
    text: &str,
    prompt: &Value,
) -> Result<(), TurnStop> {
    replies::send_title(talk, text)?;
    let (name, rest) = split_command(text);
    match DEMO_COMMANDS
        .iter()
        .find(|command| command.name == name && fits_hint(command.hint, rest))
    {
        Some(command) => (command.perform)(talk, CommandArguments(rest))?,
        None => replies::answer_text(talk, text.trim(), count_attachments(prompt))?,
    }
    replies::send_usage(talk)
}

/// Returns true if the rest of the prompt fits a command with this hint. Otherwise the prompt is
/// ordinary text: "hang on" does not mean `hang`.
fn fits_hint(hint: &str, rest: &str) -> bool {
    match hint {
        _ if rest.is_empty() => true,
        "" => false,
        "TEXT" => true,
        "[hard]" => rest == "hard",
        _ => rest.split_whitespace().all(|word| word.parse::<u64>().is_ok()),
    }
}

/// Returns the first word without its slash and in lower case, and the rest.
fn split_command(text: &str) -> (String, &str) {
    let text = text.trim();
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (name.strip_prefix('/').unwrap_or(name).to_lowercase(), rest.trim())
}

/// Returns the number of blocks of a prompt that are not text.
fn count_attachments(prompt: &Value) -> usize {
    let blocks = prompt.as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter(|block| block["type"] != "text").count()
}

fn help_text() -> String {
    let mut text = String::from(
        "I am the demo agent: no model, no network, always the same answers. Try one of these:\n\n",
    );
    for DemoCommand { name, hint, about, .. } in &DEMO_COMMANDS {
        let blank = if hint.is_empty() { "" } else { " " };
        text.push_str(&format!("- `{name}{blank}{hint}` {about}\n"));
    }
    text.push_str(
        "\nThe mode `auto` lets me edit without asking; the options `pace` and `thoughts` change how I talk.",
    );
    text
}

/// Returns the update that offers the commands to the client.
pub(crate) fn commands_update() -> Value {
    let commands = DEMO_COMMANDS.iter().map(|command| {
        let input =
            if command.hint.is_empty() { Value::Null } else { json!({ "hint": command.hint }) };
        json!({ "name": command.name, "description": command.about, "input": input })
    });
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands.collect::<Vec<_>>() })
}
