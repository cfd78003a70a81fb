//! Adds the modes and options of a manifest to the argv and the environment, and checks them before
//! the host starts anything.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::AdapterError;
use super::info::{ModeInfo, OptionInfo};
use super::manifest::Manifest;
use super::node::{FieldError, Node, read_optional};

/// The longest value of a string option.
const MAX_OPTION_BYTES: usize = 4096;
const VALUE_PLACEHOLDER: &str = "{value}";

/// One of several ways to run, of which at most one is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManifestMode {
    pub(super) id: String,
    description: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

/// An option that changes the command line or the environment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ManifestOption {
    pub(super) id: String,
    kind: OptionKind,
    description: Option<String>,
    default: Option<Value>,
    template: Vec<String>,
    when_true: Vec<String>,
    env: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum OptionKind {
    Boolean,
    Integer { min: Option<i64>, max: Option<i64> },
    String,
    Enum(Vec<String>),
}

/// The argv and the environment with the mode and the options applied so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PatchedCommand {
    pub(super) command: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

impl ManifestMode {
    pub(super) fn from_node(node: &Node<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            id: node.require_member("id")?.read_matching("^[a-z0-9][a-z0-9-]{0,63}$")?,
            description: read_optional(node, "description", Node::read_text)?,
            args: read_optional(node, "bin_args_append", Node::read_texts)?.unwrap_or_default(),
            env: read_optional(node, "env", Node::read_variables)?.unwrap_or_default(),
        })
    }

    pub(super) fn to_info(&self) -> ModeInfo {
        ModeInfo { id: self.id.clone(), description: self.description.clone() }
    }
}

impl ManifestOption {
    pub(super) fn from_node(node: &Node<'_>) -> Result<Self, FieldError> {
        let bound = |name| read_optional(node, name, Node::read_integer);
        let kind =
            match node.require_member("type")?.one_of(&["boolean", "integer", "string", "enum"])? {
                "boolean" => OptionKind::Boolean,
                "integer" => OptionKind::Integer { min: bound("min")?, max: bound("max")? },
                "string" => OptionKind::String,
                _ => OptionKind::Enum(read_choices(&node.require_member("enum")?)?),
            };
        let setting = Self {
            id: node.require_member("id")?.read_matching("^[a-z0-9][a-z0-9_]{0,63}$")?,
            kind,
            description: read_optional(node, "description", Node::read_text)?,
            default: node.get("default")?.map(|default| default.value().clone()),
            template: read_optional(node, "bin_args_template", Node::read_texts)?
                .unwrap_or_default(),
            when_true: read_optional(node, "bin_args_append_when_true", Node::read_texts)?
                .unwrap_or_default(),
            env: read_optional(node, "env", Node::read_variables)?.unwrap_or_default(),
        };
        if let Some(default) = &setting.default {
            setting.text_of(default).map_err(|why| FieldError {
                field: node.field_error("").field + ".default",
                why,
            })?;
        }
        Ok(setting)
    }

    /// Returns the value as text for argv and environment. Fails if this option does not take it.
    fn text_of(&self, value: &Value) -> Result<String, String> {
        match (&self.kind, value) {
            (OptionKind::Boolean, Value::Bool(value)) => Ok(value.to_string()),
            (OptionKind::Boolean, _) => Err("takes true or false".to_owned()),
            (OptionKind::Integer { min, max }, Value::Number(number)) => {
                let number = number.as_i64().ok_or("takes a whole number")?;
                match (min, max) {
                    (Some(min), _) if number < *min => Err(format!("takes {min} or more")),
                    (_, Some(max)) if number > *max => Err(format!("takes {max} or less")),
                    _ => Ok(number.to_string()),
                }
            }
            (OptionKind::Integer { .. }, _) => Err("takes a whole number".to_owned()),
            (OptionKind::String, Value::String(text)) if text.len() > MAX_OPTION_BYTES => {
                Err("takes at most 4 KiB".to_owned())
            }
            (OptionKind::String, Value::String(text)) if text.chars().any(char::is_control) => {
                Err("takes one line without control characters".to_owned())
            }
            // As an argument of its own it would be taken for a flag, and could grant rights that
            // the user did not grant.
            (OptionKind::String, Value::String(text)) if text.starts_with('-') => {
                Err("takes no value that begins with a dash".to_owned())
            }
            (OptionKind::String, Value::String(text)) => Ok(text.clone()),
            (OptionKind::String, _) => Err("takes a string".to_owned()),
            (OptionKind::Enum(choices), Value::String(text)) if choices.contains(text) => {
                Ok(text.clone())
            }
            (OptionKind::Enum(choices), _) => Err(format!("takes one of: {}", choices.join(", "))),
        }
    }

