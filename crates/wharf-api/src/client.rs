//! The clients that are attached to a session.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

words! {
    /// The rights of a client in a session: a controller may change it, an observer may only read.
    pub enum ClientRole as "ClientRole" {
        Controller = "controller",
        Observer = "observer",
    }
}

words! {
    /// The way by which a client is connected. Editors that start `wharf acp` come by `websocket`.
    pub enum ClientTransport as "ClientTransport" {
        WebSocket = "websocket",
        Http = "http",
        Amux = "amux",
    }
}

/// The attached clients in the order in which they came.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientList {
    pub clients: Vec<AttachedClientInfo>,
}

/// One of them. A client with several connections is one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AttachedClient)]
pub struct AttachedClientInfo {
    /// The id that it gave itself, else one that Wharf gave its connection.
    pub client_id: String,
    /// The name of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub version: Option<String>,
    pub role: ClientRole,
    /// The person that it belongs to: `owner`, or the label or id of that person's token. Absent
    /// for an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub person: Option<String>,
    /// ISO 8601.
    pub since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub transport: Option<ClientTransport>,
    pub connections: usize,
}
