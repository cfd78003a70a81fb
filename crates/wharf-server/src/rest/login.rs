//! `/login` and `/logout`: the web page logs in with a code that works once (rule 10.2).

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use wharf_api::{
    CodesWithdrawn, ErrorCode, LoggedIn, LoggedOut, LoginArgs, LoginCode, LoginCodeArgs,
};
use wharf_host::core::Millis;
use wharf_host::random_text;

use super::extract::{JsonBody, unfit_body};
use crate::App;
use crate::auth::{
    Access, CodeRefused, CookieScope, Identity, LOGIN_CODE_LIFETIME, MAX_LOGIN_CODE_LIFETIME,
    TokenTerms, TokensFileError, is_label, login_cookie,
};
use crate::fault::Fault;
use crate::guard::{cookie_scope, peer_of, refuse_login};
use crate::request_values::read_object;
use crate::use_cases::{self, Caller};

/// How long a device stays logged in since its last use: a phone that is used once a month needs no
/// new code.
pub(crate) const DEFAULT_LOGIN_LIFETIME: Millis = Millis(30 * 86_400_000);
/// A month. A page that is away for longer needs another code.
const MAX_LOGIN_SECONDS: u64 = 31 * 86_400;
/// Characters in each half of a login's secret, five bits each. One half is in the cookie, the
/// other in the page.
const SECRET_HALF_CHARS: usize = 52;
/// The most bytes of a login request; a code takes some forty.
const MAX_CODE_BODY_BYTES: usize = 4 << 10;
const CODE_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes a code by which a page is logged in as the asker, or as less.
#[utoipa::path(
    post, path = "/login/codes", tag = "login", operation_id = "make_login_code", request_body = LoginCodeArgs,
    responses(
        (status = 201, description = "The code", body = LoginCode),
        (status = 403, description = "`beyond_own_rights`: it would be more than the asker, or the asker is a page itself"),
        (status = 422, description = "`unknown_workspace`"),
        (status = 429, description = "`too_many_codes`"),
        (status = 500, description = "`registry_damaged`: `workspaces.json` cannot be read"),
    )
)]
pub(super) async fn make_code(
    State(app): State<App>,
    caller: Caller,
    JsonBody(args): JsonBody<LoginCodeArgs>,
) -> Result<(StatusCode, Json<LoginCode>), Fault> {
    if caller.identity.token.as_deref().is_some_and(|id| app.tokens.is_login(id)) {
        let detail =
            "a page that is logged in cannot make login codes; use a token, or: wharf token code";
        return Err(Fault::new(ErrorCode::BEYOND_OWN_RIGHTS, detail));
    }
    let lifetime = args.code_seconds.map_or(LOGIN_CODE_LIFETIME, Duration::from_secs);
    if lifetime.is_zero() || lifetime > MAX_LOGIN_CODE_LIFETIME {
        let detail = format!("codeSeconds: must be 1 to {}", MAX_LOGIN_CODE_LIFETIME.as_secs());
        return Err(Fault::new(ErrorCode::INVALID_PARAMS, detail));
    }
    let terms = check_login_terms(&app, &caller.identity, args)?;
    let role = terms.access.to_string();
    let workspace = terms.workspace.as_deref().map(ToOwned::to_owned);
    let code = app.login_codes.create(caller.identity, terms, lifetime).map_err(|_| {
        let detail = "too many login codes are unused; they expire within ten minutes";
        Fault::new(ErrorCode::TOO_MANY_CODES, detail)
    })?;
    Ok((
        StatusCode::CREATED,
        Json(LoginCode { code, good_for_seconds: lifetime.as_secs(), role, workspace }),
    ))
}

/// Withdraws the codes of the caller that were not used.
#[utoipa::path(
    delete, path = "/login/codes", tag = "login", operation_id = "withdraw_login_codes",
    responses((status = 200, description = "None of them is taken any more", body = CodesWithdrawn))
)]
pub(super) async fn withdraw_codes(State(app): State<App>, caller: Caller) -> Json<CodesWithdrawn> {
    Json(CodesWithdrawn { ok: true, count: app.login_codes.withdraw(&caller.identity) })
}

