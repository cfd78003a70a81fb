//! The URL of an amux client: `?session=NAME&peer_id=&peer_name=&role=&replay=skip`.

use std::sync::Arc;

/// The WebSocket close code of amux for a query that cannot be used.
const BAD_QUERY: u16 = 4400;
/// The words for the session's name, from the oldest amux to the newest.
const SESSION_PARAMETERS: [&str; 3] = ["session", "room", "mux"];
const MAX_NAME_BYTES: usize = 128;
/// Ids, names and roles of peers are shown to everyone: short enough for a line.
const MAX_WORD_BYTES: usize = 128;

/// A URL that binds its connection to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::acp) struct Query {
    pub(in crate::acp) name: Arc<str>,
    pub(super) peer_id: Option<Arc<str>>,
    pub(super) peer_name: Option<Arc<str>>,
    pub(super) role: Option<Arc<str>>,
    /// Is the past wanted when it joins?
    pub(super) replay: bool,
}

/// Why a connection is closed before it says anything.
#[derive(Debug)]
pub(in crate::acp) struct Refused {
    pub(in crate::acp) code: u16,
    pub(in crate::acp) reason: String,
}

/// Refuses an agent: a seat is a person's, and an agent in it would keep its owner out.
pub(in crate::acp) fn not_for_agents() -> Refused {
    let reason = "agents have no seat here; connect without session, room and mux";
    Refused { code: BAD_QUERY, reason: reason.to_owned() }
}

impl Query {
    /// Reads the URL's query. Returns `None` if it names no session: an ordinary connection.
    pub(in crate::acp) fn read(pairs: &[(String, String)]) -> Result<Option<Self>, Refused> {
        Self::parse(pairs).map_err(|reason| Refused { code: BAD_QUERY, reason })
    }

    /// Parses the query. Fails with a reason that is short enough for a WebSocket's close frame.
    fn parse(pairs: &[(String, String)]) -> Result<Option<Self>, String> {
        let mut names = pairs
            .iter()
            .filter(|(key, _)| SESSION_PARAMETERS.contains(&key.as_str()))
            .map(|(_, value)| value);
        let Some(name) = names.next() else { return Ok(None) };
        if names.any(|other| other != name) {
            return Err("session, room and mux name different sessions; give one".to_owned());
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(fits) {
            return Err(format!("a session's name is 1 to {MAX_NAME_BYTES} of A-Z a-z 0-9 _ -"));
        }
        let peer_id = word(pairs, "peer_id")?;
        if peer_id.as_ref().is_some_and(|id| id.starts_with("cli_")) {
            return Err(
                "a peer_id does not begin with cli_: such ids are this host's own".to_owned()
            );
        }
        Ok(Some(Self {
            name: name.as_str().into(),
            peer_id,
            peer_name: word(pairs, "peer_name")?,
            role: word(pairs, "role")?,
            replay: word(pairs, "replay")?.as_deref() != Some("skip"),
        }))
    }
}

/// A word that is given at most once, and is not empty.
fn word(pairs: &[(String, String)], key: &str) -> Result<Option<Arc<str>>, String> {
    let mut given = pairs.iter().filter(|(name, _)| name == key).map(|(_, value)| value);
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(format!("{key} is given twice"));
    }
    if value.is_empty() || value.len() > MAX_WORD_BYTES || value.chars().any(char::is_control) {
        return Err(format!("{key} is 1 to {MAX_WORD_BYTES} bytes without control characters"));
    }
    Ok(Some(value.as_str().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Option<Query>, String> {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Query::parse(&pairs)
    }

    #[test]
    fn a_url_without_a_name_binds_nothing() {
        assert_eq!(parse(&[]), Ok(None));
        assert_eq!(parse(&[("agent", "demo"), ("peer_id", "")]), Ok(None));
    }

    #[test]
    fn the_three_words_for_the_name_mean_the_same() {
        for key in SESSION_PARAMETERS {
            let query = parse(&[
                (key, "work_1-A"),
                ("peer_id", "a"),
                ("peer_name", "Ann's phone"),
                ("role", "driver"),
            ]);
            let expected = Query {
                name: "work_1-A".into(),
                peer_id: Some("a".into()),
                peer_name: Some("Ann's phone".into()),
                role: Some("driver".into()),
                replay: true,
            };
            assert_eq!(query, Ok(Some(expected)), "{key}");
        }
        assert!(parse(&[("session", "work"), ("room", "work")]).is_ok());
    }

    #[test]
    fn only_skip_leaves_the_past_out() {
        let replay = |word| parse(&[("room", "work"), ("replay", word)]).unwrap().unwrap().replay;
        assert!(!replay("skip"));
        assert!(replay("full"));
    }

    #[test]
    fn errors_in_a_query_fit_a_close_frame() {
        let long = "x".repeat(129);
        let wrong: &[&[(&str, &str)]] = &[
            &[("session", "a"), ("room", "b")],
            &[("room", "a"), ("room", "b")],
            &[("session", "")],
            &[("session", "a b")],
            &[("session", "ä")],
            &[("session", &long)],
            &[("session", "a"), ("peer_id", "")],
            &[("session", "a"), ("peer_id", "p"), ("peer_id", "q")],
            &[("session", "a"), ("peer_id", "cli_1")],
            &[("session", "a"), ("peer_name", "a\nb")],
            &[("session", "a"), ("role", "")],
            &[("session", "a"), ("role", &long)],
        ];
        for pairs in wrong {
            let why = parse(pairs).unwrap_err();
            assert!(!why.is_empty() && why.len() <= 123, "{pairs:?}: {why}");
        }
    }
}
