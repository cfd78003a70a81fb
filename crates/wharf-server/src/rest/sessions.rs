//! `/sessions`: spawn, fork, list, get, prompt, interrupt, kill, resume and forget.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{
    Finished, Forgotten, ForkArgs, InterruptArgs, Interrupted, Killed, PromptArgs, PromptQuery,
    Prompted, ResumeArgs, SessionInfo, SessionPage, SessionPatch, SessionQuery, SpawnArgs,
    SpawnedSession, UsagePage,
};

use wharf_host::SpawnedAs;

use super::extract::{
    IdempotencyKey, JsonBody, OptionalJsonBody, PathParams, QueryParams, has_preference,
};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_sessions))
        .routes(routes!(spawn_session))
        .routes(routes!(fork_session))
        .routes(routes!(get_session, change_session, forget_session))
        .routes(routes!(list_usage))
        .routes(routes!(send_prompt))
        .routes(routes!(interrupt_turn))
        .routes(routes!(kill_session))
        .routes(routes!(finish_session))
        .routes(routes!(resume_session))
}

const RESPOND_ASYNC: &str = "respond-async";

/// Lists sessions, the newest first.
#[utoipa::path(
    get, path = "/sessions", tag = "sessions", operation_id = "list", params(SessionQuery),
    responses((status = 200, description = "A page of sessions", body = SessionPage))
)]
pub(super) async fn list_sessions(
    State(app): State<App>,
    caller: Caller,
    QueryParams(args): QueryParams<SessionQuery>,
) -> Result<Json<SessionPage>, Fault> {
    use_cases::list_sessions(&app, &caller, &args).map(Json)
}

/// Starts an agent. The answer comes when it runs.
#[utoipa::path(
    post, path = "/sessions/agent", tag = "sessions", operation_id = "spawn", request_body = SpawnArgs,
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "A repeated request with the same key is the same session"),
        ("Prefer" = Option<String>, Header, description = "`respond-async`: answer at once, while the agent starts"),
    ),
    responses(
        (status = 201, description = "The session", body = SpawnedSession,
            headers(("Location" = String, description = "Its route"), ("Preference-Applied" = String, description = "`respond-async`"))),
        (status = 200, description = "The session of an earlier request with the same Idempotency-Key, or with `onLabel` `continue` the one that has the label", body = SpawnedSession,
            headers(("Location" = String, description = "Its route"), ("Idempotency-Replayed" = String, description = "`true`"))),
        (status = 403, description = "`cwd_not_allowed`; for agents `delegation_denied`, `cwd_outside_parent`, `max_depth_exceeded`"),
        (status = 409, description = "`killed`: a user killed the session before its first prompt was accepted; `label_in_use`, with the id of the session that has the label"),
        (status = 422, description = "`unknown_adapter`, `invalid_manifest`, `unknown_workspace`, `invalid_cwd`, `unknown_mode`, `invalid_option`, `sandbox_impossible`, `label_too_long`, `idempotency_key_reused`, `invalid_idempotency_key`"),
        (status = 429, description = "`too_many_sessions`, `too_many_spawns` with the header `Retry-After`; for agents `child_quota_exceeded`"),
        (status = 500, description = "`registry_damaged`: `workspaces.json` cannot be read; a spawn with `cwd` and without `workspaceSlug` does not need it"),
        (status = 501, description = "`adapter_not_installed` with the command that installs it, `protocol_not_supported`, `sandbox_not_supported`"),
        (status = 502, description = "`start_failed`, with the id of the failed session and the tail of the agent's stderr"),
        (status = 507, description = "`storage_full`"),
    )
)]
pub(super) async fn spawn_session(
    State(app): State<App>,
    caller: Caller,
    IdempotencyKey(key): IdempotencyKey,
    headers: HeaderMap,
    JsonBody(args): JsonBody<SpawnArgs>,
) -> Result<Response, Fault> {
    let at_once = has_preference(&headers, RESPOND_ASYNC);
    let spawn = use_cases::spawn_session(&app, &caller, args, key.as_deref(), !at_once).await?;
    let id = spawn.answer.session.id.clone();
    let is_repeat = spawn.spawned_as == SpawnedAs::Repeat;
    let mut response = created_response(Json(spawn.answer), &id, is_repeat, at_once);
    if spawn.spawned_as == SpawnedAs::LabelHolder {
        *response.status_mut() = StatusCode::OK;
    }
    Ok(response)
}

