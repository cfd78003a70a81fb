//! Ids that nobody can guess, and the clock: the two things that the core must be given.

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
    let time = Now::millis().0;
    text.extend((0..10).rev().map(|place| letter(time >> (5 * place))));
    // 80 bits as two halves of 40, each eight letters.
    for half in random.chunks(5) {
        let bits = half.iter().fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
        text.extend((0..8).rev().map(|place| letter(bits >> (5 * place))));
    }
    text
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
}
