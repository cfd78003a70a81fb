//! A program's version: how it is asked for, and what the answer means.

use std::time::Duration;

use regex_lite::Regex;

use super::info::AdapterInfo;
use super::node::{FieldError, Node, read_optional};
use super::range::{VersionRange, parse_leniently};

/// The time limit of a version check whose manifest states none.
const DEFAULT_TIMEOUT_MILLIS: u64 = 5_000;

/// How to ask the program for its version.
#[derive(Clone, Debug)]
pub struct VersionCheck {
    pub command: Vec<String>,
    /// Its first group is the version.
    parse: Regex,
    range: VersionRange,
    range_text: String,
    timeout_ms: u64,
}

impl VersionCheck {
    pub(super) fn from_node(node: &Node<'_>) -> Result<Self, FieldError> {
        let cmd = node.require_member("cmd")?;
        let parse = node.require_member("parse")?;
        let range = node.require_member("range")?;
        let command = shell_words::split(&cmd.read_text()?)
            .map_err(|_| cmd.field_error("has a quote that is not closed"))?;
        if command.is_empty() {
            return Err(cmd.field_error("is empty"));
        }
        let regex = Regex::new(&parse.read_text()?)
            .map_err(|error| parse.field_error(error.to_string()))?;
        if regex.captures_len() < 2 {
            return Err(parse.field_error("must have a group, in ( ), for the version"));
        }
        let timeout = read_optional(node, "timeout_ms", |limit| {
            match u64::try_from(limit.read_integer()?) {
                Ok(millis @ 100..) => Ok(millis),
                Ok(_) | Err(_) => Err(limit.field_error("must be 100 or more")),
            }
        })?;
        let range_text = range.read_text()?;
        let range = VersionRange::parse(&range_text).map_err(|why| range.field_error(why))?;
        Ok(Self {
            command,
            parse: regex,
            range,
            range_text,
            timeout_ms: timeout.unwrap_or(DEFAULT_TIMEOUT_MILLIS),
        })
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Notes the version that the program printed. A version out of range is a warning: it may well
    /// work.
    pub fn judge(&self, answer: Result<String, String>, info: &mut AdapterInfo) {
        let told = answer
            .as_ref()
            .ok()
            .and_then(|said| self.parse.captures(said))
            .and_then(|found| found.get(1));
        let Some(told) = told.map(|told| told.as_str().to_owned()) else {
            let why = answer
                .err()
                .unwrap_or_else(|| format!("`{}` does not print it", self.command.join(" ")));
            info.missing.push(format!("its version is not known: {why}"));
            return;
        };
        let fits = parse_leniently(&told).map(|version| self.range.matches_version(&version));
        if fits == Some(false) {
            info.missing.push(format!(
                "its version {told} is out of the range {:?}; it may not work",
                self.range_text
            ));
        }
        (info.bin_version, info.version_ok) = (Some(told), fits);
    }
}
