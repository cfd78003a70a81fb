//! Turns rows into lines for terminals: for the full screen and for verbs that print.
//!
//! It is *not* a place for keys, clocks, IO or terminals, and it knows the host by its public
//! contract (`wharf-api`) alone. The caller gives it the width, the time and the zone.

pub mod style;
pub mod text;
