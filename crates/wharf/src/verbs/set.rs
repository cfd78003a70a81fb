//! `wharf set`: the mode, model and options of a session's agent, and the values that can be
//! chosen.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;
use wharf_api::{ChoiceValue, SessionSettingsInfo, SettingChoice, SettingOption, SettingsChange};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{quote, to_printable};

use crate::client::{HostCall, HostClient, url_path};
use crate::exit::{Exit, Failure};
use crate::format::table::{TextTable, join_with_tabs, styled_cell};
use crate::global::GlobalOptions;
use crate::{output, session_ref};

#[derive(Debug, Args)]
pub(crate) struct SetVerb {
    /// `[ID] mode [VALUE]`, `[ID] model [VALUE]` or `[ID] option [NAME [VALUE]]`. Without a value
    /// the choices are listed. The ID may be left out for the newest session of the current
    /// directory.
    #[arg(value_name = "ID|SETTING")]
    words: Vec<String>,
    /// The JSON of the host: all settings, and the values that can be chosen.
    #[arg(long)]
    json: bool,
}

/// A setting, and its new value if there is one.
#[derive(Debug, PartialEq, Eq)]
enum Wish<'a> {
    ListAll,
    Mode(Option<&'a str>),
    Model(Option<&'a str>),
    Option(Option<&'a str>, Option<&'a str>),
}

/// Reads the words after `set`: the session, if it is named, and the wish.
fn read_words(words: &[String]) -> Result<(Option<&str>, Wish<'_>), Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (session, rest) = match words[..] {
        [] | ["mode" | "model" | "option", ..] => (None, &words[..]),
        [session, ..] => (Some(session), &words[1..]),
    };
    let wish = match *rest {
        [] => Wish::ListAll,
        ["mode"] => Wish::Mode(None),
        ["mode", value] => Wish::Mode(Some(value)),
        ["model"] => Wish::Model(None),
        ["model", value] => Wish::Model(Some(value)),
        ["option"] => Wish::Option(None, None),
        ["option", name] => Wish::Option(Some(name), None),
        ["option", name, value] => Wish::Option(Some(name), Some(value)),
        _ => {
            let words = "say: wharf set [ID] mode VALUE, model VALUE or option NAME VALUE; without a value the choices are listed";
            return Err(Failure::new(Exit::Usage, words));
        }
    };
    Ok((session.filter(|session| *session != "."), wish))
}

pub(crate) async fn run(global: &GlobalOptions, verb: SetVerb) -> anyhow::Result<Exit> {
    let (meant, wish) = read_words(&verb.words)?;
    let client = global.connect_client().await?;
    let session = session_ref::find_session(&client, meant).await?.id;
    let path = url_path(&["sessions", &session, "settings"]);
    let answer = client.send_call(&HostCall::get(&path)).await?;
    let settings: SessionSettingsInfo = answer.json()?;
    let Some(change) = to_change(&settings, &wish)? else {
        if verb.json {
            output::print_line(answer.text().trim_end());
            return Ok(Exit::Ok);
        }
        return print_choices(global.screen(), &settings, &wish);
    };
    let answer = client.send_call(&HostCall::patch(&path, &change)).await?;
    if verb.json {
        output::print_line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    describe_change(&session, &change)
        .iter()
        .for_each(|line| output::print_line(&to_printable(line)));
    Ok(Exit::Ok)
}

/// Returns the settings of a session without waking its agent.
pub(crate) async fn fetch_settings(
    client: &HostClient,
    session: &str,
) -> anyhow::Result<SessionSettingsInfo> {
    client
        .fetch_json(&HostCall::get(url_path(&["sessions", session, "settings"])))
        .await
}

/// Returns the request for a wish that has a value; `None` if the values are to be listed.
fn to_change(
    settings: &SessionSettingsInfo,
    wish: &Wish<'_>,
) -> Result<Option<SettingsChange>, Failure> {
    let all = |choice: &Option<SettingChoice>| {
        choice.as_ref().map(|choice| choice.all.clone()).unwrap_or_default()
    };
    let none = SettingsChange::default();
    Ok(match wish {
        Wish::Mode(Some(value)) => Some(SettingsChange {
            mode: Some(find_value("mode", &all(&settings.modes), value)?),
            ..none
        }),
        Wish::Model(Some(value)) => Some(SettingsChange {
            model: Some(find_value("model", &all(&settings.models), value)?),
            ..none
        }),
        Wish::Option(Some(name), Some(value)) => {
            let option = find_option(settings, name)?;
            let value = match option.kind.as_str() {
                "boolean" => Value::Bool(read_switch(value)?),
                _ => Value::String(find_value(name, &option.all, value)?),
            };
            Some(SettingsChange {
                options: Some(BTreeMap::from([(option.id.clone(), value)])),
                ..none
            })
        }
        Wish::ListAll
        | Wish::Mode(None)
        | Wish::Model(None)
        | Wish::Option(_, None)
        | Wish::Option(None, Some(_)) => None,
    })
}

/// Returns the id of a value, which may be named by its id or its name. If the agent tells no
/// values, the host decides.
fn find_value(setting: &str, all: &[ChoiceValue], value: &str) -> Result<String, Failure> {
    let exact = all.iter().find(|choice| choice.id == value);
    let found = exact.or_else(|| all.iter().find(|choice| choice.name.eq_ignore_ascii_case(value)));
    match found {
        Some(choice) => Ok(choice.id.clone()),
        None if all.is_empty() => Ok(value.to_owned()),
        None => {
            let known: Vec<&str> = all.iter().map(|choice| choice.id.as_str()).collect();
            let words = format!(
                "{setting} cannot be {value}; the agent offers: {}",
                known.join(", "),
                value = quote(value)
            );
            Err(Failure::new(Exit::Usage, words))
        }
    }
}

fn find_option<'a>(
    settings: &'a SessionSettingsInfo,
    name: &str,
) -> Result<&'a SettingOption, Failure> {
    let found = settings
        .options
        .iter()
        .find(|option| option.id == name || option.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let known: Vec<&str> = settings.options.iter().map(|option| option.id.as_str()).collect();
        let known = if known.is_empty() {
            "it has none".to_owned()
        } else {
            format!("it has: {}", known.join(", "))
        };
        Failure::new(
            Exit::NotFound,
            format!("the agent has no option {name}; {known}", name = quote(name)),
        )
    })
}

