//! One pass over a frame: what kind it is and where its ids are. The payload is checked to be JSON and not looked at.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use wharf_core::UpdateKind;
use wharf_json::{Json, Kind, ReadError};

/// A place in the frame that was scanned.
pub type Span = Range<usize>;

/// A JSON string in the frame: where it stands (with its quotes) and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    pub span: Span,
    pub value: Cow<'a, str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Request,
    Notification,
    /// A response with `result`.
    Result,
    /// A response with `error`.
    Error,
}

/// The outside of a frame.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    pub kind: FrameKind,
    pub id: Option<Span>,
    /// Empty for a response.
    pub method: Cow<'a, str>,
    /// `params.sessionId`.
    pub session: Option<Text<'a>>,
    /// `params.update.sessionUpdate`.
    pub update: Option<UpdateKind>,
    /// `params.update.title` of a `session_info_update`.
    pub title: Option<Cow<'a, str>>,
    /// It has a `_meta.wharf`, which is Wharf's to write.
    pub has_wharf_meta: bool,
    /// It has a `method`, `result` or `error` that is null and therefore absent. Not every reader takes it so.
    pub has_null_members: bool,
}

impl Envelope<'_> {
    /// Returns the id as JSON text, and `null` for a frame that has none. `frame` is the one that was scanned.
    pub fn id_text<'f>(&self, frame: &'f [u8]) -> &'f [u8] {
        self.id.clone().map_or(b"null", |span| &frame[span])
    }

    /// Returns the same as bytes that are shared with the frame.
    pub fn id_bytes(&self, frame: &Bytes) -> Bytes {
        self.id.clone().map_or(Bytes::from_static(b"null"), |span| frame.slice(span))
    }

    /// Returns the id as a number, if it is one that Wharf can have given.
    pub fn id_number(&self, frame: &[u8]) -> Option<u64> {
        Json::parse(self.id_text(frame)).ok()?.id_number()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    #[error("not UTF-8")]
    NotUtf8,
    #[error("not JSON: {0}")]
    NotJson(String),
    #[error("a batch, which ACP does not have")]
    Batch,
    #[error("not a JSON-RPC message: {0}")]
    NotMessage(Cow<'static, str>),
}

/// Scans one frame.
pub fn scan(frame: &[u8]) -> Result<Envelope<'_>, ScanError> {
    let text = std::str::from_utf8(frame).map_err(|_| ScanError::NotUtf8)?;
    if text.trim_ascii_start().starts_with('[') {
        return Err(ScanError::Batch);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let mut found = Found::default();
    let base = text.as_ptr() as usize;
    let outside = Outside { base, found: &mut found };
    let read = (&mut json).deserialize_map(outside).and_then(|()| json.end());
    read.map_err(|error| unread(frame, &error))?;
    found.envelope()
}

/// JSON that is something else (a number, a second `id`) is told apart from what is no JSON at all.
fn unread(frame: &[u8], error: &serde_json::Error) -> ScanError {
    let is_json = error.is_data() || Json::parse(frame).is_ok();
    if is_json { ScanError::NotMessage(error.to_string().into()) } else { ScanError::NotJson(error.to_string()) }
}

/// Reads the part of a frame that `T` names; for the few places where Wharf understands the payload.
pub fn peek<'a, T: serde::Deserialize<'a>>(frame: &'a [u8]) -> Result<T, ReadError> {
    wharf_json::read_bytes(frame)
}

/// Reads the part of a `session/update`'s own object that `T` names.
pub fn peek_update<'a, T: serde::Deserialize<'a>>(frame: &'a [u8]) -> Result<T, ReadError> {
    let update = Json::parse(frame)?.at(&["params", "update"])?;
    wharf_json::read(update.ok_or_else(|| ReadError::Missing("update".to_owned()))?)
}

/// Converts a frame that is known to be JSON: one that was scanned, or that the log holds.
pub fn to_value(frame: &[u8]) -> Value {
    match Json::parse(frame) {
        Ok(json) => json.to_value(),
        Err(error) => {
            tracing::error!(%error, "a frame that was read before cannot be read again");
            Value::Null
        }
    }
}

/// The members of an update that Wharf reads. One that stands there twice would be read differently by different
/// parsers.
const UPDATE_MEMBERS: [&[u8]; 12] = [
    b"_meta",
    b"availableCommands",
    b"configOptions",
    b"content",
    b"currentModeId",
    b"entries",
    b"kind",
    b"messageId",
    b"sessionUpdate",
    b"status",
    b"title",
    b"toolCallId",
];

#[derive(Default)]
struct Found<'a> {
    id: Option<Span>,
    method: Option<Cow<'a, str>>,
    session: Option<Text<'a>>,
    update: Option<UpdateKind>,
    title: Option<Cow<'a, str>>,
    params: bool,
    /// Null or not.
    result: Option<Kind>,
    error: Option<Kind>,
    has_wharf_meta: bool,
    null_method: bool,
}

impl<'a> Found<'a> {
    fn envelope(self) -> Result<Envelope<'a>, ScanError> {
        // Null members are absent, but an answer may well be null.
        let stands = |kind: Option<Kind>| kind.is_some_and(|kind| kind != Kind::Null);
        let error = stands(self.error);
        let result = stands(self.result) || (self.result.is_some() && !error && self.method.is_none());
        let kind = match (self.method.is_some(), self.id.is_some(), result, error) {
            (true, true, false, false) => FrameKind::Request,
            (true, false, false, false) => FrameKind::Notification,
            (false, true, true, false) => FrameKind::Result,
            (false, true, false, true) => FrameKind::Error,
            (true, ..) => return Err(ScanError::NotMessage("a method together with a result or an error".into())),
            (false, false, ..) => return Err(ScanError::NotMessage("neither a method nor an id".into())),
            (false, true, false, false) => {
                return Err(ScanError::NotMessage("an id without method, result or error".into()));
            }
            (false, true, true, true) => return Err(ScanError::NotMessage("both a result and an error".into())),
        };
        Ok(Envelope {
            kind,
            id: self.id,
            method: self.method.unwrap_or_default(),
            session: self.session,
            update: self.update,
            title: self.title,
            has_wharf_meta: self.has_wharf_meta,
            has_null_members: self.null_method
                || (self.error.is_some() && !error)
                || (self.result == Some(Kind::Null) && !result),
        })
    }
}

