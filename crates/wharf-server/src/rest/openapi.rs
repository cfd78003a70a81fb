//! The OpenAPI document, built from the handlers. Responses that all routes share are added here.

#[cfg(test)]
mod contract_types;

use axum::Extension;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, Content, Info, OpenApi, PathItem, Ref, RefOr, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::ProblemBody;

use crate::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get_document))
}

const PROBLEM_CONTENT_TYPE: &str = "application/problem+json";

/// The document as it is served.
#[derive(Clone, Debug)]
pub(super) struct OpenApiDocument(Bytes);

/// Builds the document of all routes.
pub(super) fn build_document(mut api: OpenApi) -> OpenApiDocument {
    let about =
        "Start, drive, watch and end coding agents: AIP-46 with Wharf's own routes besides.";
    api.info = Info::new("Wharf", env!("CARGO_PKG_VERSION"));
    api.info.description = Some(about.to_owned());
    let components = api.components.get_or_insert_with(Components::new);
    components
        .schemas
        .insert(ProblemBody::name().into_owned(), ProblemBody::schema());
    let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    components.add_security_scheme("token", bearer);
    api.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new())]);
    for (path, item) in &mut api.paths.paths {
        for (changes, operation) in list_operations(item) {
            complete_operation(path, changes, operation);
        }
    }
    OpenApiDocument(api.to_json().unwrap_or_default().into())
}

/// Yields all operations of a path, each with a flag that is true if the operation changes
/// something.
fn list_operations(item: &mut PathItem) -> impl Iterator<Item = (bool, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    let looks = get.iter_mut().map(|operation| (false, operation));
    looks.chain(
        [put, post, delete, patch]
            .into_iter()
            .flatten()
            .map(|operation| (true, operation)),
    )
}

/// Adds the problems that an operation shares with others, and the schema of a problem.
fn complete_operation(path: &str, changes: bool, operation: &mut Operation) {
    let in_query = |parameter: &RefOr<Parameter>| match parameter {
        RefOr::T(parameter) => parameter.parameter_in == ParameterIn::Query,
        RefOr::Ref(_) => false,
    };
    let asks = operation.parameters.iter().flatten().any(in_query);
    let mut add = |status: &str, codes: &str| {
        let response = operation.responses.responses.entry(status.to_owned());
        let response = response.or_insert_with(|| RefOr::T(ResponseBuilder::new().build()));
        if let RefOr::T(response) = response
            && !response.description.contains(codes)
        {
            let comma = if response.description.is_empty() { "" } else { ", " };
            response.description = format!("{}{comma}{codes}", response.description);
        }
    };
    add("403", "`foreign_authority`, `foreign_origin`");
    add("400", "`no_authority`, `unknown_parameter`");
    add("503", "`too_many_connections`");
    let guarded = operation.security.is_none();
    if guarded {
        add("401", "`unauthorized`");
        add("429", "`too_many_failed_logins`");
        add(
            "403",
            "`observer`, `admin_only`, `agent_process`, `not_for_agents`, `unknown_process`, `another_user`",
        );
        add("429", "`too_many_connections`");
        add("503", "`tokens_unreadable`, `unreadable_session`, `unavailable`");
    }
    if path.contains("{id}") {
        add("404", "`unknown_session`, `unknown_route`");
    }
    if path.contains("{id}") && changes {
        add("507", "`storage_full`, `log_full`");
        add("429", "`too_many_sessions`");
    }
    if asks {
        add("422", "`invalid_params`");
    }
    if operation.request_body.is_some() {
        add("400", "`malformed_json`, `cut_off`");
        add("408", "`cut_off`");
        add("413", "`body_too_large`");
        add("415", "`unsupported_media_type`");
        add("503", "`too_many_bodies`");
        add("422", "`invalid_params`");
    }
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && status.as_str() >= "400"
        {
            let schema = Ref::from_schema_name(ProblemBody::name());
            response
                .content
                .insert(PROBLEM_CONTENT_TYPE.to_owned(), RefOr::T(Content::new(Some(schema))));
        }
    }
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "host", operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = Object))
)]
pub(super) async fn get_document(
    Extension(document): Extension<OpenApiDocument>,
) -> OpenApiDocument {
    document
}

impl IntoResponse for OpenApiDocument {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], self.0)
            .into_response()
    }
}
