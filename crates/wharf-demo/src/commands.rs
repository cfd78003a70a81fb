//! The commands of the demo agent, and how a prompt is matched with one.

use std::time::Duration;

use serde_json::{Value, json};

use crate::replies;
use crate::talk::Talk;
use crate::turn::Stop;

/// One word that a prompt may start with. `/word` works too, since clients offer the commands as slash commands.
struct Command {
    name: &'static str,
    /// The arguments that may follow the name; empty if there are none.
    hint: &'static str,
    about: &'static str,
    perform: fn(&mut Talk, Words<'_>) -> Result<(), Stop>,
}

/// The text after a command's name.
#[derive(Clone, Copy)]
struct Words<'a>(&'a str);

impl Words<'_> {
    /// Returns the number at this position, or a default.
    fn number(self, place: usize, default: u64) -> u64 {
        self.0.split_whitespace().nth(place).and_then(|word| word.parse().ok()).unwrap_or(default)
    }
}

const COMMANDS: [Command; 15] = [
    Command { name: "help", hint: "", about: "shows this list", perform: |talk, _| talk.say_lines(&help()) },
    Command { name: "echo", hint: "TEXT", about: "says it back", perform: |talk, words| talk.say(words.0) },
    Command { name: "think", hint: "", about: "thinks aloud for a moment", perform: |talk, _| replies::think(talk) },
    Command { name: "plan", hint: "", about: "makes a plan and follows it", perform: |talk, _| replies::plan(talk) },
    Command { name: "tool", hint: "", about: "runs a (pretended) command", perform: |talk, _| replies::tool(talk) },
    Command {
        name: "edit",
        hint: "",
        about: "shows a diff, after asking you unless the mode is auto; nothing is written",
        perform: |talk, _| replies::edit(talk),
    },
    Command {
        name: "ask",
        hint: "[N]",
        about: "asks for your permission, N times",
        perform: |talk, words| replies::ask(talk, words.number(0, 1)),
    },
    Command {
        name: "slow",
        hint: "",
        about: "tells a story slowly: try cancel",
        perform: |talk, _| replies::slow(talk),
    },
    Command {
        name: "burst",
        hint: "[N] [SIZE]",
        about: "N pieces of SIZE bytes, as fast as possible (1000 of 200)",
        perform: |talk, words| talk.burst(words.number(0, 1000), usize::try_from(words.number(1, 200)).unwrap_or(200)),
    },
    Command {
        name: "tick",
        hint: "[N] [MS]",
        about: "N pieces, one every MS milliseconds (10, 500)",
        perform: |talk, words| talk.tick(words.number(0, 10), Duration::from_millis(words.number(1, 500))),
    },
    Command {
        name: "hang",
        hint: "[hard]",
        about: "says nothing until cancelled; hard ignores that too",
        perform: |talk, words| {
            talk.turn.deaf = words.0 == "hard";
            Err(talk.turn.hang())
        },
    },
    Command {
        name: "error",
        hint: "",
        about: "answers with an error",
        perform: |_, _| Err(Stop::Refused(json!({ "code": -32603, "message": "you asked for an error: here it is" }))),
    },
    Command {
        name: "refuse",
        hint: "",
        about: "ends the turn with the stop reason refusal",
        perform: |_, _| Err(Stop::Ended("refusal".to_owned())),
    },
    Command {
        name: "die",
        hint: "[CODE]",
        about: "ends the agent's process at once",
        perform: |_, words| std::process::exit(i32::try_from(words.number(0, 1)).unwrap_or(1)),
    },
    Command {
        name: "hello",
        hint: "",
        about: "or anything else: a short answer",
        perform: |talk, _| replies::chat(talk, "hello", 0),
    },
];

/// Answers one prompt: sends a title if there is none yet, then runs the command, then sends the usage.
pub(crate) fn perform(talk: &mut Talk, text: &str, prompt: &Value) -> Result<(), Stop> {
    replies::title(talk, text)?;
    let (name, rest) = split(text);
    match COMMANDS.iter().find(|command| command.name == name && fits(command.hint, rest)) {
        Some(command) => (command.perform)(talk, Words(rest))?,
        None => replies::chat(talk, text.trim(), attachments(prompt))?,
    }
    replies::usage(talk)
}

/// Returns true if the rest of the prompt fits a command with this hint. Otherwise the prompt is ordinary text: "hang
/// on" does not mean `hang`.
fn fits(hint: &str, rest: &str) -> bool {
    match hint {
        _ if rest.is_empty() => true,
        "" => false,
        "TEXT" => true,
        "[hard]" => rest == "hard",
        _ => rest.split_whitespace().all(|word| word.parse::<u64>().is_ok()),
    }
}

/// Returns the first word without its slash and in lower case, and the rest.
fn split(text: &str) -> (String, &str) {
    let text = text.trim();
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (name.strip_prefix('/').unwrap_or(name).to_lowercase(), rest.trim())
}

/// Returns the number of blocks of a prompt that are not text.
fn attachments(prompt: &Value) -> usize {
    let blocks = prompt.as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter(|block| block["type"] != "text").count()
}

fn help() -> String {
    let mut text =
        String::from("I am the demo agent: no model, no network, always the same answers. Try one of these:\n\n");
    for Command { name, hint, about, .. } in &COMMANDS {
        let blank = if hint.is_empty() { "" } else { " " };
        text.push_str(&format!("- `{name}{blank}{hint}` {about}\n"));
    }
    text.push_str(
        "\nThe mode `auto` lets me edit without asking; the options `pace` and `thoughts` change how I talk.",
    );
    text
}

/// Returns the update that offers the commands to the client.
pub(crate) fn available() -> Value {
    let commands = COMMANDS.iter().map(|command| {
        let input = if command.hint.is_empty() { Value::Null } else { json!({ "hint": command.hint }) };
        json!({ "name": command.name, "description": command.about, "input": input })
    });
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands.collect::<Vec<_>>() })
}
