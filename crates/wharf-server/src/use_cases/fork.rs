//! A copy of a session, made by its agent (rule 17.10).

use wharf_api::{ErrorCode, ForkArgs, SessionInfo};
use wharf_host::core::SessionId;
use wharf_host::{Created, ForkClient, ForkError, ForkRequest, LabelPolicy, SpawnedAs};

use super::attention::describe_session;
use super::describe::{check_title, to_on_label};
use super::faults::{
    fault_from_create_error, fault_from_failed_call, invalid_params, start_failed,
};
use super::prompt::{IDEMPOTENCY_KEY_HEADER, check_idempotency_key};
use super::spawn::{NotCreated, check_label, needs_waiting};
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

/// The outcome of a fork.
#[derive(Debug)]
pub(crate) struct ForkOutcome {
    pub(crate) session: SessionInfo,
    /// True if the idempotency key was known: the session is that of an earlier request.
    pub(crate) duplicate: bool,
}

/// Copies a session into a new one. Returns when its agent runs, or at once unless `wait` is set.
pub(crate) async fn fork_session(
    app: &App,
    caller: &Caller,
    id: &str,
    args: ForkArgs,
    key: Option<&str>,
    wait: bool,
) -> Result<ForkOutcome, Fault> {
    may_fork(app, caller, id).await?;
    let key = key.map(|key| check_idempotency_key(IDEMPOTENCY_KEY_HEADER, key)).transpose()?;
    let title = args.title.as_deref().map(check_title).transpose()?;
    let label = args.label.filter(|label| !label.is_empty());
    check_label(label.as_deref())?;
    let source = open_session(app, caller, id).await?;
    let request = ForkRequest {
        title,
        label,
        on_label: args.on_label.map_or(LabelPolicy::Share, to_on_label),
        sender: caller.sender(),
        directory_scope: caller.identity.directory_scope(),
        key: key.map(ToOwned::to_owned),
        caller_waits: wait,
    };
    let visible = app.visible_to(&caller.identity);
    let forked = app.host.fork(&source, request, &|known| visible.sees(known)).await;
    let forked = forked.map_err(|error| fault_from_fork_error(app, id, &error))?;
    let handle = forked.handle;
    if wait && needs_waiting(&handle) {
        handle
            .up()
            .await
            .map_err(|failure| start_failed(&failure).with_session(handle.id().as_str()))?;
    }
    let session = describe_session(app, caller, &handle.descriptor());
    Ok(ForkOutcome { session, duplicate: forked.spawned_as == SpawnedAs::Repeat })
}

/// Copies a session for an ACP client. Returns when the agent has answered.
pub(crate) async fn fork_for_client(
    app: &App,
    caller: &Caller,
    id: &str,
    client: ForkClient,
) -> Result<Created, NotCreated> {
    may_fork(app, caller, id).await.map_err(NotCreated::Refused)?;
    let source = open_session(app, caller, id).await.map_err(NotCreated::Refused)?;
    let request = ForkRequest {
        title: None,
        label: None,
        on_label: LabelPolicy::Share,
        sender: caller.sender(),
        directory_scope: caller.identity.directory_scope(),
        key: None,
        caller_waits: true,
    };
    let client = ForkClient { env: caller.allowed_env(client.env), ..client };
    app.host
        .fork_for_client(&source, request, client)
        .await
        .map_err(|error| match error {
            ForkError::Create(error) => NotCreated::from_create_error(error),
            ForkError::NotSupported { .. }
            | ForkError::NothingToCopy
            | ForkError::SettingsLost
            | ForkError::TurnInProgress
            | ForkError::OtherDirectory { .. }
            | ForkError::Parameters(_)
            | ForkError::Call(_) => NotCreated::Refused(fault_from_fork_error(app, id, &error)),
        })
}

/// Refuses a caller that may not start sessions, or that only observes the source: a copy could be
/// driven on.
async fn may_fork(app: &App, caller: &Caller, id: &str) -> Result<(), Fault> {
    caller.may_change()?;
    caller.may_change_as_attached(app, id).await
}

fn fault_from_fork_error(app: &App, id: &str, error: &ForkError) -> Fault {
    let fault = |code| Fault::new(code, error.to_string()).with_session(id);
    match error {
        ForkError::NotSupported { .. } => fault(ErrorCode::FORK_NOT_SUPPORTED),
        ForkError::NothingToCopy | ForkError::SettingsLost => fault(ErrorCode::NOT_FORKABLE),
        ForkError::TurnInProgress => fault(ErrorCode::TURN_IN_PROGRESS),
        ForkError::OtherDirectory { .. } | ForkError::Parameters(_) => {
            invalid_params(error.to_string())
        }
        ForkError::Call(error) => fault_from_failed_call(app, &SessionId::new(id), error),
        ForkError::Create(error) => fault_from_create_error(error),
    }
}