/// Logs a page in: the answer sets a cookie. Needs no token but a code, which is used up.
#[utoipa::path(
    post, path = "/login", tag = "login", operation_id = "log_in", security(()), request_body = LoginArgs,
    responses(
        (status = 200, description = "The page is logged in", body = LoggedIn,
            headers(("Set-Cookie" = String, description = "`wharf_login`, for this page alone"))),
        (status = 401, description = "`unauthorized`: there is no such code, or not any more"),
        (status = 429, description = "`too_many_failed_logins`"),
        (status = 503, description = "`unavailable`: the login cannot be kept"),
    )
)]
pub(super) async fn log_in(State(app): State<App>, request: Request) -> Response {
    let peer = peer_of(&request);
    let scope = cookie_scope(&app, request.headers());
    let (head, body) = request.into_parts();
    let LoginArgs { code, name } = match read_code(&head.headers, body).await {
        Ok(args) => args,
        Err(problem) => return problem.into_response(),
    };
    let redeemed = app.login_codes.redeem(&code);
    let (asker, mut terms) = match redeemed {
        Ok((asker, terms)) if app.tokens.check(&asker).is_ok() => (asker, terms),
        Ok(_) => return refuse_login(&app, peer, describe_refusal(CodeRefused::Expired)),
        Err(refused) => return refuse_login(&app, peer, describe_refusal(refused)),
    };
    terms.label = name.filter(|name| is_label(name)).or(terms.label);
    run_blocking(move || create_login(&app, &asker, terms, &scope)).await
}

/// Returns why a code is refused, and what to do.
const fn describe_refusal(refused: CodeRefused) -> &'static str {
    match refused {
        CodeRefused::Used => {
            "this code was used already: a code works once; make another with: wharf web"
        }
        CodeRefused::Expired => "this code has expired; make another with: wharf web",
        CodeRefused::Unknown => "this host has not made such a code; make one with: wharf web",
    }
}

/// Reads a login's body. Anyone may send it without a token, so it is small and counts against no
/// shared limit.
async fn read_code(headers: &HeaderMap, body: axum::body::Body) -> Result<LoginArgs, Fault> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    if !kind.starts_with("application/json") {
        let detail = "send the code as JSON, with `Content-Type: application/json`";
        return Err(Fault::new(ErrorCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let late = || {
        Fault::new(ErrorCode::CUT_OFF, "the body was not complete in time; send it faster")
            .with_status(StatusCode::REQUEST_TIMEOUT)
    };
    let read =
        tokio::time::timeout(CODE_READ_TIMEOUT, axum::body::to_bytes(body, MAX_CODE_BODY_BYTES))
            .await
            .map_err(|_| late())?;
    let read = read.map_err(|_| {
        let detail =
            format!("the body is cut off, or longer than the {MAX_CODE_BODY_BYTES} bytes that a code may take");
        Fault::new(ErrorCode::BODY_TOO_LARGE, detail)
    })?;
    read_object(&read).map_err(unfit_body)
}

/// Ends the login that the request came with.
#[utoipa::path(
    post, path = "/logout", tag = "login", operation_id = "log_out",
    responses((status = 200, description = "`ok` is false for a token that is no login", body = LoggedOut,
        headers(("Set-Cookie" = String, description = "Takes the cookie away"))))
)]
pub(super) async fn log_out(
    State(app): State<App>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
) -> Response {
    let scope = cookie_scope(&app, &headers);
    let mut response = run_blocking(move || {
        let login = identity.token.as_deref().filter(|id| app.tokens.is_login(id));
        login
            .map_or(Ok(()), |id| app.tokens.revoke(id))
            .map_err(|error| tokens_unwritable(&error))?;
        Ok(Json(LoggedOut { ok: login.is_some() }).into_response())
    })
    .await;
    response
        .headers_mut()
        .extend(login_cookie(None, 0, &scope).map(|cookie| (header::SET_COOKIE, cookie)));
    response
}

