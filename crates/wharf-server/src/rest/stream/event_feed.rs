//! The one loop of streams whose events wait for their reader.

use bytes::Bytes;

use super::ChunkSource;
use super::ready_events::ReadyEvents;

/// Makes the events of one stream.
pub(super) trait EventFeed: Send + 'static {
    /// Returns the events that the reader has not taken yet.
    fn ready(&self) -> &ReadyEvents;

    /// Returns true if nothing comes after the events that are ready.
    fn is_over(&self) -> bool;

    /// Waits for something to tell, and makes its events. It may find nothing to tell.
    fn fill(&mut self) -> impl Future<Output = ()> + Send;

    /// Notes that events go out.
    fn note_sent(&mut self) {}
}

impl<F: EventFeed> ChunkSource for F {
    async fn next(&mut self) -> Option<Bytes> {
        self.ready().note_taken();
        loop {
            if self.ready().is_given_up() {
                return None;
            }
            if !self.ready().is_empty() {
                self.note_sent();
                return Some(self.ready().take_chunk());
            }
            if self.is_over() {
                return None;
            }
            self.fill().await;
        }
    }
}
