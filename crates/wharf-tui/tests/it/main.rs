//! The core as its shell uses it: inputs in, effects and frames out, without a terminal.
#![expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")]

mod asks;
mod composing;
mod first_screens;
mod frames;
mod scene;
mod sizes;
