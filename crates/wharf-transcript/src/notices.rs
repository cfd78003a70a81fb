//! Notices: facts beside the conversation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wharf_api::{ForkOrigin, NoticeLevel, NoticeTopic, RowBody, RowNotice};
use wharf_core::{
    AgentSetting, EndReason, Ending, FailureText, Fault, ForkSource, LostEvents, Millis,
    PauseReason, Raw, SettingSpelling, Status,
};
use wharf_json::{Json, ReadError};

use crate::RowStore;
use crate::fold::FoldStep;
use crate::limits::MAX_MESSAGE_BYTES;
use crate::messages::end_run;
use crate::text_rules::clean_word;
use crate::turn_end::give_reason;

/// The settings that were reported last, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SettingValues(BTreeMap<String, String>);

/// Settings beyond this number are not followed.
const MAX_SETTINGS: usize = 64;

fn add_notice(
    step: &mut FoldStep<'_, impl RowStore>,
    what: NoticeTopic,
    level: NoticeLevel,
    text: &str,
) {
    end_run(step);
    let text = step.fold.texts.filter_start(text, MAX_MESSAGE_BYTES);
    let summary = step.fold.texts.summarise(&text);
    let notice = RowNotice { what, level, text, by: None, forked_from: None };
    step.create(RowBody::Notice(notice), summary, false);
}

/// The session begins as a copy: its source has the conversation up to here.
pub(crate) fn forked(step: &mut FoldStep<'_, impl RowStore>, source: &ForkSource) {
    let text = format!("Forked from {} at {}", source.session, source.event);
    let origin = ForkOrigin {
        session_id: source.session.to_string(),
        event_id: source.event.to_string(),
    };
    let what = NoticeTopic::Forked;
    let level = NoticeLevel::Info;
    let notice = RowNotice {
        what,
        level,
        text: text.clone(),
        by: None,
        forked_from: Some(origin),
    };
    step.create(RowBody::Notice(notice), text, false);
}

/// Adds a notice that the agent is back. The first start gets no notice.
pub(crate) fn agent_started(step: &mut FoldStep<'_, impl RowStore>) {
    if step.fold.agent.start > 1 {
        add_notice(step, NoticeTopic::Resumed, NoticeLevel::Info, "The agent is back");
    }
}

pub(crate) fn start_failed(
    step: &mut FoldStep<'_, impl RowStore>,
    message: Option<&str>,
    retry_in: Millis,
) {
    let FailureText { reason, .. } =
        FailureText::parse(message.unwrap_or("the agent did not start"));
    let when = match retry_in.0 {
        0 if step.fold.agent.is_fork => "trying again at once".to_owned(),
        0 => "trying again without its memory".to_owned(),
        wait => format!("trying again in {} s", wait.div_ceil(1_000)),
    };
    add_notice(step, NoticeTopic::Restarted, NoticeLevel::Warning, &format!("{reason}; {when}"));
}

