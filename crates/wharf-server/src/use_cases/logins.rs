//! The signed-in devices: logins of web pages (rule 17.7).

use wharf_api::{ErrorCode, LoginChange, LoginEnded, LoginInfo, LoginList};
use wharf_host::format_timestamp_in_seconds;

use super::Caller;
use crate::App;
use crate::auth::{TokenEntry, TokensFileError};
use crate::fault::Fault;

/// Lists the logins that the caller may see, the newest first.
pub(crate) async fn list_logins(app: &App, caller: &Caller) -> Result<LoginList, Fault> {
    let app = app.clone();
    let caller = caller.clone();
    run_blocking(move || {
        let mut logins: Vec<_> = visible_logins(&app, &caller)?
            .iter()
            .map(|entry| to_info(&app, &caller, entry))
            .collect();
        logins.sort_by(|one, other| {
            other.created_at.cmp(&one.created_at).then_with(|| one.id.cmp(&other.id))
        });
        Ok(LoginList { logins })
    })
    .await
}

/// Gives a login a name.
pub(crate) async fn rename_login(
    app: &App,
    caller: &Caller,
    id: &str,
    change: LoginChange,
) -> Result<LoginInfo, Fault> {
    caller.may_change()?;
    let app = app.clone();
    let caller = caller.clone();
    let id = id.to_owned();
    run_blocking(move || {
        find_login(&app, &caller, &id)?;
        let entry = app
            .tokens
            .relabel(&id, &change.name)
            .map_err(|error| fault_from_tokens_error(&id, &error))?;
        Ok(to_info(&app, &caller, &entry))
    })
    .await
}

/// Ends a login, and with it the streams and connections that it opened.
pub(crate) async fn end_login(app: &App, caller: &Caller, id: &str) -> Result<LoginEnded, Fault> {
    caller.may_change()?;
    let app = app.clone();
    let caller = caller.clone();
    let id = id.to_owned();
    run_blocking(move || {
        find_login(&app, &caller, &id)?;
        app.tokens.revoke(&id).map_err(|error| fault_from_tokens_error(&id, &error))?;
        Ok(LoginEnded { ok: true, id })
    })
    .await
}

/// Returns the logins that the caller may see. An admin sees all. Another token sees the logins
/// that were made with it; a login sees itself and those of the same token that have no more rights
/// than it has.
fn visible_logins(app: &App, caller: &Caller) -> Result<Vec<TokenEntry>, Fault> {
    if caller.identity.agent_session().is_some() {
        return Err(Fault::new(
            ErrorCode::NOT_FOR_AGENTS,
            "the logins of web pages are not for agents",
        ));
    }
    let mut logins = app.tokens.logins();
    if caller.identity.is_admin() {
        return Ok(logins);
    }
    let own = caller.identity.token.as_deref();
    let own_login = logins.iter().find(|entry| Some(&*entry.id) == own).cloned();
    logins.retain(|entry| match &own_login {
        Some(login) => {
            let is_covered = login.workspace.is_none() || login.workspace == entry.workspace;
            entry.login_of == login.login_of && entry.access <= login.access && is_covered
        }
        None => entry.login_of.as_deref() == own,
    });
    Ok(logins)
}

fn find_login(app: &App, caller: &Caller, id: &str) -> Result<TokenEntry, Fault> {
    let found = visible_logins(app, caller)?.into_iter().find(|entry| &*entry.id == id);
    found.ok_or_else(|| unknown_login(id))
}

fn unknown_login(id: &str) -> Fault {
    let shown: String = id.chars().take(100).collect();
    Fault::new(
        ErrorCode::UNKNOWN_LOGIN,
        format!("no login {shown:?}; GET /logins lists those there are"),
    )
}

fn to_info(app: &App, caller: &Caller, entry: &TokenEntry) -> LoginInfo {
    LoginInfo {
        id: entry.id.to_string(),
        name: entry.label.clone().unwrap_or_default(),
        role: entry.access.to_string(),
        workspace: entry.workspace.as_deref().map(ToOwned::to_owned),
        created_at: entry.created_at.clone(),
        expires_at: entry.expires_at.clone(),
        last_seen_at: app.tokens.last_use(entry).map(format_timestamp_in_seconds),
        current: caller.identity.token.as_deref() == Some(&*entry.id),
    }
}

fn fault_from_tokens_error(id: &str, error: &TokensFileError) -> Fault {
    match error {
        TokensFileError::Unknown { .. } => unknown_login(id),
        TokensFileError::Label => {
            Fault::new(ErrorCode::INVALID_PARAMS, "name: must be 1 to 200 characters on one line")
        }
        TokensFileError::Io { .. }
        | TokensFileError::Damaged { .. }
        | TokensFileError::Newer { .. }
        | TokensFileError::AdminOfWorkspace
        | TokensFileError::Ttl
        | TokensFileError::UnknownPerson { .. }
        | TokensFileError::Full => {
            tracing::error!(%error, "a login cannot be changed");
            Fault::new(
                ErrorCode::UNAVAILABLE,
                "the host cannot write its tokens file; its log says why",
            )
        }
    }
}

/// Runs work that waits for the disk on a thread for blocking work.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let gone = |_| Fault::new(ErrorCode::UNAVAILABLE, "the host is stopping");
    tokio::task::spawn_blocking(work).await.map_err(gone).flatten()
}
