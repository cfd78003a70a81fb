//! Modes and options of a manifest: what they add to the argv and the environment, checked before anything starts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::AdapterError;
use super::info::{ModeInfo, OptionInfo};
use super::manifest::Manifest;
use super::node::{Node, Wrong, optional};

/// The longest value of a string option.
const LONGEST: usize = 4096;
const PLACEHOLDER: &str = "{value}";

/// One of several ways to run, of which at most one is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) id: String,
    description: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

/// A knob.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setting {
    pub(super) id: String,
    kind: Kind,
    description: Option<String>,
    default: Option<Value>,
    template: Vec<String>,
    when_true: Vec<String>,
    env: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Boolean,
    Integer { min: Option<i64>, max: Option<i64> },
    String,
    Enum(Vec<String>),
}

/// An argv and an environment in the making.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Patched {
    pub(super) command: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

impl Mode {
    pub(super) fn read(node: &Node<'_>) -> Result<Self, Wrong> {
        Ok(Self {
            id: node.need("id")?.shaped("^[a-z0-9][a-z0-9-]{0,63}$")?,
            description: optional(node, "description", Node::text)?,
            args: optional(node, "bin_args_append", Node::texts)?.unwrap_or_default(),
            env: optional(node, "env", Node::variables)?.unwrap_or_default(),
        })
    }

    pub(super) fn info(&self) -> ModeInfo {
        ModeInfo { id: self.id.clone(), description: self.description.clone() }
    }
}

impl Setting {
    pub(super) fn read(node: &Node<'_>) -> Result<Self, Wrong> {
        let bound = |name| optional(node, name, Node::integer);
        let kind = match node.need("type")?.one_of(&["boolean", "integer", "string", "enum"])? {
            "boolean" => Kind::Boolean,
            "integer" => Kind::Integer { min: bound("min")?, max: bound("max")? },
            "string" => Kind::String,
            _ => Kind::Enum(choices(&node.need("enum")?)?),
        };
        let setting = Self {
            id: node.need("id")?.shaped("^[a-z0-9][a-z0-9_]{0,63}$")?,
            kind,
            description: optional(node, "description", Node::text)?,
            default: node.get("default")?.map(|default| default.value().clone()),
            template: optional(node, "bin_args_template", Node::texts)?.unwrap_or_default(),
            when_true: optional(node, "bin_args_append_when_true", Node::texts)?.unwrap_or_default(),
            env: optional(node, "env", Node::variables)?.unwrap_or_default(),
        };
        if let Some(default) = &setting.default {
            setting.text_of(default).map_err(|why| Wrong { field: node.wrong("").field + ".default", why })?;
        }
        Ok(setting)
    }

    /// The value as it is put into argv and environment, if it is one that this option takes.
    fn text_of(&self, value: &Value) -> Result<String, String> {
        match (&self.kind, value) {
            (Kind::Boolean, Value::Bool(value)) => Ok(value.to_string()),
            (Kind::Boolean, _) => Err("takes true or false".to_owned()),
            (Kind::Integer { min, max }, Value::Number(number)) => {
                let number = number.as_i64().ok_or("takes a whole number")?;
                match (min, max) {
                    (Some(min), _) if number < *min => Err(format!("takes {min} or more")),
                    (_, Some(max)) if number > *max => Err(format!("takes {max} or less")),
                    _ => Ok(number.to_string()),
                }
            }
            (Kind::Integer { .. }, _) => Err("takes a whole number".to_owned()),
            (Kind::String, Value::String(text)) if text.len() > LONGEST => Err("takes at most 4 KiB".to_owned()),
            (Kind::String, Value::String(text)) if text.chars().any(char::is_control) => {
                Err("takes one line without control characters".to_owned())
            }
            // As a word of its own it would be taken for a flag, and could allow what nobody allowed.
            (Kind::String, Value::String(text)) if text.starts_with('-') => {
                Err("takes no value that begins with a dash".to_owned())
            }
            (Kind::String, Value::String(text)) => Ok(text.clone()),
            (Kind::String, _) => Err("takes a string".to_owned()),
            (Kind::Enum(choices), Value::String(text)) if choices.contains(text) => Ok(text.clone()),
            (Kind::Enum(choices), _) => Err(format!("takes one of: {}", choices.join(", "))),
        }
    }

    /// A value that is the default changes nothing: it is what the program does anyway.
    fn apply(&self, value: &Value, to: &mut Patched) -> Result<(), String> {
        let text = self.text_of(value)?;
        if self.default.as_ref() == Some(value) {
            return Ok(());
        }
        let filled = |template: &String| template.replace(PLACEHOLDER, &text);
        to.command.extend(self.template.iter().map(filled));
        if *value == Value::Bool(true) {
            to.command.extend(self.when_true.iter().cloned());
        }
        to.env.extend(self.env.iter().map(|(name, template)| (name.clone(), filled(template))));
        Ok(())
    }

    pub(super) fn info(&self) -> OptionInfo {
        let (kind, choices, min, max) = match &self.kind {
            Kind::Boolean => ("boolean", Vec::new(), None, None),
            Kind::Integer { min, max } => ("integer", Vec::new(), *min, *max),
            Kind::String => ("string", Vec::new(), None, None),
            Kind::Enum(choices) => ("enum", choices.clone(), None, None),
        };
        let (description, default) = (self.description.clone(), self.default.clone());
        OptionInfo { id: self.id.clone(), kind, description, choices, default, min, max }
    }
}

fn choices(node: &Node<'_>) -> Result<Vec<String>, Wrong> {
    let choices = node.texts()?;
    if choices.is_empty() { Err(node.wrong("must name at least one")) } else { Ok(choices) }
}

impl Manifest {
    /// bin, bin_args, the mode, then the options in the order in which the manifest has them.
    pub(super) fn patched(
        &self,
        mode: Option<&str>,
        options: &BTreeMap<String, Value>,
    ) -> Result<Patched, AdapterError> {
        let mut patched = Patched { command: vec![self.bin.clone()], env: self.env.clone() };
        patched.command.extend(self.bin_args.iter().cloned());
        if let Some(id) = mode {
            let mode = self.modes.iter().find(|mode| mode.id == id).ok_or_else(|| self.no_mode(id))?;
            patched.command.extend(mode.args.iter().cloned());
            patched.env.extend(mode.env.clone());
        }
        let wrong =
            |option: &str, why| AdapterError::Option { adapter: self.id.clone(), option: option.to_owned(), why };
        if let Some(unknown) = options.keys().find(|id| !self.options.iter().any(|option| option.id == **id)) {
            let known: Vec<&str> = self.options.iter().map(|option| option.id.as_str()).collect();
            return Err(wrong(unknown, format!("there is none of that name; known: {}", listed(&known))));
        }
        for option in &self.options {
            if let Some(value) = options.get(&option.id) {
                option.apply(value, &mut patched).map_err(|why| wrong(&option.id, why))?;
            }
        }
        Ok(patched)
    }

    fn no_mode(&self, mode: &str) -> AdapterError {
        let known: Vec<&str> = self.modes.iter().map(|mode| mode.id.as_str()).collect();
        AdapterError::UnknownMode { adapter: self.id.clone(), mode: mode.to_owned(), known: listed(&known) }
    }
}

pub(super) fn listed(words: &[&str]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
