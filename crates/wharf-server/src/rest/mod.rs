//! AIP-46 over HTTP: routes that translate requests into calls of use cases, and outcomes into
//! responses (§8).

mod adapters;
mod asks;
mod attention;
mod clients;
mod extract;
mod files;
mod health;
mod host;
mod log;
mod login;
mod logins;
mod metrics;
mod notify;
mod openapi;
mod places;
mod push;
mod query_names;
mod queue;
mod rows;
mod search;
mod sessions;
mod settings;
mod stream;
mod uploads;
mod workspaces;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::fault::Fault;
pub(crate) use login::DEFAULT_LOGIN_LIFETIME;
use wharf_api::ErrorCode;

/// The routes of this surface.
#[derive(Debug)]
pub(crate) struct RestRouters {
    /// Routes that need an identity, among them `/openapi.json`, which describes all routes.
    pub(crate) guarded: Router<App>,
    /// Routes that need no identity: health, readiness and login.
    pub(crate) open: Router<App>,
}

/// The same routes without their layers, and the document of all of them.
struct DescribedRoutes {
    /// Routes that need an identity and refuse observers.
    guarded: Router<App>,
    /// Routes that observers may use too: they log themselves in and out, and have marks.
    own: Router<App>,
    open: Router<App>,
    api: OpenApi,
}

fn describe_routes() -> DescribedRoutes {
    let (guarded, mut api) = guarded_routes().split_for_parts();
    let open = OpenApiRouter::new()
        .routes(routes!(health::check_health))
        .routes(routes!(health::check_readiness));
    let (open, open_api) = open.routes(routes!(login::log_in)).split_for_parts();
    let own = OpenApiRouter::new()
        .routes(routes!(login::make_code, login::withdraw_codes))
        .routes(routes!(login::log_out));
    let own = own.merge(attention::mark_routes());
    let (own, own_api) = own.split_for_parts();
    api.merge(open_api);
    api.merge(own_api);
    DescribedRoutes { guarded, own, open, api }
}

pub(crate) fn build_routers() -> RestRouters {
    let DescribedRoutes { guarded, own, open, api } = describe_routes();
    let query_names = query_names::QueryNames::of_document(&api);
    let refuse_unknown_names = || {
        axum::middleware::from_fn_with_state(query_names.clone(), query_names::refuse_unknown_names)
    };
    let document = openapi::build_document(api);
    let guarded = guarded
        .route_layer(axum::middleware::from_fn(extract::refuse_observers))
        .merge(own)
        .layer(refuse_unknown_names())
        .layer(axum::Extension(document))
        .layer(axum::middleware::map_response(explain_method_not_allowed));
    RestRouters { guarded, open: open.layer(refuse_unknown_names()) }
}

/// The routes that need an identity, each listed by the file that has its handler.
fn guarded_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(sessions::routes())
        .merge(log::routes())
        .merge(stream::routes())
        .merge(rows::routes())
        .merge(search::routes())
        .merge(asks::routes())
        .merge(attention::routes())
        .merge(clients::routes())
        .merge(files::routes())
        .merge(logins::routes())
        .merge(places::routes())
        .merge(push::routes())
        .merge(queue::routes())
        .merge(settings::routes())
        .merge(uploads::routes())
        .merge(workspaces::routes())
        .merge(adapters::routes())
        .merge(host::routes())
        .merge(metrics::routes())
        .merge(notify::routes())
        .merge(openapi::routes())
        .routes(routes!(health::list_processes))
}

/// Refuses a path that has no route.
pub(crate) async fn unknown_route(request: Request) -> Fault {
    let path: String = request.uri().path().chars().take(200).collect();
    let detail = format!("nothing is served at {path:?}; /openapi.json lists what is");
    Fault::new(ErrorCode::UNKNOWN_ROUTE, detail)
}

/// Turns the framework's refusal of a method into a problem. The header `Allow` is added by an
/// outer layer.
async fn explain_method_not_allowed(response: Response) -> Response {
    let status = response.status();
    if status != StatusCode::METHOD_NOT_ALLOWED
        || response.headers().contains_key(header::CONTENT_TYPE)
    {
        return response;
    }
    let detail = "this route does not take that method; the header Allow says which it takes";
    Fault::new(ErrorCode::METHOD_NOT_ALLOWED, detail).into_response()
}