/// Top level: `id`, `method`, `params`, `result`, `error`.
struct Outside<'f, 'a> {
    base: usize,
    found: &'f mut Found<'a>,
}

impl<'a> Visitor<'a> for Outside<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Key)? {
            match key.as_ref() {
                b"id" => {
                    let raw: &'a RawValue = map.next_value()?;
                    once::<A::Error, _>(&mut self.found.id, span(self.base, raw.get()), "id")?;
                }
                b"method" => {
                    let method = Json::of_raw(map.next_value()?);
                    match method.text() {
                        Some(method) => once::<A::Error, _>(&mut self.found.method, method, "method")?,
                        None if method.kind() == Kind::Null => self.found.null_method = true,
                        None => return Err(A::Error::custom("`method` is not a string")),
                    }
                }
                b"params" => {
                    if std::mem::replace(&mut self.found.params, true) {
                        return Err(twice("params"));
                    }
                    map.next_value_seed(Inside { base: self.base, found: self.found, level: Level::Params, seen: 0 })?;
                }
                b"result" => {
                    let result = Json::of_raw(map.next_value()?);
                    self.found.note_meta(result);
                    once::<A::Error, _>(&mut self.found.result, result.kind(), "result")?;
                }
                b"error" => {
                    let error = Json::of_raw(map.next_value()?);
                    once::<A::Error, _>(&mut self.found.error, error.kind(), "error")?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

impl Found<'_> {
    /// Notes a `_meta.wharf` of an object that is no update: an answer, a tool call.
    fn note_meta(&mut self, object: Json<'_>) {
        let metas = object.members().filter(|(name, _)| name == "_meta");
        self.has_wharf_meta |= { metas }.any(|(_, meta)| meta.has_key("wharf"));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Params,
    Update,
}

/// `params` and `params.update`: any JSON, of which only two members matter.
struct Inside<'f, 'a> {
    base: usize,
    found: &'f mut Found<'a>,
    level: Level,
    /// The members of [`UPDATE_MEMBERS`] that were met, by their place there.
    seen: u16,
}

impl<'a> DeserializeSeed<'a> for Inside<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Inside<'_, '_> {
    /// Refuses the second of two members of an update that Wharf reads.
    fn see<E: serde::de::Error>(&mut self, key: &[u8]) -> Result<(), E> {
        let Some(place) = UPDATE_MEMBERS.iter().position(|name| *name == key) else { return Ok(()) };
        let bit = 1 << place;
        if self.seen & bit != 0 {
            return Err(twice(&String::from_utf8_lossy(key)));
        }
        self.seen |= bit;
        Ok(())
    }
}

impl<'a> Visitor<'a> for Inside<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Key)? {
            if self.level == Level::Update {
                self.see::<A::Error>(&key)?;
            }
            match (self.level, key.as_ref()) {
                (Level::Params, b"sessionId") => {
                    let raw: &'a RawValue = map.next_value()?;
                    if let Some(value) = Json::of_raw(raw).text() {
                        let text = Text { span: span(self.base, raw.get()), value };
                        once::<A::Error, _>(&mut self.found.session, text, "sessionId")?;
                    }
                }
                (Level::Params, b"update") => {
                    if self.found.update.is_some() {
                        return Err(twice("update"));
                    }
                    self.found.update = Some(UpdateKind::Other);
                    let level = Level::Update;
                    map.next_value_seed(Inside { base: self.base, found: self.found, level, seen: 0 })?;
                }
                (Level::Params, b"toolCall") => self.found.note_meta(Json::of_raw(map.next_value()?)),
                (Level::Params | Level::Update, b"_meta") => {
                    self.found.has_wharf_meta |= Json::of_raw(map.next_value()?).has_key("wharf");
                }
                (Level::Update, b"sessionUpdate") => {
                    let tag = Json::of_raw(map.next_value()?).text();
                    self.found.update = Some(tag.map_or(UpdateKind::Other, |tag| UpdateKind::from_tag(&tag)));
                }
                (Level::Update, b"title") => self.found.title = Json::of_raw(map.next_value()?).text(),
                (Level::Params | Level::Update, _) => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// A key as its bytes, borrowed where it holds no escape. As bytes, because a key may hold half a surrogate pair; such a
/// key is none that matters here.
struct Key;

impl<'a> DeserializeSeed<'a> for Key {
    type Value = Cow<'a, [u8]>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<'a> Visitor<'a> for Key {
    type Value = Cow<'a, [u8]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_bytes<E>(self, text: &'a [u8]) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_bytes<E>(self, text: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// A second `id` or `sessionId` would be read differently by different parsers: such a frame is refused.
fn once<E: serde::de::Error, T>(place: &mut Option<T>, value: T, name: &str) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(twice(name)),
    }
}

fn twice<E: serde::de::Error>(name: &str) -> E {
    E::custom(format_args!("`{name}` stands there twice"))
}

fn span(base: usize, part: &str) -> Span {
    let start = part.as_ptr() as usize - base;
    start..start + part.len()
}