fn read_switch(value: &str) -> Result<bool, Failure> {
    match value {
        "true" | "on" | "yes" => Ok(true),
        "false" | "off" | "no" => Ok(false),
        _ => Err(Failure::new(
            Exit::Usage,
            format!("{value} is neither on nor off", value = quote(value)),
        )),
    }
}

fn describe_change(session: &str, change: &SettingsChange) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let options = change.options.iter().flatten().map(|(name, value)| (name.clone(), text(value)));
    let named = [("mode", &change.mode), ("model", &change.model)];
    let named = named
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    named
        .chain(options)
        .map(|(name, value)| format!("{session} {name} is {value}"))
        .collect()
}

/// One value of a setting, as the list shows it.
struct ListedChoice {
    setting: String,
    is_current: bool,
    value: String,
    about: String,
}

fn print_choices(
    screen: Screen,
    settings: &SessionSettingsInfo,
    wish: &Wish<'_>,
) -> anyhow::Result<Exit> {
    let choices = list_choices(settings, wish)?;
    if choices.is_empty() {
        output::print_note(match wish {
            Wish::Mode(_) => "the agent has no modes",
            Wish::Model(_) => "the agent does not tell its models",
            Wish::Option(..) => "the agent has no options",
            Wish::ListAll => "the agent has nothing to set",
        });
        return Ok(Exit::Ok);
    }
    if !screen.terminal {
        for choice in &choices {
            let current = if choice.is_current { "current" } else { "" };
            output::print_line(&join_with_tabs([
                choice.setting.as_str(),
                current,
                &choice.value,
                &choice.about,
            ]));
        }
        return Ok(Exit::Ok);
    }
    let mut table = TextTable::new(&["SETTING", "", "VALUE", "WHAT"]);
    let mut last = "";
    for choice in &choices {
        let style = if choice.is_current { TextStyle::Good } else { TextStyle::Plain };
        table.add_row([
            styled_cell(
                TextStyle::Strong,
                if choice.setting == last { "" } else { &choice.setting },
            ),
            styled_cell(TextStyle::Good, if choice.is_current { "*" } else { "" }),
            styled_cell(style, &choice.value),
            styled_cell(TextStyle::Faint, &choice.about),
        ]);
        last = &choice.setting;
    }
    table.to_lines(screen).iter().for_each(|line| output::print_line(line));
    Ok(Exit::Ok)
}

