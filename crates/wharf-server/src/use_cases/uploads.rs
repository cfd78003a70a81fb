//! Files that are sent with prompts: keeping them, and putting them into a prompt's content (rule
//! 17.9).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use wharf_api::{ErrorCode, UploadInfo, UploadQuery};
use wharf_host::core::AcceptedContent;
use wharf_host::{SessionHandle, Upload, UploadError};
use wharf_json::Json;
use wharf_transcript::sniff_image_type;

use super::faults::{fault_from_failed_call, invalid_params, invalid_query, unknown_session};
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

const MAX_NAME_CHARS: usize = 200;
const MAX_MIME_CHARS: usize = 100;
/// The type of content blocks that name an upload.
const UPLOAD_BLOCK: &str = "upload";
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Keeps a file for a prompt.
pub(crate) async fn store_upload(
    app: &App,
    caller: &Caller,
    id: &str,
    query: UploadQuery,
    given_type: Option<&str>,
    data: Bytes,
) -> Result<UploadInfo, Fault> {
    caller.may_work_in(app, id)?;
    caller.may_change_as_attached(app, id).await?;
    if data.is_empty() {
        return Err(invalid_params("the body is empty; send the file's bytes"));
    }
    let name = query.name.unwrap_or_else(|| "file".to_owned());
    if name.is_empty()
        || name.chars().count() > MAX_NAME_CHARS
        || name.contains('/')
        || name.chars().any(char::is_control)
    {
        return Err(invalid_query(format!(
            "name: must have 1 to {MAX_NAME_CHARS} characters and no slash"
        )));
    }
    let mime_type = find_type(given_type, &data);
    let handle = open_session(app, caller, id).await?;
    let report = handle
        .agent_report()
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    if mime_type.starts_with("image/")
        && report.traits.accepts.is_some_and(|accepts| !accepts.image)
    {
        return Err(Fault::new(ErrorCode::CONTENT_NOT_ACCEPTED, "this agent takes no images")
            .with_session(id));
    }
    let stored = app
        .host
        .store_upload(handle.id(), name, mime_type, data)
        .await
        .ok_or_else(|| unknown_session(id))?;
    let Upload { id: upload, name, mime_type, bytes } =
        stored.map_err(|error| fault_from_upload_error(&error, id))?;
    Ok(UploadInfo { id: upload, name, mime_type, bytes })
}

/// Returns the type of a file. Of an image the bytes decide; what only claims to be an image is an
/// unknown file.
fn find_type(given: Option<&str>, data: &[u8]) -> String {
    if let Some(image) = sniff_image_type(data) {
        return image.to_owned();
    }
    let given = given
        .and_then(|given| given.split(';').next())
        .map(|given| given.trim().to_ascii_lowercase());
    let usable = |given: &String| {
        let plain = given
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/+-._".contains(&byte));
        plain
            && given.contains('/')
            && given.len() <= MAX_MIME_CHARS
            && !given.starts_with("image/")
    };
    given.filter(usable).unwrap_or_else(|| UNKNOWN_TYPE.to_owned())
}

fn fault_from_upload_error(error: &UploadError, id: &str) -> Fault {
    let code = match error {
        UploadError::Unknown(_) => ErrorCode::UNKNOWN_UPLOAD,
        UploadError::Quota { .. } => ErrorCode::TOO_MANY_UPLOADS,
        UploadError::DiskFull => ErrorCode::STORAGE_FULL,
        UploadError::Io(_) => {
            tracing::error!(session = id, %error, "an upload cannot be kept or read");
            let detail = "the upload cannot be kept or read; the host's own log says why";
            return Fault::new(ErrorCode::UNAVAILABLE, detail).with_session(id);
        }
    };
    Fault::new(code, error.to_string()).with_session(id)
}

/// Replaces the blocks of a prompt that name uploads by content that the agent takes. `None` if
/// there are none.
pub(super) async fn expand_uploads(
    app: &App,
    handle: &SessionHandle,
    blocks: &str,
) -> Result<Option<String>, Fault> {
    let names_upload = |block: &Json<'_>| {
        block.text_at(&["type"]).is_ok_and(|kind| kind.as_deref() == Some(UPLOAD_BLOCK))
    };
    let list = Json::parse(blocks.as_bytes())
        .map_err(|error| invalid_params(format!("prompt: {error}")))?;
    if !list.items().any(|block| names_upload(&block)) {
        return Ok(None);
    }
    let id = handle.id().as_str();
    let report = handle
        .agent_report()
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    // An agent whose capabilities are unknown gets a link, which it may read in any case.
    let accepts = report.traits.accepts.unwrap_or_default();
    let max_bytes = app.host.config().limits.frame.0;
    let mut expanded = Vec::new();
    let mut bytes = 0;
    for block in list.items() {
        let text = if names_upload(&block) {
            let upload = block.text_at(&["id"]).ok().flatten().unwrap_or_default();
            let read = app
                .host
                .read_upload(handle.id(), &upload)
                .await
                .ok_or_else(|| unknown_session(id))?;
            let (upload, path, data) = read.map_err(|error| fault_from_upload_error(&error, id))?;
            to_block(&upload, &format!("file://{}", path.display()), data, accepts)?.to_string()
        } else {
            block.raw().to_owned()
        };
        bytes += text.len();
        if bytes > max_bytes {
            return Err(invalid_params(format!(
                "prompt: is larger than {max_bytes} bytes with its uploads (limits.frame)"
            )));
        }
        expanded.push(text);
    }
    Ok(Some(format!("[{}]", expanded.join(","))))
}

fn to_block(
    upload: &Upload,
    uri: &str,
    data: Vec<u8>,
    accepts: AcceptedContent,
) -> Result<Value, Fault> {
    let Upload { name, mime_type, bytes, .. } = upload;
    if mime_type.starts_with("image/") {
        if !accepts.image {
            return Err(Fault::new(
                ErrorCode::CONTENT_NOT_ACCEPTED,
                format!("{name:?}: this agent takes no images"),
            ));
        }
        return Ok(
            json!({ "type": "image", "mimeType": mime_type, "data": STANDARD.encode(&data) }),
        );
    }
    if mime_type.starts_with("audio/") && accepts.audio {
        return Ok(
            json!({ "type": "audio", "mimeType": mime_type, "data": STANDARD.encode(&data) }),
        );
    }
    if !accepts.embedded {
        return Ok(
            json!({ "type": "resource_link", "uri": uri, "name": name, "mimeType": mime_type, "size": bytes }),
        );
    }
    let resource = match String::from_utf8(data) {
        Ok(text) => json!({ "uri": uri, "mimeType": mime_type, "text": text }),
        Err(error) => {
            json!({ "uri": uri, "mimeType": mime_type, "blob": STANDARD.encode(error.as_bytes()) })
        }
    };
    Ok(json!({ "type": "resource", "resource": resource }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_decide_whether_a_file_is_an_image() {
        assert_eq!(find_type(Some("text/plain"), b"\x89PNG\r\n\x1a\n..."), "image/png");
        assert_eq!(find_type(Some("image/png"), b"<script>"), UNKNOWN_TYPE);
        assert_eq!(find_type(Some("text/plain; charset=utf-8"), b"hello"), "text/plain");
        assert_eq!(find_type(Some("audio/wav"), b"RIFF....WAVE"), "audio/wav");
        assert_eq!(find_type(None, b"RIFF....WEBP"), "image/webp");
        assert_eq!(find_type(Some("no type"), b"x"), UNKNOWN_TYPE);
    }
}
