//! The output of a session: reads the lines of its log, for REST, MCP and the shell (rules 8.3,
//! 8.4). `wharf_transcript::lines` makes them.

mod reader;
mod starting_point;

pub(crate) use reader::{
    LastLines, LineLimit, TranscriptBatch, TranscriptError, TranscriptReader, read_last_lines,
};
