//! The examples that end the help of each verb.

use clap::Command;

/// The examples of each verb; those of a verb's own verbs are named by both words. A verb of a verb
/// that is not here shows the examples of the verb above it.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "run",
        &[
            "wharf run demo tour                        # the built-in agent; no account, no network",
            "wharf run claude \"why does the build fail?\"",
            "git diff | wharf run codex -               # the prompt comes from stdin",
            "wharf run -k -l docs claude \"read the docs\"   # keep the session, and call it docs",
            "wharf run -c \"and now the tests\"           # go on with the newest session here",
            "wharf run claude --text --timeout 10m \"write the release notes\" > notes.md",
        ],
    ),
    (
        "sessions",
        &[
            "wharf ls                                   # those that need you stand first",
            "wharf ls -a --filter agent=claude --filter since=2d",
            "wharf ls --format id,state,title",
            "wharf ls --json id,title,attention",
            "wharf kill $(wharf ls -q --filter workspace=blog)",
        ],
    ),
    ("show", &["wharf show", "wharf show docs --json"]),
    (
        "prompt",
        &[
            "wharf prompt docs \"now the tests\" --wait",
            "wharf prompt docs --queue \"then the changelog\"",
            "wharf prompt . - < task.md",
            "wharf prompt docs --or-start claude \"what is left to do?\"",
        ],
    ),
    (
        "attach",
        &[
            "wharf                                      # all sessions, on the whole screen",
            "wharf attach docs                          # the session called docs",
            "wharf attach --readonly docs               # only look",
        ],
    ),
    (
        "chat",
        &[
            "wharf chat                                 # go on with the newest session of this directory",
            "wharf chat claude                          # start an agent here and talk to it",
            "wharf chat docs                            # join the session called docs",
        ],
    ),
    (
        "output",
        &[
            "wharf output docs                          # everything that was said and done",
            "wharf output docs -n 20 -f                 # the last lines, then what comes",
            "wharf output docs --turn last --text       # only the agent's last answer",
            "wharf output docs --since 10m -t",
            "wharf output docs --json | jq -r '.rows[].summary'",
        ],
    ),
    (
        "logs",
        &[
            "wharf logs                                 # the end of the host's own log",
            "wharf logs -f",
            "wharf logs docs -n 50                      # what the agent of docs wrote to stderr",
        ],
    ),
    (
        "search",
        &[
            "wharf search flaky test                    # rows with both words, the newest first",
            "wharf search '\"row store\" pars'           # a phrase, and a word that begins so",
            "wharf search --kind prompt deploy",
            "wharf search --session docs -n 100 header",
        ],
    ),
    (
        "export",
        &[
            "wharf export docs > docs.md",
            "wharf export docs --format html -o docs.html",
            "wharf export . --format json | jq '.rows[].summary'",
        ],
    ),
    (
        "usage",
        &[
            "wharf usage                                # all sessions, and their sum",
            "wharf usage docs                           # the turns of one session",
            "wharf usage --agent claude --json",
        ],
    ),
    (
        "changes",
        &[
            "wharf changes                              # the files that the newest session here changed",
            "wharf changes docs --turn last",
            "wharf changes docs --diff",
        ],
    ),
    ("interrupt", &["wharf interrupt docs"]),
    ("kill", &["wharf kill docs", "wharf kill --all"]),
    ("resume", &["wharf resume docs", "wharf resume docs --session-mode plan"]),
    ("forget", &["wharf rm docs", "wharf rm --yes 8qsbfy z31k9c"]),
    ("prune", &["wharf prune --older-than 30d --dry-run", "wharf prune --older-than 90d --yes"]),
    (
        "rename",
        &[
            "wharf rename docs Update the handbook",
            "wharf rename docs --clear     # the agent's own title again",
        ],
    ),
    ("label", &["wharf label z31k9c docs", "wharf label docs --clear"]),
    (
        "archive",
        &["wharf archive docs", "wharf archive --undo docs", "wharf ls --filter archived=true"],
    ),
    (
        "set",
        &[
            "wharf set docs                             # what can be set, and the values",
            "wharf set docs mode plan",
            "wharf set model opus                       # in the newest session of this directory",
            "wharf set docs option effort high",
        ],
    ),
    ("fork", &["wharf fork docs", "wharf fork docs --label other-way"]),
    ("asks", &["wharf asks", "wharf asks docs"]),
    (
        "answer",
        &[
            "wharf answer docs allow",
            "wharf answer 8qsbfy/57 deny",
            "wharf answer docs accept db=sqlite count=3",
        ],
    ),
    (
        "queue",
        &[
            "wharf queue docs",
            "wharf queue docs move 3 1",
            "wharf queue docs edit 1 \"only the unit tests\"",
            "wharf queue docs remove 2",
        ],
    ),
    (
        "workspace",
        &[
            "wharf workspace add website ~/src/website",
            "wharf workspace list",
            "wharf run claude -w website \"update the footer\"",
        ],
    ),
    ("agents", &["wharf agents", "wharf agents --check", "wharf agents import registry.json"]),
    ("login", &["wharf login claude", "wharf login codex --method chatgpt"]),
    ("status", &["wharf status", "wharf status --url", "wharf status --json"]),
    ("doctor", &["wharf doctor"]),
    ("stop", &["wharf stop", "wharf stop --keep-agents"]),
    ("restart", &["wharf restart"]),
    ("reload", &["wharf reload"]),
    (
        "config",
        &[
            "wharf config list --changed",
            "wharf config set session.idle_ttl 8h",
            "wharf config set agents.mine.command '[\"my-agent\", \"acp\"]'",
            "wharf config edit",
        ],
    ),
    (
        "service",
        &[
            "wharf service install --linger",
            "wharf service status",
            "wharf service install --print",
        ],
    ),
    (
        "context",
        &[
            "wharf context add box --url https://box.example:7433 --token @box.token",
            "wharf context use box",
            "wharf --context box sessions",
        ],
    ),
    (
        "serve",
        &["wharf serve", "wharf serve --agent claude", "wharf serve --agent-cmd \"opencode acp\""],
    ),
    ("acp", &["wharf acp --agent claude", "wharf acp --session docs"]),
    ("mcp", &["claude mcp add wharf -- wharf mcp"]),
    ("notify", &["wharf notify test"]),
    ("web", &["wharf web", "wharf web --phone", "wharf web --role observer --no-open"]),
    (
        "token",
        &[
            "wharf token create --role observer --label \"the wall display\"",
            "wharf token list",
            "wharf token revoke tok_4f2a",
            "wharf token code --ttl 7d",
        ],
    ),
    (
        "completions",
        &[
            "wharf completions bash > ~/.local/share/bash-completion/completions/wharf",
            "wharf completions zsh > ~/.zfunc/_wharf",
            "wharf completions fish > ~/.config/fish/completions/wharf.fish",
        ],
    ),
    ("man", &["wharf man ~/.local/share/man/man1"]),
    ("demo-agent", &["wharf demo-agent", "wharf serve --agent demo"]),
];

