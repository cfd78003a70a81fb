//! One pass over a frame finds its kind and ids. The payload is checked to be JSON and otherwise
//! skipped.
//!
//! Everything here accepts the same bytes as [`Json::parse`], since the log and every reader of it
//! rely on that: names and skipped values are checked as raw values, which is what `Json::parse`
//! does with the whole. `crate::fuzz::readers` compares the two.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use wharf_core::UpdateKind;
use wharf_json::{Json, Kind, ReadError};

use super::splice::{has_line_break, one_line};
use super::wharf_meta::has_odd_meta;

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
    /// The frame has a `method`, `result` or `error` that Wharf treats as absent and that some
    /// readers do not: a null one, or an empty `method` beside an outcome.
    pub has_null_members: bool,
    /// `params._meta` or `result._meta` is neither an object nor null, or stands twice.
    pub has_odd_meta: bool,
}

impl Envelope<'_> {
    /// Returns the id as JSON text, and `null` for a frame without an id. `frame` is the frame that
    /// was scanned.
    pub fn id_text<'f>(&self, frame: &'f [u8]) -> &'f [u8] {
        self.id.clone().map_or(b"null", |span| &frame[span])
    }

    /// Returns the same as bytes that are shared with the frame.
    pub fn id_bytes(&self, frame: &Bytes) -> Bytes {
        self.id.clone().map_or(Bytes::from_static(b"null"), |span| frame.slice(span))
    }

    /// Returns the id as a number, if it is a number that Wharf can have given.
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
    pub const fn is_json(&self) -> bool {
        matches!(self, Self::Batch | Self::NotMessage(_))
    }
}

/// Scans one frame.
pub fn scan(frame: &[u8]) -> Result<Envelope<'_>, ScanError> {
    let text = std::str::from_utf8(frame).map_err(|_| ScanError::NotUtf8)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let mut found = Found::default();
    let base = text.as_ptr() as usize;
    let outside = FrameVisitor { base, found: &mut found };
    let read = (&mut json).deserialize_map(outside).and_then(|()| json.end());
    read.map_err(|error| classify_error(frame, &error))?;
    found.envelope()
}

/// Distinguishes JSON that is not a message (a list, a number, a second `id`) from text that is not
/// JSON.
fn classify_error(frame: &[u8], error: &serde_json::Error) -> ScanError {
    match Json::parse(frame) {
        Ok(json) if json.kind() == Kind::List => ScanError::Batch,
        Ok(_) => ScanError::NotMessage(error.to_string().into()),
        Err(ReadError::NotUtf8) => ScanError::NotUtf8,
        Err(ReadError::NotJson(why)) => ScanError::NotJson(why),
        Err(other) => ScanError::NotJson(other.to_string()),
    }
}

/// Returns the frame on one line, or the reason why it is not JSON. A raw line break is refused
/// within a text or a name, where replacing it by a blank would make other JSON of it.
pub fn read_line(frame: Bytes) -> Result<Bytes, ScanError> {
    if has_line_break(&frame)
        && let Err(error @ (ScanError::NotUtf8 | ScanError::NotJson(_))) = scan(&frame)
    {
        return Err(error);
    }
    Ok(one_line(frame))
}

/// Reads the members of a frame that `T` names, for the few places where Wharf reads the payload.
pub fn peek<'a, T: serde::Deserialize<'a>>(frame: &'a [u8]) -> Result<T, ReadError> {
    wharf_json::read_bytes(frame)
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

/// The members of an update that Wharf reads. An update that has one of them twice is refused,
/// since parsers differ in which of the two they take.
const UPDATE_MEMBERS: [&str; 12] = [
    "_meta",
    "availableCommands",
    "configOptions",
    "content",
    "currentModeId",
    "entries",
    "kind",
    "messageId",
    "sessionUpdate",
    "status",
    "title",
    "toolCallId",
];

#[derive(Default)]
struct Found<'a> {
    id: Option<Span>,
    method: Option<Cow<'a, str>>,
    session: Option<ScannedText<'a>>,
    update: Option<UpdateKind>,
    title: Option<Cow<'a, str>>,
    params: bool,
    null_method: bool,
    /// `Kind::Null` for a null one, `None` for an absent one.
    result: Option<Kind>,
    error: Option<Kind>,
    has_wharf_meta: bool,
    has_odd_meta: bool,
    /// True if `params` has a `_meta`.
    meta: bool,
}

