//! Content blocks of ACP as parts of rows.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wharf_api::{RowBlobPart, RowFilePart, RowPart, RowTextPart};
use wharf_json::{Json, ReadError, TextChunk};

use crate::limits::{MAX_PARTS, MAX_PATH_BYTES, MAX_TEXT_BYTES, MAX_WORD_BYTES};
use crate::paths::show_path;
use crate::plain_text::{clean_line, summarise};
use crate::text_filter::filter_text;
use crate::{Blob, RowStore};

/// A content block.
pub(crate) enum ContentBlock<'a> {
    /// Text that may be a piece of a longer one.
    Text(TextChunk<'a>),
    Part(RowPart),
}

/// Reads a content block. Returns `None` for a block without content.
pub(crate) fn read_block<'a>(
    block: Json<'a>,
    cwd: &str,
    rows: &mut impl RowStore,
) -> Result<Option<ContentBlock<'a>>, ReadError> {
    if !block.is_object() {
        return Ok(None);
    }
    let [kind, text] = block.several_members(["type", "text"])?;
    let (kind, text) = (kind.and_then(Json::text), text.and_then(Json::text_chunk));
    Ok(match (kind.as_deref(), text) {
        (Some("text") | None, Some(text)) => Some(ContentBlock::Text(text)),
        (Some("image" | "audio"), _) => read_media(block, kind.as_deref().unwrap_or_default(), rows)?,
        (Some("resource"), _) => match block.member("resource")?.filter(|resource| resource.is_object()) {
            Some(resource) if resource.has_key("blob") => read_media(resource, "resource", rows)?,
            Some(resource) => read_file(resource, cwd)?,
            None => None,
        },
        (Some("resource_link"), _) => read_file(block, cwd)?,
        (Some(other), _) => {
            let text = format!("[{}]", clean_line(other, MAX_WORD_BYTES));
            Some(ContentBlock::Part(RowPart::Text(RowTextPart { text, cut: None })))
        }
        (None, None) => None,
    })
}

fn text_of(object: Json<'_>, name: &str) -> Result<Option<String>, ReadError> {
    Ok(object.member(name)?.and_then(Json::text).map(|text| text.into_owned()))
}

/// Reads a file or resource that is named.
fn read_file<'a>(object: Json<'a>, cwd: &str) -> Result<Option<ContentBlock<'a>>, ReadError> {
    let Some(uri) = text_of(object, "uri")? else { return Ok(None) };
    let name = match text_of(object, "name")? {
        Some(name) => clean_line(&name, MAX_PATH_BYTES),
        None => show_path(cwd, &uri),
    };
    let uri = clean_line(&uri, MAX_PATH_BYTES);
    Ok(Some(ContentBlock::Part(RowPart::File(RowFilePart { uri, name: Some(name) }))))
}

/// Reads bytes that the block carries, and keeps them by their hash.
fn read_media<'a>(
    object: Json<'a>,
    media: &str,
    rows: &mut impl RowStore,
) -> Result<Option<ContentBlock<'a>>, ReadError> {
    let member = if media == "resource" { "blob" } else { "data" };
    let data = object.member(member)?.and_then(Json::text).unwrap_or_default();
    let name = text_of(object, "uri")?.map(|uri| clean_line(&uri, MAX_PATH_BYTES));
    let Ok(bytes) = STANDARD.decode(data.as_bytes()) else {
        let text = format!("[{media} that is not base64]");
        return Ok(Some(ContentBlock::Part(RowPart::Text(RowTextPart { text, cut: None }))));
    };
    let blob =
        Blob { name: format!("b3_{}", blake3::hash(&bytes).to_hex()), mime: sniff_type(&bytes).to_owned(), bytes };
    let part = RowBlobPart {
        media: media.to_owned(),
        mime: blob.mime.clone(),
        bytes: blob.bytes.len() as u64,
        blob: blob.name.clone(),
        name,
    };
    rows.put_blob(blob);
    Ok(Some(ContentBlock::Part(RowPart::Blob(part))))
}

/// Returns the type of an image that browsers show, by its first bytes. Everything else is only for download.
fn sniff_type(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => "application/octet-stream",
    }
}

/// Reads a list of blocks, or one block. Texts that follow each other stay parts of their own; too much text is left out.
pub(crate) fn read_blocks(blocks: Json<'_>, cwd: &str, rows: &mut impl RowStore) -> Result<Vec<RowPart>, ReadError> {
    let mut parts = Vec::new();
    let mut room = MAX_TEXT_BYTES;
    let one = blocks.is_object().then_some(blocks);
    for block in one.into_iter().chain(blocks.items()).take(MAX_PARTS) {
        match read_block(block, cwd, rows)? {
            Some(ContentBlock::Text(text)) => {
                let (part, used) = text_part(&filter_text(&text.text), room);
                room -= used;
                parts.push(RowPart::Text(part));
            }
            Some(ContentBlock::Part(part)) => parts.push(part),
            None => {}
        }
    }
    Ok(parts)
}

/// Makes a part of at most `room` bytes of a text that is ready to be shown. Returns the bytes that it took.
pub(crate) fn text_part(text: &str, room: usize) -> (RowTextPart, usize) {
    let end = text.floor_char_boundary(room);
    let cut =
        (end < text.len()).then_some(wharf_api::RowCut { bytes: text.len() as u64, missing_lines: None, whole: None });
    (RowTextPart { text: text[..end].to_owned(), cut }, end)
}

/// Returns the parts in one line.
pub(crate) fn summarise_parts(parts: &[RowPart]) -> String {
    let mut words = String::new();
    for part in parts {
        if words.len() > 4 * crate::limits::MAX_SUMMARY_CHARS {
            break;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        match part {
            RowPart::Text(text) => words.push_str(&text.text[..text.text.floor_char_boundary(1024)]),
            RowPart::Blob(blob) => words.push_str(&format!("[{} {}]", blob.media, blob.mime)),
            RowPart::File(file) => words.push_str(file.name.as_deref().unwrap_or(&file.uri)),
            RowPart::Unknown => {}
        }
    }
    summarise(&words)
}
