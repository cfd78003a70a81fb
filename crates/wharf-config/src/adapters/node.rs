//! Reading a tree of values field by field, so that an error can say which field it is about.

use regex_lite::Regex;
use serde_json::{Map, Value};

/// Names a field and describes the mistake in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldError {
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
    pub(super) fn from_root(value: &'a Value) -> Self {
        Self { value, field: String::new() }
    }

    pub(super) fn field_error(&self, why: impl Into<String>) -> FieldError {
        let field = if self.field.is_empty() { "front matter" } else { &self.field };
        FieldError { field: field.to_owned(), why: why.into() }
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    fn child_field(&self, name: &str) -> String {
        if self.field.is_empty() { name.to_owned() } else { format!("{}.{name}", self.field) }
    }

    pub(super) fn read_object(&self) -> Result<&'a Map<String, Value>, FieldError> {
        self.value.as_object().ok_or_else(|| self.field_error("must be a mapping"))
    }

    /// Returns a member; null counts as absent.
    pub(super) fn get(&self, name: &str) -> Result<Option<Self>, FieldError> {
        let value = self.read_object()?.get(name).filter(|value| !value.is_null());
        Ok(value.map(|value| Self { value, field: self.child_field(name) }))
    }

    pub(super) fn require_member(&self, name: &str) -> Result<Self, FieldError> {
        self.get(name)?.ok_or_else(|| FieldError {
            field: self.child_field(name),
            why: "is missing".to_owned(),
        })
    }

    pub(super) fn read_text(&self) -> Result<String, FieldError> {
        match self.value {
            Value::String(text) if text.contains('\0') => {
                Err(self.field_error("must not hold a NUL"))
            }
            Value::String(text) => Ok(text.clone()),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Err(self.field_error("must be a string; put it into quotes")),
        }
    }

    /// A string of this shape.
    pub(super) fn read_matching(&self, shape: &str) -> Result<String, FieldError> {
        let text = self.read_text()?;
        let fits = Regex::new(shape).is_ok_and(|regex| regex.is_match(&text));
        if fits {
            Ok(text)
        } else {
            Err(self.field_error(format!("{text:?} does not match {shape}")))
        }
    }

    pub(super) fn one_of(&self, words: &[&'static str]) -> Result<&'static str, FieldError> {
        let text = self.read_text()?;
        let found = words.iter().find(|word| **word == text);
        found
            .copied()
            .ok_or_else(|| self.field_error(format!("{text:?} is none of: {}", words.join(", "))))
    }

    pub(super) fn read_bool(&self) -> Result<bool, FieldError> {
        self.value.as_bool().ok_or_else(|| self.field_error("must be true or false"))
    }

    pub(super) fn read_integer(&self) -> Result<i64, FieldError> {
        self.value.as_i64().ok_or_else(|| self.field_error("must be a whole number"))
    }

    pub(super) fn read_list(&self) -> Result<Vec<Self>, FieldError> {
        let items = self.value.as_array().ok_or_else(|| self.field_error("must be a list"))?;
        let item = |(at, value)| Self { value, field: format!("{}[{at}]", self.field) };
        Ok(items.iter().enumerate().map(item).collect())
    }

    pub(super) fn read_texts(&self) -> Result<Vec<String>, FieldError> {
        self.read_list()?.iter().map(Self::read_text).collect()
    }

    /// A mapping from variables' names to strings.
    pub(super) fn read_variables(
        &self,
    ) -> Result<std::collections::BTreeMap<String, String>, FieldError> {
        let mut found = std::collections::BTreeMap::new();
        for name in self.read_object()?.keys() {
            let node = self.require_member(name)?;
            if !super::environment::is_variable_name(name) {
                return Err(node.field_error("is not the name of an environment variable"));
            }
            found.insert(name.clone(), node.read_text()?);
        }
        Ok(found)
    }
}

/// Reads the member if it is present.
pub(super) fn read_optional<'a, T>(
    node: &Node<'a>,
    name: &str,
    read: impl FnOnce(&Node<'a>) -> Result<T, FieldError>,
) -> Result<Option<T>, FieldError> {
    node.get(name)?.as_ref().map(read).transpose()
}
