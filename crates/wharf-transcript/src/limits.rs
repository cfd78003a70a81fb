//! The sizes of rows. A row has at most 64 KiB as JSON, in which a character takes at most twice
//! its bytes: control characters, which JSON spells with six, never reach a row.

/// The most bytes of a row as JSON.
pub const MAX_ROW_BYTES: usize = 64 * 1024;

/// The text of all parts of a message, a thought or a prompt.
pub(crate) const MAX_TEXT_BYTES: usize = 24 * 1024;
/// The parts of a message, a prompt or a tool call.
pub(crate) const MAX_PARTS: usize = 32;
/// The text beside diffs and output of a tool call.
pub(crate) const MAX_TOOL_TEXT_BYTES: usize = 4 * 1024;
/// The beginning and the end of a command's output.
pub(crate) const OUTPUT_HEAD_BYTES: usize = 2 * 1024;
pub(crate) const OUTPUT_TAIL_BYTES: usize = 6 * 1024;
/// The agent's raw input as JSON.
pub(crate) const MAX_INPUT_BYTES: usize = 4 * 1024;
/// The lines of all diffs of a tool call or an ask.
pub(crate) const MAX_DIFF_BYTES: usize = 8 * 1024;
/// A longer line of a diff is cut.
pub(crate) const MAX_DIFF_LINE_BYTES: usize = 1024;
/// Texts that are longer than this, or have more differing lines, are not compared line by line,
/// since the time grows with their square: the diff only counts.
pub(crate) const MAX_DIFFED_BYTES: usize = 512 * 1024;
pub(crate) const MAX_DIFFED_LINES: usize = 4_000;
/// The unchanged lines around a change.
pub(crate) const DIFF_CONTEXT_LINES: usize = 3;
pub(crate) const MAX_DIFFS: usize = 20;
pub(crate) const MAX_LOCATIONS: usize = 20;
/// Titles, commands, paths, names and words of an agent.
pub(crate) const MAX_TITLE_BYTES: usize = 500;
pub(crate) const MAX_COMMAND_BYTES: usize = 2 * 1024;
pub(crate) const MAX_PATH_BYTES: usize = 300;
pub(crate) const MAX_WORD_BYTES: usize = 100;
/// The open tool calls that end with their turn.
pub(crate) const MAX_OPEN_TOOLS: usize = 1_000;
/// The asks that a tool call names.
pub(crate) const MAX_NAMED_ASKS: usize = 50;
pub(crate) const MAX_PLAN_ENTRIES: usize = 100;
pub(crate) const MAX_PLAN_ENTRY_BYTES: usize = 200;
pub(crate) const MAX_ASK_OPTIONS: usize = 32;
/// The id of an option as JSON, and the ids of all options of an ask.
pub(crate) const MAX_OPTION_ID_BYTES: usize = 1024;
pub(crate) const MAX_OPTION_IDS_BYTES: usize = 8 * 1024;
pub(crate) const MAX_FORM_BYTES: usize = 16 * 1024;
/// The reason of a failure, and the end of stderr.
pub(crate) const MAX_MESSAGE_BYTES: usize = 8 * 1024;
/// The files that a turn's end names.
pub(crate) const MAX_TURN_FILES: usize = 50;
/// The ends of turns that get the reason of one death of the agent.
pub(crate) const MAX_UNEXPLAINED_ENDS: usize = 100;
/// The characters of a summary.
pub(crate) const MAX_SUMMARY_CHARS: usize = 200;
