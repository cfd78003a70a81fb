//! The OpenAPI document, made from the handlers: what every route has in common is added here, once.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa::openapi::OpenApi;

/// The document as it is served.
#[derive(Clone, Debug)]
pub(super) struct Document(Bytes);

pub(super) fn document(api: OpenApi) -> Document {
    Document(api.to_json().unwrap_or_default().into())
}

impl IntoResponse for Document {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], self.0).into_response()
    }
}
