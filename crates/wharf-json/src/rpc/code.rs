//! The numbers of JSON-RPC errors, and those that ACP adds.

/// The text is not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// The receiver does not accept the message.
pub const INVALID_REQUEST: i32 = -32600;
/// The receiver does not have this method.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// The parameters cannot be used.
pub const INVALID_PARAMS: i32 = -32602;
/// The receiver cannot do it.
pub const INTERNAL_ERROR: i32 = -32603;
/// ACP: the user has to log in first.
pub const AUTH_REQUIRED: i32 = -32000;
/// ACP: the session, file or terminal does not exist.
pub const RESOURCE_NOT_FOUND: i32 = -32002;
/// ACP: the sender took the request back.
pub const REQUEST_CANCELLED: i32 = -32800;
