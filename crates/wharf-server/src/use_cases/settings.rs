//! Reads and changes the settings of a session's agent: the values in force and the values that can
//! be chosen (rules 17.1, 17.2).

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use wharf_acp::Payload;
use wharf_api::{
    AcceptedKind, AgentCommandInfo, ChoiceValue, ErrorCode, SessionSettingsInfo, SettingChoice,
    SettingOption, SettingsChange,
};
use wharf_host::core::{AcceptedContent, Refusal};
use wharf_host::{
    AgentReport, CallError, ChosenSetting, NotOffered, SessionHandle, current_settings,
    setting_request,
};
use wharf_json::Json;

use super::attention::note_act;
use super::faults::{fault_from_failed_call, invalid_params, start_failed};
use super::shortened_settings::shorten_settings;
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

/// The most options that one request may set: each takes an answer of the agent.
const MAX_CHANGED_OPTIONS: usize = 100;
/// How long the agent may take over one request.
const AGENT_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of the agent's own words about a refusal is shown.
const MAX_REFUSAL_CHARS: usize = 2_000;

/// Returns the settings that are in force and the values that can be chosen. A sleeping session is
/// not woken: its settings are those that its agent is given when it comes back.
pub(crate) async fn get_settings(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<SessionSettingsInfo, Fault> {
    let handle = open_session(app, caller, id).await?;
    Ok(to_session_settings(id, &report_of(app, &handle).await?))
}

/// Returns the settings of a session within the bound for a reader of rows.
pub(crate) async fn read_short_settings(
    app: &App,
    handle: &SessionHandle,
) -> Result<SessionSettingsInfo, Fault> {
    Ok(shorten_settings(to_session_settings(handle.id().as_str(), &report_of(app, handle).await?)))
}

/// Sets the mode, the model and options. The session's agent is started if it sleeps.
pub(crate) async fn change_settings(
    app: &App,
    caller: &Caller,
    id: &str,
    change: SettingsChange,
) -> Result<SessionSettingsInfo, Fault> {
    caller.may_work_in(app, id)?;
    caller.may_change_as_attached(app, id).await?;
    let chosen = list_chosen(change)?;
    let handle = open_session(app, caller, id).await?;
    let before = handle.head();
    wake_agent(app, &handle).await?;
    let mut done = Vec::new();
    for chosen in &chosen {
        // Each change may change what the agent offers for the next one.
        let report = report_of(app, &handle).await?;
        let frame = setting_request(&report, chosen).map_err(|error| not_offered(chosen, error));
        let set = match frame {
            Ok(frame) => ask_agent(app, &handle, frame, &describe_setting(chosen)).await.map(drop),
            Err(fault) => Err(fault),
        };
        set.map_err(|fault| with_done(fault, &done).with_session(id))?;
        done.push(describe_setting(chosen));
    }
    note_act(app, caller, &handle, before);
    Ok(to_session_settings(id, &report_of(app, &handle).await?))
}

fn list_chosen(change: SettingsChange) -> Result<Vec<ChosenSetting>, Fault> {
    let SettingsChange { mode, model, options } = change;
    let options = options.unwrap_or_default();
    if options.len() > MAX_CHANGED_OPTIONS {
        return Err(invalid_params(format!(
            "options: more than {MAX_CHANGED_OPTIONS} in one request"
        )));
    }
    let options = options.into_iter().map(|(id, value)| ChosenSetting::Option { id, value });
    let chosen = mode
        .map(ChosenSetting::Mode)
        .into_iter()
        .chain(model.map(ChosenSetting::Model))
        .chain(options);
    let chosen: Vec<_> = chosen.collect();
    if chosen.is_empty() {
        return Err(invalid_params("nothing to change: send mode, model or options"));
    }
    Ok(chosen)
}

/// Brings the agent of a sleeping session back, and waits until it is up.
pub(super) async fn wake_agent(app: &App, handle: &SessionHandle) -> Result<(), Fault> {
    if !handle.descriptor().status.is_alive() {
        match handle.wake().await {
            Ok(()) | Err(CallError::Refused(Refusal::AlreadyRunning)) => {}
            Err(error) => return Err(fault_from_failed_call(app, handle.id(), &error)),
        }
    }
    handle
        .up()
        .await
        .map_err(|failure| start_failed(&failure).with_session(handle.id().as_str()))
}

/// Sends a request to the agent, whose answer is returned. `what` names the request in faults.
pub(super) async fn ask_agent(
    app: &App,
    handle: &SessionHandle,
    frame: Bytes,
    what: &str,
) -> Result<Bytes, Fault> {
    let Ok(answer) = tokio::time::timeout(AGENT_ANSWER_TIMEOUT, handle.call_agent(frame)).await
    else {
        let detail =
            format!("{what}: the agent did not answer within {} s", AGENT_ANSWER_TIMEOUT.as_secs());
        return Err(Fault::new(ErrorCode::AGENT_TIMEOUT, detail));
    };
    match answer.map_err(|error| fault_from_failed_call(app, handle.id(), &error))? {
        Some(answer) if answer.is_result => Ok(answer.frame),
        Some(answer) => Err(refused_by_agent(what, &answer.frame)),
        None => Err(Fault::new(
            ErrorCode::AGENT_EXITED,
            format!("{what}: the agent went away before it answered"),
        )),
    }
}

/// Returns the fault for an error that the agent answered with.
fn refused_by_agent(what: &str, frame: &[u8]) -> Fault {
    let error = Json::parse(frame).and_then(|frame| frame.member("error")).ok().flatten();
    let message = error.and_then(|error| error.text_at(&["message"]).ok().flatten());
    let said: String = message
        .as_deref()
        .unwrap_or("no reason")
        .chars()
        .take(MAX_REFUSAL_CHARS)
        .collect();
    let fault = Fault::new(ErrorCode::AGENT_REFUSED, format!("{what}: the agent refused: {said}"));
    let small = error.filter(|error| error.raw().len() <= MAX_REFUSAL_CHARS);
    fault.with_members(|body| body.agent_error = small.map(Json::to_value))
}

fn describe_setting(chosen: &ChosenSetting) -> String {
    match chosen {
        ChosenSetting::Mode(mode) => format!("mode {mode:?}"),
        ChosenSetting::Model(model) => format!("model {model:?}"),
        ChosenSetting::Option { id, value } => format!("option {id:?} = {value}"),
    }
}

fn not_offered(chosen: &ChosenSetting, error: NotOffered) -> Fault {
    let what: String = describe_setting(chosen).chars().take(200).collect();
    let (detail, offered) = match error {
        NotOffered::Setting { known } => (format!("{what}: the agent has no such setting"), known),
        NotOffered::Value { offered } => {
            (format!("{what}: the agent does not offer this value"), offered)
        }
    };
    Fault::new(ErrorCode::SETTING_NOT_OFFERED, detail)
        .with_members(|body| body.offered = Some(offered))
}

/// Adds to a refusal which settings of the same request were set before it.
fn with_done(fault: Fault, done: &[String]) -> Fault {
    if done.is_empty() {
        return fault;
    }
    fault.with_members(|body| {
        body.detail = format!("{}; set before that: {}", body.detail, done.join(", "))
    })
}

async fn report_of(app: &App, handle: &SessionHandle) -> Result<AgentReport, Fault> {
    handle
        .agent_report()
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))
}

