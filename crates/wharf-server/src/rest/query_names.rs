//! Refuses query parameters that a route does not have. A misspelt filter would otherwise select
//! everything.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Query, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::{OpenApi, PathItem, RefOr};
use wharf_api::ErrorCode;

use crate::fault::Fault;

/// The names in the query of each route, as the OpenAPI document has them.
#[derive(Clone, Debug)]
pub(super) struct QueryNames(Arc<HashMap<(Method, String), Vec<String>>>);

impl QueryNames {
    pub(super) fn of_document(api: &OpenApi) -> Self {
        let mut names = HashMap::new();
        for (path, PathItem { get, put, post, delete, patch, .. }) in &api.paths.paths {
            let operations = [
                (Method::GET, get),
                (Method::PUT, put),
                (Method::POST, post),
                (Method::DELETE, delete),
                (Method::PATCH, patch),
            ];
            for (method, operation) in operations {
                if let Some(operation) = operation {
                    names.insert((method, path.clone()), list_query_names(operation));
                }
            }
        }
        Self(Arc::new(names))
    }
}

fn list_query_names(operation: &Operation) -> Vec<String> {
    let name = |parameter: &RefOr<Parameter>| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => {
            Some(parameter.name.clone())
        }
        RefOr::T(_) | RefOr::Ref(_) => None,
    };
    operation.parameters.iter().flatten().filter_map(name).collect()
}

/// Refuses a request whose query has a name that its route does not know.
pub(super) async fn refuse_unknown_names(
    State(QueryNames(names)): State<QueryNames>,
    request: Request,
    next: Next,
) -> Result<Response, Fault> {
    let method =
        if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
    let path = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("", MatchedPath::as_str)
        .to_owned();
    if let Some(known) = names.get(&(method, path))
        && let Ok(Query(given)) = Query::<Vec<(String, String)>>::try_from_uri(request.uri())
        && let Some((unknown, _)) = given.iter().find(|(name, _)| !known.contains(name))
    {
        return Err(unknown_parameter(unknown, known));
    }
    Ok(next.run(request).await)
}

fn unknown_parameter(name: &str, known: &[String]) -> Fault {
    let shown: String = name.chars().take(80).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Fault::new(
        ErrorCode::UNKNOWN_PARAMETER,
        format!("the query has no parameter {shown:?}; this route has: {known}"),
    )
}
