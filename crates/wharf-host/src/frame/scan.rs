//! One pass over a frame finds its kind and ids. The payload is checked to be JSON and otherwise skipped.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use wharf_core::UpdateKind;
use wharf_json::{Json, Kind, ReadError};

/// The bytes of a part of the frame that was scanned.
pub type Span = Range<usize>;

/// A JSON string in the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedText<'a> {
    /// With the quotes.
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

/// The members of a frame that Wharf needs to route it.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    pub kind: FrameKind,
    pub id: Option<Span>,
    /// Empty for a response.
    pub method: Cow<'a, str>,
    /// `params.sessionId`.
    pub session: Option<ScannedText<'a>>,
    /// `params.update.sessionUpdate`.
    pub update: Option<UpdateKind>,
    /// `params.update.title` of a `session_info_update`.
    pub title: Option<Cow<'a, str>>,
    /// The frame has a `_meta.wharf`, which only Wharf may write.
    pub has_wharf_meta: bool,
    /// The frame has a `method`, `result` or `error` that is null. Wharf treats it as absent; some readers do not.
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

impl ScanError {
    /// Returns true if the line is JSON, though not a message.
    pub(crate) const fn is_json(&self) -> bool {
        matches!(self, Self::Batch | Self::NotMessage(_))
    }
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
    let outside = FrameVisitor { base, found: &mut found };
    let read = (&mut json).deserialize_map(outside).and_then(|()| json.end());
    read.map_err(|error| classify_error(frame, &error))?;
    found.envelope()
}

/// Tells JSON that is no message (a number, a second `id`) from text that is not JSON.
fn classify_error(frame: &[u8], error: &serde_json::Error) -> ScanError {
    let is_json = error.is_data() || Json::parse(frame).is_ok();
    if is_json { ScanError::NotMessage(error.to_string().into()) } else { ScanError::NotJson(error.to_string()) }
}

/// Reads the members of a frame that `T` names, for the few places where Wharf reads the payload.
pub fn peek<'a, T: serde::Deserialize<'a>>(frame: &'a [u8]) -> Result<T, ReadError> {
    wharf_json::read_bytes(frame)
}

/// Reads the members of `params.update` that `T` names.
pub fn peek_update<'a, T: serde::Deserialize<'a>>(frame: &'a [u8]) -> Result<T, ReadError> {
    let update = Json::parse(frame)?.at(&["params", "update"])?;
    wharf_json::read(update.ok_or_else(|| ReadError::Missing("update".to_owned()))?)
}

/// Converts a frame that is known to be JSON because it was scanned or comes from the log.
pub fn to_value(frame: &[u8]) -> Value {
    match Json::parse(frame) {
        Ok(json) => json.to_value(),
        Err(error) => {
            tracing::error!(%error, "a frame that was read before cannot be read again");
            Value::Null
        }
    }
}

/// The members of an update that Wharf reads. An update that has one of them twice is refused, since parsers differ in which of
/// the two they take.
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
    session: Option<ScannedText<'a>>,
    update: Option<UpdateKind>,
    title: Option<Cow<'a, str>>,
    params: bool,
    /// `Kind::Null` for a null one, `None` for an absent one.
    result: Option<Kind>,
    error: Option<Kind>,
    has_wharf_meta: bool,
    null_method: bool,
}

impl<'a> Found<'a> {
    fn envelope(self) -> Result<Envelope<'a>, ScanError> {
        // Null members count as absent, except for a null result that is the only outcome.
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

/// Visits the outermost members.
struct FrameVisitor<'f, 'a> {
    base: usize,
    found: &'f mut Found<'a>,
}

impl<'a> Visitor<'a> for FrameVisitor<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(KeySeed)? {
            match key.as_ref() {
                b"id" => {
                    let raw: &'a RawValue = map.next_value()?;
                    set_once::<A::Error, _>(&mut self.found.id, span(self.base, raw.get()), "id")?;
                }
                b"method" => {
                    let method = Json::of_raw(map.next_value()?);
                    match method.text() {
                        Some(method) => set_once::<A::Error, _>(&mut self.found.method, method, "method")?,
                        None if method.kind() == Kind::Null => self.found.null_method = true,
                        None => return Err(A::Error::custom("`method` is not a string")),
                    }
                }
                b"params" => {
                    if std::mem::replace(&mut self.found.params, true) {
                        return Err(duplicate_error("params"));
                    }
                    map.next_value_seed(ParamsVisitor {
                        base: self.base,
                        found: self.found,
                        level: Level::Params,
                        seen: 0,
                    })?;
                }
                b"result" => {
                    let result = Json::of_raw(map.next_value()?);
                    self.found.note_meta(result);
                    set_once::<A::Error, _>(&mut self.found.result, result.kind(), "result")?;
                }
                b"error" => {
                    let error = Json::of_raw(map.next_value()?);
                    set_once::<A::Error, _>(&mut self.found.error, error.kind(), "error")?;
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
    /// Notes a `_meta.wharf` of a result or a tool call.
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

/// Visits `params` or `params.update`, which may be any JSON.
struct ParamsVisitor<'f, 'a> {
    base: usize,
    found: &'f mut Found<'a>,
    level: Level,
    /// One bit for each of [`UPDATE_MEMBERS`] that was found.
    seen: u16,
}

impl<'a> DeserializeSeed<'a> for ParamsVisitor<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl ParamsVisitor<'_, '_> {
    /// Refuses the second of two members of an update that Wharf reads.
    fn note_member<E: serde::de::Error>(&mut self, key: &[u8]) -> Result<(), E> {
        let Some(place) = UPDATE_MEMBERS.iter().position(|name| *name == key) else { return Ok(()) };
        let bit = 1 << place;
        if self.seen & bit != 0 {
            return Err(duplicate_error(&String::from_utf8_lossy(key)));
        }
        self.seen |= bit;
        Ok(())
    }
}

impl<'a> Visitor<'a> for ParamsVisitor<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(KeySeed)? {
            if self.level == Level::Update {
                self.note_member::<A::Error>(&key)?;
            }
            match (self.level, key.as_ref()) {
                (Level::Params, b"sessionId") => {
                    let raw: &'a RawValue = map.next_value()?;
                    if let Some(value) = Json::of_raw(raw).text() {
                        let text = ScannedText { span: span(self.base, raw.get()), value };
                        set_once::<A::Error, _>(&mut self.found.session, text, "sessionId")?;
                    }
                }
                (Level::Params, b"update") => {
                    if self.found.update.is_some() {
                        return Err(duplicate_error("update"));
                    }
                    self.found.update = Some(UpdateKind::Other);
                    let level = Level::Update;
                    map.next_value_seed(ParamsVisitor { base: self.base, found: self.found, level, seen: 0 })?;
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

/// Reads a key as bytes, borrowed if it has no escapes. Not as text, because a key may hold half a surrogate pair; no key that
/// matters here does.
struct KeySeed;

impl<'a> DeserializeSeed<'a> for KeySeed {
    type Value = Cow<'a, [u8]>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<'a> Visitor<'a> for KeySeed {
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

/// Sets a member, and refuses a second one: parsers differ in which of the two they take.
fn set_once<E: serde::de::Error, T>(place: &mut Option<T>, value: T, name: &str) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(duplicate_error(name)),
    }
}

fn duplicate_error<E: serde::de::Error>(name: &str) -> E {
    E::custom(format_args!("`{name}` stands there twice"))
}

fn span(base: usize, part: &str) -> Span {
    let start = part.as_ptr() as usize - base;
    start..start + part.len()
}
