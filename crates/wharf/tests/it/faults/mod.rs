//! The fault suite: things go wrong on purpose while work is under way, and afterwards everything is counted. Nothing
//! that was acknowledged is lost, nothing is there twice, no process is left.

mod agents;
mod clients;
mod kills;
mod lives;
mod people;
mod tally;
mod witness;
