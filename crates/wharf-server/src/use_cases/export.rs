//! The export of a session: its whole transcript as a document (rule 13.9).

use wharf_api::{ExportQuery, ExportType};
use wharf_host::{MAX_PAGE_ROWS, PageAnchor, PageRequest, SessionTranscript};
use wharf_transcript::{ExportFormat, ExportHead, show_in_one_line};

use super::faults::unreadable_session;
use super::rows::{open_transcript, transcript_fault};
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

/// An export on its way. It reads a page of rows at a time.
pub(crate) struct SessionExport {
    app: App,
    transcript: SessionTranscript,
    format: ExportFormat,
    next: ExportStep,
}

/// The next piece of an export.
enum ExportStep {
    Head,
    /// The rows after the one with this id, or all.
    Rows(Option<String>),
    Done,
}

impl SessionExport {
    /// Opens the export of a session.
    pub(crate) async fn open(
        app: &App,
        caller: &Caller,
        id: &str,
        query: &ExportQuery,
    ) -> Result<Self, Fault> {
        let transcript = match query.raw {
            true => {
                let handle = open_session(app, caller, id).await?;
                let made = app.host.unredacted_transcript(handle).await;
                made.map_err(|failure| transcript_fault(app, id, &failure))?
            }
            false => open_transcript(app, caller, id).await?,
        };
        let format = match query.format {
            Some(ExportType::Json) => ExportFormat::Json,
            Some(ExportType::Html) => ExportFormat::Html,
            Some(ExportType::Markdown | ExportType::Other(_)) | None => ExportFormat::Markdown,
        };
        Ok(Self { app: app.clone(), transcript, format, next: ExportStep::Head })
    }

    pub(crate) const fn format(&self) -> ExportFormat {
        self.format
    }

    /// Returns the next piece, `None` after the last one.
    pub(crate) async fn next_piece(&mut self) -> Result<Option<String>, Fault> {
        match std::mem::replace(&mut self.next, ExportStep::Done) {
            ExportStep::Done => Ok(None),
            ExportStep::Head => {
                self.next = ExportStep::Rows(None);
                Ok(Some(self.format.begin(&self.head())))
            }
            ExportStep::Rows(after) => self.rows(after).await.map(Some),
        }
    }

    fn head(&self) -> ExportHead {
        let descriptor = self.transcript.handle().descriptor();
        let info = super::contract::to_session_info(&descriptor);
        ExportHead {
            session: info.id,
            title: show_in_one_line(&info.title.or(info.label).unwrap_or_default()),
            agent: info.adapter_slug,
            directory: info.cwd,
            started_at: info.started_at,
        }
    }

    /// Returns a page of rows, and the end of the document after the last one.
    async fn rows(&mut self, after: Option<String>) -> Result<String, Fault> {
        let id = self.transcript.handle().id().as_str().to_owned();
        let is_first = after.is_none();
        let anchor = after.map_or(PageAnchor::Start, PageAnchor::After);
        let request = PageRequest { anchor, limit: MAX_PAGE_ROWS, kinds: Vec::new() };
        let page = self
            .transcript
            .page(request)
            .await
            .map_err(|failure| transcript_fault(&self.app, &id, &failure))?;
        let page =
            page.map_err(|_| unreadable_session(&id, &"a row of the transcript is missing"))?;
        let mut text = String::new();
        for (index, row) in page.rows.iter().enumerate() {
            text.push_str(&self.format.row(row, is_first && index == 0));
        }
        match page.after {
            Some(last) => self.next = ExportStep::Rows(Some(last)),
            None => text.push_str(self.format.end()),
        }
        Ok(text)
    }
}