/// Returns the answer for a session that was created, or that an earlier request with the same key
/// has created.
fn created_response(
    body: impl IntoResponse,
    id: &str,
    is_duplicate: bool,
    at_once: bool,
) -> Response {
    let status = if is_duplicate { StatusCode::OK } else { StatusCode::CREATED };
    let location = HeaderValue::from_str(&format!("/sessions/{id}"));
    let mut response = (status, body).into_response();
    let set = response.headers_mut();
    set.extend(location.map(|location| (header::LOCATION, location)));
    if at_once {
        set.insert("preference-applied", HeaderValue::from_static(RESPOND_ASYNC));
    }
    if is_duplicate {
        set.insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    response
}

/// Copies a session, with its conversation so far, into a new one, where the agent can. The answer
/// comes when the copy runs.
#[utoipa::path(
    post, path = "/sessions/{id}/fork", tag = "sessions", operation_id = "fork",
    request_body(content = Option<ForkArgs>, description = "The description of the copy; may be left out"),
    params(
        ("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "A repeated request with the same key is the same session"),
        ("Prefer" = Option<String>, Header, description = "`respond-async`: answer at once, while the agent starts"),
    ),
    responses(
        (status = 201, description = "The new session", body = SessionInfo,
            headers(("Location" = String, description = "Its route"), ("Preference-Applied" = String, description = "`respond-async`"))),
        (status = 200, description = "The session of an earlier request with the same Idempotency-Key", body = SessionInfo,
            headers(("Location" = String, description = "Its route"), ("Idempotency-Replayed" = String, description = "`true`"))),
        (status = 403, description = "`cwd_not_allowed`"),
        (status = 409, description = "`turn_in_progress`; `not_forkable`: its agent has never started; `label_in_use`"),
        (status = 422, description = "`invalid_params`, `label_too_long`, `unknown_adapter`, `invalid_manifest`, `invalid_cwd`, `unknown_mode`, `invalid_option`, `sandbox_impossible`, `idempotency_key_reused`, `invalid_idempotency_key`"),
        (status = 429, description = "`too_many_sessions`, `too_many_spawns` with the header `Retry-After`"),
        (status = 501, description = "`fork_not_supported`: the agent cannot; `adapter_not_installed`, `protocol_not_supported`, `sandbox_not_supported`"),
        (status = 502, description = "`start_failed`, with the id of the failed session and the tail of the agent's stderr"),
        (status = 507, description = "`storage_full`"),
    )
)]
pub(super) async fn fork_session(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    IdempotencyKey(key): IdempotencyKey,
    headers: HeaderMap,
    OptionalJsonBody(args): OptionalJsonBody<ForkArgs>,
) -> Result<Response, Fault> {
    let at_once = has_preference(&headers, RESPOND_ASYNC);
    let args = args.unwrap_or_default();
    let fork = use_cases::fork_session(&app, &caller, &id, args, key.as_deref(), !at_once).await?;
    let id = fork.session.id.clone();
    Ok(created_response(Json(fork.session), &id, fork.duplicate, at_once))
}

/// One session.
#[utoipa::path(
    get, path = "/sessions/{id}", tag = "sessions", operation_id = "get", params(("id" = String, Path)),
    responses((status = 200, description = "The session", body = SessionInfo))
)]
pub(super) async fn get_session(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<SessionInfo>, Fault> {
    use_cases::get_session(&app, &caller, &id).map(Json)
}

/// Changes the session's title, label or place in the archive. A title of a user beats the agent's.
#[utoipa::path(
    patch, path = "/sessions/{id}", tag = "sessions", operation_id = "change", request_body = SessionPatch,
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "The session", body = SessionInfo),
        (status = 409, description = "`label_in_use`, with the id of the session that has the label"),
        (status = 422, description = "`invalid_params`, `label_too_long`"),
        (status = 507, description = "`storage_full`"),
    )
)]
pub(super) async fn change_session(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(patch): JsonBody<SessionPatch>,
) -> Result<Json<SessionInfo>, Fault> {
    use_cases::change_session(&app, &caller, &id, patch).await.map(Json)
}

/// The usage and cost that agents reported, by session and in sum.
#[utoipa::path(
    get, path = "/usage", tag = "sessions", operation_id = "usage", params(SessionQuery),
    responses((status = 200, description = "Usage of the sessions that match", body = UsagePage))
)]
pub(super) async fn list_usage(
    State(app): State<App>,
    caller: Caller,
    QueryParams(args): QueryParams<SessionQuery>,
) -> Result<Json<UsagePage>, Fault> {
    use_cases::list_usage(&app, &caller, &args).map(Json)
}

