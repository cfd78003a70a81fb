//! `--json FIELDS`: the chosen members of each session.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::value::RawValue;
use wharf_api::SessionInfo;
use wharf_render::text::quote;

/// The members of a session to print; none means the whole JSON of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonFields(Vec<String>);

impl FromStr for JsonFields {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<String> = text
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        match names.iter().find(|name| !SessionInfo::MEMBERS.contains(&name.as_str())) {
            Some(unknown) => Err(format!(
                "a session has no member {unknown}; it has: {}",
                SessionInfo::MEMBERS.join(", "),
                unknown = quote(unknown)
            )),
            None => Ok(Self(names)),
        }
    }
}

impl JsonFields {
    /// Returns the JSON of a session: the host's, or an object with the chosen members, null for
    /// those that it lacks.
    pub(super) fn choose(&self, json: &RawValue) -> anyhow::Result<String> {
        if self.0.is_empty() {
            return Ok(json.get().to_owned());
        }
        let members: BTreeMap<String, Box<RawValue>> = wharf_json::read_own(json.get().as_bytes())?;
        let chosen = self.0.iter().map(|name| {
            let value = members.get(name).map_or("null", |value| value.get());
            format!("{name:?}:{value}")
        });
        Ok(format!("{{{}}}", chosen.collect::<Vec<_>>().join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_members_are_printed_and_missing_ones_are_null() {
        let json = RawValue::from_string(r#"{"id":"sess_1","queued":2,"turn":"idle"}"#.to_owned())
            .unwrap();
        let fields: JsonFields = "id, title,queued".parse().unwrap();
        assert_eq!(fields.choose(&json).unwrap(), r#"{"id":"sess_1","title":null,"queued":2}"#);
        assert_eq!(JsonFields::default().choose(&json).unwrap(), json.get());
        assert!(
            "id,colour"
                .parse::<JsonFields>()
                .is_err_and(|why| why.contains("\"colour\"") && why.contains("attention"))
        );
    }
}
