//! Notifications (chapter 18 of the specification): tell a person that a session needs an answer,
//! has failed or has finished. The host decides when to notify; a surface delivers.

mod command;
mod decide;
mod watch;

use serde::Serialize;
use wharf_config::{NotifyContent, NotifyKind, NotifySettings};
use wharf_core::{EventId, SessionId};
use wharf_transcript::show_in_one_line;

pub use command::CommandFailure;

use crate::descriptor::Descriptor;
use crate::host::Host;
use crate::people::{OWNER, SessionMarks};

/// The most characters of a question, a failure or a title.
const MAX_TEXT_CHARS: usize = 140;
/// The version of the JSON that receivers get.
const PAYLOAD_VERSION: u32 = 1;

/// A channel by which a person gets notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyReceiver {
    Command,
    Webhook,
    /// The devices that have subscribed to push messages.
    Push,
}

impl NotifyReceiver {
    pub const ALL: [Self; 3] = [Self::Command, Self::Webhook, Self::Push];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Webhook => "webhook",
            Self::Push => "push",
        }
    }

    /// Tells whether the settings have this receiver. Devices subscribe by themselves: see
    /// [`Host::set_push_devices`].
    pub fn is_set(self, settings: &NotifySettings) -> bool {
        match self {
            Self::Command => !settings.command.is_empty(),
            Self::Webhook => settings.webhook.is_some(),
            Self::Push => false,
        }
    }
}

/// One notification, as its receivers get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    pub version: u32,
    /// Unique; the same for each try to deliver it.
    pub id: String,
    #[serde(serialize_with = "write_kind")]
    pub kind: Option<NotifyKind>,
    /// The whole in one line for a person.
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The reason in one word, as in the session's attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The beginning of the question or of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The number of open asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The event that opened the ask or ended the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<EventId>,
    /// The newest ask that was reported before this notification. Open asks between the two are
    /// reported by this notification alone.
    #[serde(skip)]
    pub(crate) told_before: Option<EventId>,
}

/// `serialize_with` gets a reference to the field.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn write_kind<S: serde::Serializer>(
    kind: &Option<NotifyKind>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.map_or("test", NotifyKind::as_str))
}

/// The reason of a notification: an ask, or the end of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cause<'a> {
    kind: NotifyKind,
    row: Option<EventId>,
    since: &'a str,
    why: &'a str,
    text: Option<&'a str>,
}

impl Notification {
    /// Returns a notification about no session, by which a person tries the receivers.
    pub fn new_test() -> Self {
        Self {
            version: PAYLOAD_VERSION,
            id: crate::ids::random_text(26),
            kind: None,
            message: "wharf — this is a test: notifications arrive here".to_owned(),
            session_id: None,
            workspace: None,
            title: None,
            agent: None,
            why: None,
            text: None,
            count: None,
            since: None,
            row: None,
            told_before: None,
        }
    }

    fn new(session: &Descriptor, cause: &Cause<'_>, content: NotifyContent) -> Self {
        let is_full = content == NotifyContent::Full;
        let title = session.title.as_deref().or(session.label.as_deref()).filter(|_| is_full);
        let title = title.map(|title| shorten(&show_in_one_line(title)));
        let text = cause.text.filter(|_| is_full).map(shorten);
        let place = session.workspace_slug.clone();
        let message = match content {
            NotifyContent::Full => describe_fully(&place, title.as_deref(), cause, text.as_deref()),
            NotifyContent::None => format!("{place} {}", describe_state(cause.kind)),
        };
        Self {
            version: PAYLOAD_VERSION,
            id: crate::ids::random_text(26),
            kind: Some(cause.kind),
            message,
            session_id: Some(session.id.clone()),
            workspace: Some(place),
            title,
            agent: Some(session.adapter_slug.clone()),
            why: Some(cause.why.to_owned()),
            text,
            count: (cause.kind == NotifyKind::NeedsAnswer).then_some(session.attention.asks),
            since: Some(cause.since.to_owned()),
            row: cause.row,
            told_before: None,
        }
    }

    /// Returns the word of its kind: that of the state, or `test`.
    pub fn kind_word(&self) -> &'static str {
        self.kind.map_or("test", NotifyKind::as_str)
    }

    /// Returns the JSON that receivers get.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Cuts a text to the length of a notification.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some(_) => text.chars().take(MAX_TEXT_CHARS - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

fn describe_fully(
    place: &str,
    title: Option<&str>,
    cause: &Cause<'_>,
    text: Option<&str>,
) -> String {
    let session = title.map_or_else(|| place.to_owned(), |title| format!("{place} · {title}"));
    let reason = match cause.kind {
        NotifyKind::NeedsAnswer => "asks".to_owned(),
        NotifyKind::Failed => format!("failed ({})", cause.why),
        NotifyKind::Finished => "finished".to_owned(),
    };
    match text {
        Some(text) => format!("{session} — {reason}: {text}"),
        None => format!("{session} — {reason}"),
    }
}

const fn describe_state(kind: NotifyKind) -> &'static str {
    match kind {
        NotifyKind::NeedsAnswer => "needs you",
        NotifyKind::Failed => "has failed",
        NotifyKind::Finished => "has finished",
    }
}

impl Host {
    /// Returns the notification if its reason still holds: the ask is open, or the end is neither
    /// seen nor past, and the session is not muted. If the ask is gone, but an older ask that the
    /// notification stands for is open, returns a notification about the older ask.
    pub fn refresh_notification(&self, notification: Notification) -> Option<Notification> {
        let Some(id) = notification.session_id.as_deref().map(SessionId::new) else {
            return Some(notification);
        };
        let session = self.descriptor(&id)?;
        refresh(&session, &self.marks(OWNER, &id), notification, self.config().notify.content)
    }
}

fn refresh(
    session: &Descriptor,
    marks: &SessionMarks,
    notification: Notification,
    content: NotifyContent,
) -> Option<Notification> {
    if marks.muted {
        return None;
    }
    let causes = decide::list_causes(session, marks);
    if causes.iter().any(|cause| holds_still(session, cause, &notification)) {
        return Some(notification);
    }
    let older = causes.iter().find(|cause| stands_for(&notification, cause))?;
    Some(Notification {
        told_before: notification.told_before,
        ..Notification::new(session, older, content)
    })
}

/// Returns true if the notification stands for this older ask too: one look found both asks, and
/// the notification alone reported them.
fn stands_for(notification: &Notification, cause: &Cause<'_>) -> bool {
    let is_ask = |kind: Option<NotifyKind>| kind == Some(NotifyKind::NeedsAnswer);
    let is_between = cause.row > notification.told_before && cause.row < notification.row;
    is_ask(notification.kind) && is_ask(Some(cause.kind)) && is_between
}

fn holds_still(session: &Descriptor, cause: &Cause<'_>, notification: &Notification) -> bool {
    if Some(cause.kind) != notification.kind {
        return false;
    }
    // Further asks may have come since, and the first ones may have been answered.
    let first = session.attention.ask.as_ref().map(|ask| ask.row);
    let is_open = || first.is_some_and(|first| first <= notification.row.unwrap_or(first));
    cause.row == notification.row
        || (cause.kind == NotifyKind::NeedsAnswer && cause.row > notification.row && is_open())
}
