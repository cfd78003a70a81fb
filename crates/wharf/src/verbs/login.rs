//! `wharf login`: runs an agent's own login in this terminal, and checks that the agent then opens
//! a session.

mod acp_child;
mod method;

use std::io::BufRead;

use clap::Args;
use wharf_api::AdapterDescription;
use wharf_render::text::{quote, to_printable};

use crate::connect::run_in_terminal;
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::output;
use acp_child::{AcpChild, RpcFailure};
use method::{LoginKind, LoginMethod};

#[derive(Debug, Args)]
pub(crate) struct LoginVerb {
    /// Which agent; see: wharf agents.
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Which of the agent's ways to log in, by its id or name [default: the only one, else you are
    /// asked].
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
}

pub(crate) async fn run(global: &GlobalOptions, verb: LoginVerb) -> anyhow::Result<Exit> {
    global.refuse_remote("login runs the agent in this terminal, and so on this machine")?;
    let client = global.connect_client().await?;
    let adapters = super::agents::list_adapters(&client).await?;
    let adapter = find_adapter(&adapters, &verb.agent)?;
    let mut agent = AcpChild::start(global, &adapter.slug)?;
    let methods =
        LoginMethod::list(&agent.initialize().await.map_err(|failure| failed(adapter, &failure))?);
    let chosen = choose_method(&adapter.slug, &methods, verb.method.as_deref())?;
    let Some(chosen) = chosen else { return log_in_by_hint(global, adapter).await };
    match &chosen.kind {
        LoginKind::Agent => {
            output::print_note(&to_printable(&format!(
                "{}: {} …",
                adapter.slug,
                chosen.describe()
            )));
            agent
                .authenticate(&chosen.id)
                .await
                .map_err(|failure| failed(adapter, &failure))?;
            // The same connection: the host repeats the login for later processes of this
            // connection only.
            check_login(&mut agent, adapter).await
        }
        LoginKind::Terminal { arguments, env } => {
            require_terminal(&format!("wharf login {}", adapter.slug))?;
            let words = [
                vec!["acp".to_owned(), "--agent".to_owned(), adapter.slug.clone()],
                arguments.clone(),
            ]
            .concat();
            run_and_check(global, adapter, &global.own_command(&words)?, env).await
        }
        LoginKind::Variables(names) => {
            let words =
                format!("set {} where you start wharf, then try again", names.join(" and "));
            Err(Failure::new(Exit::Usage, format!("{}: {words}", adapter.slug)).into())
        }
    }
}

fn find_adapter<'a>(
    adapters: &'a [AdapterDescription],
    name: &str,
) -> Result<&'a AdapterDescription, Failure> {
    let Some(adapter) = adapters.iter().find(|adapter| adapter.slug == name) else {
        return Err(Failure::new(
            Exit::NotFound,
            format!("no agent called {name}; see: wharf agents", name = quote(name)),
        ));
    };
    if !adapter.installed {
        let install = adapter
            .install_hint
            .as_ref()
            .map(|hint| format!("; install it with: {hint}"))
            .unwrap_or_default();
        return Err(Failure::new(Exit::NotFound, format!("{name} is not installed{install}")));
    }
    Ok(adapter)
}

/// Returns the way to log in that is meant; `None` if the agent offers none.
fn choose_method<'a>(
    agent: &str,
    methods: &'a [LoginMethod],
    meant: Option<&str>,
) -> anyhow::Result<Option<&'a LoginMethod>> {
    let listed = || methods.iter().map(LoginMethod::describe).collect::<Vec<_>>().join(", ");
    if let Some(meant) = meant {
        let found = methods.iter().find(|method| method.is_called(meant));
        let words =
            || format!("{agent} has no login {meant}; it has: {}", listed(), meant = quote(meant));
        return found.map(Some).ok_or_else(|| Failure::new(Exit::NotFound, words()).into());
    }
    match methods {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        _ if !output::is_person_present() => {
            let words =
                format!("{agent} has several logins; say which with --method: {}", listed());
            Err(Failure::new(Exit::Usage, words).into())
        }
        _ => ask_method(agent, methods).map(Some),
    }
}