/// Runs a change that waits for the disk on a thread for blocking work.
async fn run_blocking(
    change: impl FnOnce() -> Result<Response, Fault> + Send + 'static,
) -> Response {
    let gone = || Fault::new(ErrorCode::UNAVAILABLE, "the host is stopping");
    let done = tokio::task::spawn_blocking(change).await.map_err(|_| gone());
    done.flatten().unwrap_or_else(IntoResponse::into_response)
}

/// Returns the terms of the login, or a fault if they exceed the rights of the caller that asks for
/// it.
fn check_login_terms(
    app: &App,
    asker: &Identity,
    args: LoginCodeArgs,
) -> Result<TokenTerms, Fault> {
    let unfit = |detail: String| {
        Fault::new(ErrorCode::INVALID_PARAMS, detail).with_legacy_code("invalid_body")
    };
    let beyond = |detail: &str| Fault::new(ErrorCode::BEYOND_OWN_RIGHTS, detail);
    // A token of one workspace cannot be an admin's.
    let most =
        if args.workspace.is_some() { asker.access.min(Access::Controller) } else { asker.access };
    let role = args
        .role
        .map(|role| role.parse::<Access>().map_err(|error| unfit(format!("role: {error}"))));
    let access = role.transpose()?.unwrap_or(most);
    if access > most {
        return Err(beyond(
            "role: a login may not have more rights than the caller, and a login of one workspace may not be an admin",
        ));
    }
    let own = asker.scope.login_workspace().map_err(beyond)?;
    let workspace = match args.workspace {
        Some(slug) => Some(use_cases::find_workspace(app, asker, &slug)?),
        None => own.cloned(),
    };
    // A lifetime that was asked for is the whole lifetime.
    let seconds = args.ttl_seconds.unwrap_or(DEFAULT_LOGIN_LIFETIME.0 / 1_000);
    let renews = args.ttl_seconds.is_none();
    if seconds == 0 || seconds > MAX_LOGIN_SECONDS {
        return Err(unfit(format!(
            "ttlSeconds: {seconds} is not between 1 and {MAX_LOGIN_SECONDS}"
        )));
    }
    let label = Some("web page".to_owned());
    Ok(TokenTerms {
        label,
        workspace,
        ttl: Some(Millis(seconds * 1_000)),
        renews,
        ..TokenTerms::new(access)
    })
}

/// Creates the login, which ends with the token of the caller that asked for it, or earlier.
fn create_login(
    app: &App,
    asker: &Identity,
    mut terms: TokenTerms,
    scope: &CookieScope,
) -> Result<Response, Fault> {
    let left = asker.token.as_deref().and_then(|id| app.tokens.time_left(id));
    terms.login_of = asker.token.clone().or_else(|| Some(Identity::HOST_TOKEN_ID.into()));
    terms.ttl = terms.ttl.min(left.or(terms.ttl));
    let seconds = terms.ttl.unwrap_or(DEFAULT_LOGIN_LIFETIME).0.div_ceil(1_000);
    let half = random_text(SECRET_HALF_CHARS);
    let page = random_text(SECRET_HALF_CHARS);
    let made = app
        .tokens
        .log_in(terms, (&half, &page))
        .map_err(|error| tokens_unwritable(&error))?;
    let entry = made.entry;
    let mut response = Json(LoggedIn {
        page,
        role: entry.access.to_string(),
        workspace: entry.workspace.as_deref().map(ToOwned::to_owned),
        expires_at: entry.expires_at.unwrap_or_default(),
    })
    .into_response();
    response.headers_mut().extend(
        login_cookie(Some(&half), seconds, scope).map(|cookie| (header::SET_COOKIE, cookie)),
    );
    Ok(response)
}

fn tokens_unwritable(error: &TokensFileError) -> Fault {
    tracing::error!(%error, "a login cannot be written down");
    let detail = "the host cannot write its tokens file; its log says why";
    Fault::new(ErrorCode::UNAVAILABLE, detail)
}
