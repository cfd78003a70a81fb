//! A session's title, label and place in the archive, as clients set them (rule 14.9).

use wharf_api::{OnLabelChange, SessionInfo, SessionPatch};
use wharf_host::core::Description;
use wharf_host::{DescribeError, LabelPolicy};

use super::attention::{describe_session, note_act};
use super::faults::{fault_from_failed_call, fault_from_label_in_use, invalid_params};
use super::spawn::check_label;
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

/// A title is one line of a list.
const MAX_TITLE_CHARS: usize = 200;

/// Changes the session's description and returns the session.
pub(crate) async fn change_session(
    app: &App,
    caller: &Caller,
    id: &str,
    patch: SessionPatch,
) -> Result<SessionInfo, Fault> {
    caller.may_change()?;
    caller.may_change_as_attached(app, id).await?;
    let title = patch
        .title
        .map(|title| title.as_deref().map(check_title).transpose())
        .transpose()?;
    // An empty label is none, as at the start of a session.
    let label = patch.label.map(|label| label.filter(|label| !label.is_empty()));
    check_label(label.as_ref().and_then(Option::as_deref))?;
    let handle = open_session(app, caller, id).await?;
    let before = handle.head();
    let on_label = patch.on_label.map_or(LabelPolicy::Share, to_on_label);
    let description = Description {
        by: caller.sender(),
        title: title.map(|title| title.map(Into::into)),
        label: label.map(|label| label.map(Into::into)),
        archived: patch.archived,
    };
    let visible = app.visible_to(&caller.identity);
    let described = app
        .host
        .describe(&handle, description, on_label, &|known| visible.sees(known))
        .await;
    described.map_err(|error| match &error {
        DescribeError::Label(error) => fault_from_label_in_use(error),
        DescribeError::Call(error) => fault_from_failed_call(app, handle.id(), error),
    })?;
    note_act(app, caller, &handle, before);
    Ok(describe_session(app, caller, &handle.descriptor()))
}

/// Returns the host's word for what happens if another session has the label.
pub(super) const fn to_on_label(on_label: OnLabelChange) -> LabelPolicy {
    match on_label {
        OnLabelChange::Share => LabelPolicy::Share,
        OnLabelChange::Refuse => LabelPolicy::Refuse,
        OnLabelChange::Take => LabelPolicy::Take,
    }
}

/// Returns a title without blanks around it, or refuses it.
pub(super) fn check_title(title: &str) -> Result<String, Fault> {
    let title = title.trim();
    if title.is_empty()
        || title.chars().any(char::is_control)
        || title.chars().count() > MAX_TITLE_CHARS
    {
        let detail = format!(
            "title: must be 1 to {MAX_TITLE_CHARS} characters on one line, or null for the agent's own"
        );
        return Err(invalid_params(detail));
    }
    Ok(title.to_owned())
}