fn ask_method<'a>(agent: &str, methods: &'a [LoginMethod]) -> anyhow::Result<&'a LoginMethod> {
    output::print_note(&format!("How do you want to log {agent} in?"));
    for (number, method) in methods.iter().enumerate() {
        let about = method
            .description
            .as_ref()
            .map(|about| format!("  {about}"))
            .unwrap_or_default();
        output::print_note(&to_printable(&format!(
            "  {}  {}{about}",
            number + 1,
            method.describe()
        )));
    }
    loop {
        output::print_question("a number or a name: ");
        let mut typed = String::new();
        if std::io::stdin().lock().read_line(&mut typed)? == 0 {
            return Err(Failure::new(Exit::Usage, "no login was chosen").into());
        }
        let typed = typed.trim();
        let numbered = typed
            .parse::<usize>()
            .ok()
            .and_then(|number| methods.get(number.checked_sub(1)?));
        if let Some(method) =
            numbered.or_else(|| methods.iter().find(|method| method.is_called(typed)))
        {
            return Ok(method);
        }
    }
}

/// Logs in by the command of the agent's manifest, for an agent that offers no login over ACP.
async fn log_in_by_hint(
    global: &GlobalOptions,
    adapter: &AdapterDescription,
) -> anyhow::Result<Exit> {
    let slug = &adapter.slug;
    let Some(hint) = &adapter.login_hint else {
        let keys = &adapter.variables;
        let keys = if keys.is_empty() {
            String::new()
        } else {
            format!(", or takes a key from {}", keys.join(", "))
        };
        output::print_line(&format!("{slug} offers no login: it needs none{keys}"));
        return Ok(Exit::Ok);
    };
    require_terminal(hint)?;
    output::print_note(&to_printable(&format!("{slug}: running {hint}")));
    run_and_check(global, adapter, &wharf_host::split_command(hint)?, &[]).await
}

/// Fails without a terminal for a login. The error names `command`, which the person can run in a
/// terminal.
fn require_terminal(command: &str) -> Result<(), Failure> {
    if output::is_person_present() {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("the login needs a terminal; run it in one: {command}")))
}

async fn run_and_check(
    global: &GlobalOptions,
    adapter: &AdapterDescription,
    command: &[String],
    env: &[(String, String)],
) -> anyhow::Result<Exit> {
    let status = run_in_terminal(command, env)?;
    if !status.success() {
        let words = format!("the login of {} ended with {status}", adapter.slug);
        return Err(Failure::new(Exit::Agent, words).into());
    }
    // A fresh connection, since the agent's process may have read its login before.
    let mut agent = AcpChild::start(global, &adapter.slug)?;
    agent.initialize().await.map_err(|failure| failed(adapter, &failure))?;
    check_login(&mut agent, adapter).await
}

/// Opens a session and deletes it: only that shows whether the agent is logged in.
async fn check_login(agent: &mut AcpChild, adapter: &AdapterDescription) -> anyhow::Result<Exit> {
    match agent.open_and_delete_session().await {
        Ok(()) => {
            output::print_line(&format!("{} is logged in", adapter.slug));
            Ok(Exit::Ok)
        }
        Err(RpcFailure { code: Some(wharf_json::rpc::code::AUTH_REQUIRED), .. }) => {
            let words = format!(
                "{} still wants a login; try again, or another way: --method",
                adapter.slug
            );
            Err(Failure::new(Exit::Agent, words).into())
        }
        Err(failure) => Err(failed(adapter, &failure).into()),
    }
}

fn failed(adapter: &AdapterDescription, failure: &RpcFailure) -> Failure {
    Failure::new(Exit::Agent, format!("{}: {}", adapter.slug, failure.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods() -> Vec<LoginMethod> {
        LoginMethod::list(&serde_json::json!({ "authMethods": [
            { "id": "token", "name": "Token" },
            { "id": "tty", "name": "Terminal", "type": "terminal", "args": ["--", "login"], "env": { "COLOR": "red" } },
            { "id": "key", "name": "Key", "type": "env_var", "vars": [{ "name": "MY_KEY" }] },
        ] }))
    }

    #[test]
    fn login_is_chosen_by_id_or_name() {
        let all = methods();
        assert_eq!(choose_method("mine", &all, Some("terminal")).unwrap().unwrap().id, "tty");
        assert!(
            choose_method("mine", &all, Some("none"))
                .unwrap_err()
                .to_string()
                .contains("token (Token), tty")
        );
        assert_eq!(choose_method("mine", &all[..1], None).unwrap().unwrap().id, "token");
        assert!(choose_method("mine", &[], None).unwrap().is_none());
    }
}
