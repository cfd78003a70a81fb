//! Content blocks of ACP as parts of rows.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wharf_api::{RowBlobPart, RowCut, RowFilePart, RowPart, RowTextPart};
use wharf_json::{Json, ReadError, TextChunk};

use crate::limits::{MAX_PARTS, MAX_PATH_BYTES, MAX_TEXT_BYTES};
use crate::messages::part_address;
use crate::paths::show_path;
use crate::text_rules::{TextRules, clean_word};
use crate::{Blob, RowStore};

/// The type of bytes that browsers do not show.
const DOWNLOAD_TYPE: &str = "application/octet-stream";

/// A content block.
pub(crate) enum ContentBlock<'a> {
    /// Text that may be a piece of a longer one.
    Text(TextChunk<'a>),
    Part(RowPart),
}

/// Reads a content block. Returns `None` for a block without content.
pub(crate) fn read_block<'a>(
    block: Json<'a>,
    texts: &TextRules,
    rows: &mut impl RowStore,
) -> Result<Option<ContentBlock<'a>>, ReadError> {
    let members =
        if block.is_object() { block.several_members(["type", "text"])? } else { [None; 2] };
    read_block_members(block, members, texts, rows)
}

/// Reads a content block whose members `type` and `text` are known.
pub(crate) fn read_block_members<'a>(
    block: Json<'a>,
    [kind, text]: [Option<Json<'a>>; 2],
    texts: &TextRules,
    rows: &mut impl RowStore,
) -> Result<Option<ContentBlock<'a>>, ReadError> {
    let kind = kind.and_then(Json::text);
    let text = text.and_then(Json::text_chunk);
    Ok(match (kind.as_deref(), text) {
        (Some("text") | None, Some(text)) => Some(ContentBlock::Text(text)),
        (Some("image" | "audio"), _) => {
            read_media(block, kind.as_deref().unwrap_or_default(), texts, rows)?
        }
        (Some("resource"), _) => {
            match block.member("resource")?.filter(|resource| resource.is_object()) {
                Some(resource) if resource.has_key("blob") => {
                    read_media(resource, "resource", texts, rows)?
                }
                Some(resource) => read_file(resource, texts)?,
                None => None,
            }
        }
        (Some("resource_link"), _) => read_file(block, texts)?,
        (Some(other), _) => {
            let text = format!("[{}]", clean_word(other));
            Some(ContentBlock::Part(RowPart::Text(RowTextPart { text, cut: None })))
        }
        (None, None) => None,
    })
}

fn text_of(object: Json<'_>, name: &str) -> Result<Option<String>, ReadError> {
    Ok(object.member(name)?.and_then(Json::text).map(|text| text.into_owned()))
}

/// Reads a file or resource that is named.
fn read_file<'a>(
    object: Json<'a>,
    texts: &TextRules,
) -> Result<Option<ContentBlock<'a>>, ReadError> {
    let Some(uri) = text_of(object, "uri")? else { return Ok(None) };
    let name = match text_of(object, "name")? {
        Some(name) => texts.clean_line(&name, MAX_PATH_BYTES),
        None => show_path(texts, &uri),
    };
    let uri = texts.clean_line(&uri, MAX_PATH_BYTES);
    Ok(Some(ContentBlock::Part(RowPart::File(RowFilePart { uri, name: Some(name) }))))
}

/// Reads bytes that the block carries, and keeps them by their hash.
fn read_media<'a>(
    object: Json<'a>,
    media: &str,
    texts: &TextRules,
    rows: &mut impl RowStore,
) -> Result<Option<ContentBlock<'a>>, ReadError> {
    let member = if media == "resource" { "blob" } else { "data" };
    let data = object.member(member)?.and_then(Json::text).unwrap_or_default();
    let name = text_of(object, "uri")?.map(|uri| texts.clean_line(&uri, MAX_PATH_BYTES));
    let Ok(bytes) = STANDARD.decode(data.as_bytes()) else {
        let text = format!("[{media} that is not base64]");
        return Ok(Some(ContentBlock::Part(RowPart::Text(RowTextPart { text, cut: None }))));
    };
    let blob = Blob {
        name: format!("b3_{}", blake3::hash(&bytes).to_hex()),
        mime: sniff_image_type(&bytes).unwrap_or(DOWNLOAD_TYPE).to_owned(),
        bytes,
    };
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

/// Returns the type of an image that browsers show, by its first bytes.
pub fn sniff_image_type(bytes: &[u8]) -> Option<&'static str> {
    Some(match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return None,
    })
}

/// Reads a list of blocks, or one block.
pub(crate) fn read_blocks(
    blocks: Json<'_>,
    texts: &TextRules,
    rows: &mut impl RowStore,
) -> Result<PartList, ReadError> {
    let mut list = PartList::new(MAX_TEXT_BYTES);
    let one = blocks.is_object().then_some(blocks);
    for block in one.into_iter().chain(blocks.items()) {
        if list.has_room_for(block)
            && let Some(block) = read_block(block, texts, rows)?
        {
            list.add(block, texts);
        }
    }
    Ok(list)
}

