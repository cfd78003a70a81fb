//! Ids that nobody can guess, and the clock: the two things that the core must be given.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use wharf_core::{ClientId, Millis, PromptId, SessionId};

/// Crockford's base 32: no letter that is taken for another, sorts as it counts.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Reads the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Now;

impl Now {
    pub fn millis() -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// `sess_` and 26 characters: 48 bits of time, so that ids sort by age, then 80 random bits.
pub fn new_session_id() -> SessionId {
    SessionId::new(timed("sess_"))
}

pub fn new_prompt_id() -> PromptId {
    PromptId::new(timed("prm_"))
}

pub fn new_client_id() -> ClientId {
    ClientId::new(timed("cli_"))
}

/// `length` random characters of five bits each.
pub fn random_text(length: usize) -> String {
    let mut bytes = vec![0_u8; length];
    fill(&mut bytes);
    bytes.iter().map(|byte| letter(u64::from(*byte))).collect()
}

fn timed(prefix: &str) -> String {
    let mut random = [0_u8; 10];
    fill(&mut random);
    let mut text = String::with_capacity(prefix.len() + 26);
    text.push_str(prefix);
    let time = not_before(Now::millis().0);
    text.extend((0..10).rev().map(|place| letter(time >> (5 * place))));
    // 80 bits as two halves of 40, each eight letters.
    for half in random.chunks(5) {
        let bits = half.iter().fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
        text.extend((0..8).rev().map(|place| letter(bits >> (5 * place))));
    }
    text
}

/// The latest time that is part of an id.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// A clock that was set back must not make new ids sort before old ones.
fn not_before(now: u64) -> u64 {
    LATEST.fetch_max(now, Ordering::Relaxed).max(now)
}

/// From now on ids sort after this one, which an earlier run has given.
pub(crate) fn outlast(id: &SessionId) {
    let digits = id.as_str().strip_prefix("sess_").and_then(|digits| digits.get(..10)).unwrap_or_default();
    let value = |byte: u8| ALPHABET.iter().position(|letter| *letter == byte);
    let time = digits.bytes().try_fold(0, |time: u64, byte| Some((time << 5) | value(byte)? as u64));
    // One from beyond the next century is none that a clock has made.
    if let Some(time) = time.filter(|time| *time < 1 << 42) {
        not_before(time);
    }
}

fn letter(bits: u64) -> char {
    char::from(ALPHABET[(bits & 31) as usize])
}

#[expect(clippy::panic, reason = "without random numbers ids could be guessed: nothing may go on")]
fn fill(bytes: &mut [u8]) {
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
        let later = timed("sess_");
        assert_eq!(first.as_str().len(), "sess_".len() + 26);
        assert!(first.as_str()[..15] <= later[..15]);
        assert_ne!(first, new_session_id());
    }

    #[test]
    fn ids_sort_after_those_of_an_earlier_run_also_if_the_clock_was_set_back() {
        let ahead = Now::millis().0 + 3_600_000;
        let time: String = (0..10).rev().map(|place| letter(ahead >> (5 * place))).collect();
        let earlier = SessionId::new(format!("sess_{time}0000000000000000"));
        outlast(&SessionId::new("sess_zzzzzzzzzzzzzzzzzzzzzzzzzz"));
        outlast(&SessionId::new("no id of ours"));
        outlast(&earlier);
        let (next, last) = (new_session_id(), new_session_id());
        assert!(next > earlier && next.as_str()[5..15] == *time && next != last, "{earlier} {next} {last}");
    }
}