fn list_choices(
    settings: &SessionSettingsInfo,
    wish: &Wish<'_>,
) -> Result<Vec<ListedChoice>, Failure> {
    let choices = |setting: &str, current: &str, all: &[ChoiceValue]| -> Vec<ListedChoice> {
        let about = |value: &ChoiceValue| {
            let name = if value.name == value.id { "" } else { &value.name };
            [name, value.description.as_deref().unwrap_or_default()]
                .join(": ")
                .trim_matches([':', ' '])
                .to_owned()
        };
        let listed = |value: &ChoiceValue| ListedChoice {
            setting: setting.to_owned(),
            is_current: value.id == current,
            value: value.id.clone(),
            about: about(value),
        };
        all.iter().map(listed).collect()
    };
    let one = |name: &str, choice: &Option<SettingChoice>| {
        choice
            .as_ref()
            .map(|choice| choices(name, &choice.current, &choice.all))
            .unwrap_or_default()
    };
    let option = |option: &SettingOption| {
        let setting = format!("option {}", option.id);
        let current = option
            .current
            .as_str()
            .map_or_else(|| option.current.to_string(), ToOwned::to_owned);
        let switch = |id: &str| ChoiceValue {
            id: id.into(),
            name: id.into(),
            description: None,
            group: None,
        };
        let switches = if option.kind == "boolean" {
            vec![switch("true"), switch("false")]
        } else {
            Vec::new()
        };
        choices(&setting, &current, if switches.is_empty() { &option.all } else { &switches })
    };
    // A mode or model that is an option too is listed once.
    let is_plain = |option: &&SettingOption| {
        let category = option.category.as_deref();
        !(category == Some("mode") && settings.modes.is_some()
            || category == Some("model") && settings.models.is_some())
    };
    Ok(match wish {
        Wish::Mode(_) => one("mode", &settings.modes),
        Wish::Model(_) => one("model", &settings.models),
        Wish::Option(Some(name), _) => option(find_option(settings, name)?),
        Wish::Option(None, _) => settings.options.iter().flat_map(option).collect(),
        Wish::ListAll => {
            let options = settings.options.iter().filter(is_plain).flat_map(option);
            one("mode", &settings.modes)
                .into_iter()
                .chain(one("model", &settings.models))
                .chain(options)
                .collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_a_session_and_a_setting() {
        let read = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(ToOwned::to_owned).collect();
            read_words(&words)
                .map(|(session, wish)| format!("{session:?} {wish:?}"))
                .map_err(|error| error.to_string())
        };
        assert_eq!(read("").unwrap(), "None ListAll");
        assert_eq!(read("docs").unwrap(), "Some(\"docs\") ListAll");
        assert_eq!(read("mode plan").unwrap(), "None Mode(Some(\"plan\"))");
        assert_eq!(read(". model").unwrap(), "None Model(None)");
        assert_eq!(
            read("docs option effort high").unwrap(),
            "Some(\"docs\") Option(Some(\"effort\"), Some(\"high\"))"
        );
        assert!(read("docs colour red").unwrap_err().contains("wharf set [ID] mode VALUE"));
        assert!(read("mode plan now").is_err());
    }

    #[test]
    fn value_is_named_by_its_id_or_its_name() {
        let settings: SessionSettingsInfo = serde_json::from_value(serde_json::json!({
            "id": "sess_1",
            "modes": { "current": "ask", "all": [{ "id": "ask", "name": "Ask" }, { "id": "m2", "name": "Plan first" }] },
            "options": [{ "id": "fast", "name": "Fast", "type": "boolean", "current": false, "all": [] }],
            "commands": [],
        }))
        .unwrap();
        let sent = |wish| serde_json::to_value(to_change(&settings, &wish).unwrap()).unwrap();
        assert_eq!(sent(Wish::Mode(Some("plan first"))), serde_json::json!({ "mode": "m2" }));
        assert_eq!(
            sent(Wish::Model(Some("novel"))),
            serde_json::json!({ "model": "novel" }),
            "the host refuses it"
        );
        let unknown = to_change(&settings, &Wish::Mode(Some("novel"))).unwrap_err().to_string();
        assert_eq!(unknown, "mode cannot be \"novel\"; the agent offers: ask, m2");
        assert_eq!(
            sent(Wish::Option(Some("fast"), Some("on"))),
            serde_json::json!({ "options": { "fast": true } })
        );
        assert!(to_change(&settings, &Wish::Option(Some("slow"), Some("on"))).is_err());
        assert!(
            to_change(&settings, &Wish::Option(Some("fast"), None)).unwrap().is_none(),
            "the values are listed"
        );
    }
}