fn to_session_settings(id: &str, report: &AgentReport) -> SessionSettingsInfo {
    let members = current_settings(report);
    let member = |name: &str| {
        let told = members.iter().find(|(known, _)| *known == name)?;
        Json::parse(told.1.as_bytes()).ok()
    };
    let options: Vec<_> = member("configOptions")
        .into_iter()
        .flat_map(Json::items)
        .filter_map(to_setting_option)
        .collect();
    let as_option = |category: &str| {
        let option = options.iter().find(|option| option.category.as_deref() == Some(category))?;
        Some(SettingChoice {
            current: option.current.as_str()?.to_owned(),
            all: option.all.clone(),
        })
    };
    let modes = member("modes")
        .and_then(|modes| to_choice(modes, ["availableModes", "id", "currentModeId"]));
    let models = member("models")
        .and_then(|models| to_choice(models, ["availableModels", "modelId", "currentModelId"]));
    SessionSettingsInfo {
        id: id.to_owned(),
        modes: modes.or_else(|| as_option("mode")),
        models: models.or_else(|| as_option("model")),
        commands: report
            .latest
            .commands
            .as_ref()
            .map(|frame| list_commands(frame.bytes()))
            .unwrap_or_default(),
        accepts: report.traits.accepts.map(to_accepted_kinds),
        options,
        shortened: false,
    }
}

