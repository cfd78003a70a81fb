//! Reading a tree of values field by field, so that an error can say which field it is about.

use regex_lite::Regex;
use serde_json::{Map, Value};

/// The field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) field: String,
    pub(super) why: String,
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    value: &'a Value,
    field: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, field: String::new() }
    }

    pub(super) fn wrong(&self, why: impl Into<String>) -> Wrong {
        let field = if self.field.is_empty() { "front matter" } else { &self.field };
        Wrong { field: field.to_owned(), why: why.into() }
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    fn below(&self, name: &str) -> String {
        if self.field.is_empty() { name.to_owned() } else { format!("{}.{name}", self.field) }
    }

    pub(super) fn object(&self) -> Result<&'a Map<String, Value>, Wrong> {
        self.value.as_object().ok_or_else(|| self.wrong("must be a mapping"))
    }

    /// A member; one that is null counts as absent.
    pub(super) fn get(&self, name: &str) -> Result<Option<Self>, Wrong> {
        let value = self.object()?.get(name).filter(|value| !value.is_null());
        Ok(value.map(|value| Self { value, field: self.below(name) }))
    }

    pub(super) fn need(&self, name: &str) -> Result<Self, Wrong> {
        self.get(name)?.ok_or_else(|| Wrong { field: self.below(name), why: "is missing".to_owned() })
    }

    pub(super) fn text(&self) -> Result<String, Wrong> {
        match self.value {
            Value::String(text) if text.contains('\0') => Err(self.wrong("must not hold a NUL")),
            Value::String(text) => Ok(text.clone()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Err(self.wrong("must be a string; put it into quotes"))
            }
        }
    }

    /// A string of this shape.
    pub(super) fn shaped(&self, shape: &str) -> Result<String, Wrong> {
        let text = self.text()?;
        let fits = Regex::new(shape).is_ok_and(|regex| regex.is_match(&text));
        if fits { Ok(text) } else { Err(self.wrong(format!("{text:?} does not match {shape}"))) }
    }

    pub(super) fn one_of(&self, words: &[&'static str]) -> Result<&'static str, Wrong> {
        let text = self.text()?;
        let found = words.iter().find(|word| **word == text);
        found.copied().ok_or_else(|| self.wrong(format!("{text:?} is none of: {}", words.join(", "))))
    }

    pub(super) fn boolean(&self) -> Result<bool, Wrong> {
        self.value.as_bool().ok_or_else(|| self.wrong("must be true or false"))
    }

    pub(super) fn integer(&self) -> Result<i64, Wrong> {
        self.value.as_i64().ok_or_else(|| self.wrong("must be a whole number"))
    }

    pub(super) fn list(&self) -> Result<Vec<Self>, Wrong> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("must be a list"))?;
        let item = |(at, value)| Self { value, field: format!("{}[{at}]", self.field) };
        Ok(items.iter().enumerate().map(item).collect())
    }

    pub(super) fn texts(&self) -> Result<Vec<String>, Wrong> {
        self.list()?.iter().map(Self::text).collect()
    }

    /// A mapping from variables' names to strings.
    pub(super) fn variables(&self) -> Result<std::collections::BTreeMap<String, String>, Wrong> {
        let mut found = std::collections::BTreeMap::new();
        for name in self.object()?.keys() {
            let node = self.need(name)?;
            if !super::environment::is_name(name) {
                return Err(node.wrong("is not the name of an environment variable"));
            }
            found.insert(name.clone(), node.text()?);
        }
        Ok(found)
    }
}

/// Reads the member if it is present.
pub(super) fn optional<'a, T>(
    node: &Node<'a>,
    name: &str,
    read: impl FnOnce(&Node<'a>) -> Result<T, Wrong>,
) -> Result<Option<T>, Wrong> {
    node.get(name)?.as_ref().map(read).transpose()
}