/// Forgets a session: it is ended if need be, and its history deleted. An unknown id gives `ok:
/// false`.
#[utoipa::path(
    delete, path = "/sessions/{id}", tag = "sessions", operation_id = "forget", params(("id" = String, Path)),
    responses((status = 200, description = "It is gone, or never was", body = Forgotten))
)]
pub(super) async fn forget_session(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Forgotten>, Fault> {
    use_cases::forget_session(&app, &caller, &id).await.map(Json)
}

/// Sends a prompt. The answer comes when the prompt is safely in the log; with `wait` when its turn
/// has ended. A session that has ended and can come back does so.
#[utoipa::path(
    post, path = "/sessions/{id}/prompt", tag = "sessions", operation_id = "prompt", request_body = PromptArgs,
    params(
        ("id" = String, Path), PromptQuery,
        ("Idempotency-Key" = Option<String>, Header, description = "A repeated request with the same key is the same prompt"),
    ),
    responses(
        (status = 200, description = "The prompt is accepted; with `wait`, its turn has ended or the time is over", body = Prompted),
        (status = 409, description = "`turn_in_progress`, `not_resumable`, `killed`"),
        (status = 422, description = "`invalid_idempotency_key`, `idempotency_key_reused`"),
        (status = 429, description = "`queue_full`, `too_many_streams`"),
    )
)]
pub(super) async fn send_prompt(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<PromptQuery>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(args): JsonBody<PromptArgs>,
) -> Result<Json<Prompted>, Fault> {
    let wait = use_cases::parse_wait(query.wait.as_deref())?;
    // A wait counts like a stream, and a prompt that may not wait is not sent.
    let _permit = wait.map(|_| app.limits.open_stream(&caller.identity)).transpose()?;
    let mut prompted = use_cases::send_prompt(&app, &caller, &id, args, key.as_deref()).await?;
    if let Some(wait) = wait {
        prompted.turn =
            use_cases::wait_for_turn_end(&app, &caller, &id, &prompted.prompt_id, wait).await?;
    }
    Ok(Json(prompted))
}

/// Ends the running turn, whoever began it. What waits in the queue stays. With `force` the turn
/// ends at once, and with it an agent that may not react any more; the agent is started again if it
/// can come back.
#[utoipa::path(
    post, path = "/sessions/{id}/interrupt", tag = "sessions", operation_id = "interrupt", params(("id" = String, Path)),
    request_body(content = Option<InterruptArgs>, description = "May be left out"),
    responses((status = 200, description = "The agent was told to end its turn, if it had one", body = Interrupted))
)]
pub(super) async fn interrupt_turn(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    OptionalJsonBody(args): OptionalJsonBody<InterruptArgs>,
) -> Result<Json<Interrupted>, Fault> {
    use_cases::interrupt_turn(&app, &caller, &id, args.unwrap_or_default())
        .await
        .map(Json)
}

/// Ends the session. Its history stays. One that is dead already is left so.
#[utoipa::path(
    post, path = "/sessions/{id}/kill", tag = "sessions", operation_id = "kill", params(("id" = String, Path)),
    responses((status = 200, description = "It is dead", body = Killed))
)]
pub(super) async fn kill_session(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Killed>, Fault> {
    use_cases::kill_session(&app, &caller, &id).await.map(Json)
}

/// Ends a session whose work is done: it is `exited`, and its history stays. The next prompt brings
/// it back if it can come back.
#[utoipa::path(
    post, path = "/sessions/{id}/finish", tag = "sessions", operation_id = "finish", params(("id" = String, Path)),
    responses((status = 200, description = "It has ended", body = Finished))
)]
pub(super) async fn finish_session(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Finished>, Fault> {
    use_cases::finish_session(&app, &caller, &id).await.map(Json)
}

/// Brings an ended session back, also one that a user killed. The answer comes when it runs.
#[utoipa::path(
    post, path = "/sessions/{id}/resume", tag = "sessions", operation_id = "resume", params(("id" = String, Path)),
    request_body(content = Option<ResumeArgs>, description = "Other settings than those that were in force; may be left out"),
    responses(
        (status = 200, description = "It runs", body = SessionInfo),
        (status = 409, description = "`not_resumable`"),
        (status = 502, description = "`start_failed`"),
    )
)]
pub(super) async fn resume_session(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    OptionalJsonBody(args): OptionalJsonBody<ResumeArgs>,
) -> Result<Json<SessionInfo>, Fault> {
    use_cases::resume_session(&app, &caller, &id, args.unwrap_or_default())
        .await
        .map(Json)
}