/// The session ended. The reason of a failed turn goes to the turn's end; the notice tells the
/// session's state.
pub(crate) fn session_ended(step: &mut FoldStep<'_, impl RowStore>, ending: &Ending) {
    let failure = FailureText::parse(ending.message.as_deref().unwrap_or_default());
    give_reason(step, failure);
    let can_return = step.fold.agent.can_return;
    let failed = if can_return { NoticeLevel::Info } else { NoticeLevel::Error };
    let (what, level, text) = match ending.reason {
        EndReason::Idle | EndReason::Memory => {
            (NoticeTopic::Asleep, NoticeLevel::Info, "The agent sleeps".to_owned())
        }
        EndReason::User => {
            (NoticeTopic::Killed, NoticeLevel::Info, "The session was killed".to_owned())
        }
        EndReason::Finished => {
            (NoticeTopic::Ended, NoticeLevel::Info, "The session was finished".to_owned())
        }
        EndReason::Closed => {
            (NoticeTopic::Ended, NoticeLevel::Info, "The session was closed".to_owned())
        }
        EndReason::HostShutdown => {
            (NoticeTopic::Asleep, NoticeLevel::Info, "The host was stopped".to_owned())
        }
        EndReason::HostRestarted => {
            (NoticeTopic::Asleep, NoticeLevel::Info, "The host was restarted".to_owned())
        }
        EndReason::LogFull => {
            (NoticeTopic::Ended, NoticeLevel::Error, "The log has reached limits.log".to_owned())
        }
        EndReason::StartFailed => (
            NoticeTopic::Ended,
            NoticeLevel::Error,
            format!("The agent did not start{}", because(failure.reason)),
        ),
        EndReason::Unresponsive => {
            (NoticeTopic::Ended, failed, "The agent did not react and was ended".to_owned())
        }
        EndReason::AgentExited => {
            let level = if ending.status == Status::Error && !can_return {
                NoticeLevel::Error
            } else {
                failed
            };
            let code =
                ending.exit_code.map(|code| format!(" (exit code {code})")).unwrap_or_default();
            (NoticeTopic::Ended, level, format!("The agent exited{code}"))
        }
    };
    add_notice(step, what, level, &text);
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

pub(crate) fn storage_paused(step: &mut FoldStep<'_, impl RowStore>, why: PauseReason) {
    let text = match why {
        PauseReason::StorageFull => "The disk is full: the agent is held until there is space",
        PauseReason::StorageReadOnly => {
            "The disk is read-only: the agent is held until it can be written"
        }
    };
    add_notice(step, NoticeTopic::Paused, NoticeLevel::Error, text);
}

pub(crate) fn storage_continued(step: &mut FoldStep<'_, impl RowStore>) {
    add_notice(step, NoticeTopic::Continued, NoticeLevel::Info, "The log can be written again");
}

/// Adds a notice for each setting whose value differs from the known one. The first report of a
/// setting is not a change.
pub(crate) fn settings_changed(step: &mut FoldStep<'_, impl RowStore>, settings: &[AgentSetting]) {
    for setting in settings {
        let (what, name) = match setting.of {
            SettingSpelling::Mode => (NoticeTopic::Mode, "mode".to_owned()),
            SettingSpelling::Model => (NoticeTopic::Model, "model".to_owned()),
            SettingSpelling::Option => match setting.category.as_deref() {
                Some("mode") => (NoticeTopic::Mode, "mode".to_owned()),
                Some("model") => (NoticeTopic::Model, "model".to_owned()),
                Some(_) | None => {
                    (NoticeTopic::Setting, setting.id.as_ref().map(show_value).unwrap_or_default())
                }
            },
        };
        let value = show_value(&setting.value);
        let known = &mut step.fold.settings.0;
        if known.len() >= MAX_SETTINGS && !known.contains_key(&name) {
            continue;
        }
        match known.insert(name.clone(), value.clone()) {
            Some(before) if before != value => {
                add_notice(step, what, NoticeLevel::Info, &format!("{name}: {before} → {value}"));
            }
            Some(_) | None => {}
        }
    }
}

/// Returns a string without its quotes, other values as JSON.
fn show_value(value: &Raw) -> String {
    let text = Json::parse(value.bytes())
        .ok()
        .and_then(Json::text)
        .map(|text| text.into_owned());
    clean_word(&text.unwrap_or_else(|| value.as_str().to_owned()))
}

pub(crate) fn protocol_fault(step: &mut FoldStep<'_, impl RowStore>, fault: Fault, detail: &str) {
    let (what, text) = match fault {
        Fault::Malformed | Fault::NotUtf8 => (
            NoticeTopic::StrayOutput,
            format!("The agent wrote a line that is no message: {detail}"),
        ),
        Fault::Oversized => {
            (NoticeTopic::ProtocolFault, format!("A message of the agent was too long: {detail}"))
        }
        Fault::ForeignSession => (
            NoticeTopic::ProtocolFault,
            format!("A message of the agent names another session: {detail}"),
        ),
        Fault::TooManyAsks => {
            (NoticeTopic::ProtocolFault, format!("The agent asks too much at once: {detail}"))
        }
        Fault::Suppressed => {
            (NoticeTopic::ProtocolFault, format!("More faults of the agent: {detail}"))
        }
    };
    add_notice(step, what, NoticeLevel::Debug, &text);
}

/// Takes the place of content that cannot be read, so that its absence is visible.
pub(crate) fn unreadable(step: &mut FoldStep<'_, impl RowStore>, error: &ReadError) {
    let text = format!("An update of the agent cannot be read: {error}");
    add_notice(step, NoticeTopic::OtherUpdate, NoticeLevel::Warning, &text);
}

/// Takes the place of events that cannot be read.
pub(crate) fn events_lost(step: &mut FoldStep<'_, impl RowStore>, lost: &LostEvents) {
    let first = lost.first;
    let last = step.id.seq;
    let what = if first == last {
        format!("Event {last} of the log cannot be read")
    } else {
        format!("Events {first} to {last} of the log cannot be read")
    };
    let text = format!("{what}; the rest of the session is complete. {}", lost.why);
    add_notice(step, NoticeTopic::ProtocolFault, NoticeLevel::Error, &text);
}

/// Takes a `notice` of the agent.
pub(crate) fn agent_notice(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
) -> Result<(), ReadError> {
    let Some(message) = update.member("message")?.and_then(Json::text) else { return Ok(()) };
    let level = match update.member("level")?.and_then(Json::text).as_deref() {
        Some("error") => NoticeLevel::Error,
        Some("warning" | "warn") => NoticeLevel::Warning,
        Some(_) | None => NoticeLevel::Info,
    };
    add_notice(step, NoticeTopic::AgentNotice, level, &message);
    Ok(())
}

/// Takes a `compaction_update`: the agent shortens its memory.
pub(crate) fn compaction(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
) -> Result<(), ReadError> {
    let status = update.member("status")?.and_then(Json::text);
    let text = match status.as_deref() {
        Some("completed") => "The agent has shortened its memory of the conversation".to_owned(),
        Some(status) => format!("The agent shortens its memory of the conversation: {status}"),
        None => "The agent shortens its memory of the conversation".to_owned(),
    };
    add_notice(step, NoticeTopic::Compaction, NoticeLevel::Info, &text);
    Ok(())
}

pub(crate) fn background_work(step: &mut FoldStep<'_, impl RowStore>, count: u64) {
    let text = match count {
        0 => "Nothing runs in the background any more".to_owned(),
        1 => "One task runs in the background".to_owned(),
        count => format!("{count} tasks run in the background"),
    };
    add_notice(step, NoticeTopic::Background, NoticeLevel::Info, &text);
}

/// Takes the place of an update of a kind that Wharf does not know.
pub(crate) fn other_update(step: &mut FoldStep<'_, impl RowStore>, tag: &str) {
    let text = format!("An update of another kind: {}", clean_word(tag));
    add_notice(step, NoticeTopic::OtherUpdate, NoticeLevel::Debug, &text);
}
