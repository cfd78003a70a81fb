//! The page `docs/cli-reference.md`: the help, the JSON and the exit codes of every verb. It is
//! made from the code here, in a test, which compares it with the page.

mod json_shapes;
mod schemas;

use clap::Command;

use crate::exit::Exit;
use json_shapes::{JsonShape, json_shape};
use schemas::SchemaPage;

/// The width of help texts on the page.
const HELP_COLUMNS: usize = 110;

const INTRODUCTION: &str = "\
# Reference of the command line

Every verb with its help, the JSON that `--json` prints and its exit codes. [The command line](cli.md) explains them.

This page is made from the code. After a change of a verb, write it anew:
`WHARF_BLESS=1 cargo nextest run -p wharf reference`.
";

/// Returns the whole page.
fn write_page() -> String {
    let mut command = crate::build_command().term_width(HELP_COLUMNS);
    command.build();
    let mut types = SchemaPage::default();
    let mut page = format!("{INTRODUCTION}\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for exit in Exit::ALL {
        page.push_str(&format!("| {} | {} |\n", exit as u8, exit.meaning()));
    }
    page.push_str(&format!("\n## `wharf`\n\n{}", write_help(command.clone(), false)));
    for verb in listed_verbs(&command) {
        let name = verb.get_name().to_owned();
        page.push_str(&write_verb(&name, verb, "##", &mut types));
        for action in listed_verbs(verb) {
            page.push_str(&write_verb(
                &format!("{name} {}", action.get_name()),
                action,
                "###",
                &mut types,
            ));
        }
    }
    page.push_str("\n## Types\n\nMembers with `?` may be left out. Clients ignore members that they do not know.\n");
    page.push_str(&types.write_types());
    page
}

fn listed_verbs(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help" && !verb.is_hide_set())
}

fn write_verb(name: &str, verb: &Command, heading: &str, types: &mut SchemaPage) -> String {
    let mut section = format!("\n{heading} `wharf {name}`\n\n{}", write_help(verb.clone(), true));
    if has_json(verb) {
        let shape = match json_shape(name) {
            JsonShape::Type(schema, note) => {
                let named = types.add_type(schema);
                if note.is_empty() { named } else { format!("{named}; {note}") }
            }
            JsonShape::Text(text) => text.to_owned(),
        };
        section.push_str(&format!("\n`--json`: {shape}\n"));
    }
    if listed_verbs(verb).next().is_none() || has_json(verb) {
        let codes: Vec<String> =
            exit_codes(name).iter().map(|exit| (*exit as u8).to_string()).collect();
        section.push_str(&format!("\nExit codes: {}\n", codes.join(", ")));
    }
    section
}

fn has_json(verb: &Command) -> bool {
    verb.get_arguments().any(|argument| argument.get_long() == Some("json"))
}

/// Returns the help as a block of text. The options of every verb are only in the help of `wharf`
/// itself.
fn write_help(command: Command, hides_global: bool) -> String {
    let mut command = command.mut_args(|argument| {
        let is_hidden = hides_global && (argument.is_global_set() || argument.get_id() == "help");
        if is_hidden { argument.hide(true) } else { argument }
    });
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", lines.join("\n"))
}

/// Returns the codes that a verb may end with.
fn exit_codes(name: &str) -> Vec<Exit> {
    use Exit::{Agent, Error, Interrupted, NoHost, NotFound, Ok, Refused, Usage, Version};
    let words: Vec<&str> = name.split(' ').collect();
    match words[..] {
        ["run" | "prompt" | "attach" | "chat", ..] => Exit::ALL.to_vec(),
        ["resume" | "fork" | "set"] => {
            vec![Ok, Error, Usage, NoHost, NotFound, Refused, Version, Agent]
        }
        ["login"] => vec![Ok, Error, Usage, NoHost, NotFound, Refused, Version, Agent, Interrupted],
        ["status" | "stop" | "restart" | "reload"] => vec![Ok, Error, Usage, NoHost, Refused],
        ["acp" | "mcp"] => vec![Ok, Error, Usage, NoHost, NotFound, Version],
        ["token", "revoke"] => vec![Ok, Error, Usage, NotFound],
        ["token", "create" | "list"] | ["agents", "import"] => vec![Ok, Error, Usage, Refused],
        ["service", ..] => vec![Ok, Error, Usage, NoHost, NotFound, Refused],
        ["completions" | "man" | "demo-agent" | "doctor" | "serve", ..]
        | ["config", "check" | "path"] => {
            vec![Ok, Error, Usage]
        }
        _ => vec![Ok, Error, Usage, NoHost, NotFound, Refused, Version],
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn reference_page_matches_the_code() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli-reference.md");
        let made = write_page();
        if std::env::var_os("WHARF_BLESS").is_some() {
            std::fs::write(&path, made).unwrap();
            return;
        }
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        let differing = page.lines().zip(made.lines()).position(|(old, new)| old != new);
        let at = differing.unwrap_or_else(|| page.lines().count().min(made.lines().count()));
        let line = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_owned();
        assert!(
            page == made,
            "docs/cli-reference.md differs from the code at line {}:\n  page: {}\n  code: {}\nwrite it anew with: \
             WHARF_BLESS=1 cargo nextest run -p wharf reference",
            at + 1,
            line(&page),
            line(&made),
        );
    }

    /// An empty variable counts as unset everywhere, and clap would take it for a value that is
    /// missing. Help that shows variables would also differ from shell to shell.
    #[test]
    fn no_option_takes_its_value_from_a_variable_by_itself() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                assert_eq!(
                    argument.get_env(),
                    None,
                    "{} of {}",
                    argument.get_id(),
                    command.get_name()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&crate::build_command());
    }
}
