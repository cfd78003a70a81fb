//! Every change of a message: each member replaced by each odd value, each member twice or left
//! out, an odd member in each object.

use std::ops::Range;

use anyhow::Result;
use wharf_json::Json;
use wharf_testkit::random::TestRandom;

/// Takes all cases instead of a sample.
const ALL_CASES_VARIABLE: &str = "WHARF_ODD_VALUES_ALL";

/// Keys that no reader asks for.
const ODD_KEYS: [&str; 5] = ["x", "\\ud83d", "\\u0078", "", "$serde_json::private::RawValue"];

/// One message with one odd spot.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The method, or the kind of update.
    pub(super) kind: &'static str,
    /// The changed member, from the outermost object on.
    pub(super) path: String,
    pub(super) text: String,
}

/// Values that are legal JSON, and that common parsers refuse or change, or that no member has.
fn odd_values() -> Vec<String> {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let mut values = vec![deep(130), deep(20_000)];
    let plain = [
        "1e400",
        "-1E+9999",
        "-0",
        "1E+2",
        "123456789012345678901234567890",
        r#""\ud83d""#,
        r#""\ude00 \u0000""#,
        r#"{"\ud83d":"\ude00","n":1e400}"#,
        r#"{"twice":1,"twice":1e400}"#,
        r#"{"$serde_json::private::RawValue":"[","$serde_json::private::Number":"x"}"#,
        "null",
        "true",
        r#""""#,
        "[]",
        "{}",
    ];
    values.extend(plain.map(str::to_owned));
    values
}

struct Spot {
    path: String,
    /// With its key, if it is a member.
    whole: Range<usize>,
    value: Range<usize>,
    is_member: bool,
}

/// Finds the members and items of a value, from the outermost on, and where its objects begin.
fn spots_in(
    text: &str,
    json: Json<'_>,
    path: &str,
    spots: &mut Vec<Spot>,
    objects: &mut Vec<(String, usize)>,
) {
    let Some(place) = json.span_in(text.as_bytes()) else { return };
    if json.is_object() {
        objects.push((path.to_owned(), place.start + 1));
    }
    let members = json.members().map(|(key, value)| (key.into_owned(), true, value));
    let items = json
        .items()
        .enumerate()
        .map(|(number, value)| (number.to_string(), false, value));
    for (name, is_member, value) in members.chain(items) {
        let Some(span) = value.span_in(text.as_bytes()) else { continue };
        let path = format!("{path}/{name}");
        let start = if is_member {
            text[..span.start].rfind(&format!("\"{name}\"")).unwrap_or(span.start)
        } else {
            span.start
        };
        spots.push(Spot {
            path: path.clone(),
            whole: start..span.end,
            value: span,
            is_member,
        });
        spots_in(text, value, &path, spots, objects);
    }
}

/// Returns the message without one member.
fn without_member(text: &str, member: Range<usize>) -> String {
    let (before, after) = (&text[..member.start], &text[member.end..]);
    match after.strip_prefix(',') {
        Some(after) => [before, after].concat(),
        None => [before.strip_suffix(',').unwrap_or(before), after].concat(),
    }
}

/// Returns every change of the message.
pub(super) fn all_changes(kind: &'static str, text: &str) -> Result<Vec<Case>> {
    let (mut spots, mut objects, mut cases) = (Vec::new(), Vec::new(), Vec::new());
    spots_in(text, Json::parse(text.as_bytes())?, "", &mut spots, &mut objects);
    let put =
        |span: Range<usize>, with: &str| [&text[..span.start], with, &text[span.end..]].concat();
    for (number, odd) in odd_values().iter().enumerate() {
        for spot in &spots {
            cases.push(Case {
                kind,
                path: spot.path.clone(),
                text: put(spot.value.clone(), odd),
            });
        }
        for (path, at) in &objects {
            let key = ODD_KEYS[number % ODD_KEYS.len()];
            let comma = if text[*at..].trim_start().starts_with('}') { "" } else { "," };
            cases.push(Case {
                kind,
                path: format!("{path}/+"),
                text: put(*at..*at, &format!("\"{key}\":{odd}{comma}")),
            });
        }
    }
    for spot in spots.iter().filter(|spot| spot.is_member) {
        cases.push(Case {
            kind,
            path: format!("{}-", spot.path),
            text: without_member(text, spot.whole.clone()),
        });
        let twice = format!("{0},{0}", &text[spot.whole.clone()]);
        cases.push(Case {
            kind,
            path: format!("{}*2", spot.path),
            text: put(spot.whole.clone(), &twice),
        });
    }
    Ok(cases)
}

/// Returns so many of the changes of each message, all of them if the environment says so.
pub(super) fn sample_cases(
    messages: &[(&'static str, String)],
    each: usize,
    dice: &mut TestRandom,
) -> Result<Vec<Case>> {
    let mut taken = Vec::new();
    for (kind, text) in messages {
        let mut cases = all_changes(kind, text)?;
        while std::env::var_os(ALL_CASES_VARIABLE).is_none() && cases.len() > each {
            let place = dice.next_below(cases.len() as u64);
            cases.swap_remove(usize::try_from(place)?);
        }
        taken.extend(cases);
    }
    Ok(taken)
}