/// The text of a prompt that is compared with an echo. A longer prompt is recognised by this
/// beginning.
pub(crate) const MAX_ECHO_BYTES: usize = 64 * 1024;

/// Parts of a row. Texts that follow each other stay parts of their own; text after the last part
/// joins it, and text that is too much for the row is kept beside it.
#[derive(Debug, Default)]
pub(crate) struct PartList {
    pub(crate) parts: Vec<RowPart>,
    /// The whole texts of parts that are cut, by the index of the part.
    pub(crate) whole_texts: Vec<(usize, String)>,
    /// The beginning of all text, as one.
    pub(crate) plain: String,
    room: usize,
}

impl PartList {
    /// Creates a list with at most `room` bytes of text.
    pub(crate) fn new(room: usize) -> Self {
        Self { room, ..Self::default() }
    }

    /// Returns false for a block that would be left out. The last part is kept for text.
    pub(crate) fn has_room_for(&self, block: Json<'_>) -> bool {
        self.parts.len() + 1 < MAX_PARTS || is_text(block)
    }

    pub(crate) fn add(&mut self, block: ContentBlock<'_>, texts: &TextRules) {
        match block {
            ContentBlock::Text(text) => self.add_text(&texts.filter_text(&text.text)),
            ContentBlock::Part(part) if self.parts.len() + 1 < MAX_PARTS => self.parts.push(part),
            ContentBlock::Part(_) => {}
        }
    }

    /// Adds a text that is ready to be shown.
    pub(crate) fn add_text(&mut self, text: &str) {
        let room = MAX_ECHO_BYTES.saturating_sub(self.plain.len());
        self.plain.push_str(&text[..text.floor_char_boundary(room)]);
        if self.parts.len() < MAX_PARTS {
            self.parts.push(RowPart::Text(RowTextPart::default()));
            self.extend_last(text);
        } else {
            self.extend_last("\n");
            self.extend_last(text);
        }
    }

    fn extend_last(&mut self, text: &str) {
        let index = self.parts.len().saturating_sub(1);
        let Some(RowPart::Text(last)) = self.parts.last_mut() else { return };
        let before = last.text.len();
        match extend_text(last, text, self.room) {
            Overflow::Nothing => {}
            Overflow::Whole(whole) => self.whole_texts.push((index, whole)),
            Overflow::More => self
                .whole_texts
                .last_mut()
                .into_iter()
                .for_each(|(_, whole)| whole.push_str(text)),
        }
        self.room -= last.text.len() - before;
    }
}

fn is_text(block: Json<'_>) -> bool {
    block.is_object()
        && block
            .member("type")
            .ok()
            .flatten()
            .and_then(Json::text)
            .is_none_or(|kind| kind == "text")
}

/// The text that a row leaves out after its part was extended.
pub(crate) enum Overflow {
    Nothing,
    /// The part is cut now; this is its whole text.
    Whole(String),
    /// The part was cut before; all of the text belongs to its whole text.
    More,
}

/// Appends text that is ready to be shown to a part, with at most `room` bytes more. Once a text is
/// cut it stays cut: a later, shorter piece must not follow the gap.
pub(crate) fn extend_text(part: &mut RowTextPart, text: &str, room: usize) -> Overflow {
    if let Some(cut) = &mut part.cut {
        cut.bytes += text.len() as u64;
        return Overflow::More;
    }
    let end = text.floor_char_boundary(room);
    part.text.push_str(&text[..end]);
    if end == text.len() {
        return Overflow::Nothing;
    }
    let whole = format!("{}{}", part.text, &text[end..]);
    part.cut = Some(RowCut {
        bytes: whole.len() as u64,
        missing_lines: None,
        tail: None,
        whole: None,
    });
    Overflow::Whole(whole)
}

/// Names the addresses of the whole texts of parts that are cut.
pub(crate) fn set_addresses(parts: &mut [RowPart], row_id: &str) {
    for (index, part) in parts.iter_mut().enumerate() {
        if let RowPart::Text(text) = part
            && let Some(cut) = &mut text.cut
        {
            cut.whole = Some(part_address(row_id, index));
        }
    }
}

/// Returns the parts in one line.
pub(crate) fn summarise_parts(parts: &[RowPart], texts: &TextRules) -> String {
    let mut words = String::new();
    for part in parts {
        if words.len() > 4 * crate::limits::MAX_SUMMARY_CHARS {
            break;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        match part {
            RowPart::Text(text) => {
                words.push_str(&text.text[..text.text.floor_char_boundary(1024)])
            }
            RowPart::Blob(blob) => words.push_str(&format!("[{} {}]", blob.media, blob.mime)),
            RowPart::File(file) => words.push_str(file.name.as_deref().unwrap_or(&file.uri)),
            RowPart::Unknown => {}
        }
    }
    texts.summarise(&words)
}
