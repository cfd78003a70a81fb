//! Idempotency keys: decide which submissions mean the same prompt (rule 7.5).

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_json::Json;

use crate::{PromptEnd, PromptId, Raw, Sender};

/// The number of remembered keys. A client retries within minutes; a thousand prompts of one
/// session take days.
const MAX_KEYS: usize = 1_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Keys(VecDeque<Keyed>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Keyed {
    pub(super) key: Arc<str>,
    pub(super) prompt: PromptId,
    /// `None` in snapshots of older versions: matches every sender and content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<Said>,
    /// `None` while it is queued or runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<PromptEnd>,
}

/// The sender and the content of a submission. The same user may come back on another connection,
/// so the sender is the token, not the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Said {
    /// `None` for the host's own user, who needs no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<Arc<str>>,
    digest: Arc<str>,
}

impl Keyed {
    /// Returns true if this frame has the same content.
    pub(super) fn says(&self, frame: &Raw) -> bool {
        self.said.as_ref().is_none_or(|said| said.digest == digest(frame))
    }
}

impl Keys {
    /// Returns the submission of this sender under the key: keys of different senders are
    /// independent.
    pub(super) fn get(&self, key: &str, sender: &Sender) -> Option<&Keyed> {
        let own = |keyed: &Keyed| keyed.said.as_ref().is_none_or(|said| said.token == sender.token);
        self.0.iter().rev().find(|keyed| *keyed.key == *key && own(keyed))
    }

    pub(super) fn find(&self, prompt: &PromptId) -> Option<&Keyed> {
        self.0.iter().rev().find(|keyed| keyed.prompt == *prompt)
    }

    pub(super) fn add(&mut self, key: Arc<str>, prompt: PromptId, sender: &Sender, frame: &Raw) {
        if self.0.len() >= MAX_KEYS {
            self.0.pop_front();
        }
        let said = Some(Said { token: sender.token.clone(), digest: digest(frame) });
        self.0.push_back(Keyed { key, prompt, said, end: None });
    }

    pub(super) fn end(&mut self, prompt: &PromptId, end: &PromptEnd) {
        if let Some(keyed) = self.0.iter_mut().rev().find(|keyed| keyed.prompt == *prompt) {
            keyed.end = Some(end.clone());
        }
    }
}

/// Returns a digest of the prompt's content in any spelling, without the request's id and `_meta`,
/// which differ in a retry.
fn digest(frame: &Raw) -> Arc<str> {
    let mut digest = Fnv::default();
    match Json::parse(frame.bytes())
        .and_then(|frame| Ok(frame.at(&["params", "prompt"])?.unwrap_or(frame)))
    {
        // Writing to memory cannot fail.
        Ok(content) => drop(serde_json::to_writer(&mut digest, &content.to_value())),
        Err(_) => digest.take(frame.bytes()),
    }
    format!("{:032x}", digest.0).into()
}

/// FNV-1a of 128 bits. It detects mistakes: a sender that creates a collision deceives only itself.
struct Fnv(u128);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Fnv {
    fn take(&mut self, bytes: &[u8]) {
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    }
}

impl std::io::Write for Fnv {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.take(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::ClientId;

    #[test]
    fn prompt_digest_is_the_same_for_every_spelling() {
        let prompt = |blocks: &str, rest: &str| {
            Raw::new(format!(r#"{{"id":{rest},"params":{{"prompt":{blocks}}}}}"#))
        };
        let odd = digest(&prompt(r#"[{"text":"a\ud83d","n":1e400}]"#, "1").unwrap());
        assert_eq!(
            odd,
            digest(&prompt(r#"[ { "n":1e400, "text":"\u0061\ud83d" } ]"#, "\"other\"").unwrap())
        );
        assert_ne!(odd, digest(&prompt(r#"[{"text":"b\ud83d","n":1e400}]"#, "1").unwrap()));
    }

    #[test]
    fn key_of_an_older_snapshot_matches_every_sender_and_content() {
        let keys: Keys = serde_json::from_str(r#"[{"key":"k","prompt":"p"}]"#).unwrap();
        for token in [None, Some("tok_a".into())] {
            let client = ClientId::new("cli_1");
            let sender = Sender {
                client,
                chosen: None,
                name: None,
                version: None,
                token,
                parent: None,
                peer: None,
            };
            let known = keys.get("k", &sender).unwrap();
            assert!(known.prompt == PromptId::new("p") && known.says(&Raw::new("{}").unwrap()));
        }
        assert_eq!(serde_json::to_string(&keys).unwrap(), r#"[{"key":"k","prompt":"p"}]"#);
    }
}
