//! Sends a prompt of the conversation. A prompt that is typed while the host restarts is sent when
//! the host is back.

use std::time::Duration;

use tokio::time::Instant;
use wharf_api::{Content, PromptArgs, Prompted};

use super::Chat;
use crate::client::{HostCall, url_path};
use crate::exit::{Exit, Failure};
use crate::turn::Signals;

/// How long a prompt waits for a host that is gone; it is usually back sooner.
const HOST_RETURN_TIMEOUT: Duration = Duration::from_secs(30);
/// The delay between two attempts.
const RETRY_DELAY: Duration = Duration::from_millis(250);

impl Chat<'_> {
    /// Sends a prompt, which waits in the queue while a turn runs. After a refusal, prints the
    /// reason and goes on with the conversation.
    pub(super) async fn send_prompt(&mut self, text: &str, signals: &mut Signals) -> Option<Exit> {
        let body = PromptArgs {
            prompt: Content::from_text(text),
            queue: Some(true),
            interrupt: None,
        };
        // The host does not take a repeated prompt twice: it has the same key.
        let path = url_path(&["sessions", &self.session.id, "prompt"]);
        let call = HostCall::post(path, &body).with_idempotency_key();
        let give_up_at = Instant::now() + HOST_RETURN_TIMEOUT;
        let was_working = self.is_working();
        loop {
            match self.client.fetch_json::<Prompted>(&call).await {
                Ok(prompted) => {
                    self.note_accepted(&prompted, was_working);
                    return None;
                }
                // The host is gone or went away before it answered.
                Err(error) if Failure::code_of(&error).is_none() && Instant::now() < give_up_at => {
                }
                Err(error) => {
                    self.print_note(&format!("not sent: {error}"));
                    self.mark_prompt();
                    return None;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_DELAY) => {}
                _ = signals.next() => return Some(Exit::Interrupted),
            }
        }
    }

    /// Prints the place of a prompt that waits behind a turn. Such a prompt is shown again when its
    /// own turn begins; any other prompt is not, since the person has just typed it here.
    fn note_accepted(&mut self, prompted: &Prompted, was_working: bool) {
        match prompted.position {
            Some(position) if was_working => {
                self.print_note(&format!("queued at place {}", position + 1))
            }
            Some(_) | None => self.live.hide_prompt(&prompted.prompt_id),
        }
    }
}
