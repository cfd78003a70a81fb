//! One pass over a frame: what kind it is and where its ids are. The payload is checked to be JSON and not looked at.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use wharf_core::UpdateKind;

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
    (&mut json).deserialize_map(outside).and_then(|()| json.end()).map_err(unread)?;
    found.envelope()
}

/// JSON that is something else (a number, a second `id`) is told apart from what is no JSON at all.
fn unread(error: serde_json::Error) -> ScanError {
    if error.is_data() {
        ScanError::NotMessage(error.to_string().into())
    } else {
        ScanError::NotJson(error.to_string())
    }
}

/// Reads the part of a frame that `T` names; for the few places where Wharf understands the payload.
pub fn peek<'a, T: serde::Deserialize<'a>>(frame: &'a [u8]) -> Option<T> {
    serde_json::from_slice(frame).ok()
}

/// Reads the part of a `session/update`'s own object that `T` names.
pub fn peek_update<'a, T: serde::Deserialize<'a>>(frame: &'a [u8]) -> Option<T> {
    #[derive(serde::Deserialize)]
    struct Message<T> {
        params: Params<T>,
    }
    #[derive(serde::Deserialize)]
    struct Params<T> {
        update: T,
    }
    peek::<Message<T>>(frame).map(|message| message.params.update)
}

#[derive(Default)]
struct Found<'a> {
    id: Option<Span>,
    method: Option<Cow<'a, str>>,
    session: Option<Text<'a>>,
    update: Option<UpdateKind>,
    title: Option<Cow<'a, str>>,
    result: bool,
    error: bool,
}

impl<'a> Found<'a> {
    fn envelope(self) -> Result<Envelope<'a>, ScanError> {
        let kind = match (self.method.is_some(), self.id.is_some(), self.result, self.error) {
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
                "id" => {
                    let raw: &'a RawValue = map.next_value()?;
                    once::<A::Error, _>(&mut self.found.id, span(self.base, raw.get()), "id")?;
                }
                "method" => {
                    let method = map.next_value_seed(Key)?;
                    once::<A::Error, _>(&mut self.found.method, method, "method")?;
                }
                "params" => map.next_value_seed(Inside { base: self.base, found: self.found, level: Level::Params })?,
                "result" => {
                    map.next_value::<IgnoredAny>()?;
                    self.found.result = true;
                }
                "error" => {
                    map.next_value::<IgnoredAny>()?;
                    self.found.error = true;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
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
}

impl<'a> DeserializeSeed<'a> for Inside<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Inside<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Key)? {
            match (self.level, key.as_ref()) {
                (Level::Params, "sessionId") => {
                    let raw: &'a RawValue = map.next_value()?;
                    if let Some(text) = text::<A::Error>(self.base, raw)? {
                        once::<A::Error, _>(&mut self.found.session, text, "sessionId")?;
                    }
                }
                (Level::Params, "update") => {
                    map.next_value_seed(Inside { base: self.base, found: self.found, level: Level::Update })?;
                }
                (Level::Update, "sessionUpdate") => {
                    let raw: &'a RawValue = map.next_value()?;
                    let tag = words(self.base, raw);
                    self.found.update = Some(tag.map_or(UpdateKind::Other, |tag| UpdateKind::from_tag(&tag)));
                }
                (Level::Update, "title") => {
                    let raw: &'a RawValue = map.next_value()?;
                    self.found.title = words(self.base, raw);
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

/// A key or another string, borrowed where it holds no escape.
struct Key;

impl<'a> DeserializeSeed<'a> for Key {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Key {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// A second `id` or `sessionId` would be read differently by different parsers: such a frame is refused.
fn once<E: serde::de::Error, T>(place: &mut Option<T>, value: T, name: &str) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::custom(format_args!("`{name}` stands there twice"))),
    }
}

fn span(base: usize, part: &str) -> Span {
    let start = part.as_ptr() as usize - base;
    start..start + part.len()
}

/// The same where it is only read. A string that cannot be (half a surrogate pair) says nothing and hinders nothing.
fn words<'a>(base: usize, raw: &'a RawValue) -> Option<Cow<'a, str>> {
    text::<serde_json::Error>(base, raw).ok().flatten().map(|text| text.value)
}

fn text<'a, E: serde::de::Error>(base: usize, raw: &'a RawValue) -> Result<Option<Text<'a>>, E> {
    let part = raw.get();
    if !part.starts_with('"') {
        return Ok(None);
    }
    let inner = &part[1..part.len() - 1];
    let value = if inner.contains('\\') {
        Cow::Owned(serde_json::from_str(part).map_err(|e| E::custom(e))?)
    } else {
        Cow::Borrowed(inner)
    };
    Ok(Some(Text { span: span(base, part), value }))
}
