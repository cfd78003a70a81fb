//! Unguessable ids, and the clock: the core has neither and gets them from here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ulid::Ulid;
use wharf_core::{ClientId, Millis, PromptId, SessionId};

/// Crockford's base 32, as ULIDs have it: no letter that looks like another.
const ID_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Reads the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Now;

impl Now {
    pub fn millis() -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Returns `sess_` and a ULID: 48 bits of time, so that ids sort by age, then 80 random bits.
pub fn new_session_id() -> SessionId {
    SessionId::new(timed_id("sess_"))
}

/// Returns true if the text has the form of a session id. There need not be such a session.
pub fn is_session_id(text: &str) -> bool {
    let random = text.strip_prefix("sess_");
    random.is_some_and(|random| {
        random.len() == 26 && random.bytes().all(|byte| ID_ALPHABET.contains(&byte))
    })
}

pub fn new_prompt_id() -> PromptId {
    PromptId::new(timed_id("prm_"))
}

pub fn new_client_id() -> ClientId {
    ClientId::new(timed_id("cli_"))
}

/// `length` random characters of five bits each.
pub fn random_text(length: usize) -> String {
    let mut bytes = vec![0_u8; length];
    fill_random(&mut bytes);
    bytes
        .iter()
        .map(|byte| char::from(ID_ALPHABET[usize::from(byte & 31)]))
        .collect()
}

/// Returns the prefix and a ULID in lower case.
fn timed_id(prefix: &str) -> String {
    let mut random = [0_u8; 16];
    fill_random(&mut random);
    let ulid = Ulid::from_parts(not_before(Now::millis().0), u128::from_le_bytes(random));
    format!("{prefix}{}", ulid.to_string().to_ascii_lowercase())
}

/// The latest time that is part of an id.
static LATEST_ID_MILLIS: AtomicU64 = AtomicU64::new(0);

/// A clock that was set back must not make new ids sort before old ones.
fn not_before(now: u64) -> u64 {
    LATEST_ID_MILLIS.fetch_max(now, Ordering::Relaxed).max(now)
}

/// Makes all later ids sort after this one, which an earlier run has made.
pub(crate) fn sort_ids_after(id: &SessionId) {
    let ulid = id.as_str().strip_prefix("sess_").and_then(|text| Ulid::from_string(text).ok());
    let time = ulid.map(|ulid| ulid.timestamp_ms());
    // A time after the year 2109 comes from no clock.
    if let Some(time) = time.filter(|time| *time < 1 << 42) {
        not_before(time);
    }
}

#[expect(clippy::panic, reason = "without random numbers ids could be guessed: nothing may go on")]
fn fill_random(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        panic!("the system gives no random numbers: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_26_characters_and_sort_by_time() {
        let first = new_session_id();
        let later = timed_id("sess_");
        assert_eq!(first.as_str().len(), "sess_".len() + 26);
        assert!(first.as_str()[..15] <= later[..15]);
        assert_ne!(first, new_session_id());
    }

    #[test]
    fn ids_sort_after_those_of_an_earlier_run_also_if_the_clock_was_set_back() {
        let ahead = Now::millis().0 + 3_600_000;
        let ulid = Ulid::from_parts(ahead, 0).to_string().to_ascii_lowercase();
        let time = &ulid[..10];
        let earlier = SessionId::new(format!("sess_{ulid}"));
        sort_ids_after(&SessionId::new("sess_zzzzzzzzzzzzzzzzzzzzzzzzzz"));
        sort_ids_after(&SessionId::new("no id of ours"));
        sort_ids_after(&earlier);
        let next = new_session_id();
        let last = new_session_id();
        assert!(
            next > earlier && next.as_str()[5..15] == *time && next != last,
            "{earlier} {next} {last}"
        );
    }
}
