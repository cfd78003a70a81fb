//! The core as its shell uses it: inputs in, effects and frames out, without a terminal.
#![expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the stage of these tests has no error to pass on"
)]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one effect among all")]

mod asks;
mod completing;
mod composing;
mod failures;
mod first_screens;
mod frames;
mod held_rows;
mod host_loss;
mod host_silence;
mod input_places;
mod kept_texts;
mod key_page;
mod last_lines;
mod link_questions;
mod list_ages;
mod moving;
mod notifications;
mod outgoing;
mod queueing;
mod random_keys;
mod reading;
mod scene;
mod session_commands;
mod sizes;
mod small_rooms;
mod states;
mod stream_loss;
mod transcript_frames;
mod true_words;
