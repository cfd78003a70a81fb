//! Decides what can stand at the cursor: verbs, options, or values of one kind. The kind of an
//! argument is its value name in the help: `ID` is a session, `AGENT` an agent, `SLUG` a workspace.

use clap::{Arg, Command};
use wharf_api::SessionInfo;

use super::Candidate;
use crate::verbs::sessions::FILTER_KEYS;

/// The kind of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// These words, which need no host.
    Fixed(Vec<Candidate>),
    Session,
    Agent,
    Workspace,
    /// A mode of the agent that is named in the line.
    AgentMode,
    /// An option of that agent, as `NAME=VALUE`.
    AgentOption,
    /// The words after `set`: a session, then one of its settings and its value.
    Setting,
    /// The value of a filter whose key is typed.
    FilterValue(String),
    /// The name of a host.
    Context,
    File,
    Directory,
    Nothing,
}

impl ValueKind {
    pub(super) const fn needs_host(&self) -> bool {
        !matches!(self, Self::Fixed(_) | Self::File | Self::Directory | Self::Nothing)
    }
}

/// The kind of word that can stand at the cursor, and the words around it.
#[derive(Debug)]
pub(super) struct CompletionPlan {
    pub(super) kind: ValueKind,
    /// Stands before each candidate: `--agent=`, or the earlier values of a list.
    pub(super) prefix: String,
    /// The word at the cursor.
    pub(super) word: String,
    /// The values that stand for themselves before it, after the verb.
    pub(super) values: Vec<String>,
}

/// The walk over the words before the cursor.
struct LineWalk<'a> {
    command: &'a Command,
    /// The option that the next word is the value of.
    pending: Option<&'a Arg>,
    values: Vec<String>,
    only_values: bool,
}

impl<'a> LineWalk<'a> {
    fn step(&mut self, word: &str) {
        if self
            .pending
            .take()
            .is_some_and(|option| !is_optional_value(option) || !word.starts_with('-'))
        {
            return;
        }
        if !self.only_values && word == "--" {
            self.only_values = true;
        } else if !self.only_values && word.len() > 1 && word.starts_with('-') {
            self.pending = find_option(self.command, word)
                .filter(|option| takes_value(option) && !word.contains('='));
        } else if let Some(verb) = self.command.find_subcommand(word).filter(|_| !self.only_values)
        {
            self.command = verb;
            self.values.clear();
        } else {
            self.values.push(word.to_owned());
        }
    }

    /// Returns the argument that the next value belongs to.
    fn next_positional(&self) -> Option<&'a Arg> {
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        let takes_many = |arg: &&&Arg| {
            arg.get_num_args().is_some_and(|count| count.max_values() > 1) || appends(arg)
        };
        all.get(self.values.len()).or_else(|| all.last().filter(takes_many)).copied()
    }
}

fn appends(arg: &Arg) -> bool {
    matches!(arg.get_action(), clap::ArgAction::Append)
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn is_optional_value(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|count| count.min_values() == 0)
}

/// Returns the option that a word such as `--agent`, `--agent=x`, `-a` or `-qa` ends with.
fn find_option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or_default();
    match name.strip_prefix("--") {
        Some(long) => command.get_arguments().find(|arg| arg.get_long() == Some(long)),
        None => command.get_arguments().find(|arg| arg.get_short() == name.chars().last()),
    }
}

impl CompletionPlan {
    /// Makes the plan. The last of the words is at the cursor.
    pub(super) fn new(command: &Command, words: &[String]) -> Self {
        let mut command = command.clone();
        command.build();
        let (word, before) = words
            .split_last()
            .map(|(word, before)| (word.clone(), before))
            .unwrap_or_default();
        let mut walk = LineWalk {
            command: &command,
            pending: None,
            values: Vec::new(),
            only_values: false,
        };
        before.iter().for_each(|word| walk.step(word));
        let (kind, prefix) = find_kind(&walk, &word);
        Self { kind, prefix, word, values: walk.values }
    }

    pub(super) fn fixed_candidates(&self) -> Vec<Candidate> {
        if let ValueKind::Fixed(words) = &self.kind { words.clone() } else { Vec::new() }
    }
}

/// Returns the kind of the word at the cursor, and the part of it that is typed for good.
fn find_kind(walk: &LineWalk<'_>, word: &str) -> (ValueKind, String) {
    if let Some(option) = walk
        .pending
        .filter(|option| !is_optional_value(option) || !word.starts_with('-'))
    {
        return kind_of_value(option, word, String::new());
    }
    if word.starts_with('-') && !walk.only_values {
        return match word.split_once('=') {
            Some((name, value)) => {
                let option = find_option(walk.command, name).filter(|option| takes_value(option));
                let prefix = format!("{name}=");
                option.map_or((ValueKind::Nothing, String::new()), |option| {
                    kind_of_value(option, value, prefix)
                })
            }
            None => (ValueKind::Fixed(list_options(walk.command)), String::new()),
        };
    }
    let verbs = list_verbs(walk.command);
    match walk.next_positional() {
        Some(argument) if verbs.is_empty() => kind_of_value(argument, word, String::new()),
        // `wharf queue` takes a session before its own verbs.
        Some(argument) if walk.values.is_empty() => kind_of_value(argument, word, String::new()),
        Some(_) | None if !verbs.is_empty() => (ValueKind::Fixed(verbs), String::new()),
        Some(_) | None => (ValueKind::Nothing, String::new()),
    }
}