/// Adds its examples to the help of each verb.
pub(crate) fn add_examples(command: Command) -> Command {
    command.mut_subcommands(|verb| {
        let name = verb.get_name().to_owned();
        let above = find_examples(&name);
        let verb = verb.mut_subcommands(|action| {
            let own = find_examples(&format!("{name} {}", action.get_name()));
            set_examples(action, own.or(above))
        });
        set_examples(verb, above)
    })
}

fn find_examples(verb: &str) -> Option<&'static [&'static str]> {
    EXAMPLES.iter().find(|(name, _)| *name == verb).map(|(_, lines)| *lines)
}

fn set_examples(command: Command, examples: Option<&[&str]>) -> Command {
    match examples {
        Some(lines) => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the arguments of each call of `wharf` in an example, as a shell would split them.
    fn calls_in(example: &str) -> Vec<Vec<String>> {
        let line = example
            .split(" #")
            .next()
            .unwrap_or_default()
            .replace("$(", "| ")
            .replace(')', "");
        let parts = line
            .split(['|', '<', '>'])
            .map(str::trim)
            .map(|part| part.split_once("-- ").map_or(part, |(_, call)| call));
        parts
            .filter(|part| part.starts_with("wharf "))
            .map(|part| wharf_host::split_command(part).unwrap())
            .collect()
    }

    #[test]
    fn every_verb_has_examples_in_its_help() {
        let command = crate::build_command();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            for part in std::iter::once(verb).chain(verb.get_subcommands()) {
                let shown = part.get_after_help().map(ToString::to_string).unwrap_or_default();
                let name = verb.get_name();
                assert!(
                    shown.starts_with("Examples:\n  "),
                    "add examples of {name:?} to EXAMPLES in src/examples.rs"
                );
            }
        }
    }

    #[test]
    fn examples_are_calls_that_the_command_line_takes() {
        for (verb, lines) in EXAMPLES {
            assert!(lines.iter().any(|line| !calls_in(line).is_empty()), "{verb}");
            for call in lines.iter().flat_map(|line| calls_in(line)) {
                // The names of sessions that another call lists are left out here.
                let named = if call.ends_with(&["kill".to_owned()]) {
                    vec!["docs".to_owned()]
                } else {
                    Vec::new()
                };
                let parsed =
                    crate::build_command().try_get_matches_from([call.clone(), named].concat());
                assert!(parsed.is_ok(), "{call:?}: {}", parsed.unwrap_err());
            }
        }
    }
}
