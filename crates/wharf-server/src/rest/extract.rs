//! The parts of a request that handlers take; each refusal is a fault.

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::Next;
use axum::response::Response;
use serde::de::DeserializeOwned;
use wharf_api::ErrorCode;
use wharf_host::core::{ChosenId, InvalidChosenId};
use wharf_json::Json;

use crate::App;
use crate::auth::Identity;
use crate::fault::Fault;
use crate::request_values::{UnfitValues, read_object, read_query};
use crate::use_cases::Caller;

const CLIENT_NAME_HEADER: HeaderName = HeaderName::from_static("x-wharf-client");
const CLIENT_ID_HEADER: HeaderName = HeaderName::from_static("wharf-client-id");
const IDEMPOTENCY_KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// A JSON body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

/// A JSON body that may be left out.
#[derive(Debug)]
pub(crate) struct OptionalJsonBody<T>(pub(crate) Option<T>);

/// The query string.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

/// The names in the path.
#[derive(Debug)]
pub(crate) struct PathParams<T>(pub(crate) T);

/// The header `Idempotency-Key`.
#[derive(Debug)]
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl FromRequestParts<App> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Fault> {
        let identity = parts.extensions.get::<Identity>().cloned();
        let identity = identity
            .ok_or_else(|| Fault::new(ErrorCode::UNAUTHORIZED, "the request has no identity"))?;
        let name = header_text(&parts.headers, &CLIENT_NAME_HEADER)
            .or_else(|| header_text(&parts.headers, &header::USER_AGENT));
        Ok(Self::new(identity, name).with_chosen_id(read_chosen_id(&parts.headers)?))
    }
}

impl FromRequestParts<App> for IdempotencyKey {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Fault> {
        match parts.headers.get(IDEMPOTENCY_KEY_HEADER) {
            None => Ok(Self(None)),
            Some(key) => match key.to_str() {
                Ok(key) => Ok(Self(Some(key.trim().to_owned()))),
                Err(_) => Err(Fault::new(
                    ErrorCode::INVALID_IDEMPOTENCY_KEY,
                    "Idempotency-Key: is not plain ASCII",
                )),
            },
        }
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<App> for QueryParams<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Fault> {
        let refused = |detail| {
            Fault::new(ErrorCode::INVALID_PARAMS, detail).with_legacy_code("invalid_query")
        };
        read_query(&parts.uri).map(Self).map_err(refused)
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<App> for PathParams<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Fault> {
        match Path::from_request_parts(parts, app).await {
            Ok(Path(names)) => Ok(Self(names)),
            Err(_) => {
                let detail = "a name in the path is not UTF-8";
                Err(Fault::new(ErrorCode::UNKNOWN_ROUTE, detail))
            }
        }
    }
}

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, app: &App) -> Result<Self, Fault> {
        if !is_json(request.headers()) {
            return Err(Fault::new(
                ErrorCode::UNSUPPORTED_MEDIA_TYPE,
                "send the body as JSON, with `Content-Type: application/json`",
            ));
        }
        let (head, body) = request.into_parts();
        let bytes = app.body_reader.read(&head.headers, body).await?;
        check_values(&bytes)?;
        read_object(&bytes).map(Self).map_err(unfit_body)
    }
}

/// Returns the fault for a body that cannot be used.
pub(super) fn unfit_body(why: UnfitValues) -> Fault {
    match why {
        UnfitValues::NotJson(detail) => Fault::new(ErrorCode::MALFORMED_JSON, detail),
        UnfitValues::Member(detail) => {
            Fault::new(ErrorCode::INVALID_PARAMS, detail).with_legacy_code("invalid_body")
        }
    }
}

/// Members that are stored as parsed values and passed on.
const VALUE_MEMBERS: [&str; 3] = ["content", "mcpServers", "options"];

/// Refuses a body with a member that parsing would change: a number that is rounded, half a
/// surrogate pair, a repeated name.
fn check_values(body: &[u8]) -> Result<(), Fault> {
    let Ok(body) = Json::parse(body) else { return Ok(()) };
    for (name, value) in body.members().filter(|(name, _)| VALUE_MEMBERS.contains(&name.as_ref())) {
        wharf_json::check_exact(value).map_err(|error| {
            Fault::new(ErrorCode::INVALID_PARAMS, format!("{name}: {error}"))
                .with_legacy_code("invalid_body")
        })?;
    }
    Ok(())
}

impl<T: DeserializeOwned> FromRequest<App> for OptionalJsonBody<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, app: &App) -> Result<Self, Fault> {
        let (head, body) = request.into_parts();
        let bytes = app.body_reader.read(&head.headers, body).await?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        let request = Request::from_parts(head, bytes.into());
        JsonBody::from_request(request, app)
            .await
            .map(|JsonBody(value)| Self(Some(value)))
    }
}

/// Refuses observers' requests that would change something, before their body is read. An agent's
/// rights depend on the session, so the use cases check them.
pub(super) async fn refuse_observers(request: Request, next: Next) -> Result<Response, Fault> {
    if !request.method().is_safe()
        && let Some(identity) = request.extensions().get::<Identity>()
        && identity.agent_session().is_none()
    {
        Caller::new(identity.clone(), None).may_change()?;
    }
    Ok(next.run(request).await)
}

/// Reads the header `Wharf-Client-Id`: the id that the client chose for itself.
fn read_chosen_id(headers: &HeaderMap) -> Result<Option<ChosenId>, Fault> {
    let Some(id) = headers.get(CLIENT_ID_HEADER) else { return Ok(None) };
    let parsed = id.to_str().map_err(|_| InvalidChosenId).and_then(ChosenId::parse);
    let refused =
        |error| Fault::new(ErrorCode::INVALID_CLIENT_ID, format!("Wharf-Client-Id: {error}"));
    parsed.map(Some).map_err(refused)
}

fn header_text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind =
        header_text(headers, &header::CONTENT_TYPE).and_then(|value| value.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Returns true if the header `Prefer` lists this preference.
pub(super) fn has_preference(headers: &HeaderMap, preference: &str) -> bool {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split([',', ';']))
        .any(|value| value.trim().eq_ignore_ascii_case(preference))
}
