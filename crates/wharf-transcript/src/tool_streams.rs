//! Texts of tool calls that come piece by piece: output, and the content of ACP v2.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wharf_api::RowBody;

use crate::fold::FoldStep;
use crate::text_rules::TextRules;
use crate::text_stream::TextStream;
use crate::tool_content::append_text;
use crate::tool_output::append_output;
use crate::{RowNumber, RowStore};

/// The tool calls whose texts are followed. Beyond this number the oldest one is forgotten: its
/// next piece is a text of its own.
const MAX_STREAMED_TOOLS: usize = 64;

/// The texts of tool calls that may go on, by their rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenToolTexts(BTreeMap<RowNumber, ToolTexts>);

/// The texts of one tool call. Text that is shown is in its row; this is the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolTexts {
    pub(crate) output: Option<TextStream>,
    pub(crate) content: Option<TextStream>,
}

/// A change of the whole text of a part that is too large for its row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WholeText {
    Set { part: String, text: String },
    Append { part: String, text: String },
}

impl WholeText {
    pub(crate) fn store(self, rows: &mut impl RowStore, number: RowNumber) {
        match self {
            Self::Set { part, text } => rows.set_whole_text(number, &part, &text),
            Self::Append { part, text } => rows.append_whole_text(number, &part, &text),
        }
    }
}

impl OpenToolTexts {
    /// Takes the texts of a tool call out. They are put back with [`Self::keep`].
    pub(crate) fn take(&mut self, number: RowNumber) -> ToolTexts {
        self.0.remove(&number).unwrap_or_default()
    }

    /// Keeps the texts of a tool call. If the call has ended, keeps only a text that may go on
    /// within a secret.
    pub(crate) fn keep(&mut self, number: RowNumber, mut texts: ToolTexts, is_open: bool) {
        for stream in [&mut texts.output, &mut texts.content] {
            stream.take_if(|stream| !is_open && !stream.is_undecided());
        }
        if texts != ToolTexts::default() {
            self.0.insert(number, texts);
        }
        if self.0.len() > MAX_STREAMED_TOOLS {
            self.0.pop_first();
        }
    }
}

impl ToolTexts {
    /// Replaces the output by a whole text, and returns the text that can be shown.
    pub(crate) fn set_output(&mut self, text: &str, texts: &TextRules) -> String {
        let mut stream = TextStream::new(texts);
        let mut shown = String::with_capacity(text.len());
        stream.push_text(text, &mut shown);
        stream.flush(&mut shown);
        self.output = Some(stream);
        shown
    }

    /// Takes a piece of output, and returns the text that can be shown.
    pub(crate) fn add_output(
        &mut self,
        piece: &wharf_json::TextChunk<'_>,
        texts: &TextRules,
    ) -> String {
        let mut shown = String::new();
        self.output
            .get_or_insert_with(|| TextStream::new(texts))
            .push(piece, &mut shown);
        shown
    }

    /// Appends the texts that are held back to those that are shown.
    pub(crate) fn flush(&mut self, output: &mut String, content: &mut String) {
        for (stream, shown) in [(&mut self.output, output), (&mut self.content, content)] {
            if let Some(stream) = stream {
                stream.flush(shown);
            }
        }
    }
}

/// Shows the text of a tool call that was held back in case it was a secret.
pub(crate) fn show_held_texts(step: &mut FoldStep<'_, impl RowStore>, number: RowNumber) {
    let mut texts = step.fold.tool_texts.take(number);
    let [mut output, mut content] = [String::new(), String::new()];
    texts.flush(&mut output, &mut content);
    step.fold.tool_texts.keep(number, texts, false);
    if output.is_empty() && content.is_empty() {
        return;
    }
    let mut whole_texts = Vec::new();
    step.change(number, |row| {
        if let RowBody::Tool(tool) = &mut row.body {
            whole_texts.extend(append_output(tool, &output, &row.id));
            whole_texts.extend(append_text(&mut tool.parts, &content, &row.id));
        }
    });
    whole_texts.into_iter().for_each(|text| text.store(step.rows, number));
}
