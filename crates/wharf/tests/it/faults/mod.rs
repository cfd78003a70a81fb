//! The fault suite: failures are injected while work is under way, and all records are checked afterwards. Every
//! acknowledged record exists exactly once and no process is left.

mod agents;
mod clients;
mod kills;
mod lives;
mod people;
mod tally;
mod witness;