pub(super) fn to_accepted_kinds(accepts: AcceptedContent) -> Vec<AcceptedKind> {
    let AcceptedContent { image, audio, embedded } = accepts;
    let kinds = [
        (image, AcceptedKind::Image),
        (audio, AcceptedKind::Audio),
        (embedded, AcceptedKind::Embedded),
    ]
    .into_iter();
    kinds.filter(|(accepted, _)| *accepted).map(|(_, kind)| kind).collect()
}

fn text_member(json: Json<'_>, name: &str) -> Option<String> {
    json.text_at(&[name]).ok().flatten().map(Into::into)
}

fn to_choice(choice: Json<'_>, [list, id, current]: [&str; 3]) -> Option<SettingChoice> {
    let current = text_member(choice, current)?;
    let items = choice.member(list).ok().flatten().into_iter().flat_map(Json::items);
    Some(SettingChoice {
        current,
        all: items.filter_map(|item| to_choice_value(item, id, None)).collect(),
    })
}

fn to_choice_value(item: Json<'_>, id: &str, group: Option<&str>) -> Option<ChoiceValue> {
    let id = text_member(item, id)?;
    let name = text_member(item, "name").unwrap_or_else(|| id.clone());
    Some(ChoiceValue {
        id,
        name,
        description: text_member(item, "description"),
        group: group.map(ToOwned::to_owned),
    })
}

fn to_setting_option(option: Json<'_>) -> Option<SettingOption> {
    let id = text_member(option, "id")?;
    let current = option.member("currentValue").ok()??;
    let current = match (current.text(), current.bool()) {
        (Some(text), _) => Value::from(text.into_owned()),
        (None, Some(flag)) => Value::from(flag),
        (None, None) => current.to_value(),
    };
    let mut all = Vec::new();
    for choice in option.member("options").ok().flatten().into_iter().flat_map(Json::items) {
        all.extend(to_choice_value(choice, "value", None));
        // The choices may stand in groups.
        let group = text_member(choice, "name").or_else(|| text_member(choice, "group"));
        let grouped = choice.member("options").ok().flatten().into_iter().flat_map(Json::items);
        all.extend(grouped.filter_map(|choice| to_choice_value(choice, "value", group.as_deref())));
    }
    let kind = text_member(option, "type");
    Some(SettingOption {
        name: text_member(option, "name").unwrap_or_else(|| id.clone()),
        description: text_member(option, "description"),
        category: text_member(option, "category"),
        kind: kind
            .unwrap_or_else(|| if current.is_boolean() { "boolean" } else { "select" }.to_owned()),
        id,
        current,
        all,
    })
}

fn list_commands(frame: &[u8]) -> Vec<AgentCommandInfo> {
    let list =
        Payload::open_bytes(frame).and_then(|update| update.close().member("availableCommands"));
    let commands = list.ok().flatten().into_iter().flat_map(Json::items);
    let to_command = |command: Json<'_>| {
        let name = text_member(command, "name")?;
        let hint = command
            .at(&["input"])
            .ok()
            .flatten()
            .and_then(|input| text_member(input, "hint"));
        Some(AgentCommandInfo { name, description: text_member(command, "description"), hint })
    };
    commands.filter_map(to_command).collect()
}
