//! Rows of a session whose task has ended: by a stop of the host, or by a deletion.

use super::cold_directory::{ColdDirectory, read_rows};
use crate::transcript::{PageAnchor, PageRequest, SessionTranscript, TranscriptFailure};

#[tokio::test]
async fn rows_are_read_after_a_stop_of_the_host_and_are_gone_after_a_deletion() {
    let cold = ColdDirectory::new(0);
    let host = cold.start_host().await;
    let handle = host.open(&cold.session).await.unwrap();
    let rows = read_rows(&host, &handle).await;
    let open = SessionTranscript::open(&host.inner().transcripts, handle.clone());
    host.shut_down().await;
    handle.closed().await;
    assert_eq!(read_rows(&host, &handle).await, rows);

    host.forget(&cold.session).await.unwrap();
    let late = SessionTranscript::open(&host.inner().transcripts, handle);
    for transcript in [open, late] {
        let request = PageRequest { anchor: PageAnchor::Start, limit: 200, kinds: Vec::new() };
        let read = transcript.page(request).await;
        assert!(matches!(read, Err(TranscriptFailure::Gone)), "{read:?}");
    }
}