impl<'a> Found<'a> {
    fn envelope(self) -> Result<Envelope<'a>, ScanError> {
        // Null members count as absent, except for a null result that is the only outcome.
        let stands = |kind: Option<Kind>| kind.is_some_and(|kind| kind != Kind::Null);
        let error = stands(self.error);
        // Some libraries write an empty method into every answer.
        let has_outcome = self.result.is_some() || error;
        let has_empty_method = has_outcome && self.method.as_deref() == Some("");
        let is_answer = self.method.is_none() || has_empty_method;
        let result = stands(self.result) || (self.result.is_some() && !error && is_answer);
        let kind = match (!is_answer, self.id.is_some(), result, error) {
            (true, true, false, false) => FrameKind::Request,
            (true, false, false, false) => FrameKind::Notification,
            (false, true, true, false) => FrameKind::Result,
            (false, true, false, true) => FrameKind::Error,
            (true, ..) => {
                return Err(ScanError::NotMessage(
                    "a method together with a result or an error".into(),
                ));
            }
            (false, false, ..) => {
                return Err(ScanError::NotMessage("neither a method nor an id".into()));
            }
            (false, true, false, false) => {
                return Err(ScanError::NotMessage("an id without method, result or error".into()));
            }
            (false, true, true, true) => {
                return Err(ScanError::NotMessage("both a result and an error".into()));
            }
        };
        Ok(Envelope {
            kind,
            id: self.id,
            method: self.method.filter(|_| !is_answer).unwrap_or_default(),
            session: self.session,
            update: self.update,
            title: self.title,
            has_wharf_meta: self.has_wharf_meta,
            has_odd_meta: self.has_odd_meta,
            has_null_members: self.null_method
                || has_empty_method
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
        while let Some(key) = next_name(&mut map)? {
            match key.as_ref() {
                "id" => {
                    let raw: &'a RawValue = map.next_value()?;
                    set_once::<A::Error, _>(&mut self.found.id, span(self.base, raw.get()), "id")?;
                }
                "method" => self.found.note_method(Json::of_raw(map.next_value()?))?,
                "params" => {
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
                "result" => {
                    let result = Json::of_raw(map.next_value()?);
                    self.found.note_meta(result);
                    self.found.has_odd_meta |= has_odd_meta(result);
                    set_once::<A::Error, _>(&mut self.found.result, result.kind(), "result")?;
                }
                "error" => {
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

impl<'a> Found<'a> {
    fn note_method<E: serde::de::Error>(&mut self, method: Json<'a>) -> Result<(), E> {
        if self.null_method || self.method.is_some() {
            return Err(duplicate_error("method"));
        }
        match method.text() {
            Some(method) => self.method = Some(method),
            None if method.kind() == Kind::Null => self.null_method = true,
            None => return Err(E::custom("`method` is not a string")),
        }
        Ok(())
    }

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
    fn note_member<E: serde::de::Error>(&mut self, key: &str) -> Result<(), E> {
        let Some(place) = UPDATE_MEMBERS.iter().position(|name| *name == key) else {
            return Ok(());
        };
        let bit = 1 << place;
        if self.seen & bit != 0 {
            return Err(duplicate_error(key));
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
        while let Some(key) = next_name(&mut map)? {
            if self.level == Level::Update {
                self.note_member::<A::Error>(&key)?;
            }
            match (self.level, key.as_ref()) {
                (Level::Params, "sessionId") => {
                    let raw: &'a RawValue = map.next_value()?;
                    if let Some(value) = Json::of_raw(raw).text() {
                        let text = ScannedText { span: span(self.base, raw.get()), value };
                        set_once::<A::Error, _>(&mut self.found.session, text, "sessionId")?;
                    }
                }
                (Level::Params, "update") => {
                    if self.found.update.is_some() {
                        return Err(duplicate_error("update"));
                    }
                    self.found.update = Some(UpdateKind::Other);
                    let level = Level::Update;
                    map.next_value_seed(ParamsVisitor {
                        base: self.base,
                        found: self.found,
                        level,
                        seen: 0,
                    })?;
                }
                (Level::Params, "toolCall") => {
                    self.found.note_meta(Json::of_raw(map.next_value()?))
                }
                (Level::Params | Level::Update, "_meta") => {
                    let meta = Json::of_raw(map.next_value()?);
                    self.found.has_wharf_meta |= meta.has_key("wharf");
                    if self.level == Level::Params {
                        let is_second = std::mem::replace(&mut self.found.meta, true);
                        self.found.has_odd_meta |=
                            is_second || !matches!(meta.kind(), Kind::Object | Kind::Null);
                    }
                }
                (Level::Update, "sessionUpdate") => {
                    let tag = Json::of_raw(map.next_value()?).text();
                    self.found.update =
                        Some(tag.map_or(UpdateKind::Other, |tag| UpdateKind::from_tag(&tag)));
                }
                (Level::Update, "title") => {
                    self.found.title = Json::of_raw(map.next_value()?).text()
                }
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

/// Returns the name of the next member. It is checked like any value: as text that may hold half a
/// surrogate pair, and no raw control byte.
fn next_name<'a, A: MapAccess<'a>>(map: &mut A) -> Result<Option<Cow<'a, str>>, A::Error> {
    let name: Option<&'a RawValue> = map.next_key()?;
    Ok(name.map(|name| Json::of_raw(name).text().unwrap_or_default()))
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