fn kind_of_value(argument: &Arg, value: &str, prefix: String) -> (ValueKind, String) {
    let name = argument
        .get_value_names()
        .and_then(|names| names.first())
        .map(|name| name.to_string());
    let name = name.unwrap_or_else(|| argument.get_id().as_str().to_uppercase());
    let possible: Vec<Candidate> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| {
            Candidate::new(
                value.get_name(),
                value.get_help().map(ToString::to_string).unwrap_or_default(),
            )
        })
        .collect();
    let listed = || {
        format!(
            "{prefix}{}",
            value.rsplit_once(',').map(|(typed, _)| format!("{typed},")).unwrap_or_default()
        )
    };
    let words =
        |words: &[&str]| words.iter().map(|word| Candidate::new(*word, "")).collect::<Vec<_>>();
    match name.as_str() {
        _ if !possible.is_empty() && argument.get_value_delimiter().is_some() => {
            (ValueKind::Fixed(possible), listed())
        }
        _ if !possible.is_empty() => (ValueKind::Fixed(possible), prefix),
        "ID" | "SESSION" => (ValueKind::Session, prefix),
        "AGENT" => (ValueKind::Agent, prefix),
        "SLUG" => (ValueKind::Workspace, prefix),
        "MODE" => (ValueKind::AgentMode, prefix),
        "NAME=VALUE" => (ValueKind::AgentOption, prefix),
        "ID|SETTING" => (ValueKind::Setting, prefix),
        "FIELDS" => (ValueKind::Fixed(words(SessionInfo::MEMBERS)), listed()),
        "OPTION" => (ValueKind::Fixed(words(&["allow", "always", "deny", "cancel"])), prefix),
        "KEY=VALUE" => match value.split_once('=') {
            Some((key, _)) => (ValueKind::FilterValue(key.to_owned()), format!("{prefix}{key}=")),
            None => (
                ValueKind::Fixed(words(
                    &FILTER_KEYS.map(|key| format!("{key}=")).each_ref().map(String::as_str),
                )),
                prefix,
            ),
        },
        "CONTEXT" => (ValueKind::Context, prefix),
        "KEY" => (ValueKind::Fixed(list_config_keys()), prefix),
        "FILE" | "PATH" => (ValueKind::File, prefix),
        "DIR" => (ValueKind::Directory, prefix),
        _ => (ValueKind::Nothing, prefix),
    }
}

/// Returns the keys of settings that can be typed as they are, without a name of the user in them.
fn list_config_keys() -> Vec<Candidate> {
    let paths = wharf_config::CONFIG_KEYS
        .iter()
        .map(|key| key.path)
        .filter(|path| !path.contains('*'));
    paths.map(|path| Candidate::new(path, "")).collect()
}

fn list_options(command: &Command) -> Vec<Candidate> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown
        .filter_map(|arg| {
            Some(Candidate::new(format!("--{}", arg.get_long()?), first_line(arg.get_help())))
        })
        .collect()
}

fn list_verbs(command: &Command) -> Vec<Candidate> {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let named = |verb: &Command| {
        let about = first_line(verb.get_about());
        let names = std::iter::once(verb.get_name())
            .chain(verb.get_visible_aliases())
            .map(ToOwned::to_owned);
        names.map(|name| Candidate::new(name, about.clone())).collect::<Vec<_>>()
    };
    shown.flat_map(named).collect()
}

fn first_line(help: Option<&clap::builder::StyledStr>) -> String {
    help.map(|help| help.to_string().lines().next().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> CompletionPlan {
        let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        CompletionPlan::new(&crate::build_command(), &words)
    }

    fn fixed_words(line: &str) -> Vec<String> {
        plan(line)
            .fixed_candidates()
            .into_iter()
            .map(|candidate| candidate.word)
            .collect()
    }

    #[test]
    fn every_place_of_a_line_has_its_kind() {
        for (line, kind) in [
            ("show ", ValueKind::Session),
            ("kill one ", ValueKind::Session),
            ("sessions --attach=", ValueKind::Session),
            ("queue ", ValueKind::Session),
            ("run ", ValueKind::Agent),
            ("ls --agent ", ValueKind::Agent),
            ("--no-start login ", ValueKind::Agent),
            ("run -w ", ValueKind::Workspace),
            ("run demo --mode ", ValueKind::AgentMode),
            ("run demo -o ", ValueKind::AgentOption),
            ("set docs ", ValueKind::Setting),
            ("ls --filter agent=", ValueKind::FilterValue("agent".to_owned())),
            ("--config ", ValueKind::File),
            ("run -C ", ValueKind::Directory),
            ("context use ", ValueKind::Context),
            ("context show ", ValueKind::Context),
            ("context remove ", ValueKind::Context),
            ("context add ", ValueKind::Nothing),
            ("--context ", ValueKind::Context),
            ("run demo ", ValueKind::Nothing),
            ("show one ", ValueKind::Nothing),
        ] {
            assert_eq!(plan(line).kind, kind, "{line}");
        }
    }

    #[test]
    fn verbs_options_and_lists_are_offered() {
        for (line, offered) in [
            ("", "sessions"),
            ("", "rm"),
            ("queue docs ", "move"),
            ("sessions --", "--watch"),
            ("ls --json ", "attention"),
            ("ls --format id,", "title"),
            ("ls --filter ", "attention="),
            ("completions ", "bash"),
            ("answer docs ", "deny"),
            ("config get ", "limits.queue"),
            ("config set ", "ask_timeout"),
            ("config unset ", "ask_timeout"),
        ] {
            assert!(
                fixed_words(line).contains(&offered.to_owned()),
                "{offered} for {line:?}: {:?}",
                fixed_words(line)
            );
        }
        assert_eq!(plan("ls --format id,st").prefix, "id,");
        assert_eq!(plan("ls --json=id,title,a").prefix, "--json=id,title,");
    }
}
