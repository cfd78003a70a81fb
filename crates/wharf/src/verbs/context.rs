//! `wharf context`: names for hosts on other machines.

use std::path::Path;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use wharf_render::style::{Screen, TextStyle};

use crate::client::{HostCall, HostClient};
use crate::connect::{HostLocator, HostUrl, RemoteHost, RemoteOptions};
use crate::contexts::{self, Contexts, HostContext, LOCAL_CONTEXT};
use crate::exit::{Exit, Failure};
use crate::format::table::{TextTable, join_with_tabs, plain_cell, styled_cell};
use crate::global::GlobalOptions;
use crate::host_choice::{self, HostChoice, HostVariables};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ContextVerb {
    #[command(subcommand)]
    verb: ContextAction,
}

#[derive(Debug, Subcommand)]
enum ContextAction {
    /// Name a host: its --url, its --token (asked for if it is not given), --ca.
    Add {
        name: String,
        /// Keep it without calling the host.
        #[arg(long)]
        no_check: bool,
    },
    /// Make it the host of every verb that names none. `local` is the one of this machine.
    Use {
        #[arg(value_name = "CONTEXT")]
        name: String,
    },
    /// List them.
    List {
        /// A JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Show one, or the one that is used here and why. The token is not shown.
    Show {
        #[arg(value_name = "CONTEXT")]
        name: Option<String>,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Remove the name, and the token that was kept with it.
    Remove {
        #[arg(value_name = "CONTEXT")]
        name: String,
    },
}

pub(crate) async fn run(global: &GlobalOptions, verb: ContextVerb) -> anyhow::Result<Exit> {
    let path = global.contexts_path()?;
    match verb.verb {
        ContextAction::Add { name, no_check } => add(global, &path, &name, no_check).await,
        ContextAction::Use { name } => choose(&path, &name),
        ContextAction::List { json } => list(global.screen(), &path, json),
        ContextAction::Show { name, json } => show(global, &path, name.as_deref(), json),
        ContextAction::Remove { name } => remove(&path, &name),
    }
}

async fn add(
    global: &GlobalOptions,
    path: &Path,
    name: &str,
    no_check: bool,
) -> anyhow::Result<Exit> {
    contexts::check_name(name)?;
    let mut contexts = Contexts::load(path)?;
    if contexts.contexts.contains_key(name) {
        let words = format!(
            "there is a context {name} already; remove it first: wharf context remove {name}"
        );
        return Err(Failure::new(Exit::Refused, words).into());
    }
    let url = global
        .url
        .as_deref()
        .ok_or_else(|| Failure::new(Exit::Usage, "where is it? give --url URL"))?;
    let (context, options) = build_context(global, HostUrl::parse(url)?)?;
    let host = RemoteHost::new(options)?;
    if !no_check {
        let client =
            HostClient::open(HostLocator::for_remote(host, "wharf"), global.verbose).await?;
        // Any route that wants a token.
        client.send_call(&HostCall::get("/sessions?limit=1")).await?;
        output::print_note(&format!(
            "the host answers: wharf {}",
            client.version.as_deref().unwrap_or_default()
        ));
    }
    contexts.contexts.insert(name.to_owned(), context);
    contexts.save(path)?;
    output::print_line(&format!(
        "{name} is {url}; use it with: wharf context use {name}, or --context {name}"
    ));
    Ok(Exit::Ok)
}

fn build_context(
    global: &GlobalOptions,
    url: HostUrl,
) -> anyhow::Result<(HostContext, RemoteOptions)> {
    let absolute = |path: &Path| {
        std::path::absolute(path).with_context(|| format!("finding {}", path.display()))
    };
    let mut context = HostContext {
        url: url.to_string(),
        ca: global
            .ca
            .clone()
            .or(HostVariables::of_process().ca)
            .as_deref()
            .map(absolute)
            .transpose()?,
        insecure_plain_http: global.insecure_plain_http,
        ..HostContext::default()
    };
    let token = match &global.token {
        Some(given) => {
            let token = host_choice::read_token_flag(given)?;
            // A file stays the place of its token, so that a new one is found.
            match given.strip_prefix('@') {
                Some(file) => context.token_file = Some(absolute(Path::new(file))?),
                None => context.token = Some(token.text.clone()),
            }
            Some(token)
        }
        None if output::is_person_present() => {
            let typed = output::ask_secret(&format!("token for {url} (empty for none): "))?;
            let typed = Some(typed.trim().to_owned()).filter(|typed| !typed.is_empty());
            let token =
                typed.map(|typed| host_choice::check_token(&typed, "the answer")).transpose()?;
            context.token.clone_from(&token);
            token.map(|text| crate::connect::RemoteToken { text, source: "the answer".to_owned() })
        }
        None => {
            let words = "which token? give --token @FILE, or --token - and the token on stdin";
            return Err(Failure::new(Exit::Usage, words).into());
        }
    };
    let options = RemoteOptions {
        url,
        token,
        ca: context.ca.clone(),
        plain_http: context.insecure_plain_http,
    };
    Ok((context, options))
}

fn choose(path: &Path, name: &str) -> anyhow::Result<Exit> {
    let mut contexts = Contexts::load(path)?;
    let said = if name == LOCAL_CONTEXT {
        contexts.current = None;
        "verbs use the host of this machine".to_owned()
    } else {
        let said = format!("verbs use {name}, {}", contexts.find(name)?.url);
        contexts.current = Some(name.to_owned());
        said
    };
    contexts.save(path)?;
    output::print_line(&said);
    Ok(Exit::Ok)
}

fn remove(path: &Path, name: &str) -> anyhow::Result<Exit> {
    let mut contexts = Contexts::load(path)?;
    contexts.find(name)?;
    contexts.contexts.remove(name);
    let was_current = contexts.current.take_if(|current| current == name).is_some();
    contexts.save(path)?;
    output::print_line(&format!("{name} removed"));
    if was_current {
        output::print_note("verbs use the host of this machine now");
    }
    Ok(Exit::Ok)
}

fn describe_token(context: &HostContext) -> String {
    match (&context.token, &context.token_file) {
        (Some(_), _) => "kept".to_owned(),
        (None, Some(file)) => format!("in {}", file.display()),
        (None, None) => "none".to_owned(),
    }
}

fn to_json(name: &str, context: &HostContext, current: bool) -> Value {
    json!({
        "name": name,
        "current": current,
        "url": context.url,
        "token": describe_token(context),
        "ca": context.ca,
        "insecurePlainHttp": context.insecure_plain_http,
    })
}

fn list(screen: Screen, path: &Path, as_json: bool) -> anyhow::Result<Exit> {
    let contexts = Contexts::load(path)?;
    let is_current = |name: &str| contexts.current.as_deref() == Some(name);
    if as_json {
        let all = contexts
            .contexts
            .iter()
            .map(|(name, context)| to_json(name, context, is_current(name)));
        output::print_line(&Value::Array(all.collect()).to_string());
        return Ok(Exit::Ok);
    }
    let local = (
        LOCAL_CONTEXT.to_owned(),
        contexts.current.is_none(),
        "the host of this machine".to_owned(),
        String::new(),
    );
    let others = contexts.contexts.iter().map(|(name, context)| {
        (name.clone(), is_current(name), context.url.clone(), describe_token(context))
    });
    let rows = std::iter::once(local).chain(others);
    if !screen.terminal {
        for (name, current, url, token) in rows {
            output::print_line(&join_with_tabs([
                name.as_str(),
                if current { "current" } else { "" },
                &url,
                &token,
            ]));
        }
        return Ok(Exit::Ok);
    }
    let mut table = TextTable::new(&["", "NAME", "HOST", "TOKEN"]);
    for (name, current, url, token) in rows {
        table.add_row([
            styled_cell(TextStyle::Good, if current { "*" } else { "" }),
            styled_cell(TextStyle::Strong, name),
            plain_cell(url),
            plain_cell(token),
        ]);
    }
    table.to_lines(screen).iter().for_each(|line| output::print_line(line));
    Ok(Exit::Ok)
}

fn show(
    global: &GlobalOptions,
    path: &Path,
    name: Option<&str>,
    as_json: bool,
) -> anyhow::Result<Exit> {
    if let Some(name) = name {
        let contexts = Contexts::load(path)?;
        let shown = to_json(name, contexts.find(name)?, contexts.current.as_deref() == Some(name));
        print_object(&shown, as_json);
        return Ok(Exit::Ok);
    }
    let shown = match global.choose_host()? {
        HostChoice::Local => json!({ "name": LOCAL_CONTEXT, "stateDir": global.state_dir()? }),
        HostChoice::Remote { options, chosen_by } => json!({
            "url": options.url.to_string(),
            "chosenBy": chosen_by,
            "token": options.token.map_or_else(|| "none".to_owned(), |token| token.source),
            "ca": options.ca,
        }),
    };
    print_object(&shown, as_json);
    Ok(Exit::Ok)
}

fn print_object(object: &Value, as_json: bool) {
    if as_json {
        output::print_line(&object.to_string());
        return;
    }
    for (name, value) in
        object.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null())
    {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        output::print_line(&join_with_tabs([name.as_str(), &value]));
    }
}
