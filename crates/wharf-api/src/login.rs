//! The web page's login.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The terms of a login. It is never more than the asker.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(as = CodeArgs)]
pub struct LoginCodeArgs {
    /// `observer`, `controller` or `admin`; else that of the asker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The one workspace that it covers; else what the asker covers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// How long the login lasts, up to 31 days; else 30 days since its last use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_678_400)]
    pub ttl_seconds: Option<u64>,
    /// How long the code may wait to be used, up to ten minutes; else two.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 600)]
    pub code_seconds: Option<u64>,
}

/// A code that is good once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginCode {
    pub code: String,
    /// How long it may wait to be used.
    pub good_for_seconds: u64,
    pub role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub workspace: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LoginArgs {
    /// As it was shown; upper case or lower case, with or without its hyphen.
    pub code: String,
    /// A name for the device, 1 to 200 characters on one line; another one can be given later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The codes that were not used are withdrawn.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CodesWithdrawn {
    pub ok: bool,
    /// How many there were.
    pub count: usize,
}

/// The page is logged in.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoggedIn {
    /// The half of the login that the page keeps and shows with every request, as the header
    /// `Wharf-Page` or the subprotocol `wharf.page.<key>`; the other half is in the cookie.
    pub page: String,
    pub role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub workspace: Option<String>,
    /// ISO 8601.
    pub expires_at: String,
}

/// The signed-in devices that the caller may see, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LoginList {
    pub logins: Vec<LoginInfo>,
}

/// A signed-in device: a web page that is logged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Login)]
pub struct LoginInfo {
    pub id: String,
    /// The name that a person gave it.
    pub name: String,
    pub role: String,
    /// The one workspace that it covers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub workspace: Option<String>,
    /// ISO 8601.
    pub created_at: String,
    /// ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub expires_at: Option<String>,
    /// ISO 8601, the time of its last request; to the day for one that has not called since the
    /// host was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_seen_at: Option<String>,
    /// True for the login that this request came with.
    pub current: bool,
}

/// A change of a login.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LoginChange {
    /// 1 to 200 characters on one line.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
}

/// The login is ended, and with it everything that it opened.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LoginEnded {
    pub ok: bool,
    pub id: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LoggedOut {
    /// Was it a login?
    pub ok: bool,
}