    /// Applies a value. The default value changes nothing: the program has it anyway.
    fn apply_value(&self, value: &Value, to: &mut PatchedCommand) -> Result<(), String> {
        let text = self.text_of(value)?;
        if self.default.as_ref() == Some(value) {
            return Ok(());
        }
        let filled = |template: &String| template.replace(VALUE_PLACEHOLDER, &text);
        to.command.extend(self.template.iter().map(filled));
        if *value == Value::Bool(true) {
            to.command.extend(self.when_true.iter().cloned());
        }
        to.env
            .extend(self.env.iter().map(|(name, template)| (name.clone(), filled(template))));
        Ok(())
    }

    pub(super) fn to_info(&self) -> OptionInfo {
        let (kind, choices, min, max) = match &self.kind {
            OptionKind::Boolean => ("boolean", Vec::new(), None, None),
            OptionKind::Integer { min, max } => ("integer", Vec::new(), *min, *max),
            OptionKind::String => ("string", Vec::new(), None, None),
            OptionKind::Enum(choices) => ("enum", choices.clone(), None, None),
        };
        let description = self.description.clone();
        let default = self.default.clone();
        OptionInfo {
            id: self.id.clone(),
            kind,
            description,
            choices,
            default,
            min,
            max,
        }
    }
}

fn read_choices(node: &Node<'_>) -> Result<Vec<String>, FieldError> {
    let choices = node.read_texts()?;
    if choices.is_empty() { Err(node.field_error("must name at least one")) } else { Ok(choices) }
}

impl Manifest {
    /// Builds the command: bin, bin_args, the mode, then the options in the manifest's order.
    pub(super) fn patch_command(
        &self,
        mode: Option<&str>,
        options: &BTreeMap<String, Value>,
    ) -> Result<PatchedCommand, AdapterError> {
        let mut patched = PatchedCommand { command: vec![self.bin.clone()], env: self.env.clone() };
        patched.command.extend(self.bin_args.iter().cloned());
        if let Some(id) = mode {
            let mode =
                self.modes.iter().find(|mode| mode.id == id).ok_or_else(|| self.no_mode(id))?;
            patched.command.extend(mode.args.iter().cloned());
            patched.env.extend(mode.env.clone());
        }
        let wrong = |option: &str, why| AdapterError::Option {
            adapter: self.id.clone(),
            option: option.to_owned(),
            why,
        };
        if let Some(unknown) =
            options.keys().find(|id| !self.options.iter().any(|option| option.id == **id))
        {
            let known: Vec<&str> = self.options.iter().map(|option| option.id.as_str()).collect();
            return Err(wrong(
                unknown,
                format!("there is no option of that name; known: {}", join_or_none(&known)),
            ));
        }
        for option in &self.options {
            if let Some(value) = options.get(&option.id) {
                option.apply_value(value, &mut patched).map_err(|why| wrong(&option.id, why))?;
            }
        }
        Ok(patched)
    }

    fn no_mode(&self, mode: &str) -> AdapterError {
        let known: Vec<&str> = self.modes.iter().map(|mode| mode.id.as_str()).collect();
        AdapterError::UnknownMode {
            adapter: self.id.clone(),
            mode: mode.to_owned(),
            known: join_or_none(&known),
        }
    }
}

pub(super) fn join_or_none(words: &[&str]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
