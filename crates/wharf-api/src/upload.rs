//! Files that are sent with a prompt.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The name of an upload.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct UploadQuery {
    /// The name of the file, without a directory.
    #[param(max_length = 200)]
    pub name: Option<String>,
}

/// A file that was kept. A prompt names it by the content block `{"type":"upload","id":"…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Upload)]
pub struct UploadInfo {
    pub id: String,
    pub name: String,
    /// Of images the type that their bytes have.
    pub mime_type: String,
    pub bytes: u64,
}
